"""How many items train and test: as an experiment says, or as its data set allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.settings import (
    DEFAULT_PARTITIONS,
    Experiment,
)
from oasis_bench.experiment.splits import take_fold
from oasis_bench.experiment.subsets import LEAST
from oasis_bench.plugins import Dataset
from oasis_bench.system import UsageError


def settle(experiment: Experiment, dataset: Dataset, rows: LabelledRows) -> Experiment:
    """Return an experiment with the numbers that depend on its data set.

    Partitions: all folds, where rows have folds.  Training and test items a class: where they are
    not given, the usual 40 and 25, or so many in the same proportion as the smallest class has; and
    not more inner folds than two of each class allow.

    Raises
    ------
    UsageError
        Where more partitions are asked for than there are folds.
    """
    n_folds = rows.n_folds
    if n_folds and (experiment.partitions or 0) > n_folds:
        raise UsageError(
            f"--partitions {experiment.partitions}: {experiment.dataset} has {n_folds} folds, and "
            f"these are its partitions: {n_folds} at most, or leave it out for all"
        )
    partitions = experiment.partitions or n_folds or DEFAULT_PARTITIONS
    if n_folds or rows.multi_label:
        return replace(experiment, partitions=partitions)
    n_train, n_test = _per_class(experiment, dataset, rows)
    return _with_numbers(experiment, partitions, n_train, n_test)


def settled_as(experiment: Experiment, before: Experiment) -> Experiment:
    """Return an experiment with the numbers that another one has settled on the same data set.

    Numbers that it sets itself stay.
    """
    partitions = experiment.partitions or before.n_partitions
    if before.train_per_class is None or before.test_per_class is None:
        return replace(experiment, partitions=partitions)
    n_train = experiment.train_per_class or before.train_per_class
    n_test = experiment.test_per_class or before.test_per_class
    return _with_numbers(experiment, partitions, n_train, n_test)


def _with_numbers(e: Experiment, partitions: int, n_train: int, n_test: int) -> Experiment:
    """Put the numbers into an experiment, with no more inner folds than two of a class allow."""
    return replace(
        e,
        partitions=partitions,
        train_per_class=n_train,
        test_per_class=n_test,
        inner_folds=min(e.inner_folds, max(2, n_train // 2)),
    )


def size_remark(asked: Experiment, settled: Experiment, items: str) -> str | None:
    """Say which sizes were fitted to the data set, or None where they are as usual or as given."""
    was, now = asked.per_class, settled.per_class
    if was == now or settled.train_per_class is None:
        return None
    folds = ""
    if settled.inner_folds != asked.inner_folds:
        folds = f", with {settled.inner_folds} inner folds in place of {asked.inner_folds}"
    return (
        f"the smallest class is too small for {was[0]} {items} to train and {was[1]} to test: "
        f"{now[0]} of each class train and {now[1]} test{folds} (--train, --test)"
    )


def part_remark(
    asked: Experiment, settled: Experiment, rows: LabelledRows, items: str
) -> str | None:
    """Say where the usual numbers of a class, not given, take less than half of a data set."""
    given = asked.train_per_class or asked.test_per_class
    if given or settled.train_per_class is None or "all" not in settled.classes:
        return None
    if settled.per_class != asked.per_class:  # `size_remark` tells
        return None
    counts = rows.class_counts()
    n_rows, used = int(counts.sum()), len(counts) * sum(settled.per_class)
    if 2 * used >= n_rows:
        return None
    n_train, n_test = settled.per_class
    return (
        f"a partition has {used:,} of {n_rows:,} {items}: {n_train} of each class to train and "
        f"{n_test} to test: --train and --test take more"
    )


def few_train_remark(
    asked: Experiment, settled: Experiment, rows: LabelledRows, items: str
) -> str | None:
    """Say where the smallest of all classes leaves fewer than a fifth of the data set to train."""
    n_train, usual = settled.per_class[0], asked.per_class[0]
    if settled.train_per_class is None or "all" not in settled.classes or 2 * n_train > usual:
        return None
    counts = rows.class_counts()
    n_rows, in_all = int(counts.sum()), n_train * len(counts)
    if 5 * in_all >= n_rows or asked.per_class == settled.per_class:
        return None
    return (
        f"{in_all:,} of {n_rows:,} {items} train: the smallest class has {counts.min()}: leave it "
        "out with --classes, or give --train and --test"
    )


def _per_class(e: Experiment, dataset: Dataset, rows: LabelledRows) -> tuple[int, int]:
    """Return how many items of each class train and test."""
    n_train, n_test = e.train_per_class, e.test_per_class
    both = e.per_class
    least = min(_smallest(e, dataset, rows), default=0)
    if least >= sum(both) or least < LEAST or (n_train is not None and n_test is not None):
        return both
    if n_train is None and n_test is None:
        train = max(2, round(least * both[0] / sum(both)))
        return train, least - train
    # What was given stays; the message of what is too large names both.
    train, test = (least - both[1], both[1]) if n_train is None else (both[0], least - both[0])
    return (train, test) if min(train, test) >= 2 else both


def _smallest(e: Experiment, dataset: Dataset, rows: LabelledRows) -> Iterator[int]:
    """Yield the rows of the smallest class of each subset that is asked for and known."""
    counts = dict(zip(rows.class_names, rows.class_counts().tolist(), strict=True))
    for item in e.classes:
        if isinstance(item, int):
            if item <= len(counts):
                yield sorted(counts.values(), reverse=True)[item - 1]
            continue
        names = item if isinstance(item, tuple) else dataset.class_subsets.get(item, counts)
        yield min((counts[name] for name in names if name in counts), default=0)


def sizes_of_fold(
    rows: LabelledRows, folds: npt.NDArray[np.int64], classes: Sequence[int], number: int
) -> tuple[int, int]:
    """Count the rows of a partition that is a fold; raise UsageError where they are of no use."""
    part = take_fold(folds, number, rows.y, classes)
    if not len(part.test):
        raise UsageError(
            f"fold {number + 1} has no row of the {len(classes)} classes that were asked for: ask "
            "for others with --classes"
        )
    if not isinstance(rows.y, sparse.csr_array):
        _, counts = np.unique(rows.y[part.train], return_counts=True)
        if len(counts) < 2 or counts.max() < 2:
            raise UsageError(
                f"outside of fold {number + 1} there are {len(part.train)} rows of {len(counts)} "
                "classes: at least 2 classes are needed, one of them with 2 rows"
            )
    return len(part.train), len(part.test)
