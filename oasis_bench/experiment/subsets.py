"""Which classes each class subset of an experiment has; unknown and too small ones are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.settings import Experiment
from oasis_bench.plugins import Dataset
from oasis_bench.system import UsageError, derive_seed, unknown_name
from oasis_bench.tasks import Indices, Split

LONGEST_NAME = 30

LEAST = 4
"""Items of a class that is of use: 2 train and 2 test."""


def choose_subsets(
    experiment: Experiment, dataset: Dataset, rows: LabelledRows, split: Split
) -> dict[str, tuple[int, ...]]:
    """Name the class subsets of an experiment, each with its class numbers in ascending order.

    Unknown subsets or classes, and those of too few items for the split, are refused.
    """
    e = experiment
    needed, every = split.needed_per_class(), {"all": tuple(range(len(rows.class_names)))}
    if needed is None:
        return every
    if rows.multi_label:
        if e.classes != ("all",):
            raise UsageError(
                f"{e.dataset} has several labels an item and so no class subsets: --classes all"
            )
        return every
    subsets = {}
    for item in e.classes:
        if isinstance(item, int):
            counts, seed = rows.class_counts(), derive_seed(e.seed, "classes")
            numbers = choose_classes(counts, item, *needed, seed)
            subsets[str(item)] = tuple(numbers.tolist())
        elif item == "all":
            subsets[item] = _numbers(item, rows.class_names, e, rows, needed)
        elif isinstance(item, tuple):
            subsets[_list_name(item, taken=subsets)] = _numbers(
                "+".join(item), item, e, rows, needed
            )
        else:
            subsets[item] = _numbers(item, dataset.class_subsets[item], e, rows, needed)
    return subsets


def _list_name(names: Sequence[str], taken: Collection[str]) -> str:
    """Name a list of classes for tables: whole where it is short."""
    whole = "+".join(names)
    name = whole if len(whole) <= LONGEST_NAME else f"{names[0]}+{len(names) - 1} more"
    return f"{name} ({len(taken) + 1})" if name in taken else name


def refuse_unknown_subsets(experiment: Experiment, dataset: Dataset) -> None:
    """Raise UsageError for a named class subset that the data set has not: before it is loaded."""
    known = [*dataset.class_subsets, "all"]
    for item in experiment.classes:
        if isinstance(item, str) and item not in known:
            raise UsageError(
                f"{unknown_name('class subset', item, known)}, or a number of classes, or two or "
                "more classes joined by +"
            )


def _numbers(
    subset: str,
    names: Sequence[str],
    e: Experiment,
    rows: LabelledRows,
    needed: tuple[int, int],
) -> tuple[int, ...]:
    """Return the numbers of a subset's classes, each of which has the items that are needed."""
    found = {name: _class_number(name, rows.class_names) for name in names}
    missing = [name for name, number in found.items() if number is None]
    if missing:
        raise UsageError(
            f"class subset {subset!r} has {len(names)} classes, but {len(missing)} of them are not "
            f"in {e.dataset}: {', '.join(missing)}"
        )
    numbers = sorted(number for number in found.values() if number is not None)
    counts = rows.class_counts()[numbers]
    n_train, n_test = needed
    least = min(LEAST, sum(needed))
    if (few := int((counts < LEAST).sum())) and least == LEAST:
        others = len(counts) - few
        if others < max(2, few):
            remedy = "is the label an id? name another one with --label"
        else:
            n_each = min(sum(e.per_class), int(counts[counts >= LEAST].min()))
            remedy = (
                "leave those rows out, or take the other classes alone with --classes "
                f"{others}: {n_each} items of each, {others * n_each:,} of {counts.sum():,} in all"
                f"{', unless --train and --test say more' * (n_each == sum(e.per_class))}"
            )
        raise UsageError(
            f"{few} of {len(counts)} classes of subset {subset!r} have fewer than {LEAST} items "
            f"(such as {rows.class_names[numbers[counts.argmin()]]!r}, {counts.min()}), and each "
            f"needs 2 to train and 2 to test: {remedy}"
        )
    if counts.min() < sum(needed):
        remedy = "lower --train or --test"
        if least < LEAST:  # nothing can be lowered
            remedy = (
                "leave its rows out, or take the other classes alone with --classes "
                f"{(counts >= sum(needed)).sum()}"
            )
        raise UsageError(
            f"class {rows.class_names[numbers[counts.argmin()]]!r} of subset {subset!r} has "
            f"{counts.min()} item{'' if counts.min() == 1 else 's'}, but {n_train} to train and "
            f"{n_test} to test are {sum(needed)}: {remedy}"
        )
    return tuple(numbers)


def choose_classes(
    counts: npt.NDArray[np.int64], n_chosen: int, n_train: int, n_test: int, seed: int
) -> Indices:
    """Choose classes at random among those with enough items; their numbers, ascending.

    With the same seed the choices nest: the 5 classes are among the 10.

    `counts` has the items of each class, of which `n_train` and `n_test` are needed.
    """
    if n_chosen > len(counts):
        raise UsageError(
            f"{n_chosen} classes were asked for, but the data set has {len(counts)}: "
            f"--classes takes 2 to {len(counts)} here"
        )
    eligible = np.flatnonzero(counts >= n_train + n_test)
    if n_chosen > len(eligible):
        most = np.sort(counts)[-n_chosen]
        remedy = f"lower --classes, or --train and --test to {most} together"
        if most < 4:  # each of the two is at least 2
            remedy = "lower --classes, or ask another task"
        raise UsageError(
            f"{n_chosen} classes of {n_train} training and {n_test} test items were asked for, "
            f"but only {len(eligible)} of the {len(counts)} classes have {n_train + n_test}: "
            f"{remedy}"
        )
    order = np.random.default_rng(seed).permutation(len(counts))
    return np.sort(order[np.isin(order, eligible)][:n_chosen]).astype(np.intp)


def _class_number(name: str, class_names: Sequence[str]) -> int | None:
    """Find a class by its name, or by what follows the number, as 'bear' names '009.bear'."""
    if name in class_names:
        return class_names.index(name)
    ends = [n for n, full in enumerate(class_names) if full.partition(".")[2] == name]
    return ends[0] if len(ends) == 1 else None
