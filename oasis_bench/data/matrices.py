"""How symmetric a matrix is, and the symmetric one nearest to it; not for positivity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oasis_bench.data.rows import FloatArray


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
