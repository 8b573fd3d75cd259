"""The standardised Euclidean baseline: every feature counts alike, and no labels are read."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from oasis_bench.algorithms.shared import HyperParameters
from oasis_bench.data import FloatArray, without_offset
from oasis_bench.plugins import FittedArray, MahalanobisLearner


class StandardizedEuclidean(HyperParameters, MahalanobisLearner):
    r"""Euclidean distance of features over their standard deviations.

    .. math:: M = \mathrm{diag}(1 / s_1^2, \dots, 1 / s_d^2) ,

    s_k the standard deviation of feature k over the training rows (scikit-learn's StandardScaler;
    means cancel in a distance, so that sparse rows stay sparse).  A feature that does not vary is
    left as it is, s_k = 1.

    It shows what a metric gains by knowing the scales of the features alone.  One that does not
    rank better has learned nothing else of use.  On rows that were standardised already it is
    the Euclidean distance.

    Time and memory n d.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.

    Attributes
    ----------
    scale_ : ndarray of shape (n_features,)
        s.
    components_ : ndarray of shape (n_features, n_features)
        L = diag(1 / s), made when asked for: many features cost nothing.
    n_features_in_ : int
    """

    name: ClassVar = "StandardizedEuclidean"
    summary: ClassVar = "Euclidean distance of features over their deviations, a baseline"
    citation: ClassVar = "none"
    cost: ClassVar = "time n d, memory d"
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True
    needs_labels: ClassVar = False

    scale_: FloatArray = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"random_state": ["random_state"]}

    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Measure the deviations of rows `X` (n_rows, n_features); labels are not read."""
        self._validate_params()
        X = self._validated(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.scale_ = StandardScaler(with_mean=False).fit(without_offset(X)).scale_
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scale_")

    @property
    def components_(self) -> FloatArray:  # type: ignore[override]
        """The diagonal L, shape (n_features, n_features)."""
        check_is_fitted(self)
        return np.diag(1 / self.scale_)

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {**super()._fitted_state(), "scale_": FittedArray(("n_features",))}

    def _project(self, X: Any) -> Any:
        if isinstance(X, np.ndarray):
            return X / self.scale_
        return sparse.csr_array(X @ sparse.diags_array(1 / self.scale_))
