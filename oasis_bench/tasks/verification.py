"""Verification: whether two items are the same, or of one class, by how similar they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray, LabelledRows, Ratings
from oasis_bench.system import spelled
from oasis_bench.tasks.ranking import Numbers, refuse_nan
from oasis_bench.tasks.task import HUANG, Evaluation, Measures, Task, Truth

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


def pairs_of_labels(y: npt.NDArray[np.int64], groups: npt.NDArray[np.int64] | None = None) -> Pairs:
    """Return all pairs of items, or `MOST_PAIRS` at random: half of one class, half of two.

    Pairs of one group are left out.
    """
    left, right = _drawn_pairs(y)
    if groups is not None:
        is_asked = groups[left] != groups[right]
        left, right = left[is_asked], right[is_asked]
    return left, right, y[left] == y[right]


def _drawn_pairs(y: npt.NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    n = len(y)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        return np.triu_indices(n, 1)
    rng = np.random.default_rng(0)
    order = np.argsort(y, kind="stable")
    _, starts, sizes = np.unique(y[order], return_index=True, return_counts=True)

    def classes_of_firsts(weights: Numbers) -> Numbers:
        if not weights.any():
            return np.empty(0, np.int64)
        return rng.choice(len(sizes), MOST_PAIRS // 2, p=weights / weights.sum())

    drawn = classes_of_firsts(sizes * (sizes - 1))
    first, second = rng.integers(sizes[drawn]), rng.integers(sizes[drawn] - 1)
    alike = [order[starts[drawn] + place] for place in (first, second + (second >= first))]
    drawn = classes_of_firsts(sizes * (n - sizes))
    first, second = rng.integers(sizes[drawn]), rng.integers(n - sizes[drawn])
    second += sizes[drawn] * (second >= starts[drawn])
    unlike = [order[starts[drawn] + first], order[second]]
    left, right = np.concatenate([alike, unlike], axis=1)
    return left, right


class SameOrDifferent(Evaluation):
    """How well a threshold on the score divides pairs of the same from pairs of different items.

    The score of a pair is the mean of its two directions.
    """

    def __init__(self, pairs: Pairs, n_items: int, measures: Measures = None) -> None:
        kept = Verification.measures if measures is None else tuple(measures)
        super().__init__(n_items, kept)
        left, right, self._same = pairs
        n_same = np.count_nonzero(self._same)
        if n_same in (0, len(left)):
            raise ValueError(
                f"{n_same} of {len(left)} pairs among {n_items} items are 'same', but pairs of "
                f"both kinds are needed: give more pairs or a larger {spelled('test_share')}"
            )
        self.n_queries = len(np.unique([left, right]))
        self.n_left_out = n_items - self.n_queries
        rows = np.concatenate([left, right])
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._columns = rows[self._order], np.concatenate([right, left])[self._order]
        self._scores = np.zeros(len(rows))

    def judge(self, start: int, scores: FloatArray) -> None:
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
    citation = HUANG
    split = "pairs"
    gallery = "test"
    measures = (AUC, EQUAL_ERRORS, *ACCEPTS)
    ks: ClassVar = {}

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels without pairs."""
        several = rows.multi_label and rows.ratings is None
        return "its rows have several labels, not one class each, and no pairs" if several else None

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> SameOrDifferent:
        """Make the evaluation; `truth` holds the pairs, or the labels, of the test items."""
        if truth.ratings is not None:
            pairs: Pairs = (*truth.ratings.items.T, same(truth.ratings))
        else:
            pairs = pairs_of_labels(np.asarray(truth.y), truth.groups)
        return SameOrDifferent(pairs, len(ties), measures)
