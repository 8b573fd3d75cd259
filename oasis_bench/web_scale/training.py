"""The web-scale experiment (JMLR 2010, 5.2): OASIS on millions of mapped images.

An interrupted training continues from its last checkpoint.  `oasis_bench.reports.web_scale`
makes the page of the results.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from oasis_bench.plugins import Registry, load_model, save_model
from oasis_bench.system import (
    Folder,
    PeakMemory,
    Progress,
    UsageError,
    derive_seed,
    describe_machine,
    no_progress,
    spelled,
)
from oasis_bench.tasks import SharedLabels, average_precision_of_chance, evaluate_ranking

SHARES = (0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
"""Shares of the steps after which a training is measured and saved."""

PRECISION_AT = (1, 10, 50)


@dataclass(frozen=True)
class Training:
    """The parameters of a training; on the same data, the same give the same bits.

    It learns from the first `n_images` training images, in batches for `MiniBatchOASIS`, or with
    OASIS where `batch_size` is None.
    """

    n_images: int
    n_steps: int
    batch_size: int | None
    seed: int

    @property
    def name(self) -> str:
        """The stem of its files."""
        schedule = "exact" if self.batch_size is None else f"batch-{self.batch_size}"
        return f"images-{self.n_images}.steps-{self.n_steps}.{schedule}.seed-{self.seed}"

    def learner(self) -> Any:
        """Make the learner, not yet fitted."""
        algorithms = Registry.load().algorithms
        learner: Any = algorithms["OASIS" if self.batch_size is None else "MiniBatchOASIS"]()
        own = {} if self.batch_size is None else {"batch_size": self.batch_size}
        return learner.set_params(random_state=self.seed, **own)

    def checkpoints(self) -> list[int]:
        """Return the numbers of steps to measure after: whole batches, and all steps at the end."""
        size = self.batch_size or 1
        steps = {round(self.n_steps * share / size) * size for share in SHARES[:-1]}
        return [*sorted(count for count in steps if count < self.n_steps), self.n_steps]


@dataclass(frozen=True)
class Checkpoint:
    """What was measured after some steps; numbers, seconds and updates count from the start.

    Seconds are of learning, reading the rows included.  Precision is at 1, 10 and 50, or as many
    of these as there are other test images; queries without a relevant one do not count.
    `peak_bytes` is resident memory at its peak while learning since the checkpoint before, the
    pages of the mapped rows among them; None where the system does not tell.
    """

    n_steps: int
    n_updates: int
    learn_seconds: float
    cpu_seconds: float
    mean_average_precision: float
    standard_error: float
    precision_at: dict[str, float]
    n_queries: int
    peak_bytes: int | None

    @property
    def words(self) -> str:
        """The description for the terminal."""
        return (
            f"{self.n_steps:,} steps, {self.learn_seconds:,.0f} s, "
            f"mAP {self.mean_average_precision:.4f} ± {self.standard_error:.4f}"
        )


@dataclass(frozen=True)
class TrainingRecord:
    """A training and its checkpoints; it is complete where the last one has all steps."""

    data: dict[str, int]
    training: Training
    n_threads: int
    checkpoints: tuple[Checkpoint, ...]
    provenance: dict[str, Any]
    version: Literal[1] = 1  # raised when fields change

    @property
    def n_steps_done(self) -> int:
        """Steps at the last checkpoint; -1 where there is none, as the first is at step 0."""
        return self.checkpoints[-1].n_steps if self.checkpoints else -1

    @classmethod
    def read_all(cls, folder: Path, data: dict[str, int] | None = None) -> list[TrainingRecord]:
        """Read the trainings in a folder, by name; refuse those that cannot be compared.

        They are to be on `data`, or all on the same.  A different number of training images does
        not matter: all other images are the same.
        """
        records = [_read_record(path) for path in sorted(folder.glob("images-*.json"))]
        for record in records:
            data = data or record.data
            if {**record.data, "n_train": 0} != {**data, "n_train": 0}:
                raise UsageError(
                    f"{folder} has {record.training.name} on other data, {record.data}, than "
                    f"{data}: use a separate folder for each data set"
                )
        return records


def trainings(
    n_images: Sequence[int],
    batch_sizes: Sequence[int | None],
    n_seeds: int,
    steps_an_image: int,
) -> list[Training]:
    """Combine sizes, schedules and seeds, the shortest trainings first."""
    combined = product(sorted(n_images), batch_sizes, range(n_seeds))
    return [Training(n, n * steps_an_image, size, seed) for n, size, seed in combined]


def train(
    data: Any,
    training: Training,
    folder: Path,
    n_threads: int,
    n_queries: int,
    progress: Progress = no_progress,
    on_checkpoint: Callable[[str, float], None] = lambda words, seconds_left: None,
) -> TrainingRecord:
    """Train and measure; a training in the folder continues from its last checkpoint.

    Each checkpoint writes ``NAME.json``, the record, and ``NAME.N-steps.npz``, the model for
    `load_model`, which replaces the model before.  The model does not depend on `n_threads`.  The
    queries are `test_queries`.
    """
    record = TrainingRecord(asdict(data.parameters), training, n_threads, (), describe_machine())
    for begun in TrainingRecord.read_all(folder, record.data):
        if begun.training == training:
            if begun.n_threads != n_threads:  # it would mix their times
                raise UsageError(
                    f"{folder / training.name}.json was begun with threads = {begun.n_threads}, "
                    f"not {n_threads}: continue with as many, or name another output folder"
                )
            n = len(_answerable(data, n_queries)[1])
            if any(it.n_queries != n for it in begun.checkpoints):
                raise UsageError(
                    f"{folder / training.name}.json was measured by "
                    f"{begun.checkpoints[0].n_queries} queries, not {n}: give as many, or name "
                    "another output folder"
                )
            record = replace(record, checkpoints=begun.checkpoints)
    learner = None
    with threadpool_limits(n_threads):
        for n_steps in training.checkpoints():
            if n_steps <= record.n_steps_done:
                continue
            learner = learner or _learner_at(record, folder)
            checkpoint = _learn_and_measure(learner, data, record, n_steps, n_queries, progress)
            record = replace(record, checkpoints=(*record.checkpoints, checkpoint))
            _save(record, learner, folder)
            left = training.n_steps - n_steps
            seconds_left = checkpoint.learn_seconds / n_steps * left if n_steps else 0.0
            on_checkpoint(f"{training.name}: {checkpoint.words}", seconds_left)
    return record


def _read_record(path: Path) -> TrainingRecord:
    try:
        with Folder(path.parent).open(path.name) as file:
            return msgspec.convert(json.loads(file.read()), TrainingRecord)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} is no record of a training: {reason}: remove it") from error


def _answerable(data: Any, n_queries: int) -> tuple[SharedLabels, npt.NDArray[np.int64]]:
    """Return the labels of the test images, and the queries that have a relevant one."""
    labels, queries = SharedLabels(data.test.R), test_queries(data.test.X.shape[0], n_queries)
    return labels, queries[labels.has_relevant(queries)]


def chance_level(data: Any, n_queries: int) -> float:
    """Return the mean average precision of a random order, over the queries of `train`."""
    n_test = data.test.X.shape[0]
    labels, queries = _answerable(data, n_queries)
    if not len(queries):
        raise UsageError(
            f"{spelled('queries', n_queries)}, {spelled('test_images', n_test)}: no query has a "
            "relevant other test image, so that there is nothing to rank: from "
            f"{spelled('test_images', 4096)} on each has one"
        )
    n_relevant = np.diff(labels.relevant_rows(queries).indptr)
    return float(average_precision_of_chance(n_relevant, n_test - 1).mean())


def _learn_and_measure(
    learner: Any,
    data: Any,
    record: TrainingRecord,
    n_steps: int,
    n_queries: int,
    progress: Progress,
) -> Checkpoint:
    """Learn on from the last checkpoint of `record` up to `n_steps`, then measure."""
    training = record.training
    before = record.checkpoints[-1] if record.checkpoints else None
    rows = data.train.first(training.n_images)
    memory, wall, cpu = PeakMemory(), time.perf_counter(), time.process_time()

    def show(what: str, done: int, total: int | None) -> None:
        progress(what, n_steps - (total or 0) + done, training.n_steps)

    learner.partial_fit(rows.X, rows.R, n_steps - getattr(learner, "n_steps_", 0), show)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = memory.peak()
    measured = evaluate_ranking(
        learner.similarity,
        data.test.X,
        data.test.R,
        seed=0,
        queries=test_queries(data.test.X.shape[0], n_queries),
        progress=progress,
    )
    return Checkpoint(
        n_steps=n_steps,
        n_updates=learner.n_updates_,
        learn_seconds=wall + (before.learn_seconds if before else 0),
        cpu_seconds=cpu + (before.cpu_seconds if before else 0),
        mean_average_precision=measured.mean_average_precision,
        standard_error=measured.standard_error,
        precision_at={
            str(k): float(value)
            for k, value in enumerate(measured.precision_at_k, 1)
            if k in PRECISION_AT
        },
        n_queries=measured.n_queries,
        peak_bytes=peak,
    )


def test_queries(n_test: int, n_queries: int) -> npt.NDArray[np.int64]:
    """Sample the test images that are queries, the same for all trainings."""
    sample = np.random.default_rng(derive_seed(0, "web-scale queries", n_test))
    return sample.choice(n_test, min(n_queries, n_test), replace=False)


def _save(record: TrainingRecord, learner: Any, folder: Path) -> None:
    """Write the model, then the record that refers to it, then remove the model before.

    An interruption at any point leaves a record with its model.
    """
    name = record.training.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_model(learner, _model_path(folder, record.training, record.n_steps_done))
        Folder(folder).write(f"{name}.json", json.dumps(asdict(record), indent=1).encode())
        for before in record.checkpoints[:-1]:
            _model_path(folder, record.training, before.n_steps).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror or error}: free or correct it and run again: "
            "it continues from the last checkpoint"
        ) from error


def _model_path(folder: Path, training: Training, n_steps: int) -> Path:
    return Folder(folder).path(f"{training.name}.{n_steps}-steps.npz")


def _learner_at(record: TrainingRecord, folder: Path) -> Any:
    """Return the learner as it was at the last checkpoint."""
    if not record.checkpoints:
        return record.training.learner()
    return load_model(_model_path(folder, record.training, record.n_steps_done))
