"""The splits of what people judged: by text query, reference or rated query, and of pairs.

Groups of judgements share items, so that single judgements cannot be split.  Each group tests once,
in one of several folds, so that no judgement counts twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import JudgedTriplets, Judgements, LabelledRows, Labels, Ratings
from oasis_bench.system import UsageError, derive_seed
from oasis_bench.tasks.ranking import Numbers
from oasis_bench.tasks.split import (
    Classes,
    NotSplittableError,
    Partition,
    Split,
    few_of_each,
    few_per_class,
)
from oasis_bench.tasks.task import CHECHIK, HUANG, WANG


class JudgementsSplit(Split):
    """What the splits of judgements have in common: groups train or test, classes do not matter."""

    unread = ("most_items", "label_budget")
    all_may_test = True

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows without judgements."""
        missing = f"has no judgements to split ({self.name})"
        return super().refusal(rows) if self.judgements(rows) is not None else missing

    def in_words(self) -> str:
        """Return the summary, unless all of them test."""
        return self.summary if self.settings.test_share < 1 else "all judgements test"

    def n_partitions(self, rows: LabelledRows) -> int:
        """Return the number of folds: each group tests in one of them."""
        judgements = self.judgements(rows)
        assert judgements is not None, "refused before"
        return count_folds(judgements, self.settings.test_share)

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Return the most that there can be."""
        return rows.y.shape[0], rows.y.shape[0]

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the share of the groups that test."""
        return 1 / self.n_partitions(rows)

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Hold out a fold of groups; all partitions divide the groups in the same way."""
        judgements, share = self.judgements(rows), self.settings.test_share
        assert judgements is not None, "refused before"
        seed = derive_seed(self.settings.seed, "folds of judgements")
        return draw_fold(judgements, rows.y.shape[0], share, partition, seed)

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the groups of the training judgements."""
        assert judgements is not None, "a training part of judgements has some"
        return group_folds(judgements, y.shape[0], n_folds, seed)


class JudgedSplit(JudgementsSplit):
    """Triplets that people judged, split by text query or reference."""

    name = "judged"
    summary = "whole groups of triplets are either for training or for testing"
    citation = f"{WANG} 6"

    def judgements(self, rows: LabelledRows) -> JudgedTriplets | None:
        """Return the triplets."""
        return rows.judged


class RatedSplit(JudgementsSplit):
    """What people marked as relevant to a query, split by query."""

    name = "rated"
    summary = "test items are some of the queries that people rated, with their candidates"
    citation = f"{CHECHIK} 5.2.3"

    def judgements(self, rows: LabelledRows) -> Ratings | None:
        """Return the ratings."""
        return rows.ratings


def items_are_shared(judgements: Judgements) -> bool:
    """Tell whether more than half of the items that are judged are in several groups.

    Such a set, of every item in many triplets, cannot be split so that no item of a test triplet
    is a training item.  Then only the queries (references) of test judgements are kept from
    training; what they are compared with may have been seen there, in other judgements.
    """
    items = judgements.items
    pairs = np.stack([np.repeat(judgements.groups, items.shape[1]), items.ravel()])
    group_of_item = np.unique(pairs, axis=1)
    _, n_groups = np.unique(group_of_item[1], return_counts=True)
    return bool(np.mean(n_groups > 1) > 0.5)


def count_folds(judgements: Judgements, test_share: float) -> int:
    """Return in how many folds about this share of the groups tests; 1 where all of them do."""
    if test_share == 1:
        return 1
    return max(2, min(round(1 / test_share), len(np.unique(judgements.groups))))


def draw_fold(
    judgements: Judgements, n_items: int, test_share: float, fold: int, seed: int
) -> Partition:
    """Return a fold of groups to test; the other groups, and all items that do not test, train.

    No item of a test judgement is a training item; where `items_are_shared`, no query of one is.

    Items that nobody judged train.  The seed decides the folds, each of which has about the same
    number of groups, at least one.  With ``test_share = 1`` all of them test, and all items train
    without a judgement: for a saved model, which learns nothing.
    """
    if test_share == 1:
        every = np.ones(len(judgements.groups), dtype=np.bool_)
        test = np.unique(judgements.items).astype(np.intp)
        items = np.arange(n_items, dtype=np.intp)
        return Partition(items, test, judgements.part(~every), judgements.among(test))
    groups = _shuffled_groups(judgements, seed)
    tested = np.array_split(groups, count_folds(judgements, test_share))[fold]
    return _hold_out(judgements, n_items, tested, items_are_shared(judgements))


def group_folds(judgements: Judgements, n_items: int, n_folds: int, seed: int) -> list[Partition]:
    """Split training judgements into at most `n_folds` folds of groups; each validates once.

    ``train`` and ``test`` of a fold are what it learns from and what it validates on.
    """
    groups = _shuffled_groups(judgements, seed)
    shared = items_are_shared(judgements)
    parts = np.array_split(groups, min(n_folds, len(groups)))
    folds = [_hold_out(judgements, n_items, part, shared) for part in parts]
    folds = [it for it in folds if _has_preference(it.training) and _has_preference(it.tested)]
    if not folds:
        raise NotSplittableError("no inner fold has untied votes to learn from and to validate on")
    return folds


def _has_preference(judged: Judgements | None) -> bool:
    """Tell whether some triplet has more votes for one side; other judgements have no votes."""
    votes = judged.votes if isinstance(judged, JudgedTriplets) else None
    return votes is None or bool((votes[:, 0] != votes[:, 1]).any())


def _shuffled_groups(judgements: Judgements, seed: int) -> npt.NDArray[np.int64]:
    groups = np.unique(judgements.groups)
    if len(groups) < 2:
        raise UsageError(
            f"all {len(judgements.groups)} judgements are of one text query or reference: give 2"
        )
    return np.random.default_rng(seed).permutation(groups)


def _hold_out(
    judgements: Judgements, n_items: int, test_groups: npt.NDArray[np.int64], shared: bool
) -> Partition:
    tests = np.isin(judgements.groups, test_groups)
    tested = judgements.part(tests)
    test = np.unique(tested.items).astype(np.intp)
    kept_away = np.unique(tested.items[:, 0]) if shared else test
    train = np.setdiff1d(np.arange(n_items), kept_away).astype(np.intp)
    if not len(train):
        raise UsageError(
            f"all {n_items} items are in the judgements that test: lower the share that tests"
        )
    training = judgements.part(~tests).among(train)
    return Partition(train, test, training, tested.among(test))


class PairsSplit(JudgementsSplit):
    """Rows test or train, and with them the pairs of which both rows do; the other pairs are lost.

    Rows that pairs join, also over others, stay together, so that no pair is lost.  Without pairs
    it is the rows of a class, so that test classes are new; of each at most as many rows train and
    test as ``--train`` and ``--test`` say.  But where fewer than four classes, or no
    group, would test, or one has more than half of the rows, each row is drawn for itself.
    """

    name = "pairs"
    summary = "both rows of a pair (or all rows of a class) are for training, or both for testing"
    citation = HUANG
    knows_classes = False

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels without pairs, and folds."""
        if rows.multi_label and rows.ratings is None:
            return "has several labels an item, and no pairs"
        return Split.refusal(self, rows)

    def for_rows(self, rows: LabelledRows) -> Split:
        """Return the split to use on these rows, which knows their classes if it draws rows."""
        split = super().for_rows(rows)
        if rows.ratings is None and not rows.multi_label:
            y: Any = rows.y
            _, sizes = np.unique(y, return_counts=True)
            split.knows_classes = _are_too_few(sizes, 4 * self._n_folds)
        return split

    def judgements(self, rows: LabelledRows) -> Ratings | None:
        """Return the pairs."""
        return rows.ratings

    @property
    def _n_folds(self) -> int:
        return max(2, round(1 / self.settings.test_share))

    def n_partitions(self, rows: LabelledRows) -> int:
        """Return the number of folds of rows."""
        return 1 if self.settings.test_share == 1 else self._n_folds

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Hold out a fold of rows; all partitions divide the rows in the same way."""
        n_folds = self.n_partitions(rows)
        if n_folds == 1:  # for a saved model, which learns nothing
            every = np.arange(rows.y.shape[0])
            if rows.ratings is not None:
                return draw_fold(rows.ratings, len(every), 1, partition, seed)
            return Partition(every, few_of_each(rows.y, every, self.settings.per_class[1], 0))
        seed_of_all = derive_seed(self.settings.seed, "folds of pairs")
        folds = self._folds(rows.y, rows.ratings, n_folds, seed_of_all)
        found = _hold_out_rows(rows.ratings, folds == partition)
        if rows.ratings is not None:
            return found
        return few_per_class(rows.y, found, self.settings.per_class, seed)

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the training rows in the same way."""
        assert not isinstance(judgements, JudgedTriplets)
        folds = self._folds(y, judgements, n_folds, seed)
        return [_hold_out_rows(judgements, folds == fold) for fold in range(n_folds)]

    def _folds(self, y: Any, pairs: Ratings | None, n_folds: int, seed: int) -> Numbers:
        """Return the fold of each item; -1 of an item in no pair, which always trains.

        Where classes are known, and of fewer groups than folds, each item is drawn for itself.
        """
        n_items = y.shape[0]
        held: Numbers = np.arange(n_items)
        together: Any = y
        if pairs is not None:
            together, held = pairs.joined(n_items), np.unique(pairs.items)
        groups, of_group, sizes = np.unique(together[held], return_inverse=True, return_counts=True)
        if self.knows_classes if pairs is None else _are_too_few(sizes, n_folds):
            groups, of_group = held, np.arange(len(held))
        order = np.random.default_rng(seed).permutation(len(groups))
        fold_of_group = np.empty(len(groups), dtype=np.intp)
        for fold, part in enumerate(np.array_split(order, n_folds)):
            fold_of_group[part] = fold
        folds = np.full(n_items, -1)
        folds[held] = fold_of_group[of_group]
        return folds


def _are_too_few(sizes: npt.NDArray[np.int64], least: int) -> bool:
    """Tell whether rows are drawn each for itself in place of groups of these sizes."""
    return len(sizes) < least or bool(2 * sizes.max() > sizes.sum())


def _hold_out_rows(pairs: Ratings | None, tests: npt.NDArray[np.bool_]) -> Partition:
    test, train = np.flatnonzero(tests), np.flatnonzero(~tests)
    if pairs is None:
        return Partition(train, test)
    return Partition(train, test, pairs.among(train), pairs.among(test))
