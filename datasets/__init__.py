"""The data sets: one file each, found by the registry through the entry points.

`TableFile` is the user's own file: the only one that is made from a path.
"""

from oasis_bench.datasets.digits import Digits
from oasis_bench.datasets.mnist import MNIST
from oasis_bench.datasets.table import TableFile

__all__ = ["MNIST", "Digits", "TableFile"]
