"""LEGO in plain NumPy: what the compiled kernel must compute, readable beside the paper.

OASIS_BENCH_KERNEL=numpy makes the learner use it; the tests compare the two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse


def step(
    X: npt.NDArray[np.floating] | sparse.csr_array,
    triplets: npt.NDArray[np.intp],
    eta: float,
    upper: float,
    lower: float,
    A: npt.NDArray[np.float64],
) -> int:
    """Apply LEGO's steps to `A` in place and count the triplets that changed it.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3)
        Row numbers (query, positive, negative): a step on the pair (q, p), then on (q, n).
    eta : float
    upper, lower : float
        u and l.
    A : ndarray of shape (n_features, n_features)
        Symmetric positive definite; changed in place.
    """
    n_updates = 0
    for query, positive, negative in triplets:
        rows = X[[query, positive, negative]]
        dense = rows.toarray() if sparse.issparse(rows) else rows
        q, p, n = (row.astype(np.float64) for row in dense)
        same = (q - p) @ A @ (q - p) > upper
        if same:
            move(A, q - p, upper, eta)
        different = 0 < (q - n) @ A @ (q - n) < lower
        if different:
            move(A, q - n, lower, eta)
        n_updates += bool(same or different)
    return n_updates


def move(A: npt.NDArray[np.float64], z: npt.NDArray[np.float64], y: float, eta: float) -> None:
    """Move z'Az towards y (Jain et al. 2008, the closed form of the LogDet step).

    The factor of the paper, -eta (ybar - y) / (1 + eta (ybar - y) yhat), is (ybar - yhat) / yhat^2;
    written so, no rounding makes A indefinite where y is large.
    """
    Az = A @ z
    yhat = z @ Az
    a = eta * y * yhat - 1
    root = np.sqrt(a**2 + 4 * eta * yhat**2)
    ratio = 2 / (root - a) if a < 0 else (a + root) / (2 * eta * yhat**2)  # ybar / yhat
    A += (ratio - 1) / yhat * np.outer(Az, Az)
