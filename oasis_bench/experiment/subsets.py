"""Which classes each class subset of an experiment has; unknown and too small ones are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.settings import DEFAULT_TEST, DEFAULT_TRAIN, Experiment
from oasis_bench.experiment.splits import choose_classes
from oasis_bench.plugins import Dataset
from oasis_bench.system import UsageError, derive_seed, unknown_name

LONGEST_NAME = 30

LEAST = 4
"""Items of a class that is of use: 2 train and 2 test."""


def choose_subsets(
    experiment: Experiment, dataset: Dataset, rows: LabelledRows
) -> dict[str, tuple[int, ...]]:
    """Name the class subsets of an experiment, each with its class numbers in ascending order.

    Raises
    ------
    UsageError
        Where a subset or class is unknown, or has too few items, with names and numbers.
    """
    e = experiment
    if rows.multi_label:
        if e.per_class != (DEFAULT_TRAIN, DEFAULT_TEST):
            raise UsageError(
                f"{e.dataset} has several labels an item, so there are no items a class to "
                "count: use --test-share in place of --train and --test"
            )
        if e.classes != ("all",):
            raise UsageError(
                f"{e.dataset} has several labels an item and so no class subsets: --classes all"
            )
        return {"all": tuple(range(len(rows.class_names)))}
    n_train, n_test = _needed_per_class(e, rows)
    subsets = {}
    for item in e.classes:
        if isinstance(item, int):
            counts, seed = rows.class_counts(), derive_seed(e.seed, "classes")
            numbers = choose_classes(counts, item, n_train, n_test, seed)
            subsets[str(item)] = tuple(numbers.tolist())
        elif item == "all":
            subsets[item] = _numbers(item, rows.class_names, e, rows)
        elif isinstance(item, tuple):
            subsets[_list_name(item, taken=subsets)] = _numbers("+".join(item), item, e, rows)
        else:
            subsets[item] = _numbers(item, dataset.class_subsets[item], e, rows)
    return subsets


def _needed_per_class(e: Experiment, rows: LabelledRows) -> tuple[int, int]:
    """Return how many training and test items a class must have; folds take what there is."""
    if not rows.n_folds:
        return e.per_class
    if e.per_class != (DEFAULT_TRAIN, DEFAULT_TEST):
        raise UsageError(
            f"{e.dataset} has folds, each of which tests while all other rows train: leave out "
            "--train and --test"
        )
    return 1, 1


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
    subset: str, names: Sequence[str], e: Experiment, rows: LabelledRows
) -> tuple[int, ...]:
    found = {name: _class_number(name, rows.class_names) for name in names}
    missing = [name for name, number in found.items() if number is None]
    if missing:
        raise UsageError(
            f"class subset {subset!r} has {len(names)} classes, but {len(missing)} of them are not "
            f"in {e.dataset}: {', '.join(missing)}"
        )
    numbers = sorted(number for number in found.values() if number is not None)
    counts = rows.class_counts()[numbers]
    n_train, n_test = _needed_per_class(e, rows)
    needed = n_train + n_test
    if (few := int((counts < LEAST).sum())) and not rows.n_folds:
        others = len(counts) - few
        if others < max(2, few):
            remedy = "is the label an id? name another one with --label"
        else:
            remedy = (
                f"leave those rows out, or take the other classes alone with --classes {others}"
            )
        raise UsageError(
            f"{few} of {len(counts)} classes of subset {subset!r} have fewer than {LEAST} items "
            f"(such as {rows.class_names[numbers[counts.argmin()]]!r}, {counts.min()}), and each "
            f"needs 2 to train and 2 to test: {remedy}"
        )
    if counts.min() < needed:
        raise UsageError(
            f"class {rows.class_names[numbers[counts.argmin()]]!r} of subset {subset!r} has "
            f"{counts.min()} item{'' if counts.min() == 1 else 's'}, but {n_train} to train and "
            f"{n_test} to test are {needed}: lower --train or --test"
        )
    return tuple(numbers)


def _class_number(name: str, class_names: Sequence[str]) -> int | None:
    """Find a class by its name, or by what follows the number, as 'bear' names '009.bear'."""
    if name in class_names:
        return class_names.index(name)
    ends = [n for n, full in enumerate(class_names) if full.partition(".")[2] == name]
    return ends[0] if len(ends) == 1 else None
