"""LMNN at the minimum of its objective, and on fewer dimensions (Weinberger, Blitzer & Saul).

`Descent` minimises it over A, M = A'A, by L-BFGS with a working set and a certificate; `Objective`
has target neighbours, impostors, value and gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.linalg.lapack import dtrtrs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval

import oasis_bench.algorithms._lmnn as _lmnn
from oasis_bench.algorithms.axes import principal_axes, rounding
from oasis_bench.algorithms.base import Count, LabelLearner, Whole, possible_neighbours
from oasis_bench.system import shared, slices

Doubles: TypeAlias = "npt.NDArray[np.float64]"
Singles: TypeAlias = "npt.NDArray[np.float32]"
Rows: TypeAlias = "npt.NDArray[np.int32]"

SAME_PLACE = 1e-6
"""Squared distance, as a share of the mean squared length, below which two rows coincide."""

MANY_MINIMA_SHARE = 0.25
"""If the minimum is 0, the descent stops at this share of the objective at the start: see `LMNN`.
It was selected from 0.5, 0.25 and 0.1 on inner folds of training rows: validation mAP is 0.505,
0.538 and 0.538 on 400 MNIST images, and 0.170, 0.170 and 0.171 on 400 of Caltech256."""


class LMNN(LabelLearner):
    r"""Large margin nearest neighbour (LMNN), with a bound of the distance from the minimum.

    LMNN learns a distance :math:`d_M(x, y) = (x - y)^\top M (x - y)` with :math:`M = L^\top L`.  It
    pulls the target neighbours j of each row i nearer, and pushes rows l of other classes away.  It
    minimises

    .. math::

        \epsilon(M) = w \sum_{ij} d_M(i, j) + (1 - w) \sum_{ijl} [1 + d_M(i, j) - d_M(i, l)]_+ .

    Method.  The rows are rotated to the principal axes of the training rows.  Only axes on which
    the rows do not differ, up to rounding (1e-7 of the longest), are dropped.  Then the rows are
    scaled so that the pull (the first term) is the squared norm of L.  L-BFGS starts from M = sI,
    with the s of the smallest objective.  It uses only the pairs within reach: rows of two classes
    that are near enough to violate a margin, or nearly.  It searches for these pairs every ten
    iterations.  It uses a smoothed hinge loss, which it sharpens step by step.  The multipliers of
    the triplets give a lower bound of the minimum, and `gap_` is the distance from this bound.

    Collapse.  If some M keeps the classes apart with a pull of 0, the minimum of the objective is
    0.  This is always so if the rows are linearly independent.  At this minimum every class
    collapses into points, and new rows are ranked badly (400 MNIST images: mAP 0.19, Euclidean
    0.44).  In this case the descent is without the scaling, and stops at a quarter of the initial
    objective (mAP 0.50).

    Overfitting.  The minimum can also overfit on other data, where its M has a low rank.  With
    `stop_after`, the descent is without the scaling, so that M changes in few directions at a time,
    and stops early.  On ten digits with 40 rows a class, 25 neighbours and a pull_weight of 0.97,
    mAP is 0.803 at the minimum and 0.816 after 8 iterations.

    If the pull can be 0 but the minimum is not 0 (for example if a feature has one value in each
    class, the same in two of them), the descent continues until the objective no longer
    decreases.  Then there is no bound.

    An iteration takes O(n d r + p r) time, where r <= d is the rank of L, which decreases, and p is
    the number of pairs within reach.  A search for these pairs takes O(n^2 r).  Memory is 6 n d +
    6 d^2 numbers and 16 bytes a pair.  L-BFGS also keeps its last 10 to 60 steps, in at most the
    larger of 256 MiB and 20 d^2 numbers.  M is 0 outside the span of the rows.

    Parameters
    ----------
    n_neighbors : int, default 3
        Number of target neighbours of each row: the nearest rows of its class by Euclidean
        distance.
    pull_weight : float in (0, 1), default 0.5
        The weight w of the pull.  Chechik et al. (JMLR 2010) tune it from {0.125, 0.25, 0.5}.
    max_iter : int, default 1000
        The largest number of iterations.
    tol : float, default 1e-3
        The descent stops at this relative distance from the minimum.
    stop_after : int, default 0
        If positive, stop after this number of iterations without the scaling, before the minimum.
        0 continues to the minimum.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    objective_ : float
        The smallest value of the objective that was found, over all triplets.
    gap_ : float
        An upper bound of the distance from the minimum, as a fraction of `objective_`.  It is 1 if
        there is no bound: if the pull can be 0, or with `stop_after`.
    n_neighbors_ : int
        The number of target neighbours that was used.  It is reduced, with a warning, if the
        smallest class has `n_neighbors` rows or fewer.
    n_iter_ : int
        The number of iterations.
    n_features_in_ : int
        The number of features.

    References
    ----------
    Weinberger, Blitzer & Saul (2005), Distance Metric Learning for Large Margin Nearest Neighbor
    Classification, NIPS 18.  Weinberger & Saul (2009), JMLR 10: the convex program.
    """

    name: ClassVar[str] = "LMNN"
    summary: ClassVar[str] = "large margin nearest neighbour, to its minimum or stopped early"
    citation: ClassVar[str] = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    cost: ClassVar[str] = "time n d^2 an iteration, n^2 d every tenth, memory n d + 20 d^2 + pairs"
    # The papers have 3 neighbours and weights of .125 to .5.  On ten digits, 40 rows a class, mAP
    # is best with 25 and .97.
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_neighbors": (3, 1, 5, 9, 15, 25, 50),
        "pull_weight": (0.5, 0.01, 0.03, 0.125, 0.25, 0.75, 0.9, 0.97, 0.99, 0.997, 0.999),
        "stop_after": (0, 1, 3, 5, 8, 12, 20, 50),
    }
    rotation_invariant: ClassVar = True
    inner_params: ClassVar[Mapping[str, Any]] = {"tol": 0.1}
    """On six tables of KEEL, tuning with this tolerance loses at most .0003 of validation mAP."""

    _least_in_class: ClassVar[int] = 2

    n_neighbors: Count = 3
    pull_weight: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 0.5
    max_iter: Count = 1000
    tol: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 1e-3
    stop_after: Whole = 0

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 6 * n * d + _n_of_descent(n, d)  # beside the pairs within reach, known later

    def _fit(self, X: Any, y: Any) -> None:
        codes = np.unique(y, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        smallest = int(counts.min())
        self.n_neighbors_ = possible_neighbours(self.n_neighbors, smallest, stacklevel=3)
        axes = self._axes(X)
        rows = X[order] @ axes
        targets = target_neighbours(rows, starts, self.n_neighbors_)
        scale = best_scale(rows, starts, targets, self.pull_weight)

        values, vectors = eigh(
            Objective(rows, starts, targets, self.pull_weight, WIDTH).pull_gradient()
        )
        pulled = values > rounding(rows.shape) * values[-1]
        free = rows @ vectors[:, ~pulled]
        free -= free.mean(axis=0)
        many_minima = not pulled.all() and _classes_are_apart(free, starts)
        share = MANY_MINIMA_SHARE if many_minima else 0.0
        if many_minima or self.stop_after:
            roots = np.ones(len(values))
        else:  # free directions are as long as if each row were pulled to the mean
            values[~pulled] = self.pull_weight * self.n_neighbors_ * np.square(free).sum(axis=0)
            roots = np.sqrt(values)
        objective = Objective(rows @ (vectors / roots), starts, targets, self.pull_weight, WIDTH)
        start = np.diag(np.sqrt(scale) * roots)
        early = self.stop_after > 0
        tol = 0.0 if early else self.tol  # the same iterations on inner folds, which have their tol
        descent = Descent(objective, start, bool(pulled.all()) and not early, tol, share)
        A, value = descent.run(min(self.stop_after or self.max_iter, self.max_iter))
        self.components_ = A @ (axes @ (vectors / roots)).T
        self.objective_, self.n_iter_ = value, descent.n_iter
        self.gap_ = 1 - descent.bound / value if value > 0 else 0.0
        if self.n_iter_ >= self.max_iter and self.gap_ > self.tol:
            warnings.warn(
                f"{self.name} ended at max_iter={self.max_iter} with a gap of {self.gap_:.2g}: "
                "raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _axes(self, X: Any) -> Doubles:
        """Return the principal axes (n_features, d) that are used, those of most variance first."""
        return shared(_axes_of, X)[1]


class FastLMNN(LMNN):
    """LMNN on the principal axes of most of the variance, with a larger duality gap.

    It minimises the objective of `LMNN` on fewer dimensions.  This makes tens of thousands of rows
    with hundreds of features affordable: Weinberger & Saul reduce MNIST's 784 pixels to 164
    dimensions, which hold 95 % of the variance.

    Parameters
    ----------
    n_neighbors : int, default 3
    pull_weight : float in (0, 1), default 0.5
    max_iter : int, default 1000
    tol : float, default 1e-2
        As in `LMNN`.
    variance : float in (0, 1], default 0.95
        The smallest share of the variance that the axes must hold.
    stop_after : int, default 0
        As in `LMNN`.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_, objective_, gap_, n_neighbors_, n_iter_, n_features_in_
        As in `LMNN`; the objective is that of the reduced rows.

    References
    ----------
    Weinberger & Saul (2008), Fast Solvers and Efficient Implementations for Distance Metric
    Learning, ICML.
    """

    name: ClassVar[str] = "FastLMNN"
    summary: ClassVar[str] = "LMNN on the principal axes of 95 % of the variance; less precise"
    citation: ClassVar[str] = "Weinberger & Saul, ICML (2008)"

    tol: float = 1e-2
    variance: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.95

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 3 * n * d + _n_of_descent(n, d)  # as if all axes were kept

    def _axes(self, X: Any) -> Doubles:
        variances, axes = shared(_axes_of, X)
        before = np.cumsum(variances) - variances
        return axes[:, before < self.variance * variances.sum()]


def _n_of_descent(n: int, d: int) -> int:
    """Estimate how many numbers the matrices of a descent take, with the steps it remembers."""
    square = min(n, d) ** 2
    return (6 + 2 * remembered(square)) * square


def _axes_of(X: Any) -> tuple[Doubles, Doubles]:
    """Return the variances, times n_rows, and the axes as columns, the greatest first."""
    centred = np.subtract(X, X.mean(axis=0), dtype=np.float64)
    variances, axes = (np.asarray(part, dtype=np.float64) for part in principal_axes(centred))
    if not len(variances):
        raise ValueError("all rows are the same: LMNN needs rows that differ")
    return variances, axes.T


def _classes_are_apart(rows: Doubles, starts: Any) -> bool:
    """Tell whether no two rows of different classes, which lie together, are in one place."""
    least = SAME_PLACE * np.square(rows).sum(axis=1).mean()
    for start, end in pairwise(starts[:-1]):
        if pairwise_distances_argmin_min(rows[start:end], rows[end:])[1].min() ** 2 <= least:
            return False
    return True


MEMORY, LEAST_MEMORY, MEMORY_NUMBERS = 60, 10, 2**24
"""L-BFGS remembers the first number of steps; if these have more numbers than the last, fewer, but
at least the second."""


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
"""The width in which the hinge is smoothed at first, and its factor from one time to the next."""

DROP, REGROWTH = 1e-4, 1e-2
"""Rows of A that hold so little of eps, times the tolerance, are dropped; a new one holds more."""


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
        If there is no certificate, stop at this share of eps at the start, or where a block of
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

    def run(self, max_iter: int) -> tuple[Doubles, float]:
        """Descend until the certificate is good enough, or for `max_iter` iterations.

        Return the best A (r, d), and eps(A'A), the hinge not rounded, over all triplets.  No M has
        a smaller eps than `bound`.
        """
        blocks = [*FIRST_BLOCKS]
        best, least = self.A, self.value.exact
        while self.n_iter < max_iter:
            before = self.value.exact
            moved = self._block(min(blocks.pop(0) if blocks else BLOCK, max_iter - self.n_iter))
            if self.whitened:
                self._certify()
                self._drop_rows()
            self._look_again()
            if self.value.exact < least:
                best, least = self.A, self.value.exact
            gap, enough = least - self.bound, self.tol * least
            if gap <= enough or (not self.whitened and least <= self.share * self.first):
                break
            stalled = not moved or (
                not self.whitened and before - self.value.exact < self.tol / 10 * before
            )
            if self.value.rounding > enough / 3 and (gap < 4 * self.value.rounding or stalled):
                self._sharpen()
            elif stalled:
                break
        return best, least

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


SLACK = 0.3
"""The working set also has pairs that are farther than those that count, by this fraction."""

LEADING = 0.95
"""Pairs are first searched for on the axes with this share of the variance of Z.  On these axes no
pair is farther apart than on all.  There are few of them: 40 of 140, and fewer later."""

ROUNDING = 1e-5
"""That search is in single precision.  Its squared distances are lowered by this share of the rows'
squared lengths, so that no pair within reach is missed."""

BLOCK_ROWS = 1024
"""Rows on a side of a block of distances: 4 MB."""

SCALE_ANCHORS, SCALE_IMPOSTORS = 200, 500
"""The numbers of rows from which the scale of the start is computed."""

FEW_MARGINS = 1024
"""So many margins are sorted at once."""


class Value(NamedTuple):
    """The objective at a point, over the working set.

    Attributes
    ----------
    exact : float
        eps(M) with the hinge as it is.
    smoothed : float
        With the hinge rounded off at its kink, the function that is descended.
    rounding : float
        What the duality gap owes to the rounding alone.
    dual : float
        Sum of the triplets' multipliers: a lower bound of the minimum where they are feasible.
    """

    exact: float
    smoothed: float
    rounding: float
    dual: float


class Objective:
    """eps as a function of Z = X A', with the weights that its gradient needs.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d)
        Sorted by class.
    starts : ndarray of shape (n_classes + 1,)
        Where each class begins, and n_rows.
    targets : ndarray of shape (n_rows, k)
        Target neighbours of each row.
    pull_weight : float
    width : float
        Losses from 0 to this are on the rounded part of the hinge.
    """

    def __init__(
        self, rows: Doubles, starts: Rows, targets: Rows, pull_weight: float, width: float
    ) -> None:
        self.rows, self.starts, self.targets = rows, starts, targets
        self.pull_weight, self.width = pull_weight, width
        self.target_slopes = np.zeros(targets.shape)
        self.use_pairs(np.empty((0, 2), dtype=np.int32))

    def use_pairs(self, pairs: Rows) -> None:
        """Take `pairs` (m, 2) of rows of different classes as the working set."""
        self.pairs = pairs
        self.pair_slopes = np.zeros(len(pairs))

    def value(self, Z: Doubles) -> Value:
        """Evaluate at Z (n_rows, r), and keep the slopes of the hinges."""
        distances = np.empty(self.targets.shape)
        self.target_slopes[:] = 0
        pull = self.pull_weight * _lmnn.target_distances(Z, self.targets, distances)
        push = 1 - self.pull_weight
        hinge, smoothed, product, slopes = _lmnn.hinge_losses(
            Z, self.pairs, distances, self.width, self.target_slopes, self.pair_slopes
        )
        return Value(
            pull + push * hinge, pull + push * smoothed, push * (hinge - product), push * slopes
        )

    def laplacian_times(self, Z: Doubles) -> Doubles:
        """Return B Z (n_rows, r), where X'BX is the gradient of the last value in M."""
        push = 1 - self.pull_weight
        product = np.zeros_like(Z)
        _lmnn.laplacian_times(
            Z,
            self.targets,
            self.pull_weight + push * self.target_slopes,
            self.pairs,
            push * self.pair_slopes,
            product,
        )
        return product

    def gradient(self) -> Doubles:
        """Return the gradient in M (d, d) of the last value."""
        return self.rows.T @ self.laplacian_times(self.rows)

    def pull_gradient(self) -> Doubles:
        """Return the gradient in M (d, d) of the pull alone, which is constant."""
        differences = np.zeros((self.rows.shape[1],) * 2)
        for column in self.targets.T:
            step = self.rows - self.rows[column]
            differences += step.T @ step
        return self.pull_weight * differences

    def find_impostors(self, Z: Doubles) -> None:
        """Make the working set of all pairs within reach at Z, and of those somewhat beyond."""
        distances = np.empty(self.targets.shape)
        _lmnn.target_distances(Z, self.targets, distances)
        reach = (1 + SLACK) * (1 + distances.max(axis=1))
        leading = _on_leading_axes(Z)
        norms = (1 - ROUNDING) * np.einsum("ij,ij->i", leading, leading)
        found = []
        with np.errstate(over="ignore", invalid="ignore"):  # such pairs are checked like others
            single = leading.astype(np.float32), norms.astype(np.float32), reach.astype(np.float32)
            for sides in self._blocks():
                pairs = _near(*single, *sides)
                found.append(pairs[: _lmnn.keep_within_reach(Z, reach, pairs)].copy())
        self.use_pairs(np.concatenate(found))

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        n_rows = len(self.rows)
        for start, stop in zip(self.starts[:-2], self.starts[1:-1], strict=True):
            for left in range(start, stop, BLOCK_ROWS):
                for right in range(stop, n_rows, BLOCK_ROWS):
                    yield (
                        slice(left, min(left + BLOCK_ROWS, stop)),
                        slice(right, min(right + BLOCK_ROWS, n_rows)),
                    )


def _on_leading_axes(Z: Doubles) -> Doubles:
    """Return the centred rows (n_rows, k) on the principal axes that hold most of the variance."""
    centred = Z - Z.mean(axis=0)
    variances, axes = eigh(centred.T @ centred)
    left_out = np.cumsum(variances) <= (1 - LEADING) * variances.sum()
    leading: Doubles = centred @ axes[:, ~left_out]
    return leading


def _near(Z: Singles, norms: Singles, reach: Singles, left: slice, right: slice) -> Rows:
    products = Z[left] @ Z[right].T
    room = max(1, products.size // 16)
    while True:
        pairs = np.empty((room, 2), dtype=np.int32)
        count = _lmnn.pairs_within_reach(
            products,
            norms[left],
            norms[right],
            reach[left],
            reach[right],
            left.start,
            right.start,
            pairs,
        )
        if count <= room:
            return pairs[:count]
        room = count


def target_neighbours(X: Doubles, starts: Rows, n_neighbors: int) -> Rows:
    """Return the `n_neighbors` nearest rows of the same class (n_rows, n_neighbors)."""
    targets = np.empty((len(X), n_neighbors), dtype=np.int32)
    for start, stop in pairwise(starts.tolist()):
        search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X[start:stop])
        targets[start:stop] = start + search.kneighbors(return_distance=False)
    return targets


def best_scale(X: Doubles, starts: Rows, targets: Rows, pull_weight: float) -> float:
    """Return about the s that minimises eps(sI), found from some of the rows.

    eps(sI) is convex and piecewise linear in s, with a kink at 1 / c for each triplet whose
    impostor is c farther than its target: the slope changes its sign where the c below 1 / s
    sum up to the pull.
    """
    n_rows = len(X)
    anchors = np.unique(np.linspace(0, n_rows - 1, SCALE_ANCHORS).astype(int))
    others = np.unique(np.linspace(0, n_rows - 1, SCALE_IMPOSTORS).astype(int))
    classes = np.searchsorted(starts, np.arange(n_rows), side="right")
    near = ((X[anchors, None] - X[targets[anchors]]) ** 2).sum(axis=2)
    norms = np.einsum("ij,ij->i", X, X)
    far = norms[anchors, None] + norms[others] - 2 * X[anchors] @ X[others].T
    margins = (far[:, None] - near[:, :, None])[
        np.broadcast_to(
            (classes[anchors, None] != classes[others])[:, None],
            (len(anchors), targets.shape[1], len(others)),
        )
    ]
    share = (n_rows / len(others)) * (1 - pull_weight) / pull_weight
    least, below = near.sum() / share, 0.0  # find by halves where the sum of the smallest is enough
    while len(margins) > FEW_MARGINS:
        half = len(margins) // 2
        margins.partition(half)
        sum_of_half = margins[:half].sum()
        if below + sum_of_half >= least:
            margins = margins[:half]
        else:
            margins, below = margins[half:], below + sum_of_half
    margins.sort()
    enough = np.flatnonzero(below + np.cumsum(margins) >= least)
    margin = margins[enough[0] if len(enough) else -1]
    return float(1 / margin) if margin > 0 else 1.0
