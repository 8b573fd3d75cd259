"""LDA: scikit-learn's discriminant analysis as a distance (Fisher 1936, Rao 1948)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils._param_validation import Interval, StrOptions

from oasis_bench.algorithms._discriminants import leading_discriminants
from oasis_bench.algorithms._label_learner import LabelLearner
from oasis_bench.algorithms._within_class import refuse_classes_of_equal_rows


class LDA(LabelLearner):
    r"""Linear discriminant analysis: the distance in the space of the discriminants.

    The rows of L are the leading eigenvectors v of

    .. math:: S_b v = a S_w v , \qquad v^\top S_w v = 1 ,

    S_w and S_b the covariance within and between classes: scikit-learn's transform.  S_w of few
    rows is singular, so it is shrunk, S_w <- (1 - s) S_w + s (tr S_w / d) I, and scikit-learn's
    solver 'eigen' is taken: 'svd' knows no shrinkage, and where d >= n it finds directions in
    which no training row varies, and 'lsqr' gives no transform.

    Of fewer rows than features the same discriminants are found by Lanczos iterations, which take
    products with the rows alone.

    Time n d^2 + d^3, memory 3 n d + 8 d^2 numbers; where n < d, time n^2 d and memory
    8 n d + n^2.

    Parameters
    ----------
    n_components : int or None, default None
        Discriminants, n_classes - 1 and n_features at most; None takes as many as that.
    shrinkage : 'auto' or float in (0, 1], default 'auto'
        s; 'auto' is the one of Ledoit and Wolf (2004), which fits each class by itself after the
        features were scaled to unit variance.
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.

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
    cost: ClassVar = "time n d^2 + d^3 (n^2 d where n < d), memory n d + d^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"shrinkage": ("auto", 0.3, 0.8, 0.95)}

    _least_in_largest: ClassVar[int] = 2
    _remedy: ClassVar[str] = "use fewer features"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: Literal["auto"] | float = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.random_state = random_state

    def _fit(self, X: Any, y: Any) -> None:
        n_kept = self.n_components or min(len(np.unique(y)) - 1, X.shape[1])
        X = X.astype(np.float64)
        if len(X) < X.shape[1] and self.shrinkage != 1:  # at 1 all directions are as good
            found = leading_discriminants(X, y, n_kept, self.shrinkage)
            if found is not None:
                self.components_ = found
                return
        solver = LinearDiscriminantAnalysis(
            solver="eigen", n_components=self.n_components, shrinkage=self.shrinkage
        )
        try:
            solver.fit(X, y)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the covariance within classes is singular with shrinkage={self.shrinkage}: "
                "give a larger one, below 1"
            ) from error
        self.components_ = solver.scalings_.T[:n_kept].copy()

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        n_classes, n_features = len(np.unique(y)), X.shape[1]
        most = min(n_classes - 1, n_features)
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components={self.n_components}, but {n_classes} classes of {n_features} "
                f"features have {most} discriminants: lower it to that at most"
            )
        refuse_classes_of_equal_rows(X, y, self.name)

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 8 * n * d + n**2 if n < d else 3 * n * d + 8 * d**2
