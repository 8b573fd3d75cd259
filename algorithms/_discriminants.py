"""The leading discriminants of few rows of many features, by products with the rows alone.

Covariances, shrinkage and order are those of scikit-learn's LinearDiscriminantAnalysis with the
solver 'eigen', which forms matrices of n_features^2 numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, eigsh

from oasis_bench.data import FloatArray

START_SEED = 0
"""Draws the vector that the search for eigenvectors starts from."""


class Shrunk(NamedTuple):
    """A shrunk covariance diag(r) + F'F.

    Attributes
    ----------
    ridge : ndarray of shape (n_features,)
        r.
    factor : ndarray of shape (n_rows, n_features)
        F.
    """

    ridge: FloatArray
    factor: FloatArray

    def times(self, v: FloatArray) -> FloatArray:
        """Return its product with a vector."""
        return np.asarray(self.ridge * v + self.factor.T @ (self.factor @ v))


def shrunk_covariance(rows: FloatArray, shrinkage: Literal["auto"] | float) -> Shrunk:
    """Return (1 - s) C + s (tr C / d) I of the covariance C of rows (n, d), divided by n.

    With 'auto' s is that of `ledoit_wolf`, and rows are scaled to unit variance for the shrinkage.
    """
    centred = rows - rows.mean(axis=0)
    variances = np.square(centred).mean(axis=0)
    if shrinkage == "auto":
        squared_scale = np.where(variances > 0, variances, 1.0)
        s = ledoit_wolf(centred / np.sqrt(squared_scale))
        ridge = s * (variances / squared_scale).mean() * squared_scale
    else:
        s = shrinkage
        ridge = np.full(rows.shape[1], s * variances.mean())
    return Shrunk(ridge, np.sqrt((1 - s) / len(rows)) * centred)


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
    return float(error / spread) if error > 0 else 0.0


def leading_discriminants(
    X: FloatArray, y: Any, n_components: int, shrinkage: Literal["auto"] | float
) -> FloatArray | None:
    """Return the eigenvectors v of S_b v = a S_w v with v'S_w v = 1, the largest a first.

    S_b is S_t - S_w, with S_t the shrunk covariance of all rows.  Lanczos iterations take products
    with S_t and S_w, and with the inverse of S_w by the identity of Woodbury.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), float64
    y : ndarray of shape (n_rows,)
    n_components : int
        Below n_features.
    shrinkage : 'auto' or float

    Returns
    -------
    ndarray of shape (n_components, n_features), or None where the shrinkage leaves S_w singular.
    """
    parts = []
    for label in np.unique(y):
        members = X[y == label]
        share = len(members) / len(X)
        ridge, factor = shrunk_covariance(members, shrinkage)
        parts.append(Shrunk(share * ridge, np.sqrt(share) * factor))
    within = Shrunk(
        np.sum([part.ridge for part in parts], axis=0), np.vstack([part.factor for part in parts])
    )
    if not (within.ridge > 0).all():
        return None
    total = shrunk_covariance(X, shrinkage)
    scaled = within.factor / within.ridge
    core = scaled @ within.factor.T
    core[np.diag_indices_from(core)] += 1
    factored = cho_factor(core, overwrite_a=True)

    def divided_by_within(v: FloatArray) -> FloatArray:
        return np.asarray(v / within.ridge - scaled.T @ cho_solve(factored, scaled @ v))

    def operator(times: Callable[[FloatArray], FloatArray]) -> LinearOperator:
        shape = (X.shape[1],) * 2
        return LinearOperator(shape, lambda v: times(v.ravel()), dtype=np.float64)

    start: Any = np.random.RandomState(START_SEED).normal(size=X.shape[1])
    _, vectors = eigsh(
        operator(total.times),  # S_t v = (a + 1) S_w v
        k=n_components,
        M=operator(within.times),
        Minv=operator(divided_by_within),
        which="LA",
        v0=start,
    )
    return np.asarray(vectors[:, ::-1].T)
