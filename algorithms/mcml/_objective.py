"""The objective of MCML and its gradient; not the search for its minimum (`_descent.py`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms._chosen_neighbours import coarse_slope, laplacian, slope
from oasis_bench.algorithms._neighbour_choice import choose_neighbours
from oasis_bench.data import FloatArray


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
        """Return f and its derivative 2 L G by L, shape (k, d); time n^2 k + n^2 min(2k, d)."""
        log_sums, pushed = slope(self.rows, L, self.rows @ L.T, choose_neighbours, row_sum=1.0)
        pulled = L @ self._pull
        return float(np.vdot(pulled, L)) + log_sums, 2 * (pulled - pushed)

    def coarsely(self, L: FloatArray) -> tuple[float, FloatArray]:
        """Return the same by products in float32, where they have digits enough."""
        found = coarse_slope(self.rows, L, choose_neighbours, row_sum=1.0)
        if found is None:
            return self.value_and_slope(L)
        pulled = L @ self._pull
        return float(np.vdot(pulled, L)) + found[0], 2 * (pulled - found[1])

    def gradient(self, L: FloatArray) -> FloatArray:
        """Return the gradient G of f by A, shape (d, d), symmetric; time n^2 (k + d)."""
        return self._pull - laplacian(self.rows, self.rows @ L.T, choose_neighbours, row_sum=1.0)[1]
