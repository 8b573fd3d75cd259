"""Positivity of a matrix: its projection on the PSD cone as a factor L.

The one home of this for all learners; not for distances or similarities.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from oasis_bench.data.matrices import symmetric_part
from oasis_bench.data.rows import FloatArray

MATRICES_OF_PSD_FACTOR = 2
"""Matrices of the shape of W that `psd_factor` holds at once beside W."""


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
    # The transpose is the same matrix in the order of LAPACK, which then needs no copy.
    values, vectors = eigh(symmetric_part(W).T, overwrite_a=True)
    order = np.flatnonzero(values > 0)[::-1]
    factor = vectors.T[order]
    factor *= np.sqrt(values[order])[:, None]
    return factor
