"""NCA: neighbourhood components analysis (Goldberger, Roweis, Hinton & Salakhutdinov 2004).

Our implementation, and that of scikit-learn for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_random_state

from oasis_bench.algorithms._chosen_neighbours import BLOCK_BYTES, slope
from oasis_bench.algorithms._neighbour_choice import choose_own_class
from oasis_bench.algorithms.axes import basis_and_coordinates
from oasis_bench.algorithms.base import Count, FromZero, LabelLearner
from oasis_bench.data import FloatArray
from oasis_bench.system import shared

Init: TypeAlias = Literal["auto", "pca", "lda", "identity", "random"]

FEW = 500
"""Up to this number of rows everything is computed in float64, which is fast enough."""

LITTLE = 1e-4
"""If an iteration gains less than this share of the objective, the next ones use float64."""


class Objective:
    r"""f(L) = sum_i p_i, the expected number of rows that choose a neighbour of their class.

    The gradient is 2 L X'(W + W' - diag(W'1))X (equation 5 of the paper) with
    W_ij = p_ij ([y_i = y_j] - p_i).  The rows of W sum to 0.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d)
    labels : ndarray of shape (n_rows,)
    """

    def __init__(self, rows: FloatArray, labels: Any) -> None:
        _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        by_class = np.argsort(numbers, kind="stable")
        self._rows = rows[by_class].astype(np.float64, copy=False)
        self._rows -= self._rows.mean(axis=0)
        stops = np.cumsum(counts, dtype=np.int64)
        self._choose = partial(
            choose_own_class,
            starts=np.repeat(stops - counts, counts),
            stops=np.repeat(stops, counts),
        )

    def value_and_gradient(self, L: FloatArray, coarse: bool = False) -> tuple[float, FloatArray]:
        """Return f and its gradient by L, shape (k, d); coarsely by products in float32."""
        value, pulled = slope(self._rows, L, self._choose, 0.0, coarse)
        return value, -2 * pulled


class NCA(LabelLearner):
    r"""Neighbourhood components analysis, by L-BFGS on L.

    Row i chooses row j as its neighbour with the probability p_ij.  NCA maximises the expected
    number of rows that choose a neighbour of their own class (equations 1 to 3 of the paper):

    .. math::

        f(L) = \sum_i p_i , \qquad p_i = \sum_{j \ne i: y_j = y_i} p_{ij} , \qquad
        p_{ij} = \frac{e^{-|L x_i - L x_j|^2}}{\sum_{k \ne i} e^{-|L x_i - L x_k|^2}} .

    This f is not convex, so the result depends on the start.  The gradient (equation 5) is

    .. math::

        \frac{\partial f}{\partial L} = 2 L X^\top (W + W^\top - \mathrm{diag}(W^\top 1)) X ,
        \qquad W_{ij} = p_{ij} \, ([y_i = y_j] - p_i) .

    The starts, the steps and the stopping rule are those of scikit-learn.  The n^2 probabilities
    are computed in compiled code, block by block.  With more than 500 rows the first iterations use
    float32, until one gains less than 1e-4 of f; the last ones use float64.  With fewer rows the
    result is that of scikit-learn up to rounding, which iterations amplify.

    If there are fewer rows than features, NCA learns in the span of the rows.  It ignores columns
    that do not vary.  Neither changes the result.

    An iteration takes at most 3 n^2 n_components operations.  Memory is a few times n d and
    40 n_components d numbers, and a block of 8 MiB.

    Parameters
    ----------
    n_components : int or None, default None
        The number of rows of L, at most n_features.  None: n_features.  All defaults are those of
        scikit-learn.
    init : {'auto', 'pca', 'lda', 'identity', 'random'}, default 'auto'
        The start.
    max_iter : int, default 50
        The largest number of iterations.
    tol : float, default 1e-5
        Stop when no entry of the gradient exceeds this, or an iteration gains less than this share
        of the objective.
    random_state : int, RandomState or None, default None
        The seed of the starts 'pca' and 'random'.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    objective_ : float
        f(L).
    n_iter_ : int
        The number of iterations plus one, as in scikit-learn.
    n_features_in_ : int

    References
    ----------
    Goldberger, Roweis, Hinton & Salakhutdinov (2004), Neighbourhood Components Analysis, NIPS 17.
    """

    name: ClassVar = "NCA"
    summary: ClassVar = "neighbourhood components analysis, in blocks of pairs"
    citation: ClassVar = "Goldberger, Roweis, Hinton & Salakhutdinov, NIPS 17 (2004)"
    cost: ClassVar = "time n^2 n_components an iteration, memory n d + n_components d"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_components": (None, 1, 2, 4, 8, 16, 32, 64)  # the paper shows 2; all is scikit-learn's
    }

    _remedy: ClassVar[str] = "use fewer rows, or lower n_components"

    n_components: Count | None = None
    init: Init = "auto"
    max_iter: Count = 50
    tol: FromZero = 1e-5

    def _fit(self, X: Any, y: Any) -> None:
        n, d = X.shape
        start = self._start(X, y, min(self.n_components or d, d))
        # Steps are sums of rows: outside of their span L stays what it is at the start.
        if n < d:
            basis, rows = shared(basis_and_coordinates, X)
            self.components_ = start + self._change(rows, y, start @ basis) @ basis.T
        else:
            varying = (X[0] != X).any(axis=0)
            varying[0] = True  # where all rows are equal, so that L has something to be
            self.components_ = start.astype(np.float64)
            self.components_[:, varying] += self._change(X[:, varying], y, start[:, varying])

    def _change(self, rows: FloatArray, y: Any, start: FloatArray) -> FloatArray:
        """Return by how much L ends away from its start, shape (k, d)."""
        if len(start) > rows.shape[1]:  # no distance changes where Lx is turned: fewer rows do
            turn, triangle = np.linalg.qr(start)
            return np.asarray(turn @ self._change(rows, y, triangle))
        objective = Objective(rows, y)
        found, n_iter = _ascend(objective, start, self.tol, self.max_iter, coarse=len(rows) > FEW)
        self.objective_ = objective.value_and_gradient(found)[0]
        self.n_iter_ = n_iter + 1
        return found - start

    def _start(self, X: Any, y: Any, n_components: int) -> FloatArray:
        """Return the start (n_components, n_features) that scikit-learn takes on rows `X`."""
        init, rng = self.init, check_random_state(self.random_state)
        if init == "auto":
            by_classes = n_components < len(np.unique(y))
            init = "lda" if by_classes else "pca" if n_components < min(X.shape) else "identity"
        if init == "lda":
            found = LinearDiscriminantAnalysis(n_components=n_components).fit(X, y)
            return np.asarray(found.scalings_.T[:n_components])
        if init == "pca":
            return np.asarray(PCA(n_components, random_state=rng).fit(X).components_)
        shape = n_components, X.shape[1]
        return np.eye(*shape) if init == "identity" else np.asarray(rng.standard_normal(shape))

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        k = min(self.n_components or d, d)
        return 7 * n * d + 6 * n * k + 40 * min(k, n) * min(n, d) + 4 * k * d + BLOCK_BYTES // 8


def _ascend(
    objective: Objective, start: FloatArray, tol: float, max_iter: int, coarse: bool
) -> tuple[FloatArray, int]:
    """Go up by L-BFGS, with the options that scikit-learn gives it; return L and iterations.

    Coarsely, until an iteration gains little: the end is found in float64.
    """
    value, n_fine, began_coarse = -np.inf, 0, coarse

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        f, gradient = objective.value_and_gradient(flat.reshape(start.shape), coarse)
        return -f, -gradient.ravel()

    def look_at_gain(intermediate_result: OptimizeResult) -> None:
        nonlocal coarse, value, n_fine
        before, value = value, -float(intermediate_result.fun)
        n_fine += not coarse
        coarse = coarse and value - before > LITTLE * value

    end = minimize(
        loss,
        start.ravel().astype(np.float64),
        jac=True,
        method="L-BFGS-B",
        tol=tol,
        callback=look_at_gain,
        options={"maxiter": max_iter},
    )
    L: FloatArray = end.x.reshape(start.shape)
    n_iter = int(end.nit)
    if began_coarse and n_fine < 2 and n_iter < max_iter:  # its last gain was not of float64 alone
        L, more = _ascend(objective, L, tol, max_iter - n_iter, coarse=False)
        n_iter += more
    return L, n_iter
