"""The learners of the package metric-learn under this interface."""

from oasis_bench.algorithms.metric_learn.from_rows import (
    MetricLearnCovariance,
    MetricLearnLFDA,
    MetricLearnLMNN,
    MetricLearnNCA,
    MetricLearnRCA,
)
from oasis_bench.algorithms.metric_learn.from_tuples import (
    MetricLearnITML,
    MetricLearnLSML,
    MetricLearnMMC,
    MetricLearnSCML,
)

__all__ = [
    "MetricLearnCovariance",
    "MetricLearnITML",
    "MetricLearnLFDA",
    "MetricLearnLMNN",
    "MetricLearnLSML",
    "MetricLearnMMC",
    "MetricLearnNCA",
    "MetricLearnRCA",
    "MetricLearnSCML",
]
