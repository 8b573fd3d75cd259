"""Few rows of many features in the coordinates of what they span; not principal axes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from oasis_bench.data.rows import FloatArray

Float64Array: TypeAlias = "npt.NDArray[np.float64]"


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
