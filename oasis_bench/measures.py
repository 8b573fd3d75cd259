"""Ranking measures: precision at the top k and mean average precision (JMLR 2010, section 5.1).

Each image is a query against all others.  Ties are broken by a fixed random order, never by the
order of the rows: rows sorted by class would turn a constant similarity into a perfect ranking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench import relevance
from oasis_bench.dataset import Labels

Similarity = Callable[[Any, Any], npt.NDArray[np.floating]]

BLOCK_BYTES = 256 * 2**20
"""Working memory of a ranking: queries are ranked in blocks of this size."""


@dataclass(frozen=True)
class RankingMeasures:
    """How well a similarity ranks, averaged over queries.

    Attributes
    ----------
    mean_average_precision : float
    precision_at_k : ndarray of shape (k_max,)
        Precision at 1, 2, ... k_max; shorter where there are fewer other images.
    chance_level : float
        Mean over queries of the share of relevant images among the others.
    n_queries, n_queries_left_out : int
        Queries that count, and those left out because no other image is relevant.
    """

    mean_average_precision: float
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


def rank_others(
    scores: npt.NDArray[np.floating], queries: npt.NDArray[np.intp], tie_order: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Rank, for each query, all other images by falling score.

    Parameters
    ----------
    scores : ndarray of shape (n_queries, n_images)
    queries : ndarray of shape (n_queries,)
        The number of each query among the images; it is left out of its own ranking.
    tie_order : ndarray of shape (n_images,)
        A permutation; images of equal score keep its order.

    Returns
    -------
    ndarray of shape (n_queries, n_images - 1)
        Image numbers.

    Raises
    ------
    ValueError
        Where a score is NaN.
    """
    if undefined := int(np.isnan(scores).sum()):
        raise ValueError(f"{undefined} of {scores.size} similarities are NaN: NaN has no rank")
    order = tie_order[np.argsort(-scores[:, tie_order], axis=1, kind="stable")]
    others: npt.NDArray[np.intp] = order[order != queries[:, None]]
    return others.reshape(len(queries), -1)


def evaluate_ranking(
    similarity: Similarity, X: Any, y: Labels, seed: int, k_max: int = 50
) -> RankingMeasures:
    """Rank, for each row, all other rows, and measure how the relevant ones come first.

    Parameters
    ----------
    similarity : callable
        ``similarity(queries, gallery)`` gives scores (n_queries, n_gallery): a fitted learner's
        method.
    X : array or CSR of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_queries)
        Class numbers: rows of one class are relevant to each other.  Or relevance to queries:
        rows that share a query are (JMLR 2010, 5.2.2, theta = 0).
    seed : int
        Decides the order within ties.
    k_max : int, default 50
        The last k of the precision curve.

    Raises
    ------
    ValueError
        Where a similarity is NaN or not of its shape, or where no row has a relevant other.
    """
    n_rows = y.shape[0]
    tie_order = np.random.default_rng(seed).permutation(n_rows).astype(np.intp)
    k_max = min(k_max, n_rows - 1)
    precision_sum = np.zeros(k_max)
    average_sum = chance_sum = 0.0
    n_queries = 0
    step = max(1, BLOCK_BYTES // (40 * n_rows))  # about 40 bytes a pair are in use at once
    for start in range(0, n_rows, step):
        block = np.arange(start, min(start + step, n_rows))
        is_relevant = relevant_rows(y, block)
        n_relevant = is_relevant.sum(axis=1)
        is_query = n_relevant > 0
        if not is_query.any():
            continue
        block, is_relevant = block[is_query], is_relevant[is_query]
        scores = similarity(X[block], X)
        if scores.shape != (len(block), n_rows):
            raise ValueError(
                f"similarity returned shape {scores.shape} for {len(block)} queries and "
                f"{n_rows} gallery rows"
            )
        ranking = rank_others(scores, block, tie_order)
        hits = np.take_along_axis(is_relevant, ranking, axis=1)
        precision_sum += precision_at_k(hits, k_max).sum(axis=0)
        average_sum += float(average_precision(hits).sum())
        chance_sum += float(n_relevant.sum()) / (n_rows - 1)
        n_queries += len(block)
    if not n_queries:
        raise ValueError(f"none of the {n_rows} rows has a relevant other: nothing to rank")
    return RankingMeasures(
        mean_average_precision=average_sum / n_queries,
        precision_at_k=precision_sum / n_queries,
        chance_level=chance_sum / n_queries,
        n_queries=n_queries,
        n_queries_left_out=n_rows - n_queries,
    )


def relevant_rows(y: Labels, queries: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Tell which rows are relevant to each query: of its class, or relevant to a query it is.

    Parameters
    ----------
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_queries)
        Class numbers, or relevance.
    queries : ndarray of shape (n_block,)
        Row numbers; a row is not relevant to itself.

    Returns
    -------
    ndarray of shape (n_block, n_rows), bool
    """
    if isinstance(y, sparse.csr_array):
        return relevance.relevant(y, queries)
    shared: npt.NDArray[np.bool_] = y[queries, None] == y[None, :]
    shared[np.arange(len(queries)), queries] = False
    return shared
