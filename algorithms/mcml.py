"""MCML: maximally collapsing metric learning (Globerson & Roweis 2005), to its optimum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, svd
from scipy.optimize import OptimizeResult, minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from oasis_bench.algorithms._chosen_neighbours import BLOCK_BYTES, laplacian, slope
from oasis_bench.algorithms._neighbour_choice import choose_neighbours
from oasis_bench.algorithms.axes import AXES_GRID, principal_axes
from oasis_bench.algorithms.base import Count, LabelLearner, Positive
from oasis_bench.data import FloatArray
from oasis_bench.system import shared

RIDGE = 1e-6
"""Share of the mean variance that is added to the scatter within classes to whiten by it."""

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


Minimum: TypeAlias = tuple[FloatArray, float, int, bool]
"""Where the search ended: L (k, d), f there, the iterations, and whether it has converged: stopped
for lack of progress, and not at `max_iter`."""


class MCML(LabelLearner):
    r"""Maximally collapsing metric learning: all rows of a class in one point, others far away.

    A row i chooses another row j as its neighbour with the probability p(j|i), which is larger for
    near rows.  p_0(j|i) is uniform over the other rows of its class, and 0 for rows of other
    classes.  With d_A(i, j), the squared distance of L x_i and L x_j, MCML minimises, over positive
    semi-definite A = L'L (equations 1, 2 and 4),

    .. math::

        f(A) = \sum_i \Big[ \sum_j p_0(j|i) d_A(i, j) + \log \sum_{k \ne i} e^{-d_A(i, k)} \Big] ,
        \qquad p(j|i) = \frac{e^{-d_A(i, j)}}{\sum_{k \ne i} e^{-d_A(i, k)}} ,

    which is the sum of the Kullback-Leibler divergences KL(p_0 | p), up to a constant.  f is
    convex, and its gradient is X'(diag(S1) - S)X with S = (p_0 - p) + (p_0 - p)'.

    Method.  L-BFGS on L goes to the optimum, and then checks that f decreases in no direction.
    The minimum does not depend on the coordinates.  So they are chosen such that the covariance
    within classes is the identity, and few iterations are needed (40 for 400 digits).  An iteration
    needs no eigenvalues, and computes the n^2 exponentials in compiled code.  With more than 500
    rows the iterations use float32 until they gain little.  The rows are first rotated to their
    principal axes.  n rows span at most n - 1 of them, and the optimum is 0 outside this span.

    Collapse.  If some map collapses each class to a point and keeps the classes apart, f has no
    minimum: it approaches its infimum, the sum of log(n_c - 1) over all rows, each of a class of
    n_c rows, as A grows without bound.  This is so for n rows in general position with n - 1
    features or more.  The search then ends with the first A within `tol` of the infimum.  It fits
    the training rows as well as possible, and often ranks other rows badly.  The remedy is fewer
    axes: `n_axes`, which a run tunes.

    An iteration takes O(n^2 r) time, where r is the rank of the rows.  Memory is
    3 n d + 50 r^2 + 10 n r numbers and a block of 8 MiB.

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes used for learning, those of largest variance first; at most the
        rank of the rows.  None: all, as in the paper.
    tol : float, default 1e-5
        Stop when ten iterations, and a search in new directions, reduce f by less than this times
        the number of rows.  The unit is nats per row, and does not depend on the scale of the
        features.
    max_iter : int, default 1000
        The largest number of iterations.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.  It has a row for each eigenvalue of A above 1e-7 of the largest.
    objective_ : float
        f(A).
    n_axes_ : int
        The number of principal axes that were used.
    n_iter_ : int
        The number of iterations.
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

    n_axes: Count | None = None
    tol: Positive = 1e-5
    max_iter: Count = 1000

    def _fit(self, X: Any, y: Any) -> None:
        n_axes = min(self.n_axes or X.shape[1], len(shared(_centred_with_axes, X)[2]))
        L, self.objective_, self.n_iter_, converged = shared(
            _minimum, X, y, n_axes, self.tol, self.max_iter
        )
        if not converged:
            warnings.warn(
                f"MCML ended at max_iter={self.max_iter} short of its optimum: "
                "raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.components_, self.n_axes_ = L, n_axes

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


def _minimum(X: Any, y: Any, n_axes: int, tol: float, max_iter: int) -> Minimum:
    """Minimise f on the first axes, in whitened coordinates."""
    centred, squares, axes = shared(_centred_with_axes, X)
    squares, axes = squares[:n_axes], axes[:n_axes]
    labels = np.unique(y, return_inverse=True)[1]
    rows = centred @ axes.T
    whitening = _whitening(Objective(rows, labels).pull, RIDGE * float(squares.mean()))
    objective = Objective(rows @ whitening.T, labels)
    start = np.eye(len(axes))
    L, value, n_iter, converged = minimise(objective, start, tol * len(rows), max_iter)
    return L @ whitening @ axes, value, n_iter, converged


def _whitening(scatter: FloatArray, ridge: float) -> FloatArray:
    """Return T with T S T' near I, shape (d, d); axes along which S is 0 stay finite."""
    values, vectors = eigh(scatter)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 0) + ridge)).T)


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
    pull : ndarray of shape (d, d)
        C.
    infimum : float
        The sum of log(n_c - 1), which f comes to where rows of a class collapse and the classes
        part: f less this is the Kullback-Leibler divergence that the paper minimises.
    """

    def __init__(self, rows: FloatArray, labels: npt.NDArray[np.intp]) -> None:
        self.rows = rows
        counts = np.bincount(labels)
        self.infimum = float((counts * np.log(counts - 1)).sum())
        self.pull = np.zeros((rows.shape[1], rows.shape[1]))
        for number, count in enumerate(counts):
            members = rows[labels == number]
            members -= members.mean(axis=0)
            self.pull += 2 * count / (count - 1) * (members.T @ members)

    def value_and_slope(self, L: FloatArray, coarse: bool = False) -> tuple[float, FloatArray]:
        """Return f and its derivative 2 L G by L, shape (k, d); time n^2 k + n^2 min(2k, d)."""
        log_sums, pushed = slope(self.rows, L, choose_neighbours, 1.0, coarse)
        pulled = L @ self.pull
        return float(np.vdot(pulled, L)) + log_sums, 2 * (pulled - pushed)

    def gradient(self, L: FloatArray) -> FloatArray:
        """Return the gradient G of f by A, shape (d, d), symmetric; time n^2 (k + d)."""
        return self.pull - laplacian(self.rows, self.rows @ L.T, choose_neighbours, row_sum=1.0)[1]


def minimise(objective: Objective, L: FloatArray, tol: float, max_iter: int) -> Minimum:
    """Go from A = L'L to the minimum of f; its L has orthogonal rows, the longest first.

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
        The largest number of iterations of L-BFGS.
    """
    n_iter = 0
    while True:
        coarse = n_iter == 0 and len(objective.rows) > FEW
        L, done = _descend(objective, L, tol, max_iter - n_iter, coarse)
        n_iter += done
        L = _compressed(L)
        value, _ = objective.value_and_slope(L)
        if n_iter >= max_iter:
            return L, value, n_iter, False
        extended, lower = _extended(objective, L)
        if lower > value - tol:
            return L, value, n_iter, True
        L = extended


def _descend(
    objective: Objective, L: FloatArray, tol: float, max_iter: int, coarse: bool
) -> tuple[FloatArray, int]:
    """Run L-BFGS until `STRIDE` iterations lower f by less than `tol`; return L, iterations."""
    values: list[float] = []

    def value_and_slope(flat: FloatArray) -> tuple[float, FloatArray]:
        value, slope = objective.value_and_slope(flat.reshape(L.shape), coarse)
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
