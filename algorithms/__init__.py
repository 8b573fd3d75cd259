"""The metric learners: this page is their index."""

from oasis_bench.algorithms.euclidean import Euclidean
from oasis_bench.algorithms.lmnn import LMNN
from oasis_bench.algorithms.oasis import OASIS

__all__ = ["LMNN", "OASIS", "Euclidean"]
