"""Sparse rows as kernels need them: every index within bounds, in order, once."""

from __future__ import annotations

from typing import Any

from scipy import sparse


def canonical(X: Any) -> Any:
    """Give sparse rows by `canonical_csr`, and all else as it is."""
    is_matrix = len(getattr(X, "shape", ())) == 2  # scipy has sparse vectors too
    return canonical_csr(X) if is_matrix and sparse.issparse(X) else X


def canonical_csr(X: Any) -> Any:
    """Check a sparse matrix and give it as CSR, sorted and without duplicates (their sums).

    It is a copy where that changes anything.  scipy checks once whether entries are in order and
    within bounds, and remembers the answer.  Where indices were changed later, a kernel, or scipy's
    own conversion to CSR, would write outside its arrays.

    Raises
    ------
    ValueError
        Where an index is out of bounds or the parts do not fit each other.
    """
    try:
        fresh = _checked_in_full(X).tocsr()
    except ValueError as error:
        name = X.format.upper()
        raise ValueError(f"the sparse rows are not valid {name}: {error}") from error
    if fresh.has_canonical_format:
        return fresh
    ordered = fresh.copy()
    ordered.sum_duplicates()
    return ordered


def _checked_in_full(X: Any) -> Any:
    """Make a new matrix of the same parts: scipy then checks every index."""
    if X.format == "coo":
        return type(X)((X.data, (X.row, X.col)), shape=X.shape, copy=False)
    if X.format not in ("csr", "csc", "bsr"):
        return X
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    fresh.check_format(full_check=True)
    return fresh
