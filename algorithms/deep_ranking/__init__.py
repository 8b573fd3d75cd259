"""Deep Ranking: a network that embeds pictures, and the golden feature (Wang et al. 2014)."""

from oasis_bench.algorithms.deep_ranking.deep_ranking import DeepRanking
from oasis_bench.algorithms.deep_ranking.deep_ranking_and_features import DeepRankingAndFeatures
from oasis_bench.algorithms.deep_ranking.deep_ranking_oasis import DeepRankingOASIS
from oasis_bench.algorithms.deep_ranking.golden_deep_ranking import GoldenDeepRanking
from oasis_bench.algorithms.deep_ranking.golden_feature import GoldenFeature
from oasis_bench.algorithms.deep_ranking.reservoir import Reservoir, ReservoirSampler

__all__ = [
    "DeepRanking",
    "DeepRankingAndFeatures",
    "DeepRankingOASIS",
    "GoldenDeepRanking",
    "GoldenFeature",
    "Reservoir",
    "ReservoirSampler",
]
