"""NCA: scikit-learn's implementation under the suite's interface (Goldberger et al. 2005)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeAlias

from numpy.random import RandomState
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils._param_validation import Interval, StrOptions

from oasis_bench.algorithms._label_learner import LabelLearner

Init: TypeAlias = Literal["auto", "pca", "lda", "identity", "random"]


class NCA(LabelLearner):
    r"""Neighbourhood components analysis, by scikit-learn's L-BFGS on L.

    Maximises the expected number of rows that a neighbour, drawn at random, classifies rightly,

    .. math::

        \sum_i \sum_{j: y_j = y_i} p_{ij} , \qquad
        p_{ij} = \frac{e^{-|L x_i - L x_j|^2}}{\sum_{k \ne i} e^{-|L x_i - L x_k|^2}} ,

    which is not convex: where it ends depends on where it starts.

    Time n^2 (n_components + d) an iteration; memory a few n x n matrices, in the type of the rows.

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
    cost: ClassVar = "time n^2 d an iteration, memory n^2"
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
        n_components = min(self.n_components or X.shape[1], X.shape[1])
        solver = NeighborhoodComponentsAnalysis(
            n_components=n_components,
            init=self.init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
        ).fit(X, y)
        self.components_ = solver.components_
        self.n_iter_ = solver.n_iter_

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # Peaks of scikit-learn 1.9 are 0.8 to 1 times this, from n = 500 to 3000, d = 20 to 400.
        return 5 * n**2 + 4 * n * d + 25 * d**2
