"""Verification: whether two items are the same, or of one class, by how similar they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from oasis_bench.data import JudgedTriplets, Judgements, LabelledRows, Labels, Ratings
from oasis_bench.system import derive_seed
from oasis_bench.tasks.judged_tasks import JudgementsSplit
from oasis_bench.tasks.ranking import Numbers, Scores, refuse_nan
from oasis_bench.tasks.split import Classes, Partition, Split
from oasis_bench.tasks.task import Evaluation, Task, Truth

FACES = (
    "Huang, Ramesh, Berg & Learned-Miller (2007), Labeled Faces in the Wild, University of "
    "Massachusetts, technical report 07-49"
)

MOST_PAIRS = 2**20
"""Pairs that labels give, at most."""

AUC, EQUAL_ERRORS = "ROC AUC", "1 - equal error rate"
ACCEPTS = {
    "true accepts at 1 % false accepts": 0.01,
    "true accepts at 0.1 % false accepts": 0.001,
}

Pairs = tuple[Numbers, Numbers, npt.NDArray[np.bool_]]
"""The items of each pair, and whether they are the same."""


def same(ratings: Ratings) -> npt.NDArray[np.bool_]:
    """Tell of each pair whether most people, or the one, said that its items are the same."""
    return np.asarray(ratings.marks.mean(axis=1) > 0.5)


def pairs_of_labels(y: npt.NDArray[np.int64]) -> Pairs:
    """Return all pairs of items, or `MOST_PAIRS`: as many of one class as of two, at random."""
    n = len(y)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        left, right = np.triu_indices(n, 1)
        return left, right, y[left] == y[right]
    rng = np.random.default_rng(0)
    order = np.argsort(y, kind="stable")
    _, starts, sizes = np.unique(y[order], return_index=True, return_counts=True)
    of_class = sizes * (sizes - 1.0)
    drawn = rng.choice(len(sizes), MOST_PAIRS // 2, p=of_class / max(of_class.sum(), 1.0))
    first, second = rng.integers(sizes[drawn]), rng.integers(sizes[drawn] - 1)
    alike = [order[starts[drawn] + place] for place in (first, second + (second >= first))]
    others = rng.integers(n, size=(2, MOST_PAIRS // 2))
    unlike = others[:, y[others[0]] != y[others[1]]]
    left, right = np.concatenate([alike, unlike], axis=1)
    return left, right, np.arange(len(left)) < MOST_PAIRS // 2


class PairsSplit(JudgementsSplit):
    """Rows test or train, and with them the pairs of which both rows do; the other pairs are lost.

    Rows that pairs join, also over others, stay together, so that no pair is lost.  Without pairs
    it is the rows of a class, so that test classes are new; of each at most as many rows train and
    test as ``--train`` and ``--test`` say.  But where fewer than four classes, or no
    group, would test, or one has more than half of the rows, each row is drawn for itself.
    """

    name = "pairs"
    summary = (
        "rows that pairs join (or of one class) train or test together; pairs count on one side"
    )
    citation = FACES

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels without pairs, and folds."""
        if rows.multi_label and rows.ratings is None:
            return "has several labels an item, and no pairs"
        return Split.refusal(self, rows)

    def judgements(self, rows: LabelledRows) -> Ratings | None:
        """Return the pairs."""
        return rows.ratings

    def n_partitions(self, rows: LabelledRows) -> int:
        """Return the number of folds of rows."""
        share = self.settings.test_share
        return 1 if share == 1 else max(2, round(1 / share))

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Hold out a fold of rows; all partitions divide the rows in the same way."""
        n_folds = self.n_partitions(rows)
        if n_folds == 1:  # for a saved model, which learns nothing
            every = np.arange(rows.y.shape[0])
            if rows.ratings is None:
                return Partition(every, _few_of_each(rows.y, every, self.settings.per_class[1], 0))
            test = np.unique(rows.ratings.items)
            nothing = rows.ratings.part(np.zeros(len(rows.ratings.queries), dtype=np.bool_))
            return Partition(every, test, nothing, rows.ratings.among(test))
        folds = _folds(
            rows.y,
            rows.ratings,
            n_folds,
            4 * n_folds,
            derive_seed(self.settings.seed, "folds of pairs"),
        )
        found = _hold_out(rows.ratings, folds == partition)
        if rows.ratings is not None:
            return found
        train, test = (
            _few_of_each(rows.y, part, n, seed)
            for part, n in zip(found[:2], self.settings.per_class, strict=True)
        )
        return Partition(train, test)

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the training rows in the same way."""
        assert not isinstance(judgements, JudgedTriplets)
        share = self.settings.test_share
        least = round(4 / share) - 4 if share < 1 else 4  # groups that are left of as many
        folds = _folds(y, judgements, n_folds, least, seed)
        return [_hold_out(judgements, folds == fold) for fold in range(n_folds)]


def _folds(y: Any, pairs: Ratings | None, n_folds: int, least: int, seed: int) -> Numbers:
    """Return the fold of each item; -1 of an item in no pair, which always trains.

    Of fewer groups than folds, of classes than `least`, each item is drawn for itself.
    """
    n_items = y.shape[0]
    held: Numbers = np.arange(n_items)
    together: Any = y
    if pairs is not None:
        left, right = pairs.items.T
        graph = sparse.coo_array((np.ones(len(left)), (left, right)), shape=(n_items, n_items))
        _, together = connected_components(graph, directed=False)
        held, least = np.unique(pairs.items), n_folds
    groups, of_group, sizes = np.unique(together[held], return_inverse=True, return_counts=True)
    if len(groups) < least or 2 * sizes.max() > len(held):
        groups, of_group = held, np.arange(len(held))
    order = np.random.default_rng(seed).permutation(len(groups))
    fold_of_group = np.empty(len(groups), dtype=np.intp)
    for fold, part in enumerate(np.array_split(order, n_folds)):
        fold_of_group[part] = fold
    folds = np.full(n_items, -1)
    folds[held] = fold_of_group[of_group]
    return folds


def _hold_out(pairs: Ratings | None, tests: npt.NDArray[np.bool_]) -> Partition:
    test, train = np.flatnonzero(tests), np.flatnonzero(~tests)
    if pairs is None:
        return Partition(train, test)
    tested, training = pairs.among(test), pairs.among(train)
    n_dropped = len(pairs.queries) - len(tested.queries) - len(training.queries)
    return Partition(train, test, training, tested, n_dropped)


def _few_of_each(y: Any, rows: Numbers, most: int, seed: int) -> Numbers:
    """Return these rows, of each class at most so many, drawn at random."""
    drawn = np.random.default_rng(seed).permutation(rows)
    drawn = drawn[np.argsort(y[drawn], kind="stable")]
    _, starts, sizes = np.unique(y[drawn], return_index=True, return_counts=True)
    return np.sort(drawn[np.arange(len(drawn)) - np.repeat(starts, sizes) < most])


class SameOrDifferent(Evaluation):
    """How well a threshold on the score divides pairs of the same from pairs of different items.

    The score of a pair is the mean of its two directions.
    """

    def __init__(self, pairs: Pairs, n_items: int, measures: Collection[str] | None = None) -> None:
        kept = Verification.measures if measures is None else tuple(measures)
        super().__init__(n_items, n_items, kept)
        left, right, self._same = pairs
        n_same = np.count_nonzero(self._same)
        if n_same in (0, len(left)):
            raise ValueError(
                f"{n_same} of {len(left)} pairs among {n_items} items are of the same: some are "
                "needed and some of different ones: give more pairs or a larger --test-share"
            )
        self.n_queries = len(np.unique([left, right]))
        self.n_left_out = n_items - self.n_queries
        rows = np.concatenate([left, right])
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._columns = rows[self._order], np.concatenate([right, left])[self._order]
        self._scores = np.zeros(len(rows))

    def judge(self, start: int, scores: Scores) -> None:
        """Keep the scores of the pairs with an item in the block."""
        refuse_nan(int(np.isnan(scores).sum()), scores)
        first, last = np.searchsorted(self._rows, (start, start + len(scores)))
        found = scores[self._rows[first:last] - start, self._columns[first:last]]
        self._scores[self._order[first:last]] = found / 2

    def curve(self) -> tuple[Numbers, Numbers]:
        """Return how many pairs of different, and of the same items, each threshold accepts."""
        scores = self._scores.reshape(2, -1).sum(axis=0)
        order = np.argsort(-scores)
        ends = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)
        accepted = np.cumsum(self._same[order])[ends]
        return np.append(0, ends + 1 - accepted), np.append(0, accepted)

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the value, of this threshold or of all."""
        false, true = self.curve()
        n_false, n_true = int(false[-1]), int(true[-1])
        if measure == AUC:
            return {None: float(np.trapezoid(true, false) / n_true / n_false)}
        if measure == EQUAL_ERRORS:  # where as large a share of the same is lost
            share = true / n_true
            return {None: float(np.interp(0, share + false / n_false - 1, share))}
        within = np.searchsorted(false, _n_accepted(measure, n_false), side="right") - 1
        return {None: float(true[within] / n_true)}

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return what a random order gives: a pair lies in any gap between the others as often."""
        n_false = int(np.count_nonzero(~self._same))
        if measure not in ACCEPTS:
            return {None: 0.5}
        return {None: (_n_accepted(measure, n_false) + 1) / (n_false + 1)}


def _n_accepted(measure: str, n_false: int) -> int:
    """Return how many pairs of different items may be accepted."""
    return int(ACCEPTS[measure] * n_false + 1e-9)


class Verification(Task):
    """Two items are given: are they the same, or of one class?  Yes, where their score is high.

    ROC AUC is the probability that a pair of the same scores above one of different items.  At the
    equal error rate as large a share of the one is refused as of the other is accepted; 1 less it
    is shown, as larger is better.  True accepts are the share of pairs of the same that is accepted
    where the threshold accepts at most 1 % or 0.1 % of those of different items.  The pairs are
    those given, or of labels all pairs of test items, at most 2^20 at random.
    """

    name = "verification"
    summary = "pairs of the same item, or class, should score above pairs of different ones"
    citation = FACES
    split = "pairs"
    gallery = "test"
    measures = (AUC, EQUAL_ERRORS, *ACCEPTS)
    ks: ClassVar = {}

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels without pairs."""
        several = rows.multi_label and rows.ratings is None
        return "its rows have several labels, not one class each, and no pairs" if several else None

    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> SameOrDifferent:
        """Make the evaluation; `truth` holds the pairs, or the labels, of the test items."""
        if truth.ratings is not None:
            pairs: Pairs = (*truth.ratings.items.T, same(truth.ratings))
        elif isinstance(truth.y, np.ndarray):
            pairs = pairs_of_labels(truth.y)
        else:
            raise ValueError("pairs or one class of each test item are needed")
        return SameOrDifferent(pairs, n_gallery, measures)
