"""The Euclidean baseline, which learns nothing."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from oasis_bench.algorithms.base import HyperParameters
from oasis_bench.data import FloatArray
from oasis_bench.plugins import MahalanobisLearner


class Euclidean(HyperParameters, MahalanobisLearner):
    """Euclidean distance, the baseline of all comparisons.

    Nothing is learned: M = I.  For rows of unit length it ranks as the dot product (W = I) does.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        The identity matrix, which is computed only when it is accessed.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> from oasis_bench.algorithms import Euclidean
    >>> Euclidean().fit([[0.0, 0.0], [3.0, 4.0]]).similarity([[0.0, 0.0]], [[3.0, 4.0]])
    array([[-5.]])
    """

    name: ClassVar = "Euclidean"
    summary: ClassVar = "Euclidean distance, the baseline that learns nothing"
    citation: ClassVar = "none"
    cost: ClassVar = "none: nothing is learned"
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True
    needs_labels: ClassVar = False
    is_baseline: ClassVar = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the number of features of `X` (n_rows, n_features); labels are not used."""
        self._validate_params()
        self._validated(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    @property
    def components_(self) -> FloatArray:  # type: ignore[override]
        """The identity L, shape (n_features, n_features)."""
        check_is_fitted(self)
        return np.eye(self.n_features_in_)

    def _project(self, X: Any) -> Any:
        return X
