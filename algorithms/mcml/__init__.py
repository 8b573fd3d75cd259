"""MCML, maximally collapsing metric learning."""

from oasis_bench.algorithms.mcml.mcml import MCML

__all__ = [
    "MCML",
]
