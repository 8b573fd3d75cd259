"""The tasks of retrieval: each item is a query against all others (JMLR 2010, section 5.1).

Ties are broken by a fixed random order, never by the order of the rows: in rows sorted by class, a
constant similarity would otherwise rank perfectly.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.stats import sem

from oasis_bench.data import LabelledRows, checked_labels
from oasis_bench.system import Progress, no_progress
from oasis_bench.tasks.ranked_queries import LAST_K, MEASURES, RankedQueries, SharedLabels
from oasis_bench.tasks.ranking import (
    Numbers,
    Similarity,
    as_items,
    checked_rows,
    score_in_blocks,
    tie_order,
)
from oasis_bench.tasks.task import Task, Truth


class Retrieval(Task):
    """Each test item ranks the other test items; those of its class are relevant.

    Or those that share a label with it, where items have several.
    """

    name = "retrieval"
    summary = "each test item ranks the other test items; those of its class should come first"
    citation = (
        "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
        "Through Ranking, JMLR 11, section 5.1; MAP@R: Musgrave, Belongie & Lim (2020), A Metric "
        "Learning Reality Check, ECCV"
    )
    split = "seen-classes"
    gallery = "test"
    measures = tuple(MEASURES)
    ks: ClassVar = {name: measure.ks for name, measure in MEASURES.items() if measure.ks}

    def refusal(self, rows: LabelledRows) -> str | None:
        """Return None: all rows have labels."""
        return None

    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> RankedQueries:
        """Make the evaluation; `truth` holds the labels of the test items."""
        if truth.y is None:
            raise ValueError(f"{self.name} is judged by the labels of the test items")
        return RankedQueries(SharedLabels(truth.y), np.arange(n_gallery), ties, measures)


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


def average_precision(hits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Average, over the ranks of the relevant items, the precision at that rank.

    Parameters
    ----------
    hits : array of shape (n_queries, n_ranked), bool
        Whether the item at each rank is relevant; at least one in each row.

    Returns
    -------
    ndarray of shape (n_queries,)
    """
    relevant = np.asarray(hits, dtype=bool)
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return np.asarray(np.mean(precision, axis=1, where=relevant))


def precision_at_k(hits: npt.ArrayLike, k_max: int) -> npt.NDArray[np.float64]:
    """Return the share of relevant items among the first 1, 2, ... k_max of each query.

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
        ``similarity(queries, gallery)`` gives scores (n_queries, n_gallery): a fitted learner's
        method.
    X : array or CSR of shape (n_rows, n_features)
    y : array of shape (n_rows,), or sparse matrix of shape (n_rows, n_queries)
        Class labels: rows of one class are relevant to each other.  Or relevance to text queries:
        rows that share a text query are relevant to each other (JMLR 2010, 5.2.2, theta = 0).
    seed : int
        Decides the order within ties, and that in which rows are scored.
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
        Where a similarity is NaN or not of its shape, where there is not a label for each row,
        where a query is no row, or where no query has a relevant other.
    """
    (X,) = as_items(X)
    n_rows = X.shape[0]
    labels = SharedLabels(checked_labels(y, n_rows))
    asked = np.arange(n_rows) if queries is None else checked_rows(queries, n_rows)
    ties = tie_order(seed, n_rows)
    evaluation = RankedQueries(labels, asked, ties, ("mAP", "precision"), k_max)
    score_in_blocks(similarity, X, asked, X, evaluation.add, progress, seed)
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
    citation = (
        "Oh Song, Xiang, Jegelka & Savarese (2016), Deep Metric Learning via Lifted Structured "
        "Feature Embedding, CVPR; Musgrave, Belongie & Lim (2020), A Metric Learning Reality "
        "Check, ECCV"
    )
    split = "unseen-classes"
