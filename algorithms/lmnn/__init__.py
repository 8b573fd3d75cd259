"""LMNN, large margin nearest neighbours, and its fast variant."""

from oasis_bench.algorithms.lmnn.lmnn import LMNN, FastLMNN

__all__ = [
    "LMNN",
    "FastLMNN",
]
