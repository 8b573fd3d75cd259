"""The tasks of what people judged: triplets of items, and the marks of several raters."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray, JudgedTriplets, LabelledRows, Ratings
from oasis_bench.tasks.ranking import Numbers, places, refuse_nan
from oasis_bench.tasks.task import CHECHIK, WANG, Evaluation, GroupSum, Measures, Task, Truth

TOP_KS = (30, 3)
"""30 is the paper's, of 1000 pictures a text query; the data sets here have about 11."""

PRECISION, AT_TOP_K = "similarity precision", "score at top K"
AGREEMENT, CEILING, HUMAN = "agreement", "ceiling", "human level"
OF_TRIPLETS = (PRECISION, AGREEMENT)
"""The measures that are means over triplets."""

Floats = npt.NDArray[np.float64]


class TripletAnswers(Evaluation):
    """Which of two items the scores put nearer to the query, triplet by triplet.

    Item numbers are places among the items that are scored.  With votes, the positive is the item
    of more votes; a triplet of equal votes has none and counts for measures of votes alone.
    """

    def __init__(self, judged: JudgedTriplets, ties: Numbers, measures: Measures = None) -> None:
        kept = _possible_measures(judged) if measures is None else measures
        super().__init__(len(ties), tuple(kept))
        self.n_queries = len(np.unique(judged.items[:, 0]))
        self._place = places(ties)
        self._queries, self._a, self._b = judged.items.T
        self._votes = judged.votes
        self._sign = (
            np.ones(len(judged.items), dtype=np.int64)
            if judged.votes is None
            else np.sign(judged.votes[:, 0] - judged.votes[:, 1])
        )
        self._order = np.argsort(self._queries, kind="stable")
        self._preferred = np.zeros(len(judged.items), dtype=np.int64)
        self._at_top = np.zeros((len(TOP_KS), len(judged.items)), dtype=np.int64)
        self._groups = judged.groups
        self._items_of_group = {
            group: np.unique(judged.items[judged.groups == group])
            for group in (np.unique(judged.groups) if AT_TOP_K in self.kept else ())
        }

    def judge(self, start: int, scores: FloatArray) -> None:
        """Compare the two scores of each triplet whose query is in the block."""
        refuse_nan(int(np.isnan(scores).sum()), scores)
        block = start, start + len(scores)
        first, last = np.searchsorted(self._queries, block, sorter=self._order)
        mine = self._order[first:last]
        rows = self._queries[mine] - start
        to_a, to_b = scores[rows, self._a[mine]], scores[rows, self._b[mine]]
        self._preferred[mine] = (to_a > to_b).astype(np.int64) - (to_a < to_b)
        if AT_TOP_K in self.kept:
            for triplet, row in zip(mine, rows, strict=True):
                self._at_top[:, triplet] = self._score_at_top(int(triplet), scores[row])

    def _score_at_top(self, triplet: int, scores: FloatArray) -> list[int]:
        """Return, for each K, +1 or -1 where a or b is among the K nearest of its group, else 0."""
        items = self._items_of_group[self._groups[triplet]]
        items = items[items != self._queries[triplet]]
        s, place = scores[items], self._place[items]
        before_a, before_b = (
            np.count_nonzero((s > scores[i]) | ((s == scores[i]) & (place < self._place[i])))
            for i in (self._a[triplet], self._b[triplet])
        )
        sign = int(np.sign(before_b - before_a))
        return [sign if min(before_a, before_b) < k else 0 for k in TOP_KS]

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the value; NaN where no triplet counts."""
        if measure == AT_TOP_K:
            sums = (self._at_top * self._sign).sum(axis=1)
            return dict(zip(TOP_KS, sums.astype(float).tolist(), strict=True))
        if measure in OF_TRIPLETS:
            values = self._of_each(measure)
            return {None: _mean(values[~np.isnan(values)])}
        assert self._votes is not None
        a, b = self._votes.T
        n = a + b
        if measure == CEILING:
            return {None: _mean(np.maximum(a, b) / n)}
        several = n > 1
        a, b, n = a[several], b[several], n[several]
        return {None: _mean((a * (a - 1) + b * (b - 1)) / (n * (n - 1)))}

    def _of_each(self, measure: str) -> Floats:
        """Return the similarity precision or agreement of each triplet, NaN where none counts."""
        if measure == PRECISION:
            right = (1 + self._sign * self._preferred) / 2
            return np.where(self._sign == 0, np.nan, right)
        assert self._votes is not None
        a, b = self._votes.T
        return np.asarray((1 + self._preferred * (a - b) / (a + b)) / 2)

    def of_groups(self) -> list[GroupSum]:
        """Return the sums of similarity precision and agreement, a text query or reference each."""
        groups, place = np.unique(self._groups, return_inverse=True)
        found = []
        for measure in (one for one in OF_TRIPLETS if one in self.kept):
            values = self._of_each(measure)
            counts = np.bincount(place, ~np.isnan(values)).astype(int).tolist()
            sums = np.bincount(place, np.nan_to_num(values)).tolist()
            each = zip(groups.tolist(), counts, sums, strict=True)
            found += [GroupSum(measure, None, group, n, value) for group, n, value in each if n]
        return found

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return what a random order gives: as often right as wrong."""
        known: dict[str, dict[int | None, float]] = {
            PRECISION: {None: 0.5},
            AT_TOP_K: dict.fromkeys(TOP_KS, 0.0),
            AGREEMENT: {None: 0.5},
        }
        return known.get(measure, {})


def _possible_measures(judged: JudgedTriplets) -> tuple[str, ...]:
    """Leave out what is of votes where there are none."""
    of_votes = () if judged.votes is not None else (AGREEMENT, CEILING, HUMAN)
    return tuple(name for name in JudgedTripletsTask.measures if name not in of_votes)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else np.nan


class JudgedTripletsTask(Task):
    """Triplets that people judged: the item that they chose should be the more similar one.

    Similarity precision is the share of triplets in which it is; equal scores count a half.
    Score at top K (Wang et al., 6.3) ranks, for each query, the items of its group; a triplet with
    an item among the first K counts +1 where the chosen item comes first, else -1; the score is
    their sum.  With votes: agreement is the mean over triplets of the share of the votes that the
    answer got (equal scores: half of each), the ceiling that of the largest share, and the human
    level that of a voter's agreement with the triplet's other voters.
    """

    name = "judged-triplets"
    summary = "the item that people find more similar to the query should score higher"
    citation = (
        f"{WANG} 6.3; votes: Lagunas et al. (2019), A Similarity Measure for Material Appearance, "
        "ACM Transactions on Graphics 38"
    )
    split = "judged"
    gallery = "test"
    measures = (PRECISION, AT_TOP_K, AGREEMENT, CEILING, HUMAN)
    ks: ClassVar = {AT_TOP_K: TOP_KS}
    ranges: ClassVar = {AT_TOP_K: (-np.inf, np.inf)}
    of_data = (CEILING, HUMAN)

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a data set without judged triplets."""
        return "it has no triplets judged by people" if rows.judged is None else None

    def measures_of(self, rows: LabelledRows) -> tuple[str, ...]:
        """Return all measures, or those that need no votes."""
        return self.measures if rows.judged is None else _possible_measures(rows.judged)

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> TripletAnswers:
        """Make the evaluation; `truth` holds the triplets among the test items."""
        if truth.judged is None or not len(truth.judged.items):
            raise ValueError("there is no judged triplet among the test items")
        return TripletAnswers(truth.judged, ties, measures)


LAST_K = 50
MARKED, ERROR = "precision", "standard error over raters"


class RatedCandidates(Evaluation):
    """Ranks the rated candidates of each query and averages the raters' marks of the first k.

    Item numbers are places among the items that are scored.  The curves end at the number of
    candidates of the query that has the fewest; of one rater there is no human level and no error.
    """

    def __init__(self, ratings: Ratings, ties: Numbers, measures: Measures = None) -> None:
        n_raters = ratings.marks.shape[1]
        possible = RatingsTask.measures if n_raters > 1 else (MARKED,)
        super().__init__(len(ties), possible if measures is None else tuple(measures))
        self._place = places(ties)
        order = np.argsort(ratings.queries, kind="stable")
        self._queries, starts = np.unique(ratings.queries[order], return_index=True)
        self._groups = ratings.groups[order][starts]
        self._candidates = np.split(ratings.candidates[order], starts[1:])
        self._marks = np.split(ratings.marks[order].astype(float), starts[1:])
        self.n_queries = len(self._queries)
        last = min(LAST_K, *map(len, self._marks))
        self._ks = np.arange(1, last + 1)
        self._by_rater = np.full((self.n_queries, last, n_raters), np.nan)

    def judge(self, start: int, scores: FloatArray) -> None:
        """Rank the candidates of each query of the block."""
        refuse_nan(int(np.isnan(scores).sum()), scores)
        first, last = np.searchsorted(self._queries, (start, start + len(scores)))
        for i in range(first, last):
            candidates = self._candidates[i]
            to_them = scores[self._queries[i] - start, candidates]
            best = np.lexsort((self._place[candidates], -to_them))[: len(self._ks)]
            marked = self._marks[i][best].cumsum(axis=0)
            self._by_rater[i] = marked / self._ks[:, None]

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the mean over queries and raters, or its error over raters, at each k."""
        if measure == HUMAN:
            return self._at_each_k(
                np.mean([human_level(marks, len(self._ks)) for marks in self._marks], axis=(0, 2))
            )
        by_rater = self._by_rater.mean(axis=0)
        if measure == MARKED:
            return self._at_each_k(by_rater.mean(axis=1))
        n_raters = by_rater.shape[1]
        return self._at_each_k(by_rater.std(axis=1, ddof=1) / np.sqrt(n_raters))

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return, for precision, the mean over queries of the share of marks."""
        if measure != MARKED:
            return {}
        share = np.mean([marks.mean() for marks in self._marks])
        return self._at_each_k(np.full(len(self._ks), share))

    def of_groups(self) -> list[GroupSum]:
        """Return the precision at each k of each query, a mean over raters."""
        if MARKED not in self.kept:
            return []
        of_queries = zip(self._groups.tolist(), self._by_rater.mean(axis=2).tolist(), strict=True)
        return [
            GroupSum(MARKED, k, query, 1, value)
            for query, values in of_queries
            for k, value in enumerate(values, start=1)
        ]

    def _at_each_k(self, values: Floats) -> dict[int | None, float]:
        return {int(k): float(value) for k, value in zip(self._ks, values, strict=True)}


def human_level(marks: Floats, last: int) -> Floats:
    """Return the precision at k = 1 to `last` of each rater, judged by the others (JMLR 5.2.3).

    A rater ranks what he marked as relevant first, in a random order, and then the rest: this is
    the mean over these orders.  A candidate is as relevant as the share of the others who marked
    it so.  From marks (n_candidates, n_raters) of one query, 1, 0 or NaN, to (last, n_raters), NaN
    beyond the number of candidates that the rater and another one marked.
    """
    levels = np.full((last, marks.shape[1]), np.nan)
    for rater, own in enumerate(marks.T):
        others = np.delete(marks, rater, axis=1)
        both = ~np.isnan(own) & (~np.isnan(others)).any(axis=1)
        if not both.any():
            continue
        by_others = np.nanmean(others[both], axis=1)
        chosen = own[both] == 1
        ks = np.arange(1, min(last, len(chosen)) + 1)
        first = np.minimum(ks, chosen.sum())
        means = [by_others[part].mean() if part.any() else 0.0 for part in (chosen, ~chosen)]
        levels[: len(ks), rater] = (first * means[0] + (ks - first) * means[1]) / ks
    return levels


class RatingsTask(Task):
    """Candidates of a query, each marked by several people as relevant or not.

    Precision at k is the mean, over queries, raters and the first k candidates, of the marks; its
    standard error is over raters.  The human level is the precision at k of a rater's own choice
    (what he marked, then the rest), judged by the other raters.
    """

    name = "ratings"
    summary = "the candidates that most people find relevant should rank first"
    citation = f"{CHECHIK} 5.2.3"
    split = "rated"
    gallery = "test"
    measures = (MARKED, HUMAN, ERROR)
    ks = dict.fromkeys(measures, tuple(range(1, LAST_K + 1)))
    of_data = (HUMAN, ERROR)

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a data set without ratings."""
        return "it has no ratings by people" if rows.ratings is None else None

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> RatedCandidates:
        """Make the evaluation; `truth` holds the ratings of the test items."""
        if truth.ratings is None or not len(truth.ratings.queries):
            raise ValueError("there is no rated candidate among the test items")
        return RatedCandidates(truth.ratings, ties, measures)
