from .axes import RCA as RCA
from .covariance import (
    Covariance as Covariance,
    Euclidean as Euclidean,
    StandardizedEuclidean as StandardizedEuclidean,
)
from .deep_ranking import (
    DeepRanking as DeepRanking,
    RankingLayer as RankingLayer,
)
from .forest_proximity import ForestProximity as ForestProximity
from .gmml import GMML as GMML
from .golden_feature import GoldenFeature as GoldenFeature
from .info_nce import InfoNCE as InfoNCE
from .itml import ITML as ITML
from .lda import LDA as LDA
from .lego import LEGO as LEGO
from .lfda import LFDA as LFDA
from .lmnn import (
    LMNN as LMNN,
    FastLMNN as FastLMNN,
)
from .local_distances import LocalDistances as LocalDistances
from .local_patch_distances import LocalPatchDistances as LocalPatchDistances
from .mcml import MCML as MCML
from .metric_learn import (
    MetricLearnITML as MetricLearnITML,
    MetricLearnLMNN as MetricLearnLMNN,
    MetricLearnNCA as MetricLearnNCA,
)
from .mmc import MMC as MMC
from .nca import NCA as NCA
from .oasis import OASIS as OASIS
from .oasis_parallel import (
    AveragedOASIS as AveragedOASIS,
    MiniBatchOASIS as MiniBatchOASIS,
)
from .oasis_symmetric import (
    CosineOASIS as CosineOASIS,
    DissimOASIS as DissimOASIS,
    OnlineProjOASIS as OnlineProjOASIS,
    ProjOASIS as ProjOASIS,
    PsdOASIS as PsdOASIS,
    WhitenedOASIS as WhitenedOASIS,
)
from .on_embedding import (
    OnEmbedding as OnEmbedding,
    OnEmbeddingAndFeatures as OnEmbeddingAndFeatures,
)
from .plda import (
    PLDA as PLDA,
    WCCN as WCCN,
)
from .pytorch_metric_learning import (
    ArcFace as ArcFace,
    ProxyAnchor as ProxyAnchor,
    ProxyNCA as ProxyNCA,
    SupervisedContrastive as SupervisedContrastive,
)
from .seen_classes import (
    ClassifierPosterior as ClassifierPosterior,
    NearestNeighbourMemory as NearestNeighbourMemory,
)
