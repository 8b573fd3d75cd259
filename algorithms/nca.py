"""NCA: scikit-learn's implementation under the suite's interface (Goldberger et al. 2005)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.random import RandomState
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from oasis_bench.algorithms._label_learner import LabelLearner
from oasis_bench.data.rows import FloatArray
from oasis_bench.data.span import basis_and_coordinates
from oasis_bench.system.shared_work import shared

Init: TypeAlias = Literal["auto", "pca", "lda", "identity", "random"]


class NCA(LabelLearner):
    r"""Neighbourhood components analysis, by scikit-learn's L-BFGS on L.

    Maximises the expected number of rows that a neighbour, drawn at random, classifies rightly,

    .. math::

        \sum_i \sum_{j: y_j = y_i} p_{ij} , \qquad
        p_{ij} = \frac{e^{-|L x_i - L x_j|^2}}{\sum_{k \ne i} e^{-|L x_i - L x_k|^2}} ,

    which is not convex: where it ends depends on where it starts.

    Of fewer rows than features it learns in the span of the rows, from the same start: the same L
    up to rounding, which iterations amplify.

    Time n^2 (n_components + min(n, d)) an iteration; memory a few n x n matrices, in the type of
    the rows.

    Parameters
    ----------
    n_components : int or None, default None
        Rows of L, n_features at most; None takes n_features.  Default of scikit-learn, as are all
        others here.
    init : {'auto', 'pca', 'lda', 'identity', 'random'}, default 'auto'
        The start.
    max_iter : int, default 50
        Iterations at most.
    tol : float, default 1e-5
        Stop where no entry of the gradient exceeds this, or an iteration gains less than this
        share of the objective.
    random_state : int, RandomState or None, default None
        Of the starts 'pca' and 'random'.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_iter_ : int
    n_features_in_ : int

    References
    ----------
    Goldberger, Roweis, Hinton & Salakhutdinov (2005), Neighbourhood Components Analysis, NIPS 17.
    """

    name: ClassVar = "NCA"
    summary: ClassVar = "neighbourhood components analysis, scikit-learn's"
    citation: ClassVar = "Goldberger, Roweis, Hinton & Salakhutdinov, NIPS 17 (2005)"
    cost: ClassVar = "time n^2 min(n, d) an iteration, memory n^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"n_components": (8, 32, None)}

    _matrix_type: ClassVar = None
    _remedy: ClassVar[str] = "use fewer rows"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"auto", "pca", "lda", "identity", "random"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        init: Init = "auto",
        max_iter: int = 50,
        tol: float = 1e-5,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit(self, X: Any, y: Any) -> None:
        n, d = X.shape
        n_components = min(self.n_components or d, d)
        whole = n_components == d and self.init in ("auto", "identity")
        if n >= d or (n_components > n and not whole):
            self.components_ = self._solve(X, y, n_components, self.init)
            return
        # Steps are sums of rows: outside of their span L stays what it is at the start.
        basis, rows = shared(basis_and_coordinates, X)
        if whole:
            change = basis @ (self._solve(rows, y, n, "identity") - np.eye(n))
            self.components_ = np.eye(d) + change @ basis.T
        else:
            start = self._start(X, y, n_components)
            found = self._solve(rows, y, n_components, start @ basis)
            self.components_ = start + (found - start @ basis) @ basis.T

    def _solve(self, X: Any, y: Any, n_components: int, init: Init | FloatArray) -> FloatArray:
        solver = NeighborhoodComponentsAnalysis(
            n_components=n_components,
            init=init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
        ).fit(X, y)
        self.n_iter_ = solver.n_iter_
        return np.asarray(solver.components_)

    def _start(self, X: Any, y: Any, n_components: int) -> FloatArray:
        """Return the start (n_components, n_features) that scikit-learn takes on rows `X`."""
        init, rng = self.init, check_random_state(self.random_state)
        if init == "auto":
            by_classes = n_components < len(np.unique(y))
            init = "lda" if by_classes else "pca" if n_components < len(X) else "identity"
        if init == "lda":
            found = LinearDiscriminantAnalysis(n_components=n_components).fit(X, y)
            return np.asarray(found.scalings_.T[:n_components])
        if init == "pca":
            return np.asarray(PCA(n_components, random_state=rng).fit(X).components_)
        shape = n_components, X.shape[1]
        return np.eye(*shape) if init == "identity" else np.asarray(rng.standard_normal(shape))

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # Peaks of scikit-learn 1.9 are 0.8 to 1 times this, from n = 500 to 3000, d = 20 to 400.
        return 5 * n**2 + 4 * n * d + 25 * d**2
