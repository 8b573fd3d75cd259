"""LDA: scikit-learn's discriminant analysis as a distance (Fisher 1936, Rao 1948)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.base import Count, LabelLearner
from oasis_bench.data import FloatArray

LEAST_SHRINKAGE = 1e-4
"""In place of that of Ledoit & Wolf where it is 0, as of two rows a class, and S_w is singular."""

SHRINKAGE_OF_ROUNDING = 1e-12
"""Ledoit & Wolf's shrinkage of a class of two rows is 0, but for rounding."""

START_SEED = 0
"""Draws the vector that the search for eigenvectors starts from."""


class LDA(LabelLearner):
    r"""Linear discriminant analysis: the distance in the space of the discriminants.

    The rows of L are the leading eigenvectors v of

    .. math:: S_b v = a S_w v , \qquad v^\top S_w v = 1 ,

    where S_w and S_b are the covariance within and between classes.  This is the transform of
    scikit-learn's solver 'eigen'.  With few rows S_w is singular, so it is shrunk:
    S_w <- (1 - s) S_w + s (tr S_w / d) I.  As in scikit-learn, S_b is S_t - S_w, where the
    covariance S_t of all rows is shrunk in the same way.  So a direction in which no row varies can
    be a discriminant; it changes no distance between training rows.  (The solver 'svd' cannot
    shrink, and for d >= n finds only such directions; 'lsqr' has no transform.)

    With fewer rows than features, Lanczos iterations find the same discriminants from products with
    the rows.

    Time n d^2 + d^3, memory 3 n d + 8 d^2 numbers.  If n < d: time n^2 d, memory 8 n d + n^2.

    Parameters
    ----------
    n_components : int or None, default None
        The number of discriminants, at most n_classes - 1 and n_features.  None: the largest
        possible number.
    shrinkage : 'auto' or float in (0, 1], default 'auto'
        s.  'auto': the shrinkage of Ledoit and Wolf (2004), computed for each class after the
        features are scaled to unit variance; .0001 where that leaves S_w singular.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_features_in_ : int

    References
    ----------
    Fisher (1936), The Use of Multiple Measurements in Taxonomic Problems, Annals of Eugenics 7.
    Rao (1948), The Utilization of Multiple Measurements in Problems of Biological Classification,
    Journal of the Royal Statistical Society B 10.
    Ledoit & Wolf (2004), Honey, I Shrunk the Sample Covariance Matrix, Journal of Portfolio
    Management 30.
    """

    name: ClassVar = "LDA"
    summary: ClassVar = "linear discriminant analysis with shrinkage, scikit-learn's"
    citation: ClassVar = "Fisher, Annals of Eugenics 7 (1936); Rao, J. R. Stat. Soc. B 10 (1948)"
    cost: ClassVar = "time n d min(n, d), memory n d + d^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        # From next to none to 1: scikit-learn's range is (0, 1].  1e-4, the smallest before, was
        # tuned in 5 of 21 partitions.
        "shrinkage": ("auto", 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.3, 0.6, 0.8, 0.95, 1)
    }

    _least_in_largest: ClassVar[int] = 2
    _learns_within: ClassVar = True
    _remedy: ClassVar[str] = "use fewer features"

    n_components: Count | None = None
    shrinkage: Annotated[Literal["auto"] | float, Interval(Real, 0, 1, closed="right")] = "auto"

    def _fit(self, X: Any, y: Any) -> None:
        n_kept = self.n_components or min(len(np.unique(y)) - 1, X.shape[1])
        by_rows = self._uses_products_with_rows(*X.shape)
        discriminants = leading_discriminants if by_rows else all_discriminants
        X = X.astype(np.float64)
        for shrinkage in (self.shrinkage, *[LEAST_SHRINKAGE] * (self.shrinkage == "auto")):
            with suppress(np.linalg.LinAlgError):  # S_w is singular
                self.components_ = discriminants(X, y, n_kept, shrinkage)
                return
        raise ValueError(
            f"the covariance within classes is singular with shrinkage={self.shrinkage}: "
            "give a larger one, below 1"
        )

    def _uses_products_with_rows(self, n: int, d: int) -> bool:
        return n < d and self.shrinkage != 1  # at 1 all directions are as good

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        n_classes, n_features = len(np.unique(y)), X.shape[1]
        most = min(n_classes - 1, n_features)
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components={self.n_components}, but {n_classes} classes of {n_features} "
                f"features have {most} discriminants: lower it to that at most"
            )

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        by_rows = self._uses_products_with_rows(n, d)
        return 8 * n * d + n**2 if by_rows else 3 * n * d + 8 * d**2


def all_discriminants(
    X: FloatArray, y: Any, n_components: int, shrinkage: Literal["auto"] | float
) -> FloatArray:
    """Return what `leading_discriminants` returns, from scikit-learn's dense matrices."""
    solver = LinearDiscriminantAnalysis(
        solver="eigen", n_components=n_components, shrinkage=shrinkage
    ).fit(X, y)
    if shrinkage == "auto":  # which may be 0
        spread = X.std(axis=0)
        spread[spread == 0] = 1
        values = np.linalg.eigvalsh(solver.covariance_ / np.outer(spread, spread))
        if values[0] < SHRINKAGE_OF_ROUNDING * values[-1]:
            raise np.linalg.LinAlgError("S_w is singular, but for rounding")
    return np.asarray(solver.scalings_.T[:n_components]).copy()


Shrunk: TypeAlias = tuple[FloatArray, FloatArray]
"""A shrunk covariance diag(r) + F'F: ridge r (n_features,), factor F (n_rows, n_features)."""


def shrunk_covariance(rows: FloatArray, shrinkage: Literal["auto"] | float) -> Shrunk:
    """Return (1 - s) C + s (tr C / d) I of the covariance C of rows (n, d), divided by n.

    With 'auto' s is that of `ledoit_wolf`, and rows are scaled to unit variance for the shrinkage.
    """
    mean = rows.mean(axis=0)
    centred = rows - mean
    variances = np.square(centred).mean(axis=0)
    if shrinkage == "auto":
        rounding = len(rows) * np.finfo(np.float64).eps * np.abs(mean)  # of a constant column
        squared_scale = np.where(variances > rounding**2, variances, 1.0)
        s = ledoit_wolf(centred / np.sqrt(squared_scale))
        ridge = s * (variances / squared_scale).mean() * squared_scale
    else:
        s = shrinkage
        ridge = np.full(rows.shape[1], s * variances.mean())
    return ridge, np.sqrt((1 - s) / len(rows)) * centred


def ledoit_wolf(centred: FloatArray) -> float:
    """Return the shrinkage of Ledoit & Wolf (2004) from centred rows (n, d), in O(n^2 d).

    The sums over the entries of X'X that it needs are sums over those of XX', too.
    """
    n, d = centred.shape
    lengths = np.square(centred).sum(axis=1)
    trace = lengths.sum() / n
    squares = np.square(centred @ centred.T).sum() / n**2
    spread = (squares - trace**2 / d) / d
    error = min((np.square(lengths).sum() / n - squares) / (n * d), spread)
    return float(error / spread) if error > SHRINKAGE_OF_ROUNDING * spread else 0.0


def leading_discriminants(
    X: FloatArray, y: Any, n_components: int, shrinkage: Literal["auto"] | float
) -> FloatArray:
    """Return the eigenvectors v of S_b v = a S_w v with v'S_w v = 1, the largest a first.

    (n_components, n_features).  S_b is S_t - S_w, with S_t the shrunk covariance of all rows.
    Lanczos iterations take products with S_t and S_w, and with the inverse of S_w by the identity
    of Woodbury.  It raises a LinAlgError where the shrinkage leaves S_w singular.
    """
    parts = []
    for label in np.unique(y):
        members = X[y == label]
        share = len(members) / len(X)
        ridge, factor = shrunk_covariance(members, shrinkage)
        parts.append((share * ridge, np.sqrt(share) * factor))
    ridges, factors = zip(*parts, strict=True)
    ridge, factor = np.sum(ridges, axis=0), np.vstack(factors)
    if not (ridge > 0).all():
        raise np.linalg.LinAlgError("S_w is singular")
    total = shrunk_covariance(X, shrinkage)
    scaled = factor / ridge
    core = scaled @ factor.T
    core[np.diag_indices_from(core)] += 1
    factored = cho_factor(core, overwrite_a=True)

    def divided_by_within(v: FloatArray) -> FloatArray:
        return np.asarray(v / ridge - scaled.T @ cho_solve(factored, scaled @ v))

    def times(ridge: FloatArray, factor: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(ridge * v + factor.T @ (factor @ v))

    def operator(apply: Callable[[FloatArray], FloatArray]) -> LinearOperator:
        shape = (X.shape[1],) * 2
        return LinearOperator(shape, lambda v: apply(v.ravel()), dtype=np.float64)

    start: Any = np.random.RandomState(START_SEED).normal(size=X.shape[1])
    _, vectors = eigsh(
        operator(partial(times, *total)),  # S_t v = (a + 1) S_w v
        k=n_components,
        M=operator(partial(times, ridge, factor)),
        Minv=operator(divided_by_within),
        which="LA",
        v0=start,
    )
    return np.asarray(vectors[:, ::-1].T)
