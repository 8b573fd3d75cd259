"""MMC: spread the classes at a fixed spread within them (Xing et al. 2003), full matrix."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigvalsh
from sklearn.exceptions import ConvergenceWarning

from oasis_bench.algorithms.axes import (
    AXES_GRID,
    WithinClassLearner,
    axes_to_keep,
    pair_scatter,
    principal_axes,
    rounding,
    whitening,
)
from oasis_bench.algorithms.base import Count, FromZero
from oasis_bench.data import FloatArray
from oasis_bench.system import shared

BLOCK_NUMBERS = 2**19
"""Pairs whose distances are held at once: 4 MiB, about what a processor's cache holds."""

CLOSEST = 1e-14
"""Squared distance, as a share of the longest squared row, below which there is only rounding."""


class MMC(WithinClassLearner):
    r"""Mahalanobis metric for clustering, over all pairs, to a proven gap from its optimum.

    Let S be the pairs of rows of one class, D the pairs of rows of two classes, and z the
    difference of a pair.  MMC solves the convex problem

    .. math::

        \max_{M \succeq 0} \sum_D \sqrt{z^\top M z}
        \quad \text{where} \quad \sum_S z^\top M z \le 1 ,

    Method.  The rows are whitened by the sum of zz' over S.  With M = L'L the constraint is then
    |L|^2 = 1, and the objective g(L) is the sum of |Lz| over D.  A step goes from L to L G and
    scales the result to length 1, where G is half the sum of zz' / |Lz| over D.  As g is
    homogeneous and convex in L, such a step never decreases g.  Steps to L G G are tried first, and
    are about twice as fast.  The start is L = I, the metric of RCA.  As a function of L'L the
    objective is concave, and G is its gradient.  So the maximum is at most g(L) / 2 + the largest
    eigenvalue of G; the iterations stop when g is close to this bound.

    The optimum usually has a rank of 1 to 5, so its distances are coarse, and a larger `tol` often
    ranks better.  Directions in which no class varies are left out, because the objective would be
    unbounded.  If there are few rows, they are first projected on their principal axes, as for RCA.

    An iteration takes O(n^2 k) time for k axes; the default `tol` needs 4 to 10 iterations.  The
    axes take O(n d min(n, d)) time.  Memory is 5 n d + 4 min(n, d)^2 numbers and one block of
    distances (4 MiB).

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes used for learning, those of largest variance first; at most the
        rank of the rows.  None, with n rows in c classes: (n - c) // 2, or all axes if these are
        fewer.
    tol : float, default 1e-3
        Stop when the gap (see `gap_`) is at most this.
    max_iter : int, default 1000
        The largest number of iterations.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    objective_ : float
        The sum of the distances over all pairs of rows from two classes.
    gap_ : float
        An upper bound of (optimum - `objective_`) / `objective_`.
    n_iter_ : int
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int

    References
    ----------
    Xing, Ng, Jordan & Russell (2003), Distance Metric Learning, with Application to Clustering
    with Side-Information, NIPS 15.
    """

    name: ClassVar = "MMC"
    summary: ClassVar = "metric for clustering: classes far apart, each kept together"
    citation: ClassVar = "Xing, Ng, Jordan & Russell, NIPS 15 (2003)"
    cost: ClassVar = "time n^2 d an iteration, memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_axes": AXES_GRID,
        "tol": (0.1, 1e-3, 0.3),
    }

    takes_pairs: ClassVar = True

    _copies_of_rows: ClassVar = 5

    tol: FromZero = 1e-3
    max_iter: Count = 1000

    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        whitened, ascent = shared(_start, rows, classes, directions)
        return self._ascend(ascent) @ whitened

    def partial_fit_pairs(self, X: Any, alike: npt.ArrayLike, unlike: npt.ArrayLike) -> Self:
        """Learn from given pairs, from scratch: S and D are these alone.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        alike, unlike : array of shape (n_pairs, 2), integers
            Row numbers of `X`: S and D.  Without `n_axes` there are half as many principal axes as
            S has pairs, or all axes if these are fewer.

        Raises
        ------
        ValueError
            If these are no row numbers of `X`, or all rows, or the rows of all pairs of a kind,
            are equal.
        """
        X, *pairs = self._validated_pairs(X, alike, unlike)
        squares, axes = principal_axes(np.asarray(X - X.mean(axis=0), dtype=np.float64))
        if not len(axes):
            raise ValueError(f"all {len(X)} rows are equal: MMC needs rows that differ")
        self.n_axes_ = min(self.n_axes or axes_to_keep(len(pairs[0]), len(axes)), len(axes))
        axes = axes[: self.n_axes_]
        of_one, of_two = ((X[left] - X[right]) @ axes.T for left, right in (p.T for p in pairs))
        whitened = whitening(of_one.T @ of_one, rounding(X.shape) * float(squares[0]))
        differences = of_two @ whitened.T
        if not differences.any():
            raise ValueError(
                f"MMC needs pairs of either kind whose rows differ, and of {len(of_one)} and "
                f"{len(of_two)} none do in a direction in which the others do"
            )
        ascent = Ascent(differences, None, np.eye(len(whitened)))
        self.components_ = self._ascend(ascent) @ whitened @ axes
        return self

    def _ascend(self, ascent: Ascent) -> FloatArray:
        found, self.n_iter_ = ascent.go_on(self.tol, self.max_iter)
        if found.gap > self.tol:
            warnings.warn(
                f"MMC came to a gap of {found.gap:.1e} in max_iter={self.max_iter} iterations, "
                f"above tol={self.tol:g}: raise one of them",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.objective_, self.gap_ = found.objective, found.gap
        return found.L


class Point(NamedTuple):
    """A metric of the spread 1 within classes, and what is known of the objective there."""

    L: FloatArray
    gradient: FloatArray
    objective: float
    gap: float


class Ascent:
    """Maximises the sum of |Lz| over the pairs of two classes, where |L| = 1.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, k)
        Classes lie together.
    classes : list of slice, optional
        The rows of each class.  None: the rows are the differences z of the pairs.
    start : ndarray of shape (k, k)
        L to start from, of full rank: a direction that it lacks is never found.
    """

    def __init__(self, rows: FloatArray, classes: list[slice] | None, start: FloatArray) -> None:
        self._rows, self._classes = rows, classes
        self._first = self._best = _evaluate(rows, classes, start)
        self._n_iter, self._gap_before = 0, np.inf

    def go_on(self, tol: float, max_iter: int) -> tuple[Point, int]:
        """Iterate until the relative gap is `tol`; return the point and its number of iterations.

        Goes on from where it is; from the start again where that is too far.
        """
        if self._gap_before <= tol or self._n_iter > max_iter:
            self._best, self._n_iter, self._gap_before = self._first, 0, np.inf
        while self._best.gap > tol and self._n_iter < max_iter:
            self._gap_before = self._best.gap
            self._n_iter += 1
            step = self._best.L @ self._best.gradient
            found = _evaluate(self._rows, self._classes, step @ self._best.gradient)
            if found.objective < self._best.objective:  # too far; the plain step cannot be
                found = _evaluate(self._rows, self._classes, step)
            self._best = found
        return self._best, self._n_iter


def _start(
    rows: FloatArray, classes: list[slice], directions: FloatArray
) -> tuple[FloatArray, Ascent]:
    """Whiten rows by the sum of zz' over pairs of a class; return how, and the ascent from I."""
    whitened = whitening(pair_scatter(rows @ directions.T, classes), 0.0) @ directions
    return whitened, Ascent(rows @ whitened.T, classes, np.eye(len(whitened)))


def _evaluate(rows: FloatArray, classes: list[slice] | None, L: FloatArray) -> Point:
    L = L / np.linalg.norm(L)
    gradient = pair_gradient(rows, classes, L)
    objective = 2 * float(np.vdot(L @ gradient, L))
    last = len(gradient) - 1
    largest = float(eigvalsh(gradient, subset_by_index=(last, last))[0])
    return Point(L, gradient, objective, largest / objective - 0.5)


def pair_gradient(rows: FloatArray, classes: list[slice] | None, L: FloatArray) -> FloatArray:
    """Return G (k, k), half the sum of zz' / |Lz| over the pairs of two classes.

    With weights w_ij = 1 / |Lz| that is half of X'(D - W)X, where D holds the sums of the rows of
    W; pairs go by in blocks.
    """
    mapped = rows @ L.T
    squares = np.einsum("ij,ij->i", mapped, mapped)
    if classes is None:
        lengths = np.sqrt(np.maximum(squares, CLOSEST * float(squares.max())))
        return np.asarray((rows / lengths[:, None]).T @ rows / 2)
    ones = np.ones_like(squares)
    # One product of matrices gives |Lx|^2 - 2 x'L'Ly + |Ly|^2.
    left = np.column_stack([-2 * mapped, squares, ones])
    right = np.column_stack([mapped, ones, squares])
    floor = CLOSEST * float(squares.max())
    degrees, weighted = np.zeros(len(rows)), np.zeros_like(rows)
    for some, others in _pair_blocks(classes):
        weights = left[some] @ right[others].T
        np.maximum(weights, floor, out=weights)
        np.reciprocal(np.sqrt(weights, out=weights), out=weights)
        degrees[some] += weights.sum(axis=1)
        degrees[others] += weights.sum(axis=0)
        weighted[some] += weights @ rows[others]
    cross = rows.T @ weighted
    return np.asarray(((degrees[:, None] * rows).T @ rows - cross - cross.T) / 2)


def _pair_blocks(classes: list[slice]) -> Iterator[tuple[slice, slice]]:
    """Cut the pairs of two classes into blocks of rows of a class and rows of later ones."""
    n_rows = classes[-1].stop
    for part in classes[:-1]:
        others = slice(part.stop, n_rows)
        step = max(1, BLOCK_NUMBERS // (n_rows - part.stop))
        for start in range(part.start, part.stop, step):
            yield slice(start, min(start + step, part.stop)), others
