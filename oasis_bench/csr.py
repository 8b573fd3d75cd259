"""Sparse rows as kernels need them: every index within bounds, in order, once."""

from __future__ import annotations

from typing import Any


def canonical_csr(X: Any) -> Any:
    """Check a CSR matrix and put its entries in order, in a copy where that changes anything.

    scipy remembers whether entries are in order and looks no more; a kernel that trusted this
    would write outside its arrays where the indices were changed since.

    Parameters
    ----------
    X : csr_array or csr_matrix of shape (n_rows, n_features)

    Returns
    -------
    csr_array or csr_matrix
        With sorted indices and without duplicates (their values are summed).

    Raises
    ------
    ValueError
        Where an index is out of bounds or the parts do not fit each other.
    """
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    try:
        fresh.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"the sparse rows are not valid CSR: {error}") from error
    if fresh.has_canonical_format:
        return fresh
    ordered = fresh.copy()
    ordered.sum_duplicates()
    return ordered
