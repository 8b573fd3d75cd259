"""How many items train and test: as an experiment says, or as its data set allows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.settings import (
    DEFAULT_PARTITIONS,
    DEFAULT_TEST,
    DEFAULT_TRAIN,
    Experiment,
)
from oasis_bench.experiment.subsets import LEAST
from oasis_bench.plugins import Dataset
from oasis_bench.system import UsageError
from oasis_bench.tasks import Split


def settle(
    experiment: Experiment, dataset: Dataset, rows: LabelledRows, splits: Collection[Split]
) -> Experiment:
    """Return an experiment with the numbers that depend on its data set and its splits.

    Partitions: all that there are, where their number is given, as of folds.  Training and test
    items a class: where they are not given, the usual 40 and 25, or so many in the same proportion
    as the smallest class has; and not more inner folds than two of each class allow.
    """
    e = experiment
    most = next((n for split in splits if (n := split.n_partitions(rows)) is not None), None)
    if most is not None and (e.partitions or 0) > most:
        raise UsageError(
            f"--partitions {e.partitions}: {e.dataset} has {most} folds, and these are its "
            f"partitions: {most} at most, or leave it out for all"
        )
    partitions = e.partitions or most or DEFAULT_PARTITIONS
    if all(split.no_sizes for split in splits):
        if e.per_class != (DEFAULT_TRAIN, DEFAULT_TEST):
            raise UsageError(f"{e.dataset} {next(iter(splits)).no_sizes}")
        return replace(e, partitions=partitions)
    if rows.multi_label:
        return replace(e, partitions=partitions)
    n_train, n_test = _per_class(e, dataset, rows)
    return _with_numbers(e, partitions, n_train, n_test)


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
