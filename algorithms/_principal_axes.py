"""Principal axes of rows and the whitening of a scatter matrix; not for class labels."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, svd

from oasis_bench.data import FloatArray


def rounding(shape: tuple[int, ...]) -> float:
    """Return the share of the largest sum of squares that a mere rounding error may reach.

    The machine epsilon of float64 times the longer side of a matrix of such `shape`, as in
    `numpy.linalg.matrix_rank`.  It is a share of squares: along an axis it stands for about 1e-7
    of the largest length, so that features that float32 made dependent count as dependent.
    """
    return float(np.finfo(np.float64).eps) * max(shape)


def principal_axes(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the axes along which rows vary by more than rounding.

    Parameters
    ----------
    centred : ndarray of shape (n_rows, n_features), float64
        Rows whose mean is 0.

    Returns
    -------
    squares : ndarray of shape (rank,)
        Sum of the squared coordinates along each axis, the largest first.
    axes : ndarray of shape (rank, n_features)
        Orthonormal rows.
    """
    n_rows, n_features = centred.shape
    if n_rows < n_features:
        _, singular, axes = svd(centred, full_matrices=False)
        squares = singular**2
    else:
        values, vectors = eigh(centred.T @ centred, overwrite_a=True)
        squares, axes = values[::-1], vectors.T[::-1]
    kept = squares > rounding(centred.shape) * squares[0]
    return squares[kept], axes[kept]


def whitening(scatter: FloatArray, floor: float) -> FloatArray:
    """Return V with V S V' = I, over the eigenvectors of S whose eigenvalue exceeds `floor`.

    Parameters
    ----------
    scatter : ndarray of shape (d, d)
        S, positive semi-definite.
    floor : float
        What is no more than rounding in S, at least 0.

    Returns
    -------
    ndarray of shape (rank, d)
    """
    values, vectors = eigh(scatter)
    kept = values > floor
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)
