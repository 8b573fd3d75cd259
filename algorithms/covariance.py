"""Distances that read no labels: Euclidean, and by the deviations or covariance of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from oasis_bench.algorithms.axes import AXES_GRID, axes_to_keep, principal_axes
from oasis_bench.algorithms.base import Count, HyperParameters
from oasis_bench.data import FloatArray, without_offset
from oasis_bench.plugins import FittedArray, MahalanobisLearner
from oasis_bench.system import require_memory


class _DiagonalLearner(HyperParameters, MahalanobisLearner):
    """A learner whose L is diagonal, and is made only where it is asked for."""

    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True
    needs_labels: ClassVar = False

    @property
    def components_(self) -> FloatArray:  # type: ignore[override]
        """The diagonal L, shape (n_features, n_features)."""
        check_is_fitted(self)
        return np.asarray(self._project(np.eye(self.n_features_in_)))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)


class StandardizedEuclidean(_DiagonalLearner):
    r"""Euclidean distance of features over their standard deviations.

    .. math:: M = \mathrm{diag}(1 / s_1^2, \dots, 1 / s_d^2) ,

    where s_k is the standard deviation of feature k over the training rows (scikit-learn's
    StandardScaler).  Means cancel in a distance, so sparse rows stay sparse.  A feature that does
    not vary keeps its scale (s_k = 1).

    This baseline shows how much can be gained from the scales of the features alone.  A metric that
    does not rank better has learned nothing more of use.  If the rows are standardised already,
    this is the Euclidean distance.

    Time and memory n d.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    scale_ : ndarray of shape (n_features,)
        s.
    components_ : ndarray of shape (n_features, n_features)
        L = diag(1 / s), which is computed only when it is accessed.
    n_features_in_ : int
    """

    name: ClassVar = "StandardizedEuclidean"
    summary: ClassVar = "Euclidean distance of features divided by their deviations, a baseline"
    citation: ClassVar = "none"
    cost: ClassVar = "time n d, memory d"

    _fitted_arrays: ClassVar = {"scale_": FittedArray(("n_features",))}
    scale_: FloatArray = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Measure the deviations of rows `X` (n_rows, n_features); labels are not read."""
        self._validate_params()
        X = self._validated(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.scale_ = StandardScaler(with_mean=False).fit(without_offset(X)).scale_
        return self

    def _project(self, X: Any) -> Any:
        if isinstance(X, np.ndarray):
            return X / self.scale_
        return sparse.csr_array(X @ sparse.diags_array(1 / self.scale_))


class Covariance(HyperParameters, MahalanobisLearner):
    r"""Mahalanobis distance of the training rows, the baseline that reads no labels.

    .. math:: M = C^{+}, \qquad C = \frac{1}{n - 1} \sum_i (x_i - m) (x_i - m)^\top .

    If features are linearly dependent, C is singular.  The pseudo-inverse then gives no weight to
    directions in which the training rows do not vary.

    It is computed from the singular vectors of the rows, so many features cost no more than n^2 d.
    (metric-learn always forms the d x d covariance.)

    Time n d min(n, d), memory 3 n d + 4 min(n, d)^2 numbers.

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes that are whitened, those of largest variance first; at most the
        rank of the rows.  None: (n - 1) // 2, or all axes if these are fewer.  (With the
        pseudo-inverse of all axes, n rows of rank n - 1 would all have the same distance from each
        other; see `RCA`.)
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L, with L'L = M: the principal axes, divided by their standard deviations.
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int

    References
    ----------
    Mahalanobis (1936), On the Generalised Distance in Statistics, Proceedings of the National
    Institute of Sciences of India 2.
    """

    name: ClassVar = "Covariance"
    summary: ClassVar = "inverse covariance of all rows, the baseline without labels"
    citation: ClassVar = "Mahalanobis, Proc. Nat. Inst. Sci. India 2 (1936)"
    cost: ClassVar = "time n d min(n, d), memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"n_axes": AXES_GRID}
    needs_labels: ClassVar = False

    n_axes: Count | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn L from rows `X` (n_rows, n_features); labels are not read.

        Raises
        ------
        ValueError
            If all rows are equal.
        MemoryError
            If the rows and the matrices of their axes do not fit.
        """
        self._validate_params()
        X = self._validated(X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self._check(X, y)
        rows = X - X.mean(axis=0, dtype=np.float64)
        squares, axes = principal_axes(rows)
        degrees = len(rows) - 1
        most = self.n_axes or axes_to_keep(degrees, len(axes))
        squares, axes = squares[:most], axes[:most]
        self.n_axes_ = len(axes)
        self.components_ = axes * np.sqrt(degrees / squares)[:, None]
        return self

    def _check(self, X: Any, y: Any) -> None:
        n_rows, n_features = X.shape
        if not np.ptp(X, axis=0).any():
            raise ValueError(f"all {n_rows} rows are equal: their covariance has rank 0")
        n_numbers = 3 * n_rows * n_features + 4 * min(n_rows, n_features) ** 2
        what = f"Covariance on {n_rows} rows of {n_features} features"
        require_memory(8 * n_numbers, what, "use fewer rows or features")


class Euclidean(_DiagonalLearner):
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
    is_baseline: ClassVar = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the number of features of `X` (n_rows, n_features); labels are not used."""
        self._validate_params()
        self._validated(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        return self

    def _project(self, X: Any) -> Any:
        return X
