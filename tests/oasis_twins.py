"""OASIS, its family and LEGO in plain NumPy: what the compiled kernels must compute."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

Rows: TypeAlias = "npt.NDArray[np.floating] | sparse.csr_array"
Triplets: TypeAlias = "npt.NDArray[np.intp]"


def step(X: Rows, triplets: Triplets, aggressiveness: float, W: npt.NDArray[np.floating]) -> int:
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


def step_mini_batch(
    X: Rows, triplets: Triplets, aggressiveness: float, W: npt.NDArray[np.floating]
) -> int:
    """Apply one mini-batch to `W` in place: OASIS steps that all see the W before them.

    Parameters and result as in `step`.
    """
    before = W.copy()
    n_updates = 0
    for triplet in triplets:
        after = before.copy()
        n_updates += step(X, triplet[None], aggressiveness, after)
        W += after - before
    return n_updates


def step_online_proj(
    X: Rows, triplets: Triplets, aggressiveness: float, W: npt.NDArray[np.floating]
) -> int:
    """Apply steps of Online-Proj-OASIS: OASIS steps, each followed by the symmetric part."""
    n_updates = 0
    for triplet in triplets:
        n_updates += step(X, triplet[None], aggressiveness, W)
        W[:] = (W + W.T) / 2
    return n_updates


def step_dissim(
    X: Rows, triplets: Triplets, aggressiveness: float, W: npt.NDArray[np.floating]
) -> int:
    """Apply steps of Dissim-OASIS to `W` in place (preprint, equations 9 to 12)."""
    n_updates = 0
    for triplet in triplets:
        a, b = _differences(X, triplet)
        V = np.outer(a, a) - np.outer(b, b)
        loss = max(0.0, 1.0 + a @ W @ a - b @ W @ b)
        squared_norm = float((V**2).sum())
        if loss > 0 and squared_norm > 0:
            W -= min(aggressiveness, loss / squared_norm) * V
            n_updates += 1
    return n_updates


def step_logdet(
    X: Rows, triplets: Triplets, eta: float, margin: float, A: npt.NDArray[np.float64]
) -> int:
    """Apply steps of LogDet-OASIS to `A` in place, by inverting A^-1 and by a cubic's root.

    alpha solves alpha = eta (m + D'(alpha) / D(alpha)) below the first positive root of
    D(alpha) = 1 + alpha (p - n) - alpha^2 (p n - c^2): D'/D is p' - n' after the step.
    """
    n_updates = 0
    for triplet in triplets:
        a, b = _differences(X, triplet)
        V = np.outer(a, a) - np.outer(b, b)
        p, n, c = a @ A @ a, b @ A @ b, a @ A @ b
        if margin + p - n <= 0 or not V.any():
            continue
        D = np.polynomial.Polynomial([1, p - n, c**2 - p * n])
        alpha = np.polynomial.Polynomial([0, 1])
        limit = min(_positive_roots(D), default=np.inf)
        solutions = _positive_roots(alpha * D - eta * (margin * D + D.deriv()))
        A[:] = np.linalg.inv(np.linalg.inv(A) + min(r for r in solutions if r < limit) * V)
        n_updates += 1
    return n_updates


def _differences(
    X: Rows, triplet: Triplets
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Return q - p and q - n."""
    rows = X[list(triplet)]
    q, p, n = rows.toarray() if sparse.issparse(rows) else rows
    return q - p, q - n


def _positive_roots(polynomial: np.polynomial.Polynomial) -> list[float]:
    roots = np.asarray(polynomial.roots(), dtype=complex)
    return [float(root.real) for root in roots if abs(root.imag) < 1e-12 and root.real > 0]


def step_lego(
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
