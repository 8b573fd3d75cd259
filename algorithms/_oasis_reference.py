"""OASIS in plain NumPy: what the compiled kernel must compute, readable beside the paper.

OASIS_BENCH_KERNEL=numpy makes the learner use it; the tests compare the two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse


def step(
    X: npt.NDArray[np.floating] | sparse.csr_array,
    triplets: npt.NDArray[np.intp],
    aggressiveness: float,
    W: npt.NDArray[np.floating],
) -> int:
    """Apply OASIS steps to `W` in place (JMLR 2010, figure 1) and count the updates.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3)
        Row numbers (query, positive, negative), applied in this order.
    aggressiveness : float
        C.
    W : ndarray of shape (n_features, n_features)
        Changed in place.

    Returns
    -------
    int
        The number of steps with a positive loss.
    """
    n_updates = 0
    for query, positive, negative in triplets:
        rows = X[[query, positive, negative]]
        q, p, n = rows.toarray() if sparse.issparse(rows) else rows
        V = np.outer(q, p - n)
        loss = max(0.0, 1.0 - q @ W @ (p - n))
        squared_norm = float((V**2).sum())
        if loss > 0 and squared_norm > 0:
            W += min(aggressiveness, loss / squared_norm) * V
            n_updates += 1
    return n_updates
