"""Matrices: canonical CSR, relevance as probabilities, symmetric parts, the span of few rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import qr

FloatArray: TypeAlias = "npt.NDArray[np.floating]"
Float64Array: TypeAlias = "npt.NDArray[np.float64]"


def symmetric_part(W: FloatArray) -> FloatArray:
    """Return (W + W') / 2, the symmetric matrix nearest to W (d, d) in the Frobenius norm."""
    total = W + W.T
    return np.divide(total, 2, out=total)


def symmetry_index(W: npt.ArrayLike) -> float:
    r"""Return how symmetric W (d, d) is: :math:`\|(W + W^\top) / 2\|_F / \|W\|_F`.

    From 0 (antisymmetric) to 1; undefined for a W of zeros.  Equation 17 of Chechik et al. 2009, An
    Online Algorithm for Large Scale Image Similarity Learning, where OASIS comes to 0.94.
    """
    matrix = np.asarray(W)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a matrix of shape {matrix.shape} is not square: it has no symmetry")
    matrix = matrix.astype(np.result_type(matrix, np.float32), copy=False)
    norm = float(np.linalg.norm(matrix))
    if not (0 < norm < np.inf):
        raise ValueError(f"a matrix of norm {norm} has no symmetry index: give a finite one, not 0")
    return float(np.linalg.norm(symmetric_part(matrix))) / norm


def canonical(X: Any) -> Any:
    """Give sparse rows by `canonical_csr`, and all else as it is."""
    is_matrix = len(getattr(X, "shape", ())) == 2  # scipy has sparse vectors too
    return canonical_csr(X) if is_matrix and sparse.issparse(X) else X


def canonical_csr(X: Any) -> Any:
    """Check a sparse matrix and give it as CSR, sorted and without duplicates (their sums).

    It is a copy where that changes anything.  scipy checks only once whether entries are within
    bounds: with indices that were changed later a kernel would write outside its arrays.
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


def joint_distribution(R: Any) -> sparse.csr_array:
    """Return Pr(q, p) (n_items, n_labels), sorted and positive: R divided by its sum.

    R is R_QI transposed (JMLR 2010, 5.2.1): how relevant items are to labels, the paper's text
    queries. Items are relevant to each other where Pr(p1, p2) exceeds a threshold; at 0, where they
    share one.
    """
    is_sparse_matrix = sparse.issparse(R) and len(getattr(R, "shape", ())) == 2
    if not is_sparse_matrix:
        raise ValueError(
            f"relevance is a {type(R).__name__}: a scipy sparse matrix (n_items, n_labels) is "
            "needed; sparse.csr_array(R) makes one"
        )
    joint: sparse.csr_array = sparse.csr_array(R).astype(np.float64, copy=True)
    joint.sum_duplicates()
    joint.eliminate_zeros()
    least, total = joint.data.min(initial=0), joint.data.sum()
    if least < 0 or not 0 < total < np.inf:
        raise ValueError(
            f"relevance with least value {least} and sum {total}: it must be finite, nowhere "
            "negative and somewhere positive"
        )
    joint.data /= total
    return joint


def relevance_factor(R: Any) -> sparse.csr_array:
    r"""Return B (n_items, n_labels) with :math:`B B^\top = \Pr(p_1, p_2)`.

    :math:`B(p, q) = \Pr(p|q) \sqrt{\Pr(q)}`, since :math:`\Pr(p_1, p_2) = \sum_q \Pr(p_1|q)
    \Pr(p_2|q) \Pr(q)`.  Parameter and errors as in `joint_distribution`.
    """
    factor = joint_distribution(R)
    label_probability = np.bincount(factor.indices, factor.data, minlength=factor.shape[1])
    factor.data /= np.sqrt(label_probability[factor.indices])
    return factor


def basis_and_coordinates(X: FloatArray) -> tuple[Float64Array, Float64Array]:
    """Return an orthonormal basis Q (d, r) of what rows X (n, d) span, and XQ, in float64.

    r = min(n, d), and X = XQQ'.
    """
    basis, rows = np.linalg.qr(X.T.astype(np.float64))
    return basis, np.ascontiguousarray(rows.T)


def coordinates(X: npt.NDArray[Any]) -> FloatArray:
    """Return rows X (n, d) in an orthonormal basis of their span: (n, min(n, d)).

    Of the type of X, or float64 for integers; inner products and distances stay, up to rounding.
    """
    dtype = np.result_type(X.dtype, np.float32)
    (triangle,) = qr(X.T.astype(np.float64), mode="r", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(triangle[: len(X)].T, dtype=dtype)
