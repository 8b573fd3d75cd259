"""Minimises LMNN's objective over A, M = A'A: L-BFGS with a working set and a certificate.

The objective's own formulas are in `_objective.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dtrtrs

from oasis_bench.algorithms.lmnn._objective import Doubles, Objective, Value
from oasis_bench.system import slices

MEMORY, LEAST_MEMORY, MEMORY_NUMBERS = 60, 10, 2**24
"""Steps that L-BFGS remembers, fewer where they would hold more than so many numbers."""


def remembered(size: int) -> int:
    """Return how many steps of `size` numbers L-BFGS remembers."""
    return max(LEAST_MEMORY, min(MEMORY, MEMORY_NUMBERS // size))


SLOTS = 8
"""Steps that are rotated at once."""


FIRST_BLOCKS = (1, 1, 3, 5)
BLOCK = 10
"""Iterations between two searches for impostors; the first steps are long."""

ARMIJO, WOLFE, TRIALS = 1e-4, 0.9, 40

WIDTH, SHARPER = 0.1, 0.4
"""Where the hinge is rounded off at first, and how much less each time."""

DROP, REGROWTH = 1e-4, 1e-2
"""Rows of A that hold so little of eps, times the tolerance, are dropped; a new one holds more."""


class Solution(NamedTuple):
    """Where the descent ended.

    Attributes
    ----------
    A : ndarray of shape (r, d)
    value : float
        eps(A'A), the hinge not rounded, over all triplets.
    bound : float
        No M has a smaller eps than this.
    n_iter : int
    """

    A: Doubles
    value: float
    bound: float
    n_iter: int


class _History:
    """The last steps and what they changed in the gradient: L-BFGS's view of the curvature.

    The two loops over the steps are two triangular systems: with s_i the steps, y_i the changes,
    oldest first, and R_ij = s_i'y_j for i <= j, else 0 (Byrd, Nocedal & Schnabel 1994).
    """

    def __init__(self, d: int) -> None:
        self._d = d
        self._steps, self._changes = np.empty((2, remembered(d * d) * d * d))  # by slots
        self._products = np.empty((MEMORY, MEMORY))  # s'y, by slots
        self._slots: list[int] = []  # of the oldest step first
        self._n_rows = 0

    def forget(self) -> None:
        """Start afresh."""
        self._slots = []

    def add(self, step: Doubles, change: Doubles) -> None:
        """Remember a step, in place of the oldest one where there is no room."""
        if not np.vdot(step, change) > 0:
            return
        if not self._slots:
            self._n_rows = len(step)
        room = self._room(step.size)
        n = len(self._slots)
        slot = n if n < room else self._slots.pop(0)
        self._slots.append(slot)
        steps, changes = self._flat(step.size)
        steps[slot], changes[slot] = step.ravel(), change.ravel()
        self._products[: len(steps), slot] = steps @ changes[slot]

    def rotate(self, U: Doubles) -> None:
        """Follow A -> UA; U may have fewer rows than A, or more."""
        before, after = (n_rows * self._d for n_rows in (self._n_rows, len(U)))
        while len(self._slots) > self._room(after):
            self._drop(self._slots[0], before)
        n = len(self._slots)
        for numbers in (self._steps, self._changes):  # in place, so that they are not held twice
            old = numbers[: n * before].reshape(n, self._n_rows, self._d)
            new = numbers[: n * after].reshape(n, len(U), self._d)
            parts = [*slices(n, SLOTS)]
            for part in parts if after < before else parts[::-1]:
                new[part] = U @ old[part]
        self._n_rows = len(U)
        kept = np.einsum("ij,ij->i", *self._flat(after)) > 0
        for slot in np.flatnonzero(~kept)[::-1].tolist():
            self._drop(slot, after)
        n = len(self._slots)
        steps, changes = self._flat(after)
        self._products[:n, :n] = steps @ changes.T

    def _drop(self, slot: int, size: int) -> None:
        """Forget one step of `size` numbers; that of the last slot moves to its place."""
        last = len(self._slots) - 1
        for numbers in self._flat(size):
            numbers[slot] = numbers[last]
        self._slots.remove(slot)
        self._slots = [slot if other == last else other for other in self._slots]

    def direction(self, gradient: Doubles, A: Doubles) -> Doubles:
        """Return minus the approximate inverse Hessian times the gradient."""
        if not self._slots:
            return -0.1 * np.linalg.norm(A) / np.linalg.norm(gradient) * gradient
        steps, changes = self._flat(A.size)
        order = self._slots
        R = self._products[order][:, order]
        last = changes[order[-1]]
        weights = np.zeros((2, len(order)))
        q = gradient.ravel()
        weights[0, order] = first = dtrtrs(R, (steps @ q)[order])[0]
        q = (q - weights[0] @ changes) * (R[-1, -1] / (last @ last))
        back = np.diag(R) * first - (changes @ q)[order]
        weights[1, order] = dtrtrs(R, back, trans=1)[0]
        found: Doubles = -(q + weights[1] @ steps).reshape(A.shape)
        return found

    def _room(self, size: int) -> int:
        return min(MEMORY, len(self._steps) // size)

    def _flat(self, size: int) -> tuple[Doubles, Doubles]:
        """Return steps and changes of `size` numbers, a row for each slot."""
        n = len(self._slots)
        steps, changes = self._steps[: n * size], self._changes[: n * size]
        return steps.reshape(n, size), changes.reshape(n, size)


class Descent:
    """L-BFGS on A, in coordinates in which the pull is |A|^2 wherever that can be.

    Parameters
    ----------
    objective : Objective
    A : ndarray of shape (r, d)
        Where to start.
    whitened : bool
        Whether the pull is |A|^2; only then there is a certificate.
    tol : float
        Stop where the minimum is known to be at most this fraction of eps below.
    share : float
        Where there is no certificate, stop at this share of eps at the start, or where a block of
        iterations gains less than a tenth of `tol`.
    """

    def __init__(
        self, objective: Objective, A: Doubles, whitened: bool, tol: float, share: float
    ) -> None:
        self.objective, self.A, self.whitened = objective, A, whitened
        self.tol, self.share = tol, share
        self.history = _History(A.shape[1])
        self.bound = 0.0
        self.n_iter = 0
        self._look_again()
        self.first = self.value.exact

    def run(self, max_iter: int) -> Solution:
        """Descend until the certificate is good enough, or for `max_iter` iterations."""
        blocks = [*FIRST_BLOCKS]
        best = Solution(self.A, self.value.exact, 0.0, 0)
        while self.n_iter < max_iter:
            before = self.value.exact
            moved = self._block(min(blocks.pop(0) if blocks else BLOCK, max_iter - self.n_iter))
            if self.whitened:
                self._certify()
                self._drop_rows()
            self._look_again()
            if self.value.exact < best.value:
                best = Solution(self.A, self.value.exact, 0.0, 0)
            gap, enough = best.value - self.bound, self.tol * best.value
            if gap <= enough or (not self.whitened and best.value <= self.share * self.first):
                break
            stalled = not moved or (
                not self.whitened and before - self.value.exact < self.tol / 10 * before
            )
            if self.value.rounding > enough / 3 and (gap < 4 * self.value.rounding or stalled):
                self._sharpen()
            elif stalled:
                break
        return best._replace(bound=self.bound, n_iter=self.n_iter)

    def _look_again(self) -> None:
        self.Z = np.ascontiguousarray(self.objective.rows @ self.A.T)
        self.objective.find_impostors(self.Z)
        self._evaluate()

    def _evaluate(self) -> None:
        self.value: Value = self.objective.value(self.Z)
        self.gradient = 2 * self.objective.laplacian_times(self.Z).T @ self.objective.rows

    def _block(self, length: int) -> bool:
        """Take `length` iterations on the same working set; False where there is no way down."""
        for _ in range(length):
            if not self._step():
                self.history.forget()
                return False
            self.n_iter += 1
        return True

    def _step(self) -> bool:
        """One step that meets the weak Wolfe conditions, found by bisection."""
        if not self.gradient.any():
            return False
        direction = self.history.direction(self.gradient, self.A)
        Z_direction = self.objective.rows @ direction.T
        slope = np.vdot(self.gradient, direction)
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(TRIALS):
            Z = self.Z + t * Z_direction
            value = self.objective.value(Z)
            if value.smoothed > self.value.smoothed + ARMIJO * t * slope:
                high = t
            else:
                product = self.objective.laplacian_times(Z)
                if 2 * np.vdot(product, Z_direction) >= WOLFE * slope:
                    break
                low = t
            t = (low + high) / 2 if np.isfinite(high) else 2 * t
        else:
            return False
        gradient = 2 * product.T @ self.objective.rows
        self.history.add(t * direction, gradient - self.gradient)
        self.A = self.A + t * direction
        self.Z, self.value, self.gradient = Z, value, gradient
        return True

    def _certify(self) -> None:
        """Raise the lower bound by the multipliers of the triplets.

        The dual of LMNN: multipliers of 0 to 1 - w, one a triplet, add up to a lower bound of eps
        where the gradient in M that they give is PSD.  Made smaller by a factor s they give
        (1 - s) I + s G, which is PSD for s = 1 / (1 - smallest eigenvalue of G).
        """
        values, vectors = eigh(self.objective.gradient(), subset_by_index=[0, 0])
        lowest = min(float(values[0]), 0.0)
        self.bound = max(self.bound, self.value.dual / (1 - lowest))
        if lowest < -self.tol and len(self.A) < self.A.shape[1]:
            # A of lower rank than the minimum stays there unless it gets a row that leads down.
            size = np.sqrt(REGROWTH * self.tol * self.value.exact)
            self.history.rotate(np.eye(len(self.A) + 1, len(self.A)))
            self.A = np.vstack([self.A, size * vectors.T])

    def _drop_rows(self) -> None:
        """Rotate A to orthogonal rows and drop those that hold next to nothing of the pull."""
        sizes, vectors = eigh(self.A @ self.A.T)
        U = vectors.T[np.cumsum(sizes) > DROP * self.tol * self.value.exact]
        if 0 < len(U) < len(self.A):
            self.A = U @ self.A
            self.history.rotate(U)

    def _sharpen(self) -> None:
        """Round the hinge off less; what is known of the curvature stays about right."""
        self.objective.width *= SHARPER
        self._evaluate()
