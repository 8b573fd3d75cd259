"""The objective of MCML and its gradient; not the search for its minimum (`_descent.py`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms.mcml._mcml import choose_neighbours
from oasis_bench.data.rows import FloatArray
from oasis_bench.system.threads import slices

SCORE_BYTES = 16 * 2**20
"""Pairs of rows are gone through in blocks of this size: larger ones are no faster."""


class Objective:
    r"""f(A) = sum_i [ sum_j p0(j|i) d_A(i, j) + log sum_{k != i} exp(-d_A(i, k)) ], A = L'L.

    The first sum is <A, C> with a matrix C that does not depend on A.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d), float64
        Their mean is near 0, for the sake of rounding alone.
    labels : ndarray of shape (n_rows,), int
        Class numbers from 0 on; each class has 2 rows or more.

    Attributes
    ----------
    infimum : float
        The sum of log(n_c - 1), which f comes to where rows of a class collapse and the classes
        part: f less this is the Kullback-Leibler divergence that the paper minimises.
    """

    def __init__(self, rows: FloatArray, labels: npt.NDArray[np.intp]) -> None:
        self.rows = rows
        counts = np.bincount(labels)
        self.infimum = float((counts * np.log(counts - 1)).sum())
        self._pull = np.zeros((rows.shape[1], rows.shape[1]))
        for number, count in enumerate(counts):
            members = rows[labels == number]
            members -= members.mean(axis=0)
            self._pull += 2 * count / (count - 1) * (members.T @ members)

    @property
    def pull(self) -> FloatArray:
        """C, shape (d, d)."""
        return self._pull

    def value_and_slope(self, L: FloatArray) -> tuple[float, FloatArray]:
        """Return f and its derivative 2 L G by L, shape (k, d); time n^2 k."""
        projected = self.rows @ L.T
        pulled = L @ self._pull
        push, laplacian = self._push(projected, projected)
        value = float(np.vdot(pulled, L)) + push
        return value, 2 * (pulled - laplacian.T @ self.rows)

    def gradient(self, L: FloatArray) -> FloatArray:
        """Return the gradient G of f by A, shape (d, d), symmetric; time n^2 d + n d^2."""
        _, laplacian = self._push(self.rows @ L.T, self.rows)
        gradient = self._pull - self.rows.T @ laplacian
        return (gradient + gradient.T) / 2

    def _push(self, projected: FloatArray, factor: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum of log sum exp, and its Laplacian times a factor (n, m).

        The Laplacian is diag(1 + P'1) - P - P', with P the probabilities p(j|i).
        """
        n_rows = len(projected)
        squares = np.einsum("ij,ij->i", projected, projected)
        # 2 z_i z_j - |z_j|^2 is minus the distance up to |z_i|^2, which no probability sees.
        left = np.column_stack([projected, np.ones(n_rows)])
        right = np.column_stack([2 * projected, -squares])
        totals, log_sums = np.zeros(n_rows), 0.0
        product = np.zeros_like(factor)
        for block in slices(n_rows, max(1, SCORE_BYTES // (8 * n_rows))):
            probabilities = left[block] @ right.T
            log_sums += choose_neighbours(probabilities, block.start, totals)
            product[block] -= probabilities @ factor
            product -= probabilities.T @ factor[block]
        product += (1 + totals)[:, None] * factor
        return log_sums - float(squares.sum()), product
