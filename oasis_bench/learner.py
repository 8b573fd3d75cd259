"""What a learner of one's own derives from; see `oasis_bench.plugins.learner`."""

from oasis_bench.plugins import (
    BilinearLearner,
    EmbeddingLearner,
    ExemplarLearner,
    FittedArray,
    IncrementalLearner,
    MahalanobisLearner,
    MetricLearner,
)

__all__ = [
    "BilinearLearner",
    "EmbeddingLearner",
    "ExemplarLearner",
    "FittedArray",
    "IncrementalLearner",
    "MahalanobisLearner",
    "MetricLearner",
]
