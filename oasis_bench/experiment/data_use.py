"""The parts of a data set that an experiment uses: classes, items, partitions, example queries.

Unknown or too small parts are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.file import read_experiment
from oasis_bench.experiment.settings import (
    DEFAULT_PARTITIONS,
    DEFAULT_TEST,
    DEFAULT_TRAIN,
    Experiment,
)
from oasis_bench.plugins import Dataset
from oasis_bench.system import UsageError, derive_seed, spelled, unknown_name
from oasis_bench.tasks import Numbers, Split

LONGEST_NAME = 30

UNEQUAL = 5
"""From this ratio of class sizes on, equal numbers of items per class are no fair sample."""

LEAST = 6
"""Smallest usable class: 4 items train, 2 in each of two inner folds, and 2 test."""

SETTINGS_OF_SPLITS = {
    "test_share": "a stratified split, several labels an item or judgements",
    "most_items": "a stratified split or folds of the data set",
    "label_budget": "splits of items of one class each",
}
"""Settings that only some splits read, and their purpose."""


def _sizes() -> str:
    """Name the settings for the training and test items of a class."""
    return f"{spelled('train_per_class')} and {spelled('test_per_class')}"


def choose_subsets(
    experiment: Experiment,
    dataset: Dataset,
    rows: LabelledRows,
    split: Split,
    splits: Collection[Split] = (),
) -> dict[str, tuple[int, ...]]:
    """Name the class subsets of an experiment, each with its class numbers in ascending order.

    Unknown subsets or classes, and classes with too few items, are refused; splits leave those
    with too few groups out.  A number of classes means the same ones on all `splits` of the
    experiment.  With replicates, a subset has the classes of all sets, one set after the other (see
    `class_set`).
    """
    e = experiment
    needed = split.needed_per_class()
    if rows.multi_label and split.judgements(rows) is None and e.classes != ("all",):
        raise UsageError(
            f"{e.dataset} has several labels an item and so no class subsets: "
            f"{spelled('classes', 'all')}"
        )
    if needed is None or rows.multi_label:
        return {"all": tuple(range(len(rows.class_names)))}
    subsets = {}
    every = [split, *(other for other in splits if other.needed_per_class() is not None)]
    usable = sorted(set.intersection(*({*other.usable(rows)} for other in every)))
    for item in e.classes:
        if isinstance(item, int):
            counts, seed = np.zeros_like(rows.class_counts()), derive_seed(e.seed, "classes")
            counts[usable] = rows.class_counts()[usable]
            most = max(other.needed_per_class() or 0 for other in every)
            numbers = choose_classes(counts, item, most, seed, e.replicates)
            subsets[str(item)] = tuple(numbers.tolist())
        elif item == "all":
            names = [rows.class_names[number] for number in split.usable(rows)]
            _numbers(item, names, e, rows, needed)  # the others are left out, whatever their sizes
            subsets[item] = tuple(range(len(rows.class_names)))
        elif isinstance(item, tuple):
            subsets[_list_name(item, taken=subsets)] = _numbers(
                "+".join(item), item, e, rows, needed
            )
        else:
            subsets[item] = _numbers(item, dataset.class_subsets[item], e, rows, needed)
    return subsets


def class_set(e: Experiment, classes: tuple[int, ...], partition: int) -> tuple[int, ...]:
    """Return the classes of a partition: all of the subset, or with replicates its set."""
    size = len(classes) // (e.replicates or 1)
    start = partition * size if e.replicates else 0
    return tuple(sorted(classes[start : start + size]))


def _list_name(names: Sequence[str], taken: Collection[str]) -> str:
    """Name a list of classes for tables; a short list in full."""
    whole = "+".join(names)
    name = whole if len(whole) <= LONGEST_NAME else f"{names[0]}+{len(names) - 1} more"
    return f"{name} ({len(taken) + 1})" if name in taken else name


def refuse_unknown_subsets(experiment: Experiment, dataset: Dataset) -> None:
    """Raise UsageError for a class subset that the data set lacks, before the set is loaded."""
    known = [*dataset.class_subsets, "all"]
    for item in experiment.classes:
        if isinstance(item, str) and item not in known:
            raise UsageError(
                f"{unknown_name('class subset', item, known)}, or a number of classes, or "
                "two or more classes joined by +"
            )


def _numbers(
    subset: str,
    names: Sequence[str],
    e: Experiment,
    rows: LabelledRows,
    needed: int,
) -> tuple[int, ...]:
    """Return the class numbers of a subset; raise UsageError for classes with too few items."""
    found = {name: _class_number(name, rows.class_names) for name in names}
    missing = [name for name, number in found.items() if number is None]
    if missing:
        raise UsageError(
            f"class subset {subset!r} has {len(names)} classes, but {len(missing)} of them are not "
            f"in {e.dataset}: {', '.join(missing)}"
        )
    numbers = sorted({number for number in found.values() if number is not None})
    counts = rows.class_counts()[numbers]
    if counts.min() < needed:
        least = min(LEAST, needed)  # no --train or --test can lower this
        bound = least if counts.min() < least else needed
        few, others = int((counts < bound).sum()), int((counts >= least).sum())
        remedy = f"take the other classes alone with {spelled('classes', others)}"
        if bound > least:
            remedy = f"lower {spelled('train_per_class')} or {spelled('test_per_class')}"
        elif others < 2 or (least == LEAST and others < few):
            remedy = f"add items to {'this class' if few == 1 else 'these classes'}"
            if others and least == LEAST and counts.min() > 1:
                remedy += f", or divide the rows with {spelled('split', 'stratified')}"
            if np.median(counts) < 3:
                remedy = f"is the label an id? name another one with {spelled('label')}"
                if (task := task_of_judgements(rows)) is not None:
                    remedy = f"these items have judgements, which the task {task} is for"
        elif least == LEAST:  # else the split is stratified, or of folds
            remedy = f"leave those rows out, or {remedy}"
            if counts.min() > 1:
                remedy = f"keep their frequencies with {spelled('split', 'stratified')}, {remedy}"
        what = f"the {needed} items that are needed" if bound == needed else f"{bound} items"
        smallest = rows.class_names[numbers[counts.argmin()]]
        raise UsageError(
            f"{few} of {len(counts)} classes of subset {subset!r} have fewer than {what} "
            f"(such as class {smallest!r}, which has {counts.min()}): {remedy}"
        )
    return tuple(numbers)


def task_of_judgements(rows: LabelledRows) -> str | None:
    """Return the task for the judgements that rows have; None if they have none."""
    if rows.judged is not None:
        return "judged-triplets"
    if rows.ratings is None:
        return None
    return "verification" if rows.ratings.marks.shape[1] == 1 else "ratings"


def choose_classes(
    counts: npt.NDArray[np.int64],
    n_chosen: int,
    needed: int,
    seed: int,
    n_sets: int | None = None,
) -> Numbers:
    """Choose classes at random among those with enough items; return their numbers, ascending.

    With `n_sets`, return so many disjoint sets of `n_chosen` classes, in random order.

    With the same seed the choices nest: the 5 classes are among the 10.

    `counts` has the items of each class; a class needs `needed` of them.
    """
    if n_chosen > len(counts):
        raise UsageError(
            f"{n_chosen} classes were requested, but the data set has {len(counts)}: "
            f"{spelled('classes')} takes 2 to {len(counts)} here"
        )
    eligible = np.flatnonzero(counts >= needed)
    if n_chosen > len(eligible):
        most = np.sort(counts)[-n_chosen]
        remedies = [f"{spelled('classes')} to {len(eligible)}"] * (len(eligible) > 1)
        remedies += [f"{_sizes()} until {most} items are enough"] * bool(most >= LEAST)
        raise UsageError(
            f"{n_chosen} classes of {needed} items were requested, "
            f"but only {len(eligible)} of the {len(counts)} classes have {needed}: lower "
            f"{', or '.join(remedies) or _sizes()}"
        )
    order = np.random.default_rng(seed).permutation(len(counts))
    order = order[np.isin(order, eligible)].astype(np.intp)
    if n_sets is None:
        return np.sort(order[:n_chosen])
    if n_sets * n_chosen > len(order):
        raise UsageError(
            f"{spelled('replicates', n_sets)} of {n_chosen} classes are {n_sets * n_chosen} "
            f"classes, and {len(order)} of the {len(counts)} have {needed} items: lower "
            f"{spelled('replicates')}, {spelled('classes')}, or {_sizes()}"
        )
    return order[: n_sets * n_chosen]


def _class_number(name: str, class_names: Sequence[str]) -> int | None:
    """Find a class by its name, or by the name after its number: 'bear' finds '009.bear'."""
    if name in class_names:
        return class_names.index(name)
    ends = [n for n, full in enumerate(class_names) if full.partition(".")[2] == name]
    return ends[0] if len(ends) == 1 else None


def is_changed(e: Experiment, name: str) -> bool:
    """Tell whether a setting is neither as usual nor as in the built-in experiment of `e`."""
    value = getattr(e, name)
    if value == e.settings()[name].default:
        return False
    return e.built_in is None or value != getattr(read_experiment(e.built_in), name)


def settle(
    experiment: Experiment, dataset: Dataset, rows: LabelledRows, splits: Collection[Split]
) -> Experiment:
    """Return an experiment with the numbers that depend on its data set and its splits.

    Partitions: all folds, if the data set has folds.  Training and test items per class, if not
    given: the usual 40 and 25, or fewer in the same proportion if the smallest class has fewer.
    Inner folds: so few that each has two items per class.
    """
    e = experiment
    for name, purpose in SETTINGS_OF_SPLITS.items():
        is_unread = bool(splits) and all(name in split.unread for split in splits)
        if is_unread and is_changed(e, name):
            raise UsageError(
                f"{spelled(name, getattr(e, name))} has no effect here: it is for {purpose}: "
                "leave it out" + f", or add {spelled('split', 'stratified')}" * (e.split is None)
            )
    numbers = (split.n_partitions(rows) for split in splits)
    most = min((n for n in numbers if n is not None), default=None)
    if most is not None and (e.partitions or 0) > most:
        more = f" (a smaller {spelled('test_share')} makes more)" * (rows.folds is None)
        source = "these splits have" if rows.folds is None else f"{e.dataset} has folds, which are"
        given = spelled("partitions", e.partitions)
        raise UsageError(
            f"{given}: {source} {most} partitions: {most} at most, or leave it out for all{more}"
        )
    if e.replicates and (most is not None or rows.multi_label):
        what = "several labels an item" if rows.multi_label else "folds of its own"
        given = spelled("replicates", e.replicates)
        raise UsageError(f"{given}: {e.dataset} has {what}: leave it out")
    partitions = e.replicates or e.partitions or most or DEFAULT_PARTITIONS
    if all(split.no_sizes for split in splits):
        if e.per_class != (DEFAULT_TRAIN, DEFAULT_TEST):
            split = next(iter(splits))
            remedy = f"leave out {_sizes()}"
            if "test_share" not in split.unread:
                remedy = f"use {spelled('test_share')} in place of {_sizes()}"
            raise UsageError(f"{e.dataset} {split.no_sizes}: {remedy}")
        return replace(e, partitions=partitions)
    if rows.multi_label or all(split.needed_per_class() is None for split in splits):
        return replace(e, partitions=partitions)
    n_train, n_test = _per_class(e, dataset, rows, splits)
    return e.with_numbers(partitions, n_train, n_test)


def size_remarks(
    asked: Experiment, settled: Experiment, rows: LabelledRows, items: str, draws_equally: bool
) -> Iterator[str]:
    """Yield remarks on sizes that were fitted to the data set, or that use little of it.

    Also warn of very unequal classes if a split draws equally many items of each class.
    """
    if settled.train_per_class is None:
        return
    was, now = asked.per_class, settled.per_class
    takes_all, counts = "all" in settled.classes, rows.class_counts()
    n_rows = int(counts.sum())
    if was != now:
        folds = ""
        if settled.inner_folds != asked.inner_folds:
            folds = f", with {settled.inner_folds} inner folds in place of {asked.inner_folds}"
        yield (
            f"the smallest class is too small for {was[0]} {items} to train and {was[1]} to test: "
            f"{now[0]} of each class are for training and {now[1]} for testing{folds} "
            f"({spelled('train_per_class')}, {spelled('test_per_class')})"
        )
    elif takes_all and not (asked.train_per_class or asked.test_per_class):
        used = len(counts) * sum(now)
        if 2 * used < n_rows:
            yield (
                f"a partition has {used:,} of {n_rows:,} {items}: {now[0]} of each class to train "
                f"and {now[1]} to test: {_sizes()} take more"
            )
    if draws_equally and takes_all and counts.max() > UNEQUAL * counts.min():
        yield (
            f"warning: classes have {counts.min():,} to {counts.max():,} {items}, but each "
            "is sampled equally, so results do not reflect the real class frequencies: "
            f"{spelled('split', 'stratified')} keeps them"
        )


def _per_class(
    e: Experiment, dataset: Dataset, rows: LabelledRows, splits: Collection[Split]
) -> tuple[int, int]:
    """Return how many items of each class train and test."""
    n_train, n_test = e.train_per_class, e.test_per_class
    both = e.per_class
    sizes = [it for split in splits for it in _smallest(e, dataset, rows, split)]
    least = min(sizes, default=0)
    if least >= sum(both) or least < LEAST or (n_train is not None and n_test is not None):
        return both
    if n_train is None and n_test is None:
        train = max(2, round(least * both[0] / sum(both)))
        return train, least - train
    # A given number stays; the message on too large numbers names both.
    train, test = (least - both[1], both[1]) if n_train is None else (both[0], least - both[0])
    return (train, test) if min(train, test) >= 2 else both


def _smallest(e: Experiment, dataset: Dataset, rows: LabelledRows, split: Split) -> Iterator[int]:
    """Yield the size of the smallest usable class of each known subset of the experiment."""
    of_all = rows.class_counts().tolist()
    counts = {rows.class_names[number]: of_all[number] for number in split.usable(rows)}
    for item in e.classes:
        if isinstance(item, int):
            if item <= len(counts):
                yield sorted(counts.values(), reverse=True)[item - 1]
            continue
        names = item if isinstance(item, tuple) else dataset.class_subsets.get(item, counts)
        yield min((counts[name] for name in names if name in counts), default=0)


def named_queries(e: Experiment, rows: LabelledRows) -> dict[str, Numbers] | None:
    """Return the rows named by each of an experiment's `queries`; None if it has none.

    The name of a class (or word, with several labels) stands for all its rows; any other whole
    number is a row.
    """
    if e.queries is None:
        return None
    if rows.images is None:
        raise UsageError(
            f"{spelled('queries')} chooses pictures, and {e.dataset} has none: leave the option out"
        )
    y: Any = rows.y
    n_rows, found = y.shape[0], {}
    for text in e.queries:
        if text in rows.class_names:
            number = rows.class_names.index(text)
            of_class = y[:, [number]].toarray() if rows.multi_label else y == number
            found[text] = np.flatnonzero(of_class)
        elif not text.isdecimal():
            raise UsageError(unknown_name("class", text, rows.class_names))
        elif int(text) >= n_rows:
            given = spelled("queries", text)
            raise UsageError(f"{given}: rows of {e.dataset} are 0 to {n_rows - 1}")
        else:
            found[text] = np.array([int(text)])
    return found


def refuse_untested_queries(named: Mapping[str, Numbers], tested: Numbers) -> None:
    """Raise UsageError if a named query is not a test item of the first partition."""
    for text, own in named.items():
        if not np.isin(own, tested).any():
            raise UsageError(
                f"{spelled('queries', text)}: no test item of the first partition: name one of "
                f"those that are, such as {', '.join(map(str, tested[:5]))}, or one of the "
                f"{spelled('classes')}"
            )
