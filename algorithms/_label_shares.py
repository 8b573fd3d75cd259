"""Class labels, one or several a row, as one sparse matrix; not for sampling from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from oasis_bench.data import joint_distribution
from oasis_bench.plugins import MetricLearner


def rows_and_shares(
    learner: MetricLearner, X: Any, y: Any, dtype: npt.DTypeLike | list[npt.DTypeLike]
) -> tuple[Any, sparse.csr_array]:
    """Validate the rows and labels (or how relevant each row is to each label) of a `fit`.

    The shares (n_rows, n_classes) are those of each class in a row's labels: rows sum to 1, or to 0
    without a label.  There is a column for each class that a row has.  The rows have the first type
    of `dtype`, where theirs is not among them.
    """
    if sparse.issparse(y):
        check_consistent_length(X, y)
        X = learner._validated(X, accept_sparse="csr", dtype=dtype)
        return X, label_shares(y)
    X, y = learner._validated(X, y, accept_sparse="csr", dtype=dtype)
    return X, label_shares(y)


def label_shares(y: Any) -> sparse.csr_array:
    """Return the share of each class that `y` has in each row's labels: see `rows_and_shares`."""
    if sparse.issparse(y):
        relevance = joint_distribution(y)
        totals = relevance.sum(axis=1)
        rows = np.repeat(np.arange(len(totals)), np.diff(relevance.indptr))
        shares, names = relevance.data / totals[rows], relevance.indices
        indptr: npt.NDArray[Any] = relevance.indptr
    else:
        check_classification_targets(y)
        shares, names, indptr = np.ones(len(y)), y, np.arange(len(y) + 1)
    classes, numbers = np.unique(names, return_inverse=True)
    return sparse.csr_array((shares, numbers, indptr), shape=(len(indptr) - 1, len(classes)))
