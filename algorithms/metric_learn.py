"""metric-learn's estimators that learn from class labels, as learners of this package.

Input is checked here, and metric-learn learns.  A learner is a dataclass, a row of the table below:
its fields are the parameters of scikit-learn's kind, in their order.  Left out are MLKR, a
regression; SDML, which calls scikit-learn's graphical lasso with an argument that is gone; LSML
and SCML, which were slow and ranked low; LFDA, RCA and Covariance, whose closed forms ours share;
and MMC, which returned its start, the Euclidean distance, on digits.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Annotated, Any, ClassVar, Self

import metric_learn
import metric_learn._util as _util
import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.base import Count, FromZero, LabelLearner, Positive, possible_neighbours
from oasis_bench.algorithms.itml import ITML
from oasis_bench.algorithms.lmnn import LMNN
from oasis_bench.data import FloatArray


def _translate(check: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(check)
    def translated(*args: Any, **options: Any) -> Any:
        if "force_all_finite" in options:
            options["ensure_all_finite"] = options.pop("force_all_finite")
        return check(*args, **options)

    return translated


# scikit-learn 1.6 renamed force_all_finite to ensure_all_finite and 1.8 dropped the old name.
# Only metric-learn's own view of these functions is changed, never scikit-learn itself.
_util.check_array = _translate(_util.check_array)
_util.check_X_y = _translate(_util.check_X_y)


Counts = npt.NDArray[np.intp]

SOURCE = f"metric-learn {metric_learn.__version__}"


class MetricLearnAdapter(LabelLearner):
    """A learner of metric-learn.

    The parameters are metric-learn's, by name and default, where a class does not say otherwise.
    """

    _estimator: ClassVar[type]

    def _fit(self, X: Any, y: Any) -> None:
        # Class numbers count from 0: metric-learn leaves out negative ones.
        _, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
        data = f"{len(X)} rows of {len(counts)} classes"
        self._solve(self._estimator(**self._arguments(counts)), X, numbers, data)

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        if not np.ptp(X, axis=0).any():
            raise ValueError(f"all {len(X)} rows are equal: {self.name} needs rows that differ")

    def _arguments(self, counts: Counts) -> dict[str, Any]:
        """Return the arguments of metric-learn's estimator."""
        return dict(self.get_params(deep=False))

    def _solve(self, solver: Any, X: FloatArray, y: Counts, data: str) -> None:
        """Take the L of an estimator of metric-learn on rows and labels, or pairs and signs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NaN is refused below
            try:
                solver.fit(X.astype(np.float64, copy=False), y)
            except ValueError as error:  # of equal rows or few classes it says little
                raise ValueError(
                    f"{SOURCE} cannot learn from these {data} ({error}): add rows that differ, or "
                    f"leave {self.name} out"
                ) from error
        if not np.isfinite(solver.components_).all():
            raise ValueError(f"{SOURCE} found no finite matrix for these {data}")
        self.components_ = solver.components_
        self.n_iter_ = max(1, int(solver.n_iter_))  # some count from 0


class MetricLearnLMNN(MetricLearnAdapter):
    """metric-learn's LMNN: gradient descent on L with all impostors looked for at each step.

    An iteration costs O(n^2 d) time.  While most rows are impostors of each other, as at the start
    on rows of unit length, it also costs O(n^2 d) memory.  It stops when the absolute change of the
    objective is small, so the scale of the rows matters.

    Parameters
    ----------
    n_neighbors : int, default 3
        The number of target neighbours.  It is reduced, with a warning, if the smallest class has
        too few rows.
    regularization : float in (0, 1), default 0.5
        The weight of the pull.  Chechik et al. (JMLR 2010) tune it from {0.125, 0.25, 0.5}.
    learn_rate : float, default 1e-3
        The size of the first step.  metric-learn's default of 1e-7 suits rows of length 100.  Steps
        grow by 1 % each, so on rows of unit length they would need most of the 1000 iterations to
        become long enough.
    max_iter : int, default 1000
        The largest number of iterations.  metric-learn also counts the start and the end.
    convergence_tol : float, default 1e-3
        After 50 iterations, stop when the objective changes by less than this.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.
    """

    name: ClassVar = "metric-learn-LMNN"
    summary: ClassVar = f"{SOURCE}'s large margin nearest neighbour"
    citation: ClassVar = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    cost: ClassVar = "time n^2 d an iteration, memory n^2 d"
    search_space: ClassVar = {
        "n_neighbors": LMNN.search_space["n_neighbors"],
        "regularization": LMNN.search_space["pull_weight"],
    }

    _estimator: ClassVar = metric_learn.LMNN
    _least_in_class: ClassVar = 2

    n_neighbors: Count = 3
    regularization: Annotated[float, Interval(Real, 0, 1, closed="neither")] = 0.5
    learn_rate: Positive = 1e-3
    max_iter: Count = 1000
    convergence_tol: FromZero = 1e-3

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # Two (impostors, d) arrays, with all n^2 (c - 1) / 2 c pairs of different classes.
        return n**2 * (d + 6) * (c - 1) // c

    def _arguments(self, counts: Counts) -> dict[str, Any]:
        n_neighbors = possible_neighbours(self.n_neighbors, int(counts.min()), stacklevel=4)
        return {**super()._arguments(counts), "n_neighbors": n_neighbors}


class MetricLearnNCA(MetricLearnAdapter):
    """metric-learn's neighbourhood components analysis: L-BFGS on the leave-one-out objective.

    An evaluation of the objective costs O(n^2 d) time and O(n^2) memory.

    Parameters
    ----------
    max_iter : int, default 100
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.
    """

    name: ClassVar = "metric-learn-NCA"
    summary: ClassVar = f"{SOURCE}'s neighbourhood components analysis"
    citation: ClassVar = "Goldberger, Roweis, Hinton & Salakhutdinov, NIPS 17 (2004)"
    cost: ClassVar = "time n^2 d an evaluation, memory n^2"

    _estimator: ClassVar = metric_learn.NCA

    max_iter: Count = 100

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 8 * n**2 + 40 * d**2


class MetricLearnITML(MetricLearnAdapter):
    """metric-learn's information-theoretic metric learning: cyclic LogDet projections on m pairs.

    Its bounds are the 5th and 95th percentile of the unsquared distances, but are compared with
    squared distances, which is not what the paper defines.  An iteration goes over all pairs in
    Python, and costs O(m d^2) time.  The percentiles take O(n^2) memory.

    Parameters
    ----------
    gamma : float, default 1.0
        The weight of the slack.  The paper tunes it from {0.01, 0.1, 1, 10}.
    n_constraints : int or None, default None
        The number of same-class pairs, and of different-class pairs.  None: 20 classes^2.
    max_iter : int, default 1000
    random_state : int, RandomState or None, default None
        The seed of the pairs.
    """

    name: ClassVar = "metric-learn-ITML"
    summary: ClassVar = f"{SOURCE}'s information-theoretic metric learning"
    citation: ClassVar = "Davis, Kulis, Jain, Sra & Dhillon, ICML 24 (2007)"
    cost: ClassVar = "time m d^2 an iteration, memory n^2 + m d; m = 20 c^2"
    search_space: ClassVar = {"gamma": ITML.search_space["gamma"]}

    takes_pairs: ClassVar = True
    _estimator: ClassVar = metric_learn.ITML_Supervised
    _least_in_largest: ClassVar = 2

    gamma: Positive = 1.0
    n_constraints: Count | None = None
    max_iter: Count = 1000

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # The distances of the rows that are drawn, sorted in a copy, beside the pairs.
        n_pairs = 20 * c**2 if self.n_constraints is None else self.n_constraints
        return 2 * n**2 + 10 * n_pairs * d

    def partial_fit_pairs(self, X: Any, alike: npt.ArrayLike, unlike: npt.ArrayLike) -> Self:
        """Learn from given pairs, from scratch; `n_constraints` is not read.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        alike, unlike : array of shape (n_pairs, 2), integers
            Row numbers of `X`: of rows that are the same, and different.

        Raises
        ------
        ValueError
            If these are no row numbers of `X`, or metric-learn finds no finite matrix.
        """
        X, *pairs = self._validated_pairs(X, alike, unlike)
        signs = np.repeat([1, -1], [len(part) for part in pairs])
        params = self.get_params(deep=False)
        del params["n_constraints"]
        solver = metric_learn.ITML(**params)
        self._solve(solver, X[np.concatenate(pairs)], signs, f"{len(signs)} pairs")
        return self
