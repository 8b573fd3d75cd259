"""The metric learners and the baselines: this page is their index."""

from oasis_bench.algorithms.covariance import Covariance, StandardizedEuclidean
from oasis_bench.algorithms.deep_ranking import DeepRanking, GoldenFeature
from oasis_bench.algorithms.euclidean import Euclidean
from oasis_bench.algorithms.lda import LDA
from oasis_bench.algorithms.lfda import LFDA
from oasis_bench.algorithms.lmnn import LMNN, FastLMNN
from oasis_bench.algorithms.local_distances import LocalDistances, LocalPatchDistances
from oasis_bench.algorithms.logdet import ITML, LEGO
from oasis_bench.algorithms.mcml import MCML
from oasis_bench.algorithms.metric_learn import (
    MetricLearnCovariance,
    MetricLearnITML,
    MetricLearnLFDA,
    MetricLearnLMNN,
    MetricLearnLSML,
    MetricLearnMMC,
    MetricLearnNCA,
    MetricLearnRCA,
    MetricLearnSCML,
)
from oasis_bench.algorithms.mmc import MMC
from oasis_bench.algorithms.nca import NCA
from oasis_bench.algorithms.oasis import (
    OASIS,
    AveragedOASIS,
    CosineOASIS,
    DissimOASIS,
    LogDetOASIS,
    MiniBatchOASIS,
    OnlineProjOASIS,
    ProjOASIS,
    PsdOASIS,
    WhitenedOASIS,
)
from oasis_bench.algorithms.on_embedding import OnEmbedding, OnEmbeddingAndFeatures
from oasis_bench.algorithms.other_libraries import PyLMNN, ScikitLearnNCA
from oasis_bench.algorithms.pytorch_metric_learning import (
    ArcFace,
    MultiSimilarity,
    ProxyAnchor,
    ProxyNCA,
    SupervisedContrastive,
    TripletMargin,
)
from oasis_bench.algorithms.rca import RCA
from oasis_bench.algorithms.seen_classes import ClassifierPosterior, NearestNeighbourMemory

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
    "ArcFace",
    "AveragedOASIS",
    "ClassifierPosterior",
    "CosineOASIS",
    "Covariance",
    "DeepRanking",
    "DissimOASIS",
    "Euclidean",
    "FastLMNN",
    "GoldenFeature",
    "LocalDistances",
    "LocalPatchDistances",
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
    "MultiSimilarity",
    "NearestNeighbourMemory",
    "OnEmbedding",
    "OnEmbeddingAndFeatures",
    "OnlineProjOASIS",
    "ProjOASIS",
    "ProxyAnchor",
    "ProxyNCA",
    "PsdOASIS",
    "PyLMNN",
    "ScikitLearnNCA",
    "StandardizedEuclidean",
    "SupervisedContrastive",
    "TripletMargin",
    "WhitenedOASIS",
]
