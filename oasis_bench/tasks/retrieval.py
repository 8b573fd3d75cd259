"""The tasks of retrieval: each item is a query against all others (JMLR 2010, section 5.1).

Ties are broken by a fixed random order, never by the order of the rows: in rows sorted by class, a
constant similarity would otherwise rank perfectly.

The measures are of rankings by shared labels: which items are relevant, and how early they come.
n items are ranked for a query and R of them are relevant, at ranks r_1 < r_2 < ... < r_R.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import sem

from oasis_bench.data import FloatArray, LabelledRows, Labels, checked_labels, joint_distribution
from oasis_bench.system import Progress, UsageError, no_progress, shared, spelled
from oasis_bench.tasks import chance, ranking
from oasis_bench.tasks.groups import Groups
from oasis_bench.tasks.ranking import Numbers, Similarity
from oasis_bench.tasks.task import CHECHIK, MUSGRAVE, OH_SONG, Evaluation, Measures, Task, Truth

Floats = npt.NDArray[np.float64]

RECALL_KS = (1, 2, 4, 8)
LAST_K = 50


@dataclass(frozen=True)
class HitRanks:
    """The ranks of the relevant items of some queries.

    Those of a query stand together, ascending, from its place in `starts`; it has R of them, in
    `sizes`.
    """

    ranks: Numbers
    starts: npt.NDArray[np.integer]
    sizes: npt.NDArray[np.integer]

    @cached_property
    def precisions(self) -> Floats:
        """The precision at each of the ranks: i / r_i."""
        hits = np.arange(1, len(self.ranks) + 1) - np.repeat(self.starts, self.sizes)
        return np.asarray(hits / self.ranks)

    @cached_property
    def among_first_r(self) -> npt.NDArray[np.bool_]:
        """Whether each of the ranks is at most the R of its query."""
        return np.asarray(self.ranks <= np.repeat(self.sizes, self.sizes))

    def sums(self, values: npt.NDArray[np.generic]) -> Floats:
        """Sum one value for each rank over the ranks of a query."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def counts(self, last: int) -> Floats:
        """Count the relevant among the first 1, 2, ... `last` of each query (n_queries, last)."""
        early = self.ranks <= last
        query = np.repeat(np.arange(len(self.sizes)), self.sizes)[early]
        at = np.bincount(query * last + self.ranks[early] - 1, minlength=len(self.sizes) * last)
        return np.asarray(at.reshape(-1, last).cumsum(axis=1), dtype=float)


def _average_precision(hits: HitRanks, ks: Numbers) -> Floats:
    return np.asarray(hits.sums(hits.precisions) / hits.sizes)[:, None]


def _precision(hits: HitRanks, ks: Numbers) -> Floats:
    return np.asarray(hits.counts(int(ks[-1]))[:, ks - 1] / ks)


def _r_precision(hits: HitRanks, ks: Numbers) -> Floats:
    return (hits.sums(hits.among_first_r.astype(float)) / hits.sizes)[:, None]


def _average_precision_at_r(hits: HitRanks, ks: Numbers) -> Floats:
    within = hits.precisions * hits.among_first_r
    return np.asarray(hits.sums(within) / hits.sizes)[:, None]


def _recall(hits: HitRanks, ks: Numbers) -> Floats:
    return np.asarray(hits.ranks[hits.starts][:, None] <= ks, dtype=float)


def _ndcg(hits: HitRanks, ks: Numbers) -> Floats:
    best = np.cumsum(1 / np.log2(np.arange(2, hits.sizes.max() + 2)))
    gains = hits.sums(1 / np.log2(1 + hits.ranks))
    return np.asarray(gains / best[hits.sizes - 1])[:, None]


class RankMeasure(NamedTuple):
    """One measure: its values (n_queries, len(ks)) from hits, and its chance for each R.

    ``chance(n_relevant, n_ranked, k)`` is the expected value; `ks` is empty where there is no k.
    """

    values: Callable[[HitRanks, Numbers], Floats]
    chance: Callable[[npt.NDArray[np.integer], int, int], Floats]
    ks: tuple[int, ...] = ()


MEASURES: Mapping[str, RankMeasure] = {
    "mAP": RankMeasure(_average_precision, chance.average_precision_of_chance),
    "precision": RankMeasure(_precision, chance.precision_of_chance, tuple(range(1, LAST_K + 1))),
    "R-precision": RankMeasure(_r_precision, chance.precision_of_chance),
    "MAP@R": RankMeasure(_average_precision_at_r, chance.average_precision_at_r_of_chance),
    "recall": RankMeasure(_recall, chance.recall_of_chance, RECALL_KS),
    "nDCG": RankMeasure(_ndcg, chance.ndcg_of_chance),
}


class RankedQueries(Evaluation):
    """Each query ranks all items but itself and its group; those of its label are relevant.

    `asked` (n_asked,) are the numbers of the items that are queries: `add` counts its blocks in
    them.  Where `labels` are of another gallery, no query is in it.  `last_k` ends the ks of all
    measures.
    """

    def __init__(
        self,
        labels: SharedLabels,
        asked: Numbers,
        ties: Numbers,
        measures: Measures = None,
        last_k: int = LAST_K,
    ) -> None:
        super().__init__(len(asked), tuple(MEASURES if measures is None else measures))
        self._labels, self._asked = labels, asked
        self._n_ranked = len(ties) - np.diff(shared(labels.left_out, asked).indptr)
        self._place = ranking.places(ties)
        self._counts = shared(labels.has_relevant, asked)
        self.n_queries = int(np.count_nonzero(self._counts))
        self.n_left_out = len(asked) - self.n_queries
        if not self.n_queries:
            raise ValueError(
                f"none of the {len(asked)} queries shares a label with another item"
                f"{' of another group' * (labels.groups is not None)}: add items, raise "
                f"{spelled('test_share')}, or lower {spelled('inner_folds')}"
            )
        last_k = min(last_k, int(self._n_ranked[self._counts].min()))
        self._ks = {
            name: np.array([k for k in MEASURES[name].ks if k <= last_k], dtype=np.intp)
            for name in self.kept
        }
        self._values = {
            name: np.full((len(asked), len(self._ks[name]) if MEASURES[name].ks else 1), np.nan)
            for name in self.kept
        }
        self.n_relevant = np.zeros(len(asked), dtype=np.int64)

    def judge(self, start: int, scores: FloatArray) -> None:
        """Rank a block of queries, on all cores."""
        ranking.rank_in_parts(scores, lambda part: self._rank(start, part, scores[part]))

    def _rank(self, start: int, part: slice, scores: FloatArray) -> None:
        """Rank a part of a block; parts are ranked side by side and write each its own rows."""
        rows = np.arange(start + part.start, start + part.stop)
        counts = self._counts[rows]
        if not counts.all():
            rows, scores = rows[counts], scores[counts]
        if not len(rows):
            return
        queries = self._asked[rows]
        relevant = shared(self._labels.relevant_rows, queries)
        left_out = shared(self._labels.left_out, queries)
        ranks = ranking.relevant_ranks(scores, left_out, self._place, relevant)
        hits = HitRanks(ranks, relevant.indptr[:-1], np.diff(relevant.indptr))
        self.n_relevant[rows] = hits.sizes
        for name, values in self._values.items():
            values[rows] = MEASURES[name].values(hits, self._ks[name])

    def of_queries(self, measure: str) -> Floats:
        """Return a measure of each query that counts, at each k (n_queries, n_ks)."""
        return np.asarray(self._values[measure][self._counts])

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the mean over the queries that count."""
        return self._by_k(measure, self.of_queries(measure).mean(axis=0))

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return the mean over the queries that count of what a random order gives."""
        n_ranked, n_relevant = self._n_ranked[self._counts], self.n_relevant[self._counts]
        expected = MEASURES[measure].chance
        ks = self._ks[measure].tolist() if MEASURES[measure].ks else [0]
        sums = np.zeros(len(ks))
        for n in np.unique(n_ranked).tolist():  # one, without groups
            distinct, times = np.unique(n_relevant[n_ranked == n], return_counts=True)
            sums += [(expected(distinct, n, k) * times).sum() for k in ks]
        return self._by_k(measure, sums / len(n_ranked))

    def _by_k(self, measure: str, values: Floats) -> dict[int | None, float]:
        ks = map(int, self._ks[measure]) if MEASURES[measure].ks else (None,)
        return {k: float(value) for k, value in zip(ks, values, strict=True)}


class SharedLabels:
    """Which rows are relevant to each other: those that share a label (class, or text query).

    The labels are sorted by row and by label once, not for each block of queries; all matrices are
    sparse.  With the labels of another `gallery`, its rows are relevant to those of `y`.  With
    `groups` (n_rows,), rows of one group are not relevant to each other.
    """

    def __init__(
        self, y: Labels, gallery: Labels | None = None, groups: Groups | None = None
    ) -> None:
        self.is_own = gallery is None
        both: list[Any] = [y] if gallery is None else [y, gallery]
        n = y.shape[0]
        if isinstance(y, sparse.csr_array):
            labels = joint_distribution(sparse.vstack(both, format="csr"))
            labels.data[:] = 1
        else:
            labels = _one_column_each(np.unique(np.concatenate(both), return_inverse=True)[1])
        self._labels = labels[:n]
        self._rows_of_label = sparse.csr_array((labels if self.is_own else labels[n:]).T)
        self.groups = groups
        own = np.arange(n) if groups is None else groups
        self._rows_of_group = sparse.csr_array(_one_column_each(own).T)

    def has_relevant(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which of the rows share a label with another row, of another group."""
        held: Any = self._rows_of_label
        if self.groups is not None:
            held = held @ self._rows_of_group.T
        is_shared = np.diff(held.indptr) > self.is_own
        return np.asarray(self._labels[rows] @ is_shared.astype(float) > 0)

    def left_out(self, queries: Numbers) -> sparse.csr_array:
        """Return a matrix (n_queries, n_rows) with an entry for each row that is not ranked."""
        if not self.is_own:
            return sparse.csr_array((len(queries), self._rows_of_label.shape[1]))
        return self._rows_of_group[queries if self.groups is None else self.groups[queries]]

    def relevant_rows(self, queries: Numbers) -> sparse.csr_array:
        """Return a matrix (n_queries, n_rows) with an entry for each row relevant to a query.

        `queries` are row numbers; a row is not relevant to itself, nor to its group.
        """
        shared = self._labels[queries] @ self._rows_of_label
        if not self.is_own:
            return shared
        found, own, group = shared.indices, np.repeat(queries, np.diff(shared.indptr)), self.groups
        shared.data[found == own if group is None else group[found] == group[own]] = 0
        shared.eliminate_zeros()
        return shared


def _one_column_each(numbers: npt.NDArray[np.int64]) -> sparse.csr_array:
    """Return a matrix with a row for each number and its one entry in the column of it."""
    return sparse.csr_array((np.ones(len(numbers)), numbers, np.arange(len(numbers) + 1)))


class Retrieval(Task):
    """Each test item ranks the other test items; those of its class are relevant.

    Or those that share a label with it, where items have several.
    """

    name = "retrieval"
    summary = "each test item ranks the other test items; items of its class should rank first"
    citation = f"{CHECHIK} 5.1; MAP@R: {MUSGRAVE}"
    split = "seen-classes"
    gallery = "test"
    measures = tuple(MEASURES)
    ks: ClassVar = {name: measure.ks for name, measure in MEASURES.items() if measure.ks}

    def refusal(self, rows: LabelledRows) -> str | None:
        """Return None: all rows have labels."""
        return None

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> RankedQueries:
        """Make the evaluation; `truth` holds the labels of the test items."""
        assert truth.y is not None, "the harness knows the labels"
        labels = shared(SharedLabels, truth.y, None, truth.groups)
        return RankedQueries(labels, np.arange(len(ties)), ties, measures)


@dataclass(frozen=True)
class RankingMeasures:
    """How well a similarity ranks, averaged over queries.

    Attributes
    ----------
    mean_average_precision : float
    standard_error : float
        Of the mean average precision, as if the queries were independent; NaN of a single one.
    precision_at_k : ndarray of shape (k_max,)
        Precision at 1, 2, ... k_max; shorter where there are fewer other items.
    chance_level : float
        The expected mean average precision of a random order.
    chance_of_precision : float
        The expected precision at any k of a random order: the mean over queries of the share of
        relevant items among the others.
    n_queries, n_queries_left_out : int
        Queries that count, and those left out because no other item is relevant.
    """

    mean_average_precision: float
    standard_error: float
    precision_at_k: npt.NDArray[np.float64]
    chance_level: float
    chance_of_precision: float
    n_queries: int
    n_queries_left_out: int


def evaluate_ranking(
    similarity: Similarity,
    X: Any,
    y: Any,
    seed: int,
    k_max: int = LAST_K,
    queries: npt.ArrayLike | None = None,
    progress: Progress = no_progress,
) -> RankingMeasures:
    """Rank all other rows for each query, and measure how early the relevant ones come.

    Only the scores of a block of queries are in memory, never those of all pairs.

    Parameters
    ----------
    similarity : callable
        The method ``similarity`` of a fitted learner, or another function of (queries, gallery)
        that returns scores of shape (n_queries, n_gallery).
    X : array or CSR of shape (n_rows, n_features)
    y : array of shape (n_rows,), or sparse matrix of shape (n_rows, n_text_queries)
        Class labels: rows of one class are relevant to each other.  Or relevance to text queries:
        rows that share a text query are relevant to each other (JMLR 2010, 5.2.2, theta = 0).
    seed : int
        Seed of the random order within ties.
    k_max : int, default 50
        The largest k of ``precision_at_k``, 50 at most.
    queries : array of integers, optional
        Indices of the rows that are queries, such as a sample; all other rows are ranked for each
        of them.  By default every row is a query.
    progress : callable, default no_progress
        Called as ``progress('ranking', done, total)`` after each block of queries.

    Returns
    -------
    RankingMeasures
        Means over the queries, such as ``mean_average_precision``.

    Raises
    ------
    ValueError
        If a similarity is NaN or has a wrong shape, if y does not have one label for each row, if a
        query is not the index of a row, if no query has another row that is relevant to it, or if
        `k_max` is out of bounds.
    """
    if not 1 <= k_max <= LAST_K:
        raise UsageError(f"k_max = {k_max}: give a number from 1 to {LAST_K}")
    (X,) = ranking.as_items(X)
    n_rows = X.shape[0]
    labels = SharedLabels(checked_labels(y, n_rows))
    asked = np.arange(n_rows) if queries is None else ranking.checked_rows(queries, n_rows)
    ties = ranking.tie_order(seed, n_rows)
    evaluation = RankedQueries(labels, asked, ties, ("mAP", "precision"), k_max)
    ranking.score_in_blocks(similarity, X, asked, X, evaluation.add, progress, seed=seed)
    average = evaluation.of_queries("mAP")[:, 0]
    return RankingMeasures(
        mean_average_precision=float(average.mean()),
        standard_error=float(sem(average)) if len(average) > 1 else np.nan,
        precision_at_k=np.array(list(evaluation.values("precision").values())),
        chance_level=evaluation.chances("mAP")[None],
        chance_of_precision=evaluation.chances("precision")[1],
        n_queries=evaluation.n_queries,
        n_queries_left_out=evaluation.n_left_out,
    )


class UnseenClasses(Retrieval):
    """As `Retrieval`, but training and test classes are disjoint."""

    name = "unseen-classes"
    summary = "retrieval among classes that the learner has never seen"
    citation = f"{OH_SONG}; {MUSGRAVE}"
    split = "unseen-classes"


class RetrievalFromTraining(Retrieval):
    """Each test item ranks the training items, as in use, where the gallery is what was collected.

    `Retrieval` ranks the other test items: of them the learner has not seen the labels.
    """

    name = "retrieval-from-training"
    summary = "each test item ranks the training items; items of its class should rank first"
    gallery = "training"

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> RankedQueries:
        """Make the evaluation; `truth` holds the labels of test and training items."""
        assert truth.y is not None, "the harness knows the labels"
        asked = np.arange(truth.y.shape[0])
        labels = shared(SharedLabels, truth.y, truth.training)
        return RankedQueries(labels, asked, ties, measures)
