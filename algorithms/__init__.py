"""The metric learners: this page is their index."""

from oasis_bench.algorithms.euclidean import Euclidean
from oasis_bench.algorithms.lmnn import LMNN
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.algorithms.oasis_averaged import AveragedOASIS
from oasis_bench.algorithms.oasis_cosine import CosineOASIS
from oasis_bench.algorithms.oasis_logdet import LogDetOASIS
from oasis_bench.algorithms.oasis_mini_batch import MiniBatchOASIS
from oasis_bench.algorithms.oasis_positive import PsdOASIS
from oasis_bench.algorithms.oasis_symmetric import DissimOASIS, OnlineProjOASIS, ProjOASIS

__all__ = [
    "LMNN",
    "OASIS",
    "AveragedOASIS",
    "CosineOASIS",
    "DissimOASIS",
    "Euclidean",
    "LogDetOASIS",
    "MiniBatchOASIS",
    "OnlineProjOASIS",
    "ProjOASIS",
    "PsdOASIS",
]
