"""MCML: maximally collapsing metric learning (Globerson & Roweis 2005), to its optimum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms._chosen_neighbours import BLOCK_BYTES
from oasis_bench.algorithms._label_learner import LabelLearner
from oasis_bench.algorithms._principal_axes import principal_axes
from oasis_bench.algorithms._within_class import AXES_GRID
from oasis_bench.algorithms.mcml._descent import MEMORY, Minimum, minimise
from oasis_bench.algorithms.mcml._objective import Objective
from oasis_bench.data import FloatArray
from oasis_bench.system import shared

RIDGE = 1e-6
"""Share of the mean variance that is added to the scatter within classes to whiten by it."""


class MCML(LabelLearner):
    r"""Maximally collapsing metric learning: all rows of a class in one point, others far away.

    Minimises over positive semi-definite A = L'L, with the probability p that a row chooses a
    neighbour, and p_0 the even one over the other rows of its class (equations 1, 2 and 4),

    .. math::

        f(A) = \sum_i \Big[ \sum_j p_0(j|i) d_A(i, j) + \log \sum_{k \ne i} e^{-d_A(i, k)} \Big] ,
        \qquad p(j|i) = \frac{e^{-d_A(i, j)}}{\sum_{k \ne i} e^{-d_A(i, k)}} ,

    the sum of the Kullback-Leibler divergences KL(p_0 | p) up to a constant.  f is convex, with
    the gradient X'(diag(S1) - S)X, S = (p_0 - p) + (p_0 - p)'.

    Ours goes to the optimum by L-BFGS on L and checks there that no direction is left along which
    f falls.  What makes it fast: f does not change with the coordinates, so they are chosen such
    that the covariance within classes is the identity, and few iterations do (40 for 400 digits);
    an iteration needs no eigenvalues; the n^2 exponentials are compiled; and of more than 500
    rows iterations are in float32 until they gain little.  The rows are first rotated to their
    principal axes: where they are few they span at most n - 1 of them, and the optimum has nothing
    outside.

    Where the rows of each class can be made to collapse and the classes to part, as n rows in
    general position in n - 1 features or more can, f has no minimum: it comes to its infimum, the
    sum of log(n_c - 1), as A grows without bound.  The search then ends with the first A that is
    within `tol` of the infimum, a finite one; it fits the training rows as well as can be, and
    other rows often badly.  Fewer axes are the remedy, and the inner folds choose how many.

    Time n^2 r an iteration, r the rank of the rows; memory 3 n d + 50 r^2 + 10 n r numbers and a
    block of 8 MiB.

    Parameters
    ----------
    n_axes : int or None, default None
        Principal axes on which it learns, the largest variance first; at most the rank of the
        rows.  None takes all, as the paper does.
    tol : float, default 1e-5
        Stop where ten iterations lower f by less than this times the number of rows, and new
        directions do not either: nats a row, whatever the scale of the features is.
    max_iter : int, default 1000
        Iterations at most.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L; as many rows as A has eigenvalues above a 1e-7th of the largest.
    objective_ : float
        f(A).
    n_axes_ : int
        Principal axes taken.
    n_iter_ : int
        Iterations taken.
    n_features_in_ : int

    References
    ----------
    Globerson & Roweis (2005), Metric Learning by Collapsing Classes, NIPS 18.
    """

    name: ClassVar = "MCML"
    summary: ClassVar = "maximally collapsing metric learning, to the optimum"
    citation: ClassVar = "Globerson & Roweis, NIPS 18 (2005)"
    cost: ClassVar = "time n^2 min(n, d) an iteration, memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"n_axes": AXES_GRID}
    rotation_invariant: ClassVar = True

    _least_in_class: ClassVar[int] = 2
    _remedy: ClassVar[str] = "use fewer rows, or lower n_axes"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_axes": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_axes: int | None = None, tol: float = 1e-5, max_iter: int = 1000) -> None:
        self.n_axes = n_axes
        self.tol = tol
        self.max_iter = max_iter

    def _fit(self, X: Any, y: Any) -> None:
        n_axes = min(self.n_axes or X.shape[1], len(shared(_centred_with_axes, X)[2]))
        found, self.components_ = shared(_minimum, X, y, n_axes, self.tol, self.max_iter)
        if not found.converged:
            warnings.warn(
                f"MCML ended at max_iter={self.max_iter} short of its optimum: "
                "raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.objective_ = found.value
        self.n_axes_ = n_axes
        self.n_iter_ = found.n_iter

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        if (X[0] == X).all():
            raise ValueError(f"all {len(X)} rows are equal: there is nothing to tell them apart by")

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        rank = min(n, d, self.n_axes or d)
        return 3 * n * d + (2 * MEMORY + 10) * rank**2 + 10 * n * rank + BLOCK_BYTES // 8


def _centred_with_axes(X: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows less their mean, and their `principal_axes`."""
    centred = np.asarray(X - X.mean(axis=0, dtype=np.float64))
    return centred, *principal_axes(centred)


def _minimum(X: Any, y: Any, n_axes: int, tol: float, max_iter: int) -> tuple[Minimum, FloatArray]:
    """Minimise f on the first axes; return the minimum in whitened coordinates, and L itself."""
    centred, squares, axes = shared(_centred_with_axes, X)
    squares, axes = squares[:n_axes], axes[:n_axes]
    labels = np.unique(y, return_inverse=True)[1]
    rows = centred @ axes.T
    whitening = _whitening(Objective(rows, labels).pull, RIDGE * float(squares.mean()))
    objective = Objective(rows @ whitening.T, labels)
    found = minimise(objective, np.eye(len(axes)), tol * len(rows), max_iter)
    return found, found.L @ whitening @ axes


def _whitening(scatter: FloatArray, ridge: float) -> FloatArray:
    """Return T with T S T' near I, shape (d, d); axes along which S is 0 stay finite."""
    values, vectors = eigh(scatter)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 0) + ridge)).T)
