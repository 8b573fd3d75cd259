"""What LEGO and LogDet-OASIS share: steps of a size eta on a positive definite matrix in double."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms._triplet_learner import TripletLearner
from oasis_bench.data import FloatArray
from oasis_bench.plugins import MahalanobisLearner


class LogDetLearner(TripletLearner, MahalanobisLearner):
    """A learner of M = L'L by steps on M that keep it positive definite, from M = I.

    Attributes
    ----------
    mahalanobis_matrix_ : ndarray of shape (n_features, n_features)
        M, in double precision.
    components_ : ndarray of shape (n_components, n_features)
        L, in the precision of the rows.
    """

    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"eta": (0.02, 0.08, 0.32)}

    _learned: ClassVar[str] = "mahalanobis_matrix_"
    _matrix_type: ClassVar[type[np.floating] | None] = np.float64
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TripletLearner._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither")],
    }
    eta: float
    mahalanobis_matrix_: npt.NDArray[np.float64]

    @staticmethod
    @abstractmethod
    def _factor(M: npt.NDArray[np.float64]) -> FloatArray:
        """Return an L with L'L = M."""

    def _start(self, X: Any) -> None:
        super()._start(X)
        self.components_ = self.mahalanobis_matrix_
        self.mahalanobis_matrix_ = np.eye(X.shape[1])

    def _precision(self) -> npt.DTypeLike:
        return self.components_.dtype

    def _finish(self, X: Any = None) -> None:
        factor = self._factor(self.mahalanobis_matrix_)
        self.components_ = factor.astype(self.components_.dtype, copy=False)
