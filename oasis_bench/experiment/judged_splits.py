"""Splits of what people judged: by text query, reference or rated query, never by triplet.

Groups of judgements share items, so that single judgements cannot be split.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Judgements
from oasis_bench.experiment.splits import Indices
from oasis_bench.system import UsageError


class JudgedPartition(NamedTuple):
    """One split of items and of the judgements of them.

    Attributes
    ----------
    train, test : ndarray of int
        Item numbers, ascending.  Where items are shared (see `items_are_shared`), an item may be
        in both, but then it is the query of no test judgement.
    training : JudgedTriplets or Ratings
        Judgements whose items are all training items, renumbered to their places in `train`.
    tested : JudgedTriplets or Ratings
        The judgements that test, renumbered to their places in `test`.
    n_dropped : int
        Judgements of training groups that are left out because an item of theirs tests.
    """

    train: Indices
    test: Indices
    training: Judgements
    tested: Judgements
    n_dropped: int


def items_are_shared(judgements: Judgements) -> bool:
    """Tell whether more than half of the items that are judged are in several groups.

    Such a set, of every item in many triplets, cannot be split so that no item of a test triplet
    is a training item.  Then only the queries (references) of test judgements are kept from
    training; what they are compared with may have been seen there, in other judgements.
    """
    pairs = np.stack([np.repeat(judgements.groups, judgements.items.shape[1]), _flat(judgements)])
    group_of_item = np.unique(pairs, axis=1)
    _, n_groups = np.unique(group_of_item[1], return_counts=True)
    return bool(np.mean(n_groups > 1) > 0.5)


def draw_groups(
    judgements: Judgements, n_items: int, test_share: float, seed: int
) -> JudgedPartition:
    """Draw groups at random to test; the other groups, and all items that do not test, train.

    No item of a test judgement is a training item; where `items_are_shared`, no query of one is.

    Parameters
    ----------
    judgements : JudgedTriplets or Ratings
    n_items : int
        Items of the data set; those that nobody judged train.
    test_share : float
        Share of the groups that test; at least one tests and one trains.  1: all of them test, and
        all items are in ``train`` without a judgement, for a saved model, which learns nothing.
    seed : int

    Raises
    ------
    UsageError
        Where all judgements are of one group, or no item is left to train.
    """
    if test_share == 1:
        every = np.ones(len(judgements.groups), dtype=np.bool_)
        test = np.unique(_flat(judgements)).astype(np.intp)
        items = np.arange(n_items, dtype=np.intp)
        return JudgedPartition(items, test, judgements.part(~every), judgements.among(test), 0)
    groups = _shuffled_groups(judgements, seed)
    n_test = min(max(1, round(test_share * len(groups))), len(groups) - 1)
    return _hold_out(judgements, n_items, groups[:n_test], items_are_shared(judgements))


def group_folds(
    judgements: Judgements, n_items: int, n_folds: int, seed: int
) -> list[JudgedPartition]:
    """Split training judgements into at most `n_folds` folds of groups; each validates once.

    Parameters and errors as in `draw_groups`; ``train`` and ``test`` of each are what it learns
    from and what it validates on.
    """
    groups = _shuffled_groups(judgements, seed)
    shared = items_are_shared(judgements)
    parts = np.array_split(groups, min(n_folds, len(groups)))
    return [_hold_out(judgements, n_items, part, shared) for part in parts]


def _shuffled_groups(judgements: Judgements, seed: int) -> npt.NDArray[np.int64]:
    groups = np.unique(judgements.groups)
    if len(groups) < 2:
        raise UsageError(
            f"all {len(judgements.groups)} judgements are of one text query or reference: 2 are "
            "needed, to train and to test"
        )
    return np.random.default_rng(seed).permutation(groups)


def _hold_out(
    judgements: Judgements, n_items: int, test_groups: npt.NDArray[np.int64], shared: bool
) -> JudgedPartition:
    tests = np.isin(judgements.groups, test_groups)
    tested = judgements.part(tests)
    test = np.unique(_flat(tested)).astype(np.intp)
    kept_away = np.unique(tested.items[:, 0]) if shared else test
    train = np.setdiff1d(np.arange(n_items), kept_away).astype(np.intp)
    if not len(train):
        raise UsageError(
            f"all {n_items} items are in the judgements that test: lower the share that tests"
        )
    training = judgements.part(~tests).among(train)
    n_dropped = int(np.count_nonzero(~tests)) - len(training.items)
    return JudgedPartition(train, test, training, tested.among(test), n_dropped)


def _flat(judgements: Judgements) -> npt.NDArray[np.int64]:
    return np.asarray(judgements.items.ravel())
