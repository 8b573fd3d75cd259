"""The OASIS family: online learning of a similarity from triplets, on one machine or a cluster."""

from oasis_bench.algorithms.oasis.averaged import AveragedOASIS
from oasis_bench.algorithms.oasis.cluster import fit_on_cluster
from oasis_bench.algorithms.oasis.cosine import CosineOASIS
from oasis_bench.algorithms.oasis.logdet import LogDetOASIS
from oasis_bench.algorithms.oasis.mini_batch import MiniBatchOASIS
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.oasis.positive import PsdOASIS
from oasis_bench.algorithms.oasis.symmetric import DissimOASIS, OnlineProjOASIS, ProjOASIS
from oasis_bench.algorithms.oasis.whitened import WhitenedOASIS

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
