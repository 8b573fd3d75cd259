"""LEGO and ITML: the LogDet divergence to a prior, online and in passes over pairs."""

from oasis_bench.algorithms.logdet.itml import ITML
from oasis_bench.algorithms.logdet.lego import LEGO

__all__ = [
    "ITML",
    "LEGO",
]
