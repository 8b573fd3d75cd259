"""The task of ratings: how many people find relevant what a similarity ranks first."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows, Ratings
from oasis_bench.tasks.ranking import Numbers, Scores, places, refuse_nan
from oasis_bench.tasks.task import Evaluation, Task, Truth

Floats = npt.NDArray[np.float64]

LAST_K = 50
PRECISION, HUMAN, ERROR = "precision", "human level", "standard error over raters"


class RatedCandidates(Evaluation):
    """Ranks the rated candidates of each query and averages the raters' marks of the first k.

    Parameters
    ----------
    ratings : Ratings
        Item numbers are places among the items that are scored; at least one row.  The curves end
        at the number of candidates of the query that has the fewest.
    ties : ndarray of shape (n_items,)
        The order of candidates of equal score.
    measures : collection of str, optional
        By default all that there are: of one rater there is no human level and no error.
    """

    def __init__(
        self, ratings: Ratings, ties: Numbers, measures: Collection[str] | None = None
    ) -> None:
        n_raters = ratings.marks.shape[1]
        possible = RatingsTask.measures if n_raters > 1 else (PRECISION,)
        super().__init__(len(ties), len(ties), possible if measures is None else tuple(measures))
        if missing := [name for name in self.kept if name not in possible]:
            raise ValueError(f"{missing[0]}: several raters are needed, and there is one")
        self._place = places(ties)
        order = np.argsort(ratings.queries, kind="stable")
        self._queries, starts = np.unique(ratings.queries[order], return_index=True)
        self._candidates = np.split(ratings.candidates[order], starts[1:])
        self._marks = np.split(ratings.marks[order].astype(float), starts[1:])
        self.n_queries = len(self._queries)
        last = min(LAST_K, *map(len, self._marks))
        self._ks = np.arange(1, last + 1)
        self._by_rater = np.full((self.n_queries, last, n_raters), np.nan)

    def judge(self, start: int, scores: Scores) -> None:
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
            return self._at_each_k(np.mean([self._human(marks) for marks in self._marks], axis=0))
        by_rater = self._by_rater.mean(axis=0)
        if measure == PRECISION:
            return self._at_each_k(by_rater.mean(axis=1))
        n_raters = by_rater.shape[1]
        return self._at_each_k(by_rater.std(axis=1, ddof=1) / np.sqrt(n_raters))

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return, for precision, the mean over queries of the share of marks."""
        if measure != PRECISION:
            return {}
        share = np.mean([marks.mean() for marks in self._marks])
        return self._at_each_k(np.full(len(self._ks), share))

    def _human(self, marks: Floats) -> Floats:
        """Return the precision at each k of the raters of one query, judged by the others.

        A rater ranks what he marked first, in a random order, and then the rest.
        """
        n_raters = marks.shape[1]
        by_others = (marks.sum(axis=1, keepdims=True) - marks) / (n_raters - 1)
        n_marked = marks.sum(axis=0)
        in_marked = (by_others * marks).sum(axis=0) / np.maximum(n_marked, 1)
        in_rest = (by_others * (1 - marks)).sum(axis=0) / np.maximum(len(marks) - n_marked, 1)
        from_marked = np.minimum(self._ks[:, None], n_marked)
        from_rest = self._ks[:, None] - from_marked
        chosen = (from_marked * in_marked + from_rest * in_rest) / self._ks[:, None]
        return np.asarray(chosen.mean(axis=1))

    def _at_each_k(self, values: Floats) -> dict[int | None, float]:
        return {int(k): float(value) for k, value in zip(self._ks, values, strict=True)}


class RatingsTask(Task):
    """Candidates of a query, each marked by several people as relevant or not.

    Precision at k is the mean, over queries, raters and the first k candidates, of the marks; its
    standard error is over raters.  The human level is the precision at k of a rater's own choice
    (what he marked, then the rest), judged by the other raters.
    """

    name = "ratings"
    summary = "the candidates that come first should be those that most people find relevant"
    citation = (
        "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
        "Through Ranking, JMLR 11, section 5.2.3"
    )
    split = "rated"
    gallery = "test"
    measures = (PRECISION, HUMAN, ERROR)
    ks = dict.fromkeys(measures, tuple(range(1, LAST_K + 1)))
    of_data = (HUMAN, ERROR)

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a data set without ratings."""
        return "it has no ratings by people" if rows.ratings is None else None

    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> RatedCandidates:
        """Make the evaluation; `truth` holds the ratings of the test items."""
        if truth.ratings is None or not len(truth.ratings.queries):
            raise ValueError("there is no rated candidate among the test items")
        return RatedCandidates(truth.ratings, ties, measures)
