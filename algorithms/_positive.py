"""Symmetry and positivity of a matrix: symmetric part, projection on the PSD cone, factor L.

The one home of these for all learners; not for distances or similarities.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from oasis_bench.learner import FloatArray


def symmetric_part(W: FloatArray) -> FloatArray:
    """Return (W + W') / 2, the symmetric matrix nearest to W (d, d) in the Frobenius norm."""
    return np.asarray((W + W.T) / 2)


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
    Chechik, Shalit, Sharma & Bengio (2009), equation 17; OASIS comes to 0.94 there.
    """
    matrix = np.asarray(W)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a matrix of shape {matrix.shape} is not square: it has no symmetry")
    norm = float(np.linalg.norm(matrix))
    if not (0 < norm < np.inf):
        raise ValueError(f"a matrix of norm {norm} has no symmetry index: give a finite one, not 0")
    return float(np.linalg.norm(symmetric_part(matrix))) / norm


def psd_factor(W: FloatArray) -> FloatArray:
    """Factor the projection of W on the cone of positive semi-definite (PSD) matrices.

    Parameters
    ----------
    W : ndarray of shape (n_features, n_features)

    Returns
    -------
    ndarray of shape (n_components, n_features)
        L = diag(sqrt(eigenvalues)) V' over the positive eigenvalues of the symmetric part of W,
        the largest first: L'L is the PSD matrix nearest to W in the Frobenius norm.
    """
    values, vectors = eigh(symmetric_part(W))
    order = np.flatnonzero(values > 0)[::-1]
    return np.ascontiguousarray((vectors[:, order] * np.sqrt(values[order])).T)
