"""Axes of rows: the principal ones, and those that whiten the scatter within classes (RCA)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh, svd

from oasis_bench.algorithms.base import Count, LabelLearner
from oasis_bench.data import FloatArray
from oasis_bench.system import shared

AXES_GRID = (None, 1, 2, 4, 8, 16, 32, 64, 128)
"""Numbers of principal axes that are tuned, from all there are, as the papers have, to one."""


def rounding(shape: tuple[int, ...]) -> float:
    """Return the share of the largest sum of squares that a mere rounding error may reach.

    The machine epsilon of float64 times the longer side of a matrix of such `shape`, as in
    `numpy.linalg.matrix_rank`.  It is a share of squares: along an axis it stands for about 1e-7
    of the largest length, so that features that float32 made dependent count as dependent.
    """
    return float(np.finfo(np.float64).eps) * max(shape)


def principal_axes(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the axes along which centred rows (n_rows, n_features) vary by more than rounding.

    Returns the sums of the squared coordinates along each axis (rank,), the largest first, and the
    axes (rank, n_features), orthonormal.
    """
    n_rows, n_features = centred.shape
    if n_rows < n_features:
        _, singular, axes = svd(centred, full_matrices=False)
        squares = singular**2
    else:
        values, vectors = eigh(centred.T @ centred, overwrite_a=True)
        squares, axes = values[::-1], vectors.T[::-1]
    kept = squares > rounding(centred.shape) * squares[0]
    return squares[kept], axes[kept]


def basis_and_coordinates(X: FloatArray) -> tuple[Any, Any]:
    """Return an orthonormal basis Q (d, r) of what rows X (n, d) span, and XQ, in float64.

    r = min(n, d), and X = XQQ'.
    """
    basis, rows = np.linalg.qr(X.T.astype(np.float64, copy=False))
    return basis, np.ascontiguousarray(rows.T)


def whitening(scatter: FloatArray, floor: float) -> FloatArray:
    """Return V (rank, d), V S V' = I, over the eigenvectors of S with eigenvalues above `floor`.

    S is positive semi-definite, and `floor` what is no more than rounding in it.
    """
    values, vectors = eigh(scatter)
    kept = values > floor
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


class WithinClassLearner(LabelLearner):
    """Project rows on principal axes, leave out directions without variation, then learn.

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes of the rows, those of largest variance first; at most the
        rank of the rows.  None: half of n - c, the degrees of freedom of n rows in c classes, or
        all axes if these are fewer.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int
    """

    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"n_axes": AXES_GRID}
    rotation_invariant: ClassVar = True

    _least_in_largest: ClassVar[int] = 2
    _learns_within: ClassVar = True
    _copies_of_rows: ClassVar[int] = 3

    n_axes: Count | None = None

    @abstractmethod
    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        """Learn a matrix (n_components, n_axes).

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_axes), float64
            Coordinates on the principal axes; their mean is 0 and classes lie together.
        classes : list of slice
            The rows of each class.
        directions : ndarray of shape (n_directions, n_axes)
            V with V S V' = I, where S is the scatter within classes, in sums of squares.
        """

    def _fit(self, X: Any, y: Any) -> None:
        rows, classes, _, axes = shared(by_class_with_axes, X, y)
        n_axes = self.n_axes or axes_to_keep(len(rows) - len(classes), len(axes))
        self.n_axes_ = min(n_axes, len(axes))
        projected, directions = shared(_on_axes, X, y, self.n_axes_)
        if not len(directions):
            raise ValueError(
                f"no class varies by more than rounding along the first {self.n_axes_} principal "
                "axes of the rows: give a larger n_axes"
            )
        self.components_ = self._learn(projected, classes, directions) @ axes[: self.n_axes_]

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return self._copies_of_rows * n * d + 4 * min(n, d) ** 2


class RCA(WithinClassLearner):
    r"""Relevant component analysis, with the classes as chunklets.

    .. math::

        M = C^{-1}, \qquad
        C = \frac{1}{n} \sum_i (x_i - m_{y_i}) (x_i - m_{y_i})^\top ,

    where m_k is the mean of class k.  With n rows in c classes, C has n - c degrees of freedom.  If
    the rank of the rows is higher, C is singular.  If it is about as high, C can be inverted, but
    its smallest eigenvalues are close to 0 (the law of Marchenko and Pastur), and noise dominates
    the inverse.  With half as many axes the smallest eigenvalues are still 9 % of the true ones.
    So the rows are projected on at most (n - c) // 2 principal axes.  Directions along which no
    class varies would have infinite weight, so they are left out.

    Time n d min(n, d), memory 3 n d + 4 min(n, d)^2 numbers.

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes that are whitened, those of largest variance first; at most the
        rank of the rows.  None: (n - c) // 2, or all axes, as in the paper, if these are fewer.
        The papers on OASIS (JMLR 2010, section 5.3) also reduce the dimension first.  With few rows
        the best number is much smaller, so it is tuned.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L, with L'L = M.
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int

    References
    ----------
    Bar-Hillel, Hertz, Shental & Weinshall (2003), Learning Distance Functions using Equivalence
    Relations, ICML 20.
    """

    name: ClassVar = "RCA"
    summary: ClassVar = "relevant component analysis: inverse covariance within classes"
    citation: ClassVar = "Bar-Hillel, Hertz, Shental & Weinshall, ICML 20 (2003)"
    cost: ClassVar = "time n d min(n, d), memory n d + min(n, d)^2"

    _least_classes: ClassVar = 1

    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(len(rows)) * directions)


def within_scatter(rows: FloatArray, classes: list[slice]) -> FloatArray:
    """Sum (x - mean)(x - mean)' (d, d) over the `rows` (n, d), each with the mean of its class."""
    centred = np.concatenate([rows[part] - rows[part].mean(axis=0) for part in classes])
    return np.asarray(centred.T @ centred)


def pair_scatter(rows: FloatArray, classes: list[slice]) -> FloatArray:
    """Sum zz' (d, d) over the pairs of one class: n_k times the scatter of class k."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for part in classes:
        total += (part.stop - part.start) * within_scatter(rows, [part])
    return total


def by_class_with_axes(X: Any, y: Any) -> tuple[FloatArray, list[slice], FloatArray, FloatArray]:
    """Return rows less their mean, classes together, their slices, and the `principal_axes`."""
    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    ends = np.cumsum([0, *counts]).tolist()
    rows = np.asarray(X, dtype=np.float64)[np.argsort(labels, kind="stable")]
    rows -= rows.mean(axis=0)
    return rows, [slice(start, end) for start, end in pairwise(ends)], *principal_axes(rows)


def _on_axes(X: Any, y: Any, n_axes: int) -> tuple[FloatArray, FloatArray]:
    """Return the rows of `by_class_with_axes` on some axes, and their directions for `_learn`."""
    rows, classes, squares, axes = shared(by_class_with_axes, X, y)
    projected = rows @ axes[:n_axes].T
    floor = rounding(rows.shape) * float(squares[0])
    return projected, whitening(within_scatter(projected, classes), floor)


def axes_to_keep(degrees: int, rank: int) -> int:
    """Return on how many of `rank` principal axes to learn: at most half the degrees of freedom.

    As a share it means the same on an inner fold, which has fewer rows, as in the final fit.
    """
    return min(rank, max(1, degrees // 2))
