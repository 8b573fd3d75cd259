"""Matrices: canonical CSR, relevance as probabilities, symmetry.

Also numbers that are too large, too small or too far from zero.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.system import UsageError, spelled

FloatArray: TypeAlias = "npt.NDArray[np.floating]"

HASHED = 1000
"""Rows that `row_hashes` takes at a time."""

LARGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e30}
"""Up to this size, sums of squares of values, and matrices learned from them, stay finite.  If all
values are below the inverse, these sums become 0."""

FAR = 10.0
"""A column is far from zero if |middle| > FAR * range."""


def is_sparse(X: Any) -> bool:
    """Tell whether X is sparse; unlike SciPy's function it narrows no type for the checker."""
    return bool(sparse.issparse(X))


def symmetry_index(W: npt.ArrayLike) -> float:
    r"""Return how symmetric W (d, d) is: :math:`\|(W + W^\top) / 2\|_F / \|W\|_F`.

    From 0 (antisymmetric) to 1; undefined for a W of zeros.  Equation 17 of Chechik et al. 2009, An
    Online Algorithm for Large Scale Image Similarity Learning, where OASIS reaches 0.94.
    """
    matrix = np.asarray(W)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a matrix of shape {matrix.shape} is not square: it has no symmetry")
    matrix = matrix.astype(np.result_type(matrix, np.float32), copy=False)
    norm = float(np.linalg.norm(matrix))
    if not (0 < norm < np.inf):
        raise ValueError(f"a matrix of norm {norm} has no symmetry index: give a finite one, not 0")
    return float(np.linalg.norm((matrix + matrix.T) / 2)) / norm


def canonical(X: Any) -> Any:
    """Check a sparse matrix and return it as CSR, sorted, with duplicates summed.

    The result is a copy if it differs.  scipy checks only once whether entries are within bounds;
    if indices were changed later, a kernel would write outside its arrays.  Other input is returned
    unchanged.
    """
    if not is_sparse(X) or len(X.shape) != 2:  # scipy has sparse vectors too
        return X
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
    queries. Items are relevant to each other if Pr(p1, p2) exceeds a threshold; with threshold 0,
    if they share a label.
    """
    if not is_sparse(R) or len(R.shape) != 2:
        raise ValueError(f"relevance is a {type(R).__name__}: sparse.csr_array(R) is needed")
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


def row_hashes(rows: Any) -> npt.NDArray[np.uint64]:
    """Hash each row, dense or sparse, or picture; equal values of any type have equal hashes."""
    flat: Any = rows if is_sparse(rows) else rows.reshape(len(rows), -1)
    found = []
    for part in (flat[start : start + HASHED] for start in range(0, flat.shape[0], HASHED)):
        csr = canonical(sparse.csr_array(part, dtype=np.float64, copy=True))
        csr.eliminate_zeros()
        values, places = csr.data, csr.indices.astype(np.int64)
        for start, end in pairwise(csr.indptr.tolist()):
            content = values[start:end].tobytes() + places[start:end].tobytes()
            found.append(hashlib.blake2b(content, digest_size=8).digest())
    return np.frombuffer(b"".join(found), dtype=np.uint64)


def check_magnitude(X: Any, training: bool = False) -> None:
    """Raise UsageError if numbers are too large to learn from, or in training all too small.

    Anything but an array or CSR of finite numbers passes: validation names its error.
    """
    if is_sparse(X):
        X = (X if X.format in ("csr", "csc") else X.tocoo()).data
    values = _numbers(X)
    if values is None or not values.size:
        return
    largest = max(float(values.max()), -float(values.min()))
    most = LARGEST[values.dtype]
    how = f"run {spelled('scaling', 'standard')}, or StandardScaler"
    if most < largest < np.inf:
        raise UsageError(
            f"a value of size {largest:.3g}: products of {values.dtype} rows overflow above "
            f"{most:g}: scale the rows ({how}) or divide them"
        )
    if training and 0 < largest < 1 / most:
        raise UsageError(
            f"no value is larger than {largest:.3g}: products of {values.dtype} rows vanish below "
            f"{1 / most:g}: scale the rows ({how})"
        )


def far_middle(X: Any) -> FloatArray | None:
    """Return the middle of each column that is far from zero, 0 for others; None if none is far.

    Differences from it are exact, because values of a far column lie within a factor of 2.
    """
    rows = None if is_sparse(X) else _numbers(X)
    if rows is None or rows.ndim != 2 or not rows.size:
        return None
    least, most = rows.min(axis=0), rows.max(axis=0)
    middle = least / 2 + most / 2
    is_far = np.abs(middle / FAR) > most - least
    if not is_far.any() or not np.isfinite(middle).all():
        return None
    return np.where(is_far, middle, 0).astype(rows.dtype)


def without_offset(X: Any, middle: FloatArray | None = None) -> Any:
    """Return dense rows minus their `far_middle`, or the rows themselves if there is none.

    This changes no distance, only the rounding of results.
    """
    middle = far_middle(X) if middle is None else middle
    if middle is None:
        return X
    rows = X.toarray() if is_sparse(X) else X
    out = np.empty_like(rows, dtype=np.result_type(rows, np.float32))  # whole numbers as float64
    return np.subtract(rows, middle, out=out, casting="same_kind")


def _numbers(X: Any) -> FloatArray | None:
    """Return numbers as learners see them, float32 or float64; None for other values."""
    try:
        values = np.asarray(X)
        if values.dtype.kind not in "fiubO":
            return None
        return values if values.dtype == np.float32 else values.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        return None


def check_array(what: str, array: Any, dtype: Any, *shape: int | None) -> None:
    """Raise UsageError if an array is not of this type and shape; None: any size.

    Floats must be finite, and int64 not negative.
    """
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        raise UsageError(
            f"{what} of shape {array.shape} and type {array.dtype}: {np.dtype(dtype)} of shape "
            f"({wanted}) is needed"
        )
    if dtype is np.float32 and not np.isfinite(array).all():
        raise UsageError(f"{what}: some numbers are NaN or infinite")
    if dtype is np.int64 and array.min(initial=0) < 0:
        raise UsageError(f"{what}: least number {array.min()}, but none may be negative")
