"""Scorers for scikit-learn, and `similarity` through a pipeline; see `plugins.scorers`."""

from oasis_bench.plugins import (
    knn_accuracy,
    map_at_r,
    mean_average_precision,
    measures,
    ndcg,
    precision_at_k,
    r_precision,
    recall_at_k,
    similarity_of,
)

__all__ = [
    "knn_accuracy",
    "map_at_r",
    "mean_average_precision",
    "measures",
    "ndcg",
    "precision_at_k",
    "r_precision",
    "recall_at_k",
    "similarity_of",
]
