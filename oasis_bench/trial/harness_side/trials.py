"""Begins the trials of a run on this machine, and reads the scores that trials have kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import sparse

from oasis_bench.data import FloatArray, LabelledRows
from oasis_bench.experiment import TrialSpec, saved_steps
from oasis_bench.plugins import Blend, MetricLearner, Registry, load_blend
from oasis_bench.system import (
    ArrayArchive,
    OutputError,
    UsageError,
    error_line,
    open_regular,
    slices,
)
from oasis_bench.tasks import Task
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.conversation import Conversation
from oasis_bench.trial.harness_side.evaluator import (
    Evaluator,
    Measured,
    mix_of,
    reason_against,
    scores_of_votes,
)
from oasis_bench.trial.harness_side.items import Sealed, SealedItems, TrialItems, draw_items
from oasis_bench.trial.harness_side.result import TrialResult, Votes, what_was_scored
from oasis_bench.trial.harness_side.rows import AnswerRow, TunedRow
from oasis_bench.trial.harness_side.stages import Trial

CHANGED = (
    "has changed since the run began: put it back and run this trial again with "
    "'run --resume RUN --retry failed', or start a new run"
)


class Trials:
    """Begins trials; the items of a partition are drawn and sealed once for all learners."""

    def __init__(self, rows: LabelledRows, log: Path) -> None:
        self._rows, self._log = rows, log
        self._cell: tuple[str, str, int] | None = None
        self._drawn: dict[tuple[object, ...], tuple[TrialItems, Sealed]] = {}
        self._models: dict[Path, int] = {}

    def begin(self, spec: TrialSpec) -> Conversation | TrialResult:
        """Return a running trial, or the result of a trial that cannot be run."""
        registry = Registry.load(spec.plugin_files)
        try:
            learner = registry.algorithms[spec.algorithm]
            if not spec.has_source(learner):
                raise UsageError(f"the source of {spec.learner} {CHANGED}")
            tasks = [registry.tasks[name]() for name in spec.tasks]
            model = None if spec.model is None else self._model(spec.model, spec.identity["model"])
            items, sealed_in = self._items(spec, learner, registry)
            folder = self._log.parent
            trial = Trial.of(
                spec, items, sealed_in, learner, tasks, folder=folder, saved_model=model
            )
            return Conversation(trial, self._log)
        except wall.NotApplicableError as error:
            return TrialResult.lost(spec, self._rows.X.shape[1], "not applicable", str(error))
        except OutputError:  # the run cannot go on, whichever learner it is
            raise
        except Exception as error:
            return TrialResult.lost(spec, self._rows.X.shape[1], "failed", error_line(error))

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


class Predictions:
    """The kept scores of one trial: of the learner alone, blended, and its votes.

    `tuned` has the row of the table `tuned` of each gallery; `galleries` are those with kept
    scores.  Raise UsageError if the file is damaged, or if its scores are of other items than
    the items drawn now.
    """

    def __init__(
        self,
        path: Path,
        spec: TrialSpec,
        rows: LabelledRows,
        tuned: Mapping[str, TunedRow],
    ) -> None:
        self.path, self._rows, self._tuned = path, rows, tuned
        self.spec = replace(spec, examples=0, projection=False)
        self._learner = Registry.load(spec.plugin_files).algorithms[spec.algorithm]
        items = draw_items(spec, rows, self._learner)
        arrays = what_was_scored(items)
        with _archive(path) as archive:
            kept = {name: archive.read_array(f"{name}.npy") for name in arrays}
            names = archive.namelist()
            self.galleries = [one for one in Task.GALLERIES if f"scores_{one}.npy" in names]
        if not all(np.array_equal(kept[name], array) for name, array in arrays.items()):
            raise UsageError(
                f"{path}: its scores are of other items than this oasis-bench draws: put it back, "
                "use the version that ran it, or start a new run"
            )
        self.items = replace(items, X=None)  # each trial may have a copy of X

    def evaluate(self, tasks: Sequence[Task]) -> Iterator[tuple[str, Measured]]:
        """Yield, for each task, its name and its rows of the tables."""
        prepared = cache(self._prepared)
        for task in tasks:
            answer = AnswerRow(task.name, "not applicable", reason_against(task, self._learner))
            if answer.reason is None:
                try:
                    evaluator = Evaluator([task], self.items, self.spec)
                    gallery = task.gallery
                    if (blend := self._blend(gallery)) is not None:
                        evaluator.blend(gallery, blend, self._learner, prepared(gallery))
                    for message, content in self.blocks(gallery):
                        evaluator.readers[gallery].add(message, content)
                    if (votes := self._votes(gallery)) is not None:
                        is_selected = self._tuned[gallery].use == "posterior"
                        evaluator.add_votes(gallery, votes, prepared(gallery), is_selected)
                    yield task.name, evaluator.tables()
                    continue
                except UsageError:
                    raise
                except Exception as error:  # in a user's task
                    answer = AnswerRow(task.name, "failed", error_line(error))
            yield task.name, Measured([answer])

    def selected(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield the start and scores of blocks of test items, by the use that was selected."""
        votes = self._votes("test")
        if votes is not None and self._tuned["test"].use == "posterior":
            yield from scores_of_votes("test", votes, self._prepared("test"))
            return
        mix, start = None, 0
        if (blend := self._blend("test")) is not None:
            mix = mix_of(blend, self._learner, self._prepared("test"), "test")
        for message, content in self.blocks("test"):
            block = np.frombuffer(content, message.dtype).reshape(message.n_queries, -1)
            yield start, block if mix is None else mix(start, block)
            start += len(block)

    def _blend(self, gallery: str) -> Blend | None:
        """Return the blend of the direct use."""
        tuned = self._tuned.get(gallery)
        if tuned is None or tuned.blend is None:
            return None
        return Blend(tuned.blend, tuned.baseline_sd or 0.0, tuned.learned_sd or 0.0)

    def _votes(self, gallery: str) -> Votes | None:
        tuned = self._tuned.get(gallery)
        if tuned is None or tuned.posterior_blend is None:
            return None
        sds = tuned.baseline_sd or 0.0, tuned.affinity_sd or 0.0
        classes = self.items.classes if self.spec.model is None else None
        with _archive(self.path) as archive:
            test = archive.read_array(f"votes_{gallery}.npy")
            training = archive.read_array("votes_of_training.npy") if gallery != "test" else test
            n_training = len(self.items.train_rows) if gallery != "test" else len(test)
            if len(test) != len(self.items.test_rows) or len(training) != n_training:
                raise UsageError("its votes are of other items")
        return Votes(test, training, Blend(tuned.posterior_blend, *sds), classes)

    def _prepared(self, gallery: str) -> SealedItems:
        """Return the items as the baseline of a blend gets them."""
        learner, tuned = self._learner, self._tuned[gallery]
        items = draw_items(self.spec, self._rows, learner)
        if self.spec.model is None:
            return SealedItems(items, learner, tuned.baseline_scaling or tuned.scaling)
        blend = load_blend(self.spec.model)
        if blend is not None and blend.steps is not None:
            return SealedItems(items, learner, "none", blend.steps)
        saved = saved_steps(self.spec.model, Registry.load(self.spec.plugin_files))
        return SealedItems(items, learner, "none", saved)

    def blocks(self, gallery: str) -> Iterator[tuple[wall.Scores, bytes]]:
        """Read the scores against a gallery as blocks with their messages.

        Raise UsageError if the file is damaged, or a score is NaN.
        """
        shape = n_queries, n_gallery = len(self.items.test_rows), len(self.items.ties[gallery])
        with (
            _archive(self.path) as archive,
            archive.open_array(f"scores_{gallery}.npy") as (stream, header),
        ):
            found, _, dtype = header
            if header != (shape, False, dtype) or dtype not in (np.float32, np.float64):
                raise UsageError(
                    f"its scores have shape {found} and type {dtype}: {shape} of float32 or "
                    "float64, row after row, are needed"
                )
            row_bytes = n_gallery * dtype.itemsize
            for part in slices(n_queries, max(1, wall.MOST_SCORE_BYTES // row_bytes)):
                n_rows = part.stop - part.start
                content = stream.read(n_rows * row_bytes)
                if np.isnan(np.frombuffer(content, dtype)).any():
                    raise UsageError("it holds scores that are NaN")
                yield wall.Scores(gallery, n_rows, dtype.name), content


@contextmanager
def _archive(path: Path) -> Iterator[ArrayArchive]:
    """Open a file of kept scores; an error means that it is damaged."""
    try:
        with open_regular(path) as file, ArrayArchive(file) as archive:
            yield archive
    except Exception as error:  # libraries raise nearly anything for a damaged file
        reason = str(error) if isinstance(error, UsageError) else error_line(error)
        raise UsageError(
            f"{path}: cannot be read as kept scores ({reason}): "
            "put it back, or run the trials again into a new folder"
        ) from error
