"""The learners of the package metric-learn under this interface."""

from oasis_bench.algorithms.metric_learn.constraints import (
    MetricLearnITML,
    MetricLearnLSML,
    MetricLearnMMC,
    MetricLearnSCML,
)
from oasis_bench.algorithms.metric_learn.labels import (
    MetricLearnCovariance,
    MetricLearnLFDA,
    MetricLearnLMNN,
    MetricLearnNCA,
    MetricLearnRCA,
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
