"""PLDA and WCCN: similarities of rows whitened by the covariance within classes, shrunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.axes import (
    by_class_with_axes,
    rounding,
    whitening,
    within_scatter,
)
from oasis_bench.algorithms.base import SupervisedLearner
from oasis_bench.data import FloatArray
from oasis_bench.plugins import EmbeddingLearner, FittedArray, LinearMap
from oasis_bench.system import shared


class _Whitened(SupervisedLearner, kw_only=True):
    """A learner from rows less their mean, whitened by their shrunk covariance within classes."""

    cost: ClassVar = "time n d min(n, d), memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        # All there are: from the papers' covariance, 0, to none, 1.
        "shrinkage": (0.3, 0, 0.01, 0.1, 0.6, 0.9, 1)
    }
    rotation_invariant: ClassVar = True

    _shift_invariant: ClassVar = True
    _least_in_largest: ClassVar[int] = 2
    _learns_within: ClassVar = True
    _fitted_arrays: ClassVar = {
        "components_": FittedArray(("n_components", "n_features")),
        "mean_": FittedArray(("n_features",)),
    }

    shrinkage: Annotated[float, Interval(Real, 0, 1, closed="both")] = 0.3
    components_: FloatArray = field(init=False)
    mean_: FloatArray = field(init=False)

    def _fit(self, X: Any, y: Any) -> None:
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        rows, classes, squares, axes = shared(by_class_with_axes, X, y)
        scatter = shared(_scatter_on_axes, X, y)
        within = scatter / (len(rows) - len(classes))
        within *= 1 - self.shrinkage
        mean_variance = np.trace(scatter) / (len(rows) - len(classes)) / len(scatter)
        within[np.diag_indices_from(within)] += self.shrinkage * mean_variance
        floor = rounding(rows.shape) * float(squares[0]) / len(rows)
        whitened = whitening(within, floor)
        if not len(whitened):
            raise ValueError("no class varies by more than rounding: give rows that differ")
        between = (np.diag(squares) - scatter) / len(rows)
        self._learn(whitened @ axes, whitened @ between @ whitened.T, len(rows) / len(classes))

    def _learn(self, whitened: FloatArray, between: FloatArray, class_size: float) -> None:
        """Set `components_`.

        Parameters
        ----------
        whitened : ndarray of shape (rank, n_features)
            V, which whitens the covariance within classes.
        between : ndarray of shape (rank, rank)
            The covariance of the class means after V, each with the weight of its class.
        class_size : float
            The mean number of rows of a class.
        """
        self.components_ = whitened

    def _mapped(self, X: Any) -> FloatArray:
        """Return `components_` times each row less the mean, (n_rows, n_components)."""
        rows = self._centred(self._check_rows(X)) - self.mean_
        return np.asarray(rows @ self._matrix("components_", rows.shape[1]).T)

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 3 * n * d + 6 * min(n, d) ** 2


def _scatter_on_axes(X: Any, y: Any) -> FloatArray:
    """Return the scatter within classes of rows on all their principal axes."""
    rows, classes, _, axes = shared(by_class_with_axes, X, y)
    return within_scatter(rows @ axes.T, classes)


class PLDA(_Whitened):
    r"""Probabilistic LDA: how much likelier two rows are of one class than of two.

    In the two-covariance model a row is its class's centre and its own deviation, both Gaussian,

    .. math:: x = m + u + e, \qquad u \sim N(0, B), \quad e \sim N(0, C),

    so that two rows of one class share u, also in a class without training rows.  The similarity is
    the log-likelihood ratio

    .. math::

        S(x, y) = \log N\!\left( \begin{bmatrix} x \\ y \end{bmatrix};
            \begin{bmatrix} m \\ m \end{bmatrix},
            \begin{bmatrix} B + C & B \\ B & B + C \end{bmatrix} \right)
            - \log N(x; m, B + C) - \log N(y; m, B + C) .

    A matrix V makes both covariances diagonal: :math:`V C V^\top = I`,
    :math:`V B V^\top = \mathrm{diag}(\psi)`.  With a = V(x - m) and b = V(y - m),

    .. math::

        S(x, y) = f(x)^\top f(y) + g(x) + g(y), \qquad
        f_k(x) = \sqrt{\tfrac{\psi_k}{1 + 2 \psi_k}}\, a_k , \qquad
        g(x) = \sum_k \tfrac12 \log \tfrac{1 + \psi_k}{\sqrt{1 + 2 \psi_k}}
            - \tfrac{\psi_k^2}{2 (1 + \psi_k)(1 + 2 \psi_k)}\, a_k^2 .

    The term g makes S no distance and no inner product of one embedding: a row far from m is more
    similar to all that lie on its side.  `embed` returns f and g; an index takes
    `query_vectors` and `gallery_vectors`.

    C is the covariance within classes, of n - c degrees of freedom for n rows in c classes, shrunk
    to (1 - s) C + s (tr C / r) I on the r principal axes of the rows.  B is the covariance of the
    class means, each with the weight of its class, less C c / n; what is negative in it is left
    out.  This is Ioffe's solution, the maximum of the likelihood if s = 0 and all classes are of
    one size.  With s = 0, directions in which no class varies are left out.

    Time n d min(n, d), memory 3 n d + 6 min(n, d)^2 numbers.

    Parameters
    ----------
    shrinkage : float in [0, 1], default 0.3
        s.  With few rows a class, C is mostly noise along its smallest axes.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V, its rows with a variance between classes.
    ratios_ : ndarray of shape (n_components,)
        The variance between classes along them, where that within classes is 1.
    mean_ : ndarray of shape (n_features,)
        m, less `centre_` if there is one.
    centre_ : ndarray of shape (n_features,)
        As in `MahalanobisLearner`.
    n_features_in_ : int

    References
    ----------
    Ioffe (2006), Probabilistic Linear Discriminant Analysis, ECCV 9: the model and its solution.
    Prince & Elder (2007), Probabilistic Linear Discriminant Analysis for Inferences About Identity,
    ICCV 11: the ratio of one class against two.
    """

    name: ClassVar = "PLDA"
    summary: ClassVar = "log-likelihood ratio of one class against two, by two Gaussians"
    citation: ClassVar = "Ioffe, ECCV 9 (2006); Prince & Elder, ICCV 11 (2007)"

    _fitted_arrays: ClassVar = {"ratios_": FittedArray(("n_components",), positive=True)}
    ratios_: FloatArray = field(init=False)

    def _learn(self, whitened: FloatArray, between: FloatArray, class_size: float) -> None:
        values, vectors = eigh(between)
        ratios = values - 1 / class_size
        self.ratios_ = ratios[ratios > 0]
        self.components_ = vectors.T[ratios > 0] @ whitened

    def embed(self, X: Any) -> FloatArray:
        """Return f(x), and last g(x), for each row, (n_rows, n_components + 1), float64."""
        mapped, psi = self._mapped(X), self.ratios_
        own = (np.log1p(psi) - np.log1p(2 * psi) / 2).sum() / 2
        own -= np.square(mapped) @ (psi**2 / ((1 + psi) * (1 + 2 * psi))) / 2
        return np.column_stack([mapped * np.sqrt(psi / (1 + 2 * psi)), own])

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the log-likelihood ratio of every query and gallery item."""
        own = queries[:, -1:] + gallery[:, -1]  # added first, so that S(x, y) = S(y, x) to the bit
        return np.asarray(queries[:, :-1] @ gallery[:, :-1].T + own)

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray]:
        """Return f and g."""
        return embedded[:, :-1], embedded[:, -1]


class WCCN(_Whitened, LinearMap, EmbeddingLearner):
    r"""Within-class covariance normalisation: the cosine of whitened rows.

    .. math:: f(x) = \frac{A (x - m)}{|A (x - m)|}, \qquad A^\top A = C^{-1}, \qquad
        S(x, y) = -|f(x) - f(y)| ,

    which ranks as the cosine :math:`f(x)^\top f(y) = 1 - S(x, y)^2 / 2` does.  m is the mean of the
    rows, and C their covariance within classes, shrunk to (1 - s) C + s (tr C / r) I on the r
    principal axes of the rows.  The distance |A(x - y)| is that of `RCA`; the cosine also leaves
    out how far a row is from m, which says how typical it is rather than of which class.

    Time n d min(n, d), memory 3 n d + 6 min(n, d)^2 numbers.

    Parameters
    ----------
    shrinkage : float in [0, 1], default 0.3
        s, the smoothing of the paper.  With 1, the cosine of the rows less their mean.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        A.
    mean_ : ndarray of shape (n_features,)
        m, less `centre_` if there is one.
    centre_ : ndarray of shape (n_features,)
        As in `MahalanobisLearner`.
    n_features_in_ : int

    References
    ----------
    Hatch, Kajarekar & Stolcke (2006), Within-Class Covariance Normalization for SVM-based Speaker
    Recognition, Interspeech: the whitening.  Dehak, Kenny, Dehak, Dumouchel & Ouellet (2011),
    Front-End Factor Analysis for Speaker Verification, IEEE Transactions on Audio, Speech, and
    Language Processing 19: with the cosine.
    """

    name: ClassVar = "WCCN"
    summary: ClassVar = "cosine of rows whitened by the covariance within classes"
    citation: ClassVar = "Hatch, Kajarekar & Stolcke, Interspeech (2006)"

    def embed(self, X: Any) -> FloatArray:
        """Return f(x) for each row, (n_rows, n_components); where x is m, zeros."""
        return np.asarray(normalize(self._mapped(X), copy=False))
