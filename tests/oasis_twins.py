"""OASIS, its family and LEGO in plain NumPy: what the compiled kernels must compute.

Each applies triplets (m, 3) of row numbers (query, positive, negative) of dense or CSR rows to a
matrix in place, in their order, and counts the updates.
"""

import numpy as np
from scipy import sparse


def random_triplets(n_rows, n_triplets=500, seed=1):
    """Some of one row thrice, some whose positive is the negative."""
    return np.random.default_rng(seed).integers(n_rows, size=(n_triplets, 3))


def dense(X, triplet):
    """Return the three rows."""
    rows = X[list(triplet)]
    return rows.toarray() if sparse.issparse(rows) else rows


def differences(X, triplet):
    """Return q - p and q - n."""
    q, p, n = dense(X, triplet)
    return q - p, q - n


def passive_aggressive(W, V, loss, aggressiveness):
    """Add tau V to W; tell whether that changes it (JMLR 2010, figure 1)."""
    squared_norm = float((V**2).sum())
    if loss <= 0 or squared_norm <= 0:
        return False
    W += min(aggressiveness, loss / squared_norm) * V
    return True


def step(X, triplets, aggressiveness, W):
    """OASIS."""
    n_updates = 0
    for triplet in triplets:
        q, p, n = dense(X, triplet)
        loss = 1.0 - q @ W @ (p - n)
        n_updates += passive_aggressive(W, np.outer(q, p - n), loss, aggressiveness)
    return n_updates


def step_mini_batch(X, triplets, aggressiveness, W):
    """Steps of OASIS that all see the W before them."""
    before = W.copy()
    n_updates = 0
    for triplet in triplets:
        after = before.copy()
        n_updates += step(X, triplet[None], aggressiveness, after)
        W += after - before
    return n_updates


def step_online_proj(X, triplets, aggressiveness, W):
    """Steps of OASIS, each followed by the symmetric part."""
    n_updates = 0
    for triplet in triplets:
        n_updates += step(X, triplet[None], aggressiveness, W)
        W[:] = (W + W.T) / 2
    return n_updates


def step_dissim(X, triplets, aggressiveness, W):
    """Dissim-OASIS (preprint, equations 9 to 12)."""
    n_updates = 0
    for triplet in triplets:
        a, b = differences(X, triplet)
        V = np.outer(b, b) - np.outer(a, a)
        loss = 1.0 + a @ W @ a - b @ W @ b
        n_updates += passive_aggressive(W, V, loss, aggressiveness)
    return n_updates


def step_lego(X, triplets, eta, upper, lower, A):
    """LEGO: a step on the pair (q, p), then on (q, n); `upper` and `lower` are u and l."""
    n_updates = 0
    for triplet in triplets:
        q, p, n = dense(X, triplet).astype(np.float64)
        a, b = q - p, q - n
        if same := a @ A @ a > upper:
            move(A, a, upper, eta)
        if different := 0 < b @ A @ b < lower:
            move(A, b, lower, eta)
        n_updates += bool(same or different)
    return n_updates


def move(A, z, y, eta):
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
