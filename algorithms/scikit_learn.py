"""scikit-learn's NCA as it is, to stand beside ours."""

from __future__ import annotations

from typing import Any, ClassVar

import sklearn
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from oasis_bench.algorithms.nca import NCA


class ScikitLearnNCA(NCA):
    """scikit-learn's neighbourhood components analysis: L-BFGS on L with all n^2 pairs in memory.

    An evaluation of the objective takes O(n^2 d) time and O(n^2) memory.  The parameters and
    `components_` are those of `NCA`, by name and default.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_iter_ : int
        One more than the iterations taken.
    n_features_in_ : int
    """

    name: ClassVar = "scikit-learn-NCA"
    summary: ClassVar = f"scikit-learn {sklearn.__version__}'s neighbourhood components analysis"
    cost: ClassVar = "time n^2 d an evaluation, memory n^2"

    def _fit(self, X: Any, y: Any) -> None:
        arguments = self.get_params()
        if self.n_components is not None:
            arguments["n_components"] = min(self.n_components, X.shape[1])
        solver = NeighborhoodComponentsAnalysis(**arguments).fit(X, y)
        self.components_, self.n_iter_ = solver.components_, int(solver.n_iter_)

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 4 * n**2 + 3 * n * d + 40 * d * min(self.n_components or d, d)
