"""The data sets, found by the registry through the entry points.

`TableFile`, `ImageFolder` and `OwnTriplets` are the user's own: they are made from a path.
"""

from oasis_bench.datasets.digits import Digits
from oasis_bench.datasets.judged_pictures import MaterialAppearance, OwnTriplets, SimilarityTriplets
from oasis_bench.datasets.picture_sets import (
    Caltech101,
    Caltech256,
    Corel5k,
    Corel5kCDs,
    ImageFolder,
    TinyImageNet,
)
from oasis_bench.datasets.releases import MNIST, Keel, TwentyNewsgroups
from oasis_bench.datasets.table_file import TableFile
from oasis_bench.datasets.web_scale import WebScale, prepare_web_scale

__all__ = [
    "MNIST",
    "Caltech101",
    "Caltech256",
    "Corel5k",
    "Corel5kCDs",
    "Digits",
    "ImageFolder",
    "Keel",
    "MaterialAppearance",
    "OwnTriplets",
    "SimilarityTriplets",
    "TableFile",
    "TinyImageNet",
    "TwentyNewsgroups",
    "WebScale",
    "prepare_web_scale",
]
