"""The OASIS family: online learning of a similarity from triplets, on one machine or a cluster."""

from oasis_bench.algorithms.oasis.cosine import CosineOASIS, WhitenedOASIS
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.oasis.parallel import AveragedOASIS, MiniBatchOASIS, fit_on_cluster
from oasis_bench.algorithms.oasis.positive import LogDetOASIS, PsdOASIS
from oasis_bench.algorithms.oasis.symmetric import DissimOASIS, OnlineProjOASIS, ProjOASIS

__all__ = [
    "OASIS",
    "AveragedOASIS",
    "CosineOASIS",
    "DissimOASIS",
    "LogDetOASIS",
    "MiniBatchOASIS",
    "OnlineProjOASIS",
    "ProjOASIS",
    "PsdOASIS",
    "WhitenedOASIS",
    "fit_on_cluster",
]
