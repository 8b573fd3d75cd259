"""Which rows are relevant to each other: those that share a label.  Not for ranking them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import Labels, joint_distribution
from oasis_bench.tasks.ranking import Numbers


class SharedLabels:
    """Which rows are relevant to each other: those that share a label.

    The labels are sorted by row and by label once, not for each block of queries; all matrices
    are sparse.

    Parameters
    ----------
    y : ndarray of shape (n_rows,), or csr_array of shape (n_rows, n_queries)
        Class numbers; or relevance to queries, where each query is a label.
    """

    def __init__(self, y: Labels) -> None:
        if isinstance(y, sparse.csr_array):
            labels = joint_distribution(y)
            labels.data[:] = 1
        else:
            names, numbers = np.unique(y, return_inverse=True)
            entries = np.ones(len(y)), numbers, np.arange(len(y) + 1)
            labels = sparse.csr_array(entries, shape=(len(y), len(names)))
        self._labels = labels
        self._rows_of_label = sparse.csr_array(labels.T)

    def has_relevant(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which of the rows share a label with another row."""
        is_shared = np.diff(self._rows_of_label.indptr) > 1
        return np.asarray(self._labels[rows] @ is_shared.astype(float) > 0)

    def relevant_rows(self, queries: Numbers) -> sparse.csr_array:
        """Return a matrix (n_queries, n_rows) with an entry for each row relevant to a query.

        `queries` are row numbers; a row is not relevant to itself.
        """
        shared = self._labels[queries] @ self._rows_of_label
        shared.data[shared.indices == np.repeat(queries, np.diff(shared.indptr))] = 0
        shared.eliminate_zeros()
        return shared
