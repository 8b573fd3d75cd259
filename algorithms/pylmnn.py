"""LMNN of pylmnn (extra `pylmnn`), to stand beside ours.

pylmnn 1.6.4, its last, does not import or run with today's libraries: see `_pylmnn`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.base import Count, FromZero, LabelLearner, possible_neighbours
from oasis_bench.algorithms.lmnn import LMNN
from oasis_bench.system import require_packages


class PyLMNN(LabelLearner):
    """pylmnn's LMNN: L-BFGS on L, with the impostors looked for at each evaluation.

    Its push is the squared hinge loss, and not the hinge loss of the papers and of `LMNN`.  So
    equal parameters lead to a different M.

    The parameters have pylmnn's names and defaults.  An evaluation costs O(n^2 d / c) time for c
    classes.

    Parameters
    ----------
    n_neighbors : int, default 3
        The number of target neighbours.  It is reduced, with a warning, if the smallest class has
        too few rows.
    n_components : int or None, default None
        The number of rows of L, at most n_features.  None: n_features.
    weight_push_loss : float in (0, 1], default 0.5
        mu of Weinberger & Saul (2009).
    max_impostors : int, default 500 000
        The largest number of impostors in an evaluation.
    max_iter : int, default 50
        The largest number of iterations.
    tol : float, default 1e-5
        The tolerance of L-BFGS.
    random_state : int, RandomState or None, default None
        The seed of the start (by PCA), and of the impostors that are sampled if there are too many.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    Weinberger & Saul (2009), Distance Metric Learning for Large Margin Nearest Neighbor
    Classification, JMLR 10.
    """

    name: ClassVar = "pylmnn-LMNN"
    summary: ClassVar = "pylmnn's large margin nearest neighbour"
    citation: ClassVar = "Weinberger & Saul, JMLR 10 (2009)"
    cost: ClassVar = "time n^2 d / c an evaluation, memory n d + d^2"
    imports: ClassVar = ("pylmnn", "six")
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {  # that of LMNN
        "n_neighbors": LMNN.search_space["n_neighbors"],
        "weight_push_loss": tuple(round(1 - pull, 3) for pull in LMNN.search_space["pull_weight"]),
    }

    _least_in_class: ClassVar[int] = 2

    n_neighbors: Count = 3
    n_components: Count | None = None
    weight_push_loss: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.5
    max_impostors: Count = 500_000
    max_iter: Count = 50
    tol: FromZero = 1e-5

    def _check(self, X: Any, y: Any) -> None:
        require_packages(self.name, self.imports, "pylmnn")
        super()._check(X, y)

    def _fit(self, X: Any, y: Any) -> None:
        smallest = int(np.unique(y, return_counts=True)[1].min())
        n_neighbors = possible_neighbours(self.n_neighbors, smallest, stacklevel=3)
        arguments = self.get_params() | {"n_neighbors": n_neighbors}
        if self.n_components is not None:
            arguments["n_components"] = min(self.n_components, X.shape[1])
        solver = _pylmnn()(**arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of SciPy's `disp`
            solver.fit(X.astype(np.float64, copy=False), y)
        if not np.isfinite(solver.components_).all():
            raise ValueError(f"{self.name} found no finite matrix for these {len(X)} rows")
        self.components_, self.n_iter_ = solver.components_, max(1, int(solver.n_iter_))

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 6 * self.max_impostors + 5 * n * d + 25 * d**2


def _pylmnn() -> Any:
    """Return pylmnn's estimator, without the package's search of parameters.

    That search needs GPyOpt, which no longer installs, and the package imports it first.  And
    SciPy takes the start of a search as a vector only, where pylmnn gives it a matrix.
    """
    spec = importlib.util.find_spec("pylmnn")
    assert spec is not None  # `_check` was before
    sys.modules.setdefault("pylmnn", importlib.util.module_from_spec(spec))
    module: Any = importlib.import_module("pylmnn.lmnn")
    module.minimize = lambda fun, x0, **options: minimize(fun, x0.ravel(), **options)
    return module.LargeMarginNearestNeighbor
