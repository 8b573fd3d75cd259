"""Data sets: one with too few images a class, one of sparse rows."""

import numpy as np
from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.plugins import Dataset
from oasis_bench.system import no_progress


class Tiny(Dataset):
    name = "tiny"
    summary = "3 classes of 9, 4 and 2 images"
    citation = licence = "none"

    def load(self, progress=no_progress):
        y = np.repeat(np.arange(3), [9, 4, 2])
        return LabelledRows(np.eye(15), y, ("nine", "four", "two"))


class SparseBlocks(Dataset):
    """Rows of class c have their entries in columns 10 c to 10 c + 9, and some in all others."""

    name = "sparse-blocks"
    summary = "2 classes of 20 sparse rows"
    citation = licence = "none"

    def load(self, progress=no_progress):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(2), 20)
        weight = np.where(np.arange(20) // 10 == y[:, None], 1.0, 0.4)
        X = weight * rng.random((40, 20)) * (rng.random((40, 20)) < 0.4)
        return LabelledRows(sparse.csr_array(X), y, ("first", "second"))
