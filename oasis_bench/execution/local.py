"""Trials on this machine: each in fresh processes, at most `jobs` at a time.

Where a trial hangs, crashes or takes all memory, its record says so, and the others go on.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Self

from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.execution.fork_server import borrow, give_back
from oasis_bench.execution.trial_process import TrialProcess
from oasis_bench.experiment import TrialSpec, refuse_changed_model, refuse_changed_source
from oasis_bench.plugins import MetricLearner, load_registry
from oasis_bench.system import error_line, seal
from oasis_bench.trial import (
    NotApplicableError,
    Sealed,
    SealedItems,
    TrialItems,
    TrialResult,
    TrialState,
    draw_items,
    lost_record,
)


@dataclass(frozen=True)
class ThisMachine:
    """The processes of this machine.

    Parameters
    ----------
    jobs : int
        Trials at a time, started in the order in which they are given.
    on_poll : callable, optional
        Called at least once a second while trials run; what it raises ends them.
    """

    jobs: int
    on_poll: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        """Start a fork server: it imports while the data set is loaded."""
        give_back(borrow())
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: a run ends its trials, and idle servers are for the next run."""

    @property
    def shares_cores(self) -> bool:
        """Whether trials run side by side."""
        return self.jobs > 1

    def provenance(self) -> dict[str, Any]:
        """Tell how many trials ran at a time."""
        return {"jobs": self.jobs}

    @contextmanager
    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> Iterator[Iterator[TrialResult]]:
        """Run trials and yield their records as they end; see `Executor`."""
        running: list[TrialProcess] = []
        with closing(_TrialStates(rows, output_log.parent)) as states:
            try:
                yield self._records(deque(specs), running, states, output_log)
            finally:
                for trial in running:
                    trial.close()

    def _records(
        self,
        waiting: deque[TrialSpec],
        running: list[TrialProcess],
        states: _TrialStates,
        output_log: Path,
    ) -> Iterator[TrialResult]:
        while waiting or running:
            while waiting and len(running) < self.jobs:
                state = states.begin(waiting.popleft())
                if isinstance(state, TrialResult):
                    yield state
                else:
                    running.append(TrialProcess(state, output_log))
            self.on_poll()
            connection.wait(
                [item for trial in running for item in trial.waits_for],
                timeout=min((trial.seconds_to_poll for trial in running), default=0),
            )
            for trial in [*running]:
                trial.poll()
                if trial.record is not None:
                    running.remove(trial)
                    yield trial.record


class _TrialStates:
    """Begins trials; the items of a partition are drawn and sealed once for all learners."""

    def __init__(self, rows: LabelledRows, folder: Path) -> None:
        self._rows, self._folder = rows, folder
        self._cell: tuple[str, str, int] | None = None
        self._drawn: dict[tuple[object, ...], tuple[TrialItems, Sealed]] = {}
        self._models: dict[Path, int] = {}

    def begin(self, spec: TrialSpec) -> TrialState | TrialResult:
        """Return the state of a trial, or the record of one that cannot be run."""
        registry = load_registry(spec.plugin_files)
        try:
            learner = registry.algorithms[spec.algorithm]
            refuse_changed_source(learner, spec.learner, spec.identity["source"])
            tasks = [registry.tasks[name]() for name in spec.tasks]
            model = None if spec.model is None else self._model(spec.model, spec.identity["model"])
            items, sealed = self._items(spec, learner)
            return TrialState(spec, items, sealed, learner, tasks, self._folder, model)
        except NotApplicableError as error:
            return lost_record(spec, self._rows.X.shape[1], "not applicable", str(error))
        except Exception as error:
            return lost_record(spec, self._rows.X.shape[1], "failed", error_line(error))

    def _items(self, spec: TrialSpec, learner: type[MetricLearner]) -> tuple[TrialItems, Sealed]:
        cell = (spec.where.split, spec.where.subset, spec.where.partition)
        if cell != self._cell:  # trials that still run keep their items
            self._cell, self._drawn = cell, {}
        kind = (spec.features, *_kind_of_items(learner, self._rows))
        if kind not in self._drawn:
            items = draw_items(spec, self._rows, learner)
            self._drawn[kind] = items, cache(partial(SealedItems, items, learner))
        return self._drawn[kind]

    def _model(self, path: Path, expected: str) -> int:
        """Return a saved model as a sealed file."""
        if path not in self._models:
            content = path.read_bytes()
            refuse_changed_model(path, content, expected)
            self._models[path] = seal(lambda file: file.write(content))
        return self._models[path]

    def close(self) -> None:
        """Close the files of saved models."""
        while self._models:
            os.close(self._models.popitem()[1])


def _kind_of_items(learner: type[MetricLearner], rows: LabelledRows) -> tuple[object, ...]:
    """Return what decides how items are handed to a learner, and whether they are."""
    must_be_dense = sparse.issparse(rows.X) and not learner.takes_sparse
    return learner.takes, must_be_dense, learner.takes_relevance
