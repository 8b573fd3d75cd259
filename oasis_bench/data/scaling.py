"""What the harness does to rows before any learner sees them, learned from training rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from oasis_bench.system.errors import UsageError

NORMALISATIONS = {
    "l2": "divided by their length",
    "none": "as they are",
    "tfidf": "weighted by the idf of training rows, then divided by their length",
}
"""What is done to rows, in words."""

Preparation = Callable[[Any], Any]


def learn_preparation(kind: str, X: Any) -> Preparation:
    """Make the function that prepares training and test rows alike.

    Parameters
    ----------
    kind : {'l2', 'none', 'tfidf'}
        'l2' divides each row by its Euclidean length (a row of zeros stays); 'none' leaves rows as
        they are; 'tfidf' first multiplies counts f_i by d_i = -log(r_i), r_i the share of training
        rows with feature i (JMLR 2010, section 3).  Features in no training row, or in each
        one, have no weight and are left out.
    X : array or CSR of shape (n_rows, n_features)
        The training rows.

    Raises
    ------
    UsageError
        For 'tfidf', where rows have negative values or no feature tells them apart.
    """
    if kind == "none":
        return lambda rows: rows
    if kind == "l2":
        return lambda rows: normalize(rows)  # typed, unlike scikit-learn
    if (X.data if isinstance(X, sparse.csr_array) else X).min(initial=0) < 0:
        raise UsageError("tfidf weights counts, but some values are negative: use l2 or none")
    share = np.asarray((X > 0).sum(axis=0)).ravel() / X.shape[0]
    weighty = np.flatnonzero((share > 0) & (share < 1))
    if not weighty.size:
        raise UsageError("tfidf leaves no feature: each is in all rows or in none; use l2")
    idf = -np.log(share[weighty]).astype(X.dtype)
    if sparse.issparse(X):
        weights = sparse.diags_array(idf, format="csr")
        return lambda rows: normalize(sparse.csr_array(rows[:, weighty] @ weights))
    return lambda rows: normalize(rows[:, weighty] * idf)
