"""Which items learn and which test: class subsets, outer partitions and inner folds.

JMLR 2010, section 5.3.2.  Splits of what people judged are in
`oasis_bench.experiment.judged_splits`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold

from oasis_bench.data import Labels
from oasis_bench.system import UsageError
from oasis_bench.tasks import too_few_classes

Indices = npt.NDArray[np.intp]

MOST_VALIDATED = 3000
"""Items of an inner fold that validate, at most: to rank them takes time as their square."""


class Partition(NamedTuple):
    """Row numbers of one outer partition."""

    train: Indices
    test: Indices


class Fold(NamedTuple):
    """Places within the training rows of one inner fold."""

    learn: Indices
    validate: Indices


def choose_classes(
    counts: npt.NDArray[np.int64], n_chosen: int, n_train: int, n_test: int, seed: int
) -> Indices:
    """Choose classes at random among those with enough items; their numbers, ascending.

    With the same seed the choices nest: the 5 classes are among the 10.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Items of each class; `n_train` and `n_test` of each are needed.
    n_chosen : int
        Classes to choose.

    Raises
    ------
    UsageError
        Where there are not so many classes, or not so many with enough items.
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


def draw_partition(
    y: npt.NDArray[np.int64], classes: Sequence[int], n_train: int, n_test: int, seed: int
) -> Partition:
    """Draw training and test items of each class at random, without overlap.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Class numbers.
    classes : sequence of int
        The class numbers to draw from; each has at least ``n_train + n_test`` rows.
    n_train, n_test : int
        Items a class.
    """
    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [
            rng.permutation(np.flatnonzero(y == number))[: n_train + n_test].astype(np.intp)
            for number in classes
        ]
    )
    return Partition(drawn[:, :n_train].ravel(), drawn[:, n_train:].ravel())


def draw_share(n_rows: int, n_test: int, seed: int) -> Partition:
    """Draw `n_test` test rows at random, the others to train: for rows of several labels."""
    order = np.random.default_rng(seed).permutation(n_rows).astype(np.intp)
    return Partition(order[n_test:], order[:n_test])


def take_fold(
    folds: npt.NDArray[np.int64], number: int, y: Labels, classes: Sequence[int]
) -> Partition:
    """Return the rows of a fold to test and all others to train: those of some classes.

    Parameters
    ----------
    folds : ndarray of shape (n_rows,)
        The fold of each row.
    number : int
        The fold that tests.
    y : Labels
        Class numbers (n_rows,); with relevance, CSR, all rows are taken.
    classes : sequence of int
    """
    wanted = True if isinstance(y, sparse.csr_array) else np.isin(y, classes)
    tests = folds == number
    return Partition(np.flatnonzero(wanted & ~tests), np.flatnonzero(wanted & tests))


def inner_folds(y: Labels, n_folds: int, seed: int) -> list[Fold]:
    """Split the training items into folds; each fold validates once.

    With class labels `y` (n_train,), each class is split evenly: one of fewer than `n_folds` items
    is missing in some folds, and where all classes are that small there are fewer folds, as many
    as the largest has items.  With relevance `y`, CSR (n_train, n_queries), all items are split
    at random.  Of a fold of more than `MOST_VALIDATED` items so many validate, drawn at random.
    """
    if isinstance(y, sparse.csr_array):
        folds = KFold(n_folds, shuffle=True, random_state=seed)
    else:
        n_folds = min(n_folds, int(np.unique(y, return_counts=True)[1].max()))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        parts = list(folds.split(np.empty((y.shape[0], 0)), y))
    return [Fold(learn, _drawn(validate, seed)) for learn, validate in parts]


def draw_unseen_classes(
    y: npt.NDArray[np.int64], classes: Sequence[int], n_train: int, n_test: int, seed: int
) -> Partition:
    """Draw training items from one half of the classes at random, test items from the other.

    Of an odd number of classes, one more trains.  Of each class as many items are drawn as by
    `draw_partition`.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Class numbers.
    classes : sequence of int
        Four or more class numbers; each training class has at least `n_train` rows, each test class
        `n_test`.
    n_train, n_test : int
        Items a class.

    Raises
    ------
    UsageError
        Where there are fewer than four classes.
    """
    if reason := too_few_classes(len(classes)):
        raise UsageError(reason)
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(np.asarray(classes))
    half = (len(classes) + 1) // 2

    def drawn(numbers: npt.NDArray[np.int64], n_items: int) -> Indices:
        return np.concatenate(
            [
                rng.permutation(np.flatnonzero(y == number))[:n_items].astype(np.intp)
                for number in np.sort(numbers)
            ]
        )

    return Partition(drawn(shuffled[:half], n_train), drawn(shuffled[half:], n_test))


def too_few_for_folds(n_train_classes: int) -> str | None:
    """Say why folds of so few training classes cannot hold classes apart, or return None."""
    if n_train_classes >= 4:
        return None
    return (
        f"{n_train_classes} training classes: 4 are needed to choose on inner folds, so 8 in all "
        "(7 where their number is odd)"
    )


def unseen_class_folds(y: npt.NDArray[np.int64], n_folds: int, seed: int) -> list[Fold]:
    """Split the training items into folds that hold classes apart; each class validates once.

    A fold validates on two or more classes and learns from all others, which are two or more: there
    are at most half as many folds as classes.  Of more than `MOST_VALIDATED` items so many
    validate.

    Parameters
    ----------
    y : ndarray of shape (n_train,)
        Class numbers, of four or more classes: ask `too_few_for_folds` first.
    n_folds : int
        The most folds.
    """
    classes = np.random.default_rng(seed).permutation(np.unique(y))
    parts = np.array_split(classes, min(n_folds, len(classes) // 2))
    held = [np.isin(y, part) for part in parts]
    return [
        Fold(np.flatnonzero(~validates), _drawn(np.flatnonzero(validates), seed))
        for validates in held
    ]


def _drawn(validate: Indices, seed: int) -> Indices:
    """Return these places, or `MOST_VALIDATED` of them, ascending."""
    if len(validate) <= MOST_VALIDATED:
        return validate
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(validate, MOST_VALIDATED, replace=False))
