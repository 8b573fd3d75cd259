"""Begins the trials of a run on this machine: draws their items, and makes their conversations."""

from __future__ import annotations

import hashlib
import os
from functools import cache, partial
from pathlib import Path

from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.experiment import TrialSpec, saved_steps
from oasis_bench.plugins import MetricLearner, Registry
from oasis_bench.system import Text, UsageError
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.conversation import Conversation
from oasis_bench.trial.harness_side.items import Sealed, SealedItems, TrialItems, draw_items
from oasis_bench.trial.harness_side.result import TrialResult

CHANGED = (
    "has changed since the run began: put it back and run this trial again with --resume and "
    "--retry failed, or start a new run"
)


class Trials:
    """Begins trials; the items of a partition are drawn and sealed once for all learners."""

    def __init__(self, rows: LabelledRows, log: Path) -> None:
        self._rows, self._log = rows, log
        self._cell: tuple[str, str, int] | None = None
        self._drawn: dict[tuple[object, ...], tuple[TrialItems, Sealed]] = {}
        self._models: dict[Path, int] = {}

    def begin(self, spec: TrialSpec) -> Conversation | TrialResult:
        """Return a trial under way, or the result of one that cannot be run."""
        registry = Registry.load(spec.plugin_files)
        try:
            learner = registry.algorithms[spec.algorithm]
            if not spec.has_source(learner):
                raise UsageError(f"the source of {spec.learner} {CHANGED}")
            tasks = [registry.tasks[name]() for name in spec.tasks]
            model = None if spec.model is None else self._model(spec.model, spec.identity["model"])
            items, sealed = self._items(spec, learner, registry)
            return Conversation(spec, items, sealed, learner, tasks, self._log, model)
        except wall.NotApplicableError as error:
            return TrialResult.lost(spec, self._rows.X.shape[1], "not applicable", str(error))
        except Exception as error:
            return TrialResult.lost(spec, self._rows.X.shape[1], "failed", Text.of_error(error))

    def _items(
        self, spec: TrialSpec, learner: type[MetricLearner], registry: Registry
    ) -> tuple[TrialItems, Sealed]:
        cell = (spec.where.split, spec.where.subset, spec.where.partition)
        if cell != self._cell:  # trials that still run keep their items
            self._cell, self._drawn = cell, {}
        must_be_dense = sparse.issparse(self._rows.X) and not learner.takes_sparse
        kind = (spec.features, learner.takes, must_be_dense, learner.takes_relevance, spec.model)
        if kind not in self._drawn:
            items = draw_items(spec, self._rows, learner)
            saved = saved_steps(spec.model, registry)
            self._drawn[kind] = items, cache(partial(SealedItems, items, learner, saved=saved))
        return self._drawn[kind]

    def _model(self, path: Path, expected: str) -> int:
        """Return a saved model as a sealed file."""
        if path not in self._models:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != expected:
                raise UsageError(f"{path} {CHANGED}")
            self._models[path] = wall.seal(lambda file: file.write(content))
        return self._models[path]

    def close(self) -> None:
        """Close the files of saved models."""
        while self._models:
            os.close(self._models.popitem()[1])
