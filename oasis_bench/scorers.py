"""Scorers for scikit-learn's `cross_val_score` and `GridSearchCV`, through pipelines too.

A scorer is called as ``scorer(estimator, X, y)``: each item of X is a query against all the others,
and ties are broken by a fixed random order.  The estimator is a fitted learner, a `Pipeline` that
ends in one, or a search such as `GridSearchCV` over one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oasis_bench.data import FloatArray, class_labels
from oasis_bench.plugins import TIES_SEED, Blend, baseline_rows, learner_of, ranked_labels
from oasis_bench.system import UsageError, Value
from oasis_bench.tasks import Retrieval, Task, Truth, as_items, top_k, vote


def similarity_of(estimator: Any, queries: Any, gallery: Any) -> FloatArray:
    """Score every query against every gallery item, through the steps of a pipeline.

    A `Pipeline` passes on `score` of its last step, but not `similarity`: this applies the steps
    before the last one to both sides, and asks the last one: by the blend with the Euclidean
    baseline, where the pipeline has one in its attribute `blend_`.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        Fitted.
    queries, gallery : array, CSR or Patches
        Items as the first step takes them.

    Returns
    -------
    ndarray of shape (n_queries, n_gallery)
        Larger is more similar.

    Raises
    ------
    UsageError
        Where there is no learner at the end.
    """
    given = [queries, gallery]
    learner, items = learner_of(estimator, given)
    blend: Blend | None = getattr(estimator, "blend_", None)
    if blend is None:
        return learner.similarity(*items)
    of_baseline = baseline_rows(estimator, given, items)
    return blend.similarity(learner, *items, *of_baseline)


@dataclass(frozen=True)
class RankingScorer:
    """A measure of the task retrieval, such as 'mAP', as a scorer; see `measures` for several."""

    measure: str

    def __post_init__(self) -> None:
        Task.parse_measure(self.measure, Retrieval)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the mean over the items that have another of their class."""
        return _ranked(estimator, X, y, [self.measure])[self.measure]


@dataclass(frozen=True)
class SeveralScorer:
    """Several measures of one ranking, by their names; see `measures`."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise UsageError("no measure: name one, such as measures('mAP', 'precision@10')")
        for name in self.names:
            Task.parse_measure(name, Retrieval)

    def __call__(self, estimator: Any, X: Any, y: Any) -> dict[str, float]:
        """Return the value of each measure."""
        return _ranked(estimator, X, y, self.names)


@dataclass(frozen=True)
class NeighbourScorer:
    """The accuracy of a vote of k neighbours, each item left out of its own; see `knn_accuracy`."""

    k: int

    def __post_init__(self) -> None:
        Value.check("k", self.k, int, least=1)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the share of items whose k nearest others vote for its class."""
        learner, items = learner_of(estimator, [X])
        (items,) = as_items(*items)
        labels = class_labels(y, items.shape[0])
        classes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        numbers = np.arange(len(classes))
        nearest, _ = top_k(learner.similarity, items, items, self.k, TIES_SEED, left_out=numbers)
        return float((vote(classes[nearest]) == classes).mean())


mean_average_precision = RankingScorer("mAP")
"""Average precision, mean over queries: what `score` of a learner is."""

r_precision = RankingScorer("R-precision")
"""Precision at R, R the number of relevant items of the query."""

map_at_r = RankingScorer("MAP@R")
"""Average precision over the first R ranks (Musgrave, Belongie & Lim 2020)."""

ndcg = RankingScorer("nDCG")
"""Normalised discounted cumulative gain of the whole ranking."""


def precision_at_k(k: int = 10) -> RankingScorer:
    """Make the scorer of the share of relevant items among the first `k`, 1 to 50."""
    return RankingScorer(f"precision@{k}")


def recall_at_k(k: int = 1) -> RankingScorer:
    """Make the scorer of the share of queries with a relevant item among the first `k`.

    `k` is 1, 2, 4 or 8.
    """
    return RankingScorer(f"recall@{k}")


def knn_accuracy(k: int = 1) -> NeighbourScorer:
    """Make the scorer of the accuracy of a vote of the `k` nearest others.

    A scorer sees the items of a test fold alone, not those that the learner was fitted on: each
    item is classified by the other items of its fold (leave one out).  Of classes with equally many
    votes that of the nearest voter wins.  `run --tasks classification` compares test items with
    training items.
    """
    return NeighbourScorer(k)


def measures(*names: str) -> SeveralScorer:
    """Make a scorer of several measures, for which items are ranked once.

    `cross_validate` reports each as 'test_NAME'; of `GridSearchCV` one is named with `refit`.

    Parameters
    ----------
    *names : str
        Measures of the task retrieval, such as 'mAP', 'precision@10', 'recall@1', 'MAP@R'.

    Raises
    ------
    UsageError
        Where there is no such measure, with the nearest.
    """
    return SeveralScorer(names)


def _ranked(estimator: Any, X: Any, y: Any, names: Sequence[str]) -> dict[str, float]:
    """Return measures of one ranking, by their names."""
    learner, items = learner_of(estimator, [X])
    (items,) = as_items(*items)
    truth = Truth(y=ranked_labels(y, items.shape[0]))
    asked = {name: Task.parse_measure(name, Retrieval) for name in names}
    kept = {measure for measure, _ in asked.values()}
    found = Retrieval().evaluate(truth, learner.similarity, items, TIES_SEED, measures=kept)
    return {name: found.value(*measure) for name, measure in asked.items()}
