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
    r"""Return how symmetric W is, from 0 (antisymmetric) to 1 (symmetric).

    .. math:: \rho(W) = \|(W + W^\top) / 2\|_F / \|W\|_F

    Parameters
    ----------
    W : array of shape (n_features, n_features)

    Raises
    ------
    ValueError
        Where W is not square, or is zero or not finite: the index is then undefined.

    References
    ----------
    Chechik, Shalit, Sharma & Bengio (2009), An Online Algorithm for Large Scale Image Similarity
    Learning, preprint, equation 17; OASIS comes to 0.94 there.
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


def joint_distribution(R: Any) -> sparse.csr_array:
    """Return Pr(q, p), the relevance of items to labels divided by its sum.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_items, n_labels)
        R_QI transposed: how relevant each item is to each label, finite and not negative.

    Returns
    -------
    csr_array of shape (n_items, n_labels), float64
        Sorted, with positive entries only; they sum to 1.

    Raises
    ------
    ValueError
        Where `R` is not of this kind or has no positive entry.
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
    """Return an orthonormal basis of what rows span, and the rows in it, both in float64.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)

    Returns
    -------
    basis : ndarray of shape (n_features, r)
        Q, with r = min(n_rows, n_features).
    rows : ndarray of shape (n_rows, r)
        XQ, so that X = XQQ'.
    """
    basis, rows = np.linalg.qr(X.T.astype(np.float64))
    return basis, np.ascontiguousarray(rows.T)


def coordinates(X: npt.NDArray[Any]) -> FloatArray:
    """Return rows in an orthonormal basis of what they span, which is not formed.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)

    Returns
    -------
    ndarray of shape (n_rows, min(n_rows, n_features))
        Of the type of `X`, or float64 for integers; inner products and distances are those of
        `X`, up to rounding.
    """
    dtype = np.result_type(X.dtype, np.float32)
    (triangle,) = qr(X.T.astype(np.float64), mode="r", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(triangle[: len(X)].T, dtype=dtype)
