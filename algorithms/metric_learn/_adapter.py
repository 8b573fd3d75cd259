"""What the adapters of metric-learn share: input is checked here, and metric-learn learns.

An adapter is a dataclass: its fields are the parameters of scikit-learn's kind, in their order.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import metric_learn
import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions

import oasis_bench.algorithms.metric_learn._compatibility  # noqa: F401  (its import is its effect)
from oasis_bench.algorithms._label_learner import LabelLearner
from oasis_bench.algorithms._principal_axes import principal_axes
from oasis_bench.data import FloatArray

Counts = npt.NDArray[np.intp]

SOURCE = f"metric-learn {metric_learn.__version__}"

_COUNT = [Interval(Integral, 1, None, closed="left")]
_POSITIVE = [Interval(Real, 0, None, closed="neither")]


class MetricLearnAdapter(LabelLearner):
    """A learner of metric-learn.

    The parameters are metric-learn's, by name and default, where a class does not say otherwise.
    """

    _estimator: ClassVar[type]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {  # in whichever learner has them
        "beta": _POSITIVE,
        "chunk_size": [Interval(Integral, 2, None, closed="left")],
        "convergence_tol": [Interval(Real, 0, None, closed="left")],
        "embedding_type": [StrOptions({"weighted", "orthonormalized", "plain"})],
        "gamma": _POSITIVE,
        "k": [*_COUNT, None],
        "k_genuine": _COUNT,
        "k_impostor": _COUNT,
        "learn_rate": _POSITIVE,
        "max_iter": _COUNT,
        "max_proj": _COUNT,
        "n_basis": [*_COUNT, None],
        "n_chunks": _COUNT,
        "n_constraints": [*_COUNT, None],
        "n_neighbors": _COUNT,
        "random_state": ["random_state"],
        "regularization": [Interval(Real, 0, 1, closed="neither")],
    }

    def _fit(self, X: Any, y: Any) -> None:
        _, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
        components = np.asarray(self._learn(X.astype(np.float64, copy=False), numbers, counts))
        if not (np.isrealobj(components) and components.size and np.isfinite(components).all()):
            raise ValueError(f"{SOURCE} found no finite matrix for these {len(X)} rows")
        self.components_ = components

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        if not np.ptp(X, axis=0).any():
            raise ValueError(f"all {len(X)} rows are equal: {self.name} needs rows that differ")

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        """Return the arguments of metric-learn's estimator."""
        arguments: dict[str, Any] = self.get_params(deep=False)
        return arguments

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        """Return L; `y` holds class numbers from 0 on: metric-learn leaves out negative ones."""
        solver = self._estimator(**self._arguments(X.shape[1], counts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # `_fit` checks for NaN
            try:
                solver.fit(X, y)
            except ValueError as error:  # of equal rows or few classes it says little
                raise ValueError(
                    f"{SOURCE} cannot learn from these {len(X)} rows of {len(counts)} classes "
                    f"({error}): add rows that differ, or leave {self.name} out"
                ) from error
        if hasattr(solver, "n_iter_"):
            self.n_iter_ = max(1, int(solver.n_iter_))  # some count from 0
        components: FloatArray = solver.components_
        return components


class CovarianceAdapter(MetricLearnAdapter):
    """A learner that inverts a covariance, which is singular where a feature is constant.

    metric-learn then returns NaN, or distances that are the same for all pairs.  So rows are first
    projected on their principal axes, without those of no variance, and on at most half as many as
    the covariance has degrees of freedom: with fewer rows an axis it is mostly noise.  Where there
    are enough rows, that changes no distance.
    """

    _least_axes: ClassVar[int] = 1

    @abstractmethod
    def _degrees_of_freedom(self, counts: Counts) -> int:
        """Count the differences of rows that the covariance is made of."""

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        counts = np.unique(y, return_counts=True)[1]
        least = 2 * self._least_axes
        if (freedom := self._degrees_of_freedom(counts)) < least:
            raise ValueError(
                f"{self.name} needs a covariance of at least {least} degrees of freedom, but "
                f"{len(X)} rows in {len(counts)} classes give {freedom}: take more rows a class"
            )

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 3 * n * d + min(n, d) ** 2

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        centred = X - X.mean(axis=0)
        axes = principal_axes(centred)[1][: self._degrees_of_freedom(counts) // 2]
        return super()._learn(centred @ axes.T, y, counts) @ axes
