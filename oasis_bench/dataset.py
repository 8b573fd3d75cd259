"""What a data set of one's own derives from and returns; see `oasis_bench.plugins.dataset`."""

from oasis_bench.data import JudgedTriplets, LabelledRows, Labels, Patches, PatchKind, Ratings, Rows
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, no_progress

__all__ = [
    "Dataset",
    "JudgedTriplets",
    "LabelledRows",
    "Labels",
    "PatchKind",
    "Patches",
    "Progress",
    "Ratings",
    "Rows",
    "no_progress",
]
