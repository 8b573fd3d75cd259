"""The search for the minimum of a convex function over positive semi-definite A = L'L.

Not for the function itself: that is `_objective.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, svd
from scipy.optimize import OptimizeResult, minimize, minimize_scalar

from oasis_bench.algorithms.mcml._objective import Objective
from oasis_bench.data import FloatArray

MEMORY = 20
"""Pairs of steps and slopes from which L-BFGS knows the curvature."""

STRIDE = 10
"""Iterations over which a lack of progress is seen."""

FEW = 500
"""Rows up to which all is done in float64: they take no time."""

COARSE = 100
"""Iterations are in float32 while the progress is above so many times the one to stop at."""

NEGLIGIBLE = 1e-7
"""Share of the largest eigenvalue of A up to which one is dropped."""


class Minimum(NamedTuple):
    """Where the search ended.

    Attributes
    ----------
    L : ndarray of shape (k, d)
        Orthogonal rows, the longest first.
    value : float
        f.
    n_iter : int
        Iterations of L-BFGS.
    converged : bool
        Whether it stopped for lack of progress, and not at `max_iter`.
    """

    L: FloatArray
    value: float
    n_iter: int
    converged: bool


def minimise(objective: Objective, L: FloatArray, tol: float, max_iter: int) -> Minimum:
    """Go from A = L'L to the minimum of f.

    L-BFGS goes to a minimum over L.  There G, the gradient of f by A, has no component along A;
    where it has no negative eigenvalue either, A is the minimum over all A (the conditions of
    Karush, Kuhn and Tucker).  Where it has, which takes an L of too low a rank, f falls along
    these eigenvectors: they become further rows of L, and L-BFGS goes on (Journee, Bach, Absil &
    Sepulchre 2010, Low-Rank Optimization on the Cone of Positive Semidefinite Matrices).

    Parameters
    ----------
    objective : Objective
    L : ndarray of shape (k, d)
        The start.
    tol : float
        Progress below which it stops: of f in `STRIDE` iterations, and along the eigenvectors.
    max_iter : int
        Iterations of L-BFGS at most.
    """
    n_iter = 0
    while True:
        coarse = n_iter == 0 and len(objective.rows) > FEW
        L, done = _descend(objective, L, tol, max_iter - n_iter, coarse)
        n_iter += done
        L = _compressed(L)
        value, _ = objective.value_and_slope(L)
        if n_iter >= max_iter:
            return Minimum(L, value, n_iter, converged=False)
        extended, lower = _extended(objective, L)
        if lower > value - tol:
            return Minimum(L, value, n_iter, converged=True)
        L = extended


def _descend(
    objective: Objective, L: FloatArray, tol: float, max_iter: int, coarse: bool
) -> tuple[FloatArray, int]:
    """Run L-BFGS until `STRIDE` iterations lower f by less than `tol`; return L, iterations."""
    values: list[float] = []

    def value_and_slope(flat: FloatArray) -> tuple[float, FloatArray]:
        evaluate = objective.coarsely if coarse else objective.value_and_slope
        value, slope = evaluate(flat.reshape(L.shape))
        return value, slope.ravel()

    def stop_without_progress(intermediate_result: OptimizeResult) -> None:
        nonlocal coarse
        values.append(float(intermediate_result.fun))
        if coarse:
            slow = len(values) > STRIDE and values[-1 - STRIDE] - values[-1] < COARSE * tol
            near = values[-1] - objective.infimum < COARSE * tol
            if slow or near:
                coarse = False
                values.clear()  # progress is that of float64
            return
        at_infimum = values[-1] - objective.infimum < tol
        if at_infimum or (len(values) > STRIDE and values[-1 - STRIDE] - values[-1] < tol):
            raise StopIteration

    found = minimize(
        value_and_slope,
        L.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=stop_without_progress,
        options={
            "maxiter": max_iter,
            "maxfun": 20 * max_iter,
            "maxcor": MEMORY,
            "ftol": 0,  # progress ends it, see `stop_without_progress`
            "gtol": 0,
        },
    )
    end: FloatArray = found.x.reshape(L.shape)
    n_iter = int(found.nit)
    if coarse and n_iter < max_iter:  # no step in float32 led down
        end, more = _descend(objective, end, tol, max_iter - n_iter, coarse=False)
        n_iter += more
    return end, n_iter


def _compressed(L: FloatArray) -> FloatArray:
    """Return fewer, orthogonal rows with nearly the same L'L."""
    _, singular, axes = svd(L, full_matrices=False)
    kept = singular**2 > NEGLIGIBLE * singular[0] ** 2
    return np.asarray(singular[kept, None] * axes[kept])


def _extended(objective: Objective, L: FloatArray) -> tuple[FloatArray, float]:
    """Add rows so that A moves along minus the negative part of G, as far as f falls most.

    Return the new L and its f; infinity where G has no negative part.
    """
    values, vectors = eigh(objective.gradient(L))
    negative = values < 0
    if not negative.any():
        return L, np.inf
    rows = np.sqrt(-values[negative])[:, None] * vectors.T[negative]

    def with_rows(log_step: float) -> FloatArray:
        return np.vstack([L, np.exp(log_step / 2) * rows])

    # A step that moves A by its own size is too long: of shorter ones, the best to a factor of 2.
    longest = np.log((np.vdot(L, L) + len(objective.rows)) / np.vdot(rows, rows))
    found = minimize_scalar(
        lambda log_step: objective.value_and_slope(with_rows(log_step))[0],
        bounds=(longest - 20, longest),
        method="bounded",
        options={"xatol": 0.7},
    )
    return with_rows(float(found.x)), float(found.fun)
