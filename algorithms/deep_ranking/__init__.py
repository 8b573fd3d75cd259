"""Deep Ranking: a network that embeds pictures, and the golden feature (Wang et al. 2014)."""

from oasis_bench.algorithms.deep_ranking.deep_ranking import DeepRanking
from oasis_bench.algorithms.deep_ranking.golden_feature import GoldenFeature
from oasis_bench.algorithms.deep_ranking.sources import RelevanceSampler, Reservoir

__all__ = [
    "DeepRanking",
    "GoldenFeature",
    "RelevanceSampler",
    "Reservoir",
]
