"""Scorers for scikit-learn's `cross_val_score` and `GridSearchCV`, also of pipelines.

A scorer is called as ``scorer(estimator, X, y)``.  Each item of X is a query, and all other items
of X are ranked by their similarity to it.  Ties are broken by a fixed random order.  The estimator
is a fitted learner, a `Pipeline` that ends in one, or a search such as `GridSearchCV` over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oasis_bench.data import FloatArray, class_labels
from oasis_bench.plugins import TIES_SEED, ranked_labels, ranking_of
from oasis_bench.system import UsageError, check_value
from oasis_bench.tasks import Retrieval, Truth, top_k, vote


def similarity_of(estimator: Any, queries: Any, gallery: Any) -> FloatArray:
    """Return the similarity of every query to every gallery item, also for a pipeline.

    A `Pipeline` has no method `similarity`.  This function transforms both sides by the steps
    before the last one, and then calls the learner in the last step.  If the pipeline has a blend
    with the Euclidean baseline (attribute `blend_`), the result is the similarity of the blend.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        A fitted estimator.
    queries, gallery : array, CSR, DataFrame or Patches
        Items for the first step of the estimator, such as rows of shape (n_items, n_features).

    Returns
    -------
    ndarray of shape (n_queries, n_gallery)
        Larger is more similar.

    Raises
    ------
    UsageError
        If the last step is not a learner, a column is missing, or a similarity is not finite.
    """
    similarity, (items, asked) = ranking_of(estimator, [gallery, queries])
    return similarity(asked, items)


@dataclass(frozen=True)
class RankingScorer:
    """A scorer for one measure of the task retrieval; `measures` returns several measures.

    Parameters
    ----------
    measure : str
        Such as 'mAP', 'precision@10' or 'R-precision'.

    Raises
    ------
    UsageError
        If there is no such measure; the message names the most similar one.
    """

    measure: str

    def __post_init__(self) -> None:
        Retrieval.parse_measure(self.measure)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the mean over the queries that have another item of their class in X."""
        return _ranked(estimator, X, y, [self.measure])[self.measure]


@dataclass(frozen=True)
class SeveralScorer:
    """A scorer for several measures, which `measures` makes."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise UsageError("no measure: name one, such as measures('mAP', 'precision@10')")
        for name in self.names:
            Retrieval.parse_measure(name)

    def __call__(self, estimator: Any, X: Any, y: Any) -> dict[str, float]:
        """Return a dict from the name of each measure to its value."""
        return _ranked(estimator, X, y, self.names)


@dataclass(frozen=True)
class NeighbourScorer:
    """A scorer for the leave-one-out accuracy of k-NN, which `knn_accuracy` makes."""

    k: int

    def __post_init__(self) -> None:
        check_value("k", np.asarray(self.k).tolist(), int, least=1)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the share of the items whose k nearest other items vote for the right class."""
        similarity, (items,) = ranking_of(estimator, [X])
        labels = class_labels(y, items.shape[0])
        classes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        numbers = np.arange(len(classes))
        nearest, _ = top_k(similarity, items, items, self.k, TIES_SEED, left_out=numbers)
        return float((vote(classes[nearest]) == classes).mean())


mean_average_precision = RankingScorer("mAP")
"""Mean over queries of the average precision, as the method `score` of a learner."""

r_precision = RankingScorer("R-precision")
"""Mean over queries of the precision at R, where R is the number of items relevant to the query."""

map_at_r = RankingScorer("MAP@R")
"""Mean over queries of the average precision of the first R ranks (Musgrave, Belongie & Lim 2020).

R is the number of items relevant to the query.
"""

ndcg = RankingScorer("nDCG")
"""Mean over queries of the normalised discounted cumulative gain of the whole ranking."""


def precision_at_k(k: int = 10) -> RankingScorer:
    """Return a scorer for precision at k: the share of relevant items among the first k.

    Parameters
    ----------
    k : int, default 10
        From 1 to 50.

    Returns
    -------
    RankingScorer

    Raises
    ------
    UsageError
        If `k` is out of bounds.
    """
    return RankingScorer(f"precision@{k}")


def recall_at_k(k: int = 1) -> RankingScorer:
    """Return a scorer for recall at k: the share of queries with a relevant item in the first k.

    Parameters
    ----------
    k : {1, 2, 4, 8}, default 1

    Returns
    -------
    RankingScorer

    Raises
    ------
    UsageError
        If `k` is another number.
    """
    return RankingScorer(f"recall@{k}")


def knn_accuracy(k: int = 1) -> NeighbourScorer:
    """Return a scorer for the leave-one-out accuracy of a k-nearest-neighbour classifier.

    A scorer gets the items of the test fold only, not the training items.  So each item is
    classified by the other items of its fold.  If several classes have the same number of votes,
    the class of the nearest voter wins.  ``run --tasks classification`` compares test items with
    training items instead.

    Parameters
    ----------
    k : int, default 1
        Number of neighbours, at least 1.

    Returns
    -------
    NeighbourScorer

    Raises
    ------
    UsageError
        If `k` is not a positive integer.
    """
    return NeighbourScorer(k)


def measures(*names: str) -> SeveralScorer:
    """Return a scorer for several measures, which ranks the items only once.

    `cross_validate` reports each measure as 'test_NAME'.  For `GridSearchCV`, select one of them
    with `refit`.

    Parameters
    ----------
    *names : str
        Measures of the task retrieval, such as 'mAP', 'precision@10', 'recall@1', 'MAP@R'.

    Returns
    -------
    SeveralScorer

    Raises
    ------
    UsageError
        If there is no such measure; the message names the most similar one.
    """
    return SeveralScorer(names)


def _ranked(estimator: Any, X: Any, y: Any, names: Sequence[str]) -> dict[str, float]:
    """Return measures of one ranking, by their names."""
    similarity, (items,) = ranking_of(estimator, [X])
    truth = Truth(y=ranked_labels(y, items.shape[0]))
    asked = {name: Retrieval.parse_measure(name) for name in names}
    kept = {measure for measure, _ in asked.values()}
    found = Retrieval().evaluate(truth, similarity, items, TIES_SEED, measures=kept)
    return {name: found.value(*measure) for name, measure in asked.items()}
