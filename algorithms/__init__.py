"""The metric learners: this page is their index."""

from oasis_bench.algorithms.covariance import Covariance
from oasis_bench.algorithms.euclidean import Euclidean
from oasis_bench.algorithms.lda import LDA
from oasis_bench.algorithms.lfda import LFDA
from oasis_bench.algorithms.lmnn.lmnn import LMNN, FastLMNN
from oasis_bench.algorithms.logdet.itml import ITML
from oasis_bench.algorithms.logdet.lego import LEGO
from oasis_bench.algorithms.mcml.mcml import MCML
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
from oasis_bench.algorithms.mmc import MMC
from oasis_bench.algorithms.nca import NCA
from oasis_bench.algorithms.oasis.averaged import AveragedOASIS
from oasis_bench.algorithms.oasis.cosine import CosineOASIS
from oasis_bench.algorithms.oasis.logdet import LogDetOASIS
from oasis_bench.algorithms.oasis.mini_batch import MiniBatchOASIS
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.oasis.positive import PsdOASIS
from oasis_bench.algorithms.oasis.symmetric import DissimOASIS, OnlineProjOASIS, ProjOASIS
from oasis_bench.algorithms.rca import RCA

__all__ = [
    "ITML",
    "LDA",
    "LEGO",
    "LFDA",
    "LMNN",
    "MCML",
    "MMC",
    "NCA",
    "OASIS",
    "RCA",
    "AveragedOASIS",
    "CosineOASIS",
    "Covariance",
    "DissimOASIS",
    "Euclidean",
    "FastLMNN",
    "LogDetOASIS",
    "MetricLearnCovariance",
    "MetricLearnITML",
    "MetricLearnLFDA",
    "MetricLearnLMNN",
    "MetricLearnLSML",
    "MetricLearnMMC",
    "MetricLearnNCA",
    "MetricLearnRCA",
    "MetricLearnSCML",
    "MiniBatchOASIS",
    "OnlineProjOASIS",
    "ProjOASIS",
    "PsdOASIS",
]
