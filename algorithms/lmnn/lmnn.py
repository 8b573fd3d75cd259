"""LMNN at the minimum of its objective, and on fewer dimensions (Weinberger, Blitzer & Saul)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.lmnn._descent import WIDTH, Descent, remembered
from oasis_bench.algorithms.lmnn._objective import (
    Doubles,
    Objective,
    best_scale,
    target_neighbours,
)
from oasis_bench.algorithms.shared import (
    LabelLearner,
    possible_neighbours,
    principal_axes,
    rounding,
)
from oasis_bench.system import shared

SAME_PLACE = 1e-6
"""Squared distance, as a share of the mean squared length, below which two rows coincide."""

MANY_MINIMA_SHARE = 0.25
"""Of eps at the start: where the descent stops if the minimum is 0, see `LMNN`.  Chosen on inner
folds of training rows, from 0.5, 0.25 and 0.1: validation mAP 0.505, 0.538 and 0.538 on 400 MNIST
images, 0.170, 0.170 and 0.171 on 400 of Caltech256."""


class LMNN(LabelLearner):
    r"""Large margin nearest neighbour: the minimum, with a proof of how near it is.

    Minimises, over M = L'L, with j the target neighbours of i and l the rows of other classes,

    .. math::

        \epsilon(M) = w \sum_{ij} d_M(i, j) + (1 - w) \sum_{ijl} [1 + d_M(i, j) - d_M(i, l)]_+ .

    The rows are rotated to the principal axes of the training rows, with no axis dropped on which
    they differ by more than rounding (1e-7 of the longest), and then scaled so that the pull is the
    squared norm of L.  L-BFGS descends from M = sI, with the s of least objective, on the pairs
    within reach, which are searched for anew every ten iterations; the hinge is rounded off at its
    kink, less and less.  The multipliers of the triplets bound the minimum from below: `gap_` is
    how far above it M is at most.

    Where the pull can vanish for an M that keeps the classes apart - always, where the rows are
    linearly independent - the minimum is 0: every class collapses into points, and new rows are
    ranked badly (400 MNIST images: mAP 0.19, Euclidean 0.44).  Such rows are descended on
    without the scaling, and only to a quarter of the objective at the start (mAP 0.50).

    Elsewhere too the minimum can overfit: its M has a low rank.  With `stop_after` the descent
    is without the scaling, so that M leaves sI in few directions at a time, and stops early: on
    ten digits, 40 rows a class, mAP is 0.803 at the minimum and 0.816 after 8 iterations.

    Where the pull can vanish and the minimum is not 0 (a feature that target neighbours share, and
    rows of several classes too) the descent goes on until it gains nothing, without a proof.

    An iteration costs O(n d r + p r) time, with r <= d the rank of L, which falls, and p pairs
    within reach; a search O(n^2 r).  Memory is 6 n d + 6 d^2 numbers and 16 bytes a pair, and for
    the last 10 to 60 steps up to 256 MiB or 20 d^2 numbers.  M is 0 outside the span of the rows.

    Parameters
    ----------
    n_neighbors : int, default 3
        Target neighbours of each row, fixed by the Euclidean distance.
    pull_weight : float in (0, 1), default 0.5
        w (the paper's omega); the papers choose it from {0.125, 0.25, 0.5}.
    max_iter : int, default 1000
        Iterations at most.
    tol : float, default 1e-3
        Relative gap to the minimum at which to stop.
    stop_after : int, default 0
        Iterations without the scaling after which to stop, short of the minimum; 0 goes to it.
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    objective_ : float
        The least value of the objective, over all triplets.
    gap_ : float
        The minimum is at most this fraction of `objective_` below; 1 where nothing is known, as
        where the pull can vanish, or with `stop_after`.
    n_neighbors_ : int
        Lowered, with a warning, where the smallest class has `n_neighbors` rows or fewer.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    Weinberger, Blitzer & Saul (2005), Distance Metric Learning for Large Margin Nearest Neighbor
    Classification, NIPS 18.  Weinberger & Saul (2009), JMLR 10: the convex program.
    """

    name: ClassVar[str] = "LMNN"
    summary: ClassVar[str] = "large margin nearest neighbour, at the minimum of its objective"
    citation: ClassVar[str] = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    cost: ClassVar[str] = "time n d^2 an iteration, n^2 d every tenth, memory n d + 20 d^2 + pairs"
    # The papers have 3 neighbours and weights of .125 to .5.  On ten digits, 40 rows a class, mAP
    # is best with 25 and .97 (.840; with 9 neighbours .806, with 3 and a weight of .5 .739).
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_neighbors": (3, 1, 5, 9, 15, 25, 50),
        "pull_weight": (0.5, 0.01, 0.03, 0.125, 0.25, 0.75, 0.9, 0.97, 0.99, 0.997, 0.999),
        "stop_after": (0, 3, 5, 8, 12, 20, 50),
    }
    rotation_invariant: ClassVar = True
    inner_params: ClassVar[Mapping[str, Any]] = {"tol": 0.1}
    """On six tables of KEEL the choice loses at most .0003 of the inner folds' mAP by it."""

    _least_in_class: ClassVar[int] = 2

    n_neighbors: Annotated[int, Interval(Integral, 1, None, closed="left")] = 3
    pull_weight: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 0.5
    max_iter: Annotated[int, Interval(Integral, 1, None, closed="left")] = 1000
    tol: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 1e-3
    stop_after: Annotated[int, Interval(Integral, 0, None, closed="left")] = 0

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        square = min(n, d) ** 2  # beside the pairs within reach, which are known later
        return 6 * n * d + (6 + 2 * remembered(square)) * square

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
        solution = descent.run(min(self.stop_after or self.max_iter, self.max_iter))
        self.components_ = solution.A @ (axes @ (vectors / roots)).T
        self.objective_ = solution.value
        self.gap_ = 1 - solution.bound / solution.value if solution.value > 0 else 0.0
        self.n_iter_ = solution.n_iter
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
    """LMNN on the principal axes that hold most of the variance, to a looser gap.

    It is what makes tens of thousands of rows with hundreds of features cheap: Weinberger & Saul
    reduce MNIST's 784 pixels to 164 dimensions that hold 95 % of the variance.  Everything else
    is as in `LMNN`, whose objective it minimises on the reduced rows.

    Parameters
    ----------
    n_neighbors : int, default 3
    pull_weight : float in (0, 1), default 0.5
    max_iter : int, default 1000
    tol : float, default 1e-2
        As in `LMNN`.
    variance : float in (0, 1], default 0.95
        The share that the kept axes hold at least.
    stop_after : int, default 0
        As in `LMNN`.
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.

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
    summary: ClassVar[str] = "LMNN on the principal axes of 95 % of the variance, to a looser gap"
    citation: ClassVar[str] = "Weinberger & Saul, ICML (2008)"

    tol: float = 1e-2
    variance: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.95

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 3 * n * d + 4 * min(n, d) ** 2  # of the axes, the most of all

    def _axes(self, X: Any) -> Doubles:
        variances, axes = shared(_axes_of, X)
        before = np.cumsum(variances) - variances
        return axes[:, before < self.variance * variances.sum()]


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
