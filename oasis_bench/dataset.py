"""What a data set of one's own derives from and returns; see `oasis_bench.plugins.dataset`."""

from oasis_bench.data.judgements import JudgedTriplets, Ratings
from oasis_bench.data.patches import Patches, PatchKind
from oasis_bench.data.rows import LabelledRows, Labels, Rows
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.system.progress import Progress, no_progress

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
