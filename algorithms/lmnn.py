"""LMNN: metric-learn's implementation under the suite's interface (Weinberger et al. 2005)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from oasis_bench.algorithms import _metric_learn
from oasis_bench.learner import MahalanobisLearner


class LMNN(MahalanobisLearner):
    r"""Large margin nearest neighbour, solved by metric-learn's gradient descent on L.

    Minimises, over M = L'L, with j the target neighbours of i and l the rows of other classes,

    .. math::

        w \sum_{ij} d_M(i, j) + (1 - w) \sum_{ijl} [1 + d_M(i, j) - d_M(i, l)]_+ .

    The rows are first rotated to their principal axes, with no axis dropped: that changes the
    descent's path, not the objective (JMLR 2010, section 5.3.1).  Each iteration costs
    O(n^2 d) time and O(n^2) memory.

    Parameters
    ----------
    n_neighbors : int, default 3
        Target neighbours of each row, fixed by the Euclidean distance.
    pull_weight : float in (0, 1), default 0.5
        w (the paper's omega); the papers choose it from {0.125, 0.25, 0.5}.
    max_iter : int, default 1000
        Iterations at most.
    learning_rate : float, default 1e-3
        First step; metric-learn halves it until the objective falls and then lets it grow by
        1 % an iteration.  Its own default of 1e-7 suits rows of length 100, not 1.
    tol : float, default 1e-3
        Stop where an iteration lowers the objective by less than this (an absolute number).

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        L.
    n_neighbors_ : int
        Lowered, with a warning, where the smallest class has `n_neighbors` rows or fewer.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    Weinberger, Blitzer & Saul (2005), Distance Metric Learning for Large Margin Nearest Neighbor
    Classification, NIPS 18.
    """

    name: ClassVar = "LMNN"
    summary: ClassVar = "large margin nearest neighbour, metric-learn's solver"
    citation: ClassVar = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"pull_weight": (0.125, 0.25, 0.5)}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "pull_weight": [Interval(Real, 0, 1, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        pull_weight: float = 0.5,
        max_iter: int = 1000,
        learning_rate: float = 1e-3,
        tol: float = 1e-3,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.pull_weight = pull_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol

    def fit(self, X: Any, y: Any) -> Self:
        """Learn L from rows `X` (n_rows, n_features) and class labels `y` (n_rows,).

        Raises
        ------
        ValueError
            With one class, or a class of one row.
        """
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"LMNN needs at least 2 classes, but y has 1 class ({classes[0]!s})")
        smallest = int(counts.min())
        if smallest < 2:
            raise ValueError(
                f"class {classes[counts.argmin()]!s} has 1 row, but a target neighbour needs "
                "at least 2 in each class"
            )
        if smallest <= self.n_neighbors:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is lowered to {smallest - 1}: "
                f"the smallest class has {smallest} rows",
                stacklevel=2,
            )
        self.n_neighbors_ = min(self.n_neighbors, smallest - 1)
        centred = X - X.mean(axis=0)
        axes = np.linalg.eigh(centred.T @ centred)[1].T
        solver = _metric_learn.LMNN(
            init="identity",
            n_neighbors=self.n_neighbors_,
            regularization=self.pull_weight,
            max_iter=self.max_iter + 1,  # metric-learn counts the start as an iteration
            learn_rate=self.learning_rate,
            convergence_tol=self.tol,
        ).fit(X @ axes.T, y)
        self.components_ = solver.components_ @ axes
        self.n_iter_ = solver.n_iter_
        return self
