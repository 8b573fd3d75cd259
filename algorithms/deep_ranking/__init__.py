"""Deep Ranking (Wang et al. 2014): the sampler of triplets from relevance."""

from oasis_bench.algorithms.deep_ranking.reservoir import Reservoir, ReservoirSampler

__all__ = ["Reservoir", "ReservoirSampler"]
