"""Verification: whether two items are the same, or of one class, by how similar they are."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from oasis_bench.data import FloatArray, LabelledRows, Ratings
from oasis_bench.system import UsageError
from oasis_bench.tasks.ranking import Numbers, refuse_nan
from oasis_bench.tasks.task import HUANG, Evaluation, Measures, Task, Truth

MOST_PAIRS = 2**20
"""Pairs that labels give, at most."""

AUC, EQUAL_ERRORS = "ROC AUC", "1 - equal error rate"
ACCEPTS = {
    "true accepts at 1 % false accepts": 0.01,
    "true accepts at 0.1 % false accepts": 0.001,
}

RELIABILITY, LEAST = "reliability", 10

Share = Annotated[float, Meta(gt=0, lt=1)]

Mask = npt.NDArray[np.bool_]

Pairs = tuple[Numbers, Numbers, Mask]
"""The items of each pair, and whether they are the same."""


def same(ratings: Ratings) -> Mask:
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


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The probability that two items are the same, by isotonic regression on their score.

    Attributes
    ----------
    prior : float
        The default share of pairs of the same among the pairs that are compared.
    scores, balanced : list of float
        The probability at each of these scores, ascending, if half of the pairs are the same:
        linear in between, constant beyond.  It is never 0 or 1, so it always depends on the prior.
    """

    prior: Share
    scores: list[float]
    balanced: list[Share]

    def __post_init__(self) -> None:
        ascend = all((np.diff(it) >= 0).all() for it in (self.scores, self.balanced))
        if not (len(self.scores) == len(self.balanced) > 0 and ascend):
            raise ValueError("scores of pairs need a probability each, and both ascend")

    @classmethod
    def of(cls, scores: FloatArray, same: Mask, prior: float = 0.5) -> Self:
        """Calibrate on pairs.

        To no score all pairs are the same, or none: one pair more of the same has the lowest score,
        and one more of the different the highest.
        """
        from sklearn.isotonic import IsotonicRegression  # here: it is slow to import

        scores, same = np.r_[scores.min(), scores, scores.max()], np.r_[True, same, False]
        share = same.mean()
        steps = IsotonicRegression().fit(scores, same, np.where(same, 1 - share, share))
        return cls(prior, steps.X_thresholds_.tolist(), steps.y_thresholds_.tolist())

    def __call__(self, scores: FloatArray, prior: float | None = None) -> FloatArray:
        """Return the probability of each score, for this share of pairs of the same."""
        prior = self.prior if prior is None else prior
        if not 0 < prior < 1:
            raise UsageError(f"prior = {prior!r}: a share above 0 and below 1 is needed")
        balanced = np.interp(scores, self.scores, self.balanced)
        same, different = prior * balanced, (1 - prior) * (1 - balanced)
        return np.asarray(same / (same + different))


class SameOrDifferent(Evaluation):
    """How well a threshold on the score divides pairs of the same from pairs of different items.

    The score of a pair is the mean of its two directions.
    """

    def __init__(self, pairs: Pairs, n_items: int, measures: Measures = None) -> None:
        kept = Verification.measures if measures is None else tuple(measures)
        super().__init__(n_items, kept)
        left, right, self.same = self._pairs = pairs
        n_same = np.count_nonzero(self.same)
        if n_same in (0, len(left)):
            raise ValueError(
                f"{n_same} of {len(left)} pairs among {n_items} items are 'same', but pairs of "
                "both kinds are needed: give more pairs or more items"
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

    @property
    def scores(self) -> FloatArray:
        """The score of each pair."""
        return np.asarray(self._scores.reshape(2, -1).sum(axis=0))

    @cached_property
    def tenths(self) -> FloatArray:
        """Share of the same, and mean probability (2, 10) in tenths of pairs, likely ones last.

        Items are halved at random: pairs of one half calibrate, and those of the other are divided.
        The same and the different have equal weight.  (2, 0) for fewer than `LEAST` of either.
        """
        (left, right, same), rng = self._pairs, np.random.default_rng(0)
        in_first = (rng.random(len(self._came)) < 0.5)[np.array([left, right])]
        first, second = np.flatnonzero(in_first.all(axis=0)), np.flatnonzero(~in_first.any(axis=0))
        kinds = [np.count_nonzero(it[half]) for it in (same, ~same) for half in (first, second)]
        if min(kinds) < LEAST:
            return np.empty((2, 0))
        known = Calibration.of(self.scores[first], same[first])
        second = second[np.lexsort((rng.random(len(second)), self.scores[second]))]
        same, p = same[second], known(self.scores[second])
        w = np.where(same, 1 - same.mean(), same.mean())
        tenth = (10 * (w.cumsum() - w / 2) / w.sum()).astype(np.int64)
        return np.array([np.bincount(tenth, w * it) / np.bincount(tenth, w) for it in (same, p)])

    def curve(self) -> tuple[Numbers, Numbers]:
        """Return how many pairs of different, and of the same items, each threshold accepts."""
        order = np.argsort(-self.scores)
        scores = self.scores[order]
        ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
        accepted = np.cumsum(self.same[order])[ends]
        return np.append(0, ends + 1 - accepted), np.append(0, accepted)

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the value, of this threshold or of all."""
        if measure == RELIABILITY:
            return dict(enumerate(self.tenths[0].tolist(), 1))
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
        """Return what a random order gives: a pair lies in any gap between the others as often.

        For the reliability, the mean probability of each tenth.
        """
        if measure == RELIABILITY:
            return dict(enumerate(self.tenths[1].tolist(), 1))
        n_false = int(np.count_nonzero(~self.same))
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
    those given, or of labels all pairs of test items, at most 2^20 at random.  Reliability is a
    curve that tunes nothing: the share of the same in tenths of the pairs, by their `Calibration`.
    """

    name = "verification"
    summary = "pairs of the same item, or class, should score above pairs of different ones"
    citation = HUANG
    split = "pairs"
    gallery = "test"
    measures = (AUC, EQUAL_ERRORS, *ACCEPTS, RELIABILITY)
    ks: ClassVar = {RELIABILITY: tuple(range(1, 11))}
    of_data = (RELIABILITY,)

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
