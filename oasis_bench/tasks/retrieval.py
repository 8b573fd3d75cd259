"""The retrieval task: each image is a query against all others (JMLR 2010, section 5.1).

Its measures are precision at the top k and mean average precision.  Ties are broken by a fixed
random order, never by the order of the rows: in rows sorted by class, a constant similarity would
otherwise rank perfectly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import sem

from oasis_bench.data.relevance import joint_distribution
from oasis_bench.data.rows import Labels
from oasis_bench.system.progress import Progress, no_progress
from oasis_bench.tasks.ranking import (
    Numbers,
    Scores,
    Similarity,
    checked_rows,
    places,
    rank_in_parts,
    relevant_ranks,
    tie_order,
)


@dataclass(frozen=True)
class RankingMeasures:
    """How well a similarity ranks, averaged over queries.

    Attributes
    ----------
    mean_average_precision : float
    standard_error : float
        Of the mean average precision, as if the queries were independent; NaN of a single one.
    precision_at_k : ndarray of shape (k_max,)
        Precision at 1, 2, ... k_max; shorter where there are fewer other images.
    chance_level : float
        Mean over queries of the share of relevant images among the others.
    n_queries, n_queries_left_out : int
        Queries that count, and those left out because no other image is relevant.
    """

    mean_average_precision: float
    standard_error: float
    precision_at_k: npt.NDArray[np.float64]
    chance_level: float
    n_queries: int
    n_queries_left_out: int


def average_precision(hits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Average, over the ranks of the relevant images, the precision at that rank.

    Parameters
    ----------
    hits : array of shape (n_queries, n_ranked), bool
        Whether the image at each rank is relevant; at least one in each row.

    Returns
    -------
    ndarray of shape (n_queries,)
    """
    relevant = np.asarray(hits, dtype=bool)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return np.asarray(np.mean(precision, axis=1, where=relevant))


def precision_at_k(hits: npt.ArrayLike, k_max: int) -> npt.NDArray[np.float64]:
    """Return the share of relevant images among the first 1, 2, ... k_max of each query.

    Parameters
    ----------
    hits : array of shape (n_queries, n_ranked), bool
    k_max : int
        At most n_ranked.

    Returns
    -------
    ndarray of shape (n_queries, k_max)
    """
    first = np.asarray(hits, dtype=bool)[:, :k_max]
    return np.asarray(np.cumsum(first, axis=1) / np.arange(1, k_max + 1))


def evaluate_ranking(
    similarity: Similarity,
    X: Any,
    y: Labels,
    seed: int,
    k_max: int = 50,
    queries: npt.ArrayLike | None = None,
    progress: Progress = no_progress,
) -> RankingMeasures:
    """Rank all other rows for each query, and measure how early the relevant ones come.

    Only the scores of a block of queries are in memory, never those of all pairs.

    Parameters
    ----------
    similarity : callable
        ``similarity(queries, gallery)`` gives scores (n_queries, n_gallery): a fitted learner's
        method.
    X : array or CSR of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_queries)
        Class numbers: rows of one class are relevant to each other.  Or relevance to text queries:
        rows that share a text query are relevant to each other (JMLR 2010, 5.2.2, theta = 0).
    seed : int
        Decides the order within ties.
    k_max : int, default 50
        The last k of the precision curve.
    queries : array of integers, optional
        Numbers of the rows that are queries, such as a sample; all other rows are ranked for each
        of them.  By default every row is a query.
    progress : callable, default no_progress
        Called as ``progress('ranking', done, total)`` after each block of queries.

    Raises
    ------
    ValueError
        Where a similarity is NaN or not of its shape, where rows and labels differ in number,
        where a query is no row, or where no query has a relevant other.
    """
    n_rows = y.shape[0]
    if X.shape[0] != n_rows:
        raise ValueError(f"{X.shape[0]} rows but {n_rows} labels: one each is needed")
    asked = np.arange(n_rows) if queries is None else checked_rows(queries, n_rows)
    labels = SharedLabels(y)
    ranked = asked[labels.has_relevant(asked)]
    if not len(ranked):
        raise ValueError(f"none of the {len(asked)} queries has a relevant other: nothing to rank")
    place = places(tie_order(seed, n_rows))
    k_max = min(k_max, n_rows - 1)

    def tally(part: slice, scores: Scores) -> tuple[npt.NDArray[np.float64], Numbers, int]:
        relevant = labels.relevant_rows(ranked[part])
        ranks = relevant_ranks(scores, ranked[part], place, relevant)
        hits = np.bincount(ranks[ranks <= k_max], minlength=k_max + 1)[1:]
        return _average_precisions(ranks, relevant.indptr), hits, len(ranks)

    tallies = rank_in_parts(similarity, X, ranked, X, tally, progress)
    averages, hits, n_relevant = zip(*tallies, strict=True)
    average = np.concatenate(averages)
    return RankingMeasures(
        mean_average_precision=float(average.mean()),
        standard_error=float(sem(average)) if len(average) > 1 else np.nan,
        precision_at_k=np.cumsum(np.sum(hits, axis=0)) / np.arange(1, k_max + 1) / len(ranked),
        chance_level=sum(n_relevant) / (n_rows - 1) / len(ranked),
        n_queries=len(ranked),
        n_queries_left_out=len(asked) - len(ranked),
    )


class SharedLabels:
    """Which rows are relevant to each other: those that share a label.

    The labels are sorted by row and by label once, not for each block of queries; all matrices
    are sparse.

    Parameters
    ----------
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_queries)
        Class numbers; or relevance to queries, where each query is a label.
    """

    def __init__(self, y: Labels) -> None:
        if isinstance(y, sparse.csr_array):
            labels = joint_distribution(y)
            labels.data[:] = 1
        else:
            names, numbers = np.unique(y, return_inverse=True)
            entries = np.ones(len(y)), numbers, np.arange(len(y) + 1)
            labels = sparse.csr_array(entries, shape=(len(y), len(names)))
        self._labels = labels
        self._rows_of_label = sparse.csr_array(labels.T)

    def has_relevant(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which of the rows share a label with another row."""
        is_shared = np.diff(self._rows_of_label.indptr) > 1
        return np.asarray(self._labels[rows] @ is_shared.astype(float) > 0)

    def relevant_rows(self, queries: Numbers) -> sparse.csr_array:
        """Return a matrix (n_queries, n_rows) with an entry for each row relevant to a query.

        `queries` are row numbers; a row is not relevant to itself.
        """
        shared = self._labels[queries] @ self._rows_of_label
        shared.data[shared.indices == np.repeat(queries, np.diff(shared.indptr))] = 0
        shared.eliminate_zeros()
        return shared


def _average_precisions(ranks: Numbers, indptr: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Average, over the relevant images of each query, the precision at their ranks."""
    sizes = np.diff(indptr)
    hits = np.arange(1, len(ranks) + 1) - np.repeat(indptr[:-1], sizes)
    return np.asarray(np.add.reduceat(hits / ranks, indptr[:-1]) / sizes)
