"""Psd-OASIS: OASIS with W projected on the positive semi-definite cone, so that L'L = W."""

from __future__ import annotations

from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.shared import MATRICES_OF_PSD_FACTOR, psd_factor
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray


class PsdOASIS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OASIS):  # type: ignore[misc]
    """Psd-OASIS: the W of OASIS, projected on the positive semi-definite (PSD) cone.

    The projection takes the symmetric part of W without its negative eigenvalues, and costs
    O(d^3).  W is then L'L, S(x, y) = (Lx)'(Ly), and `transform` maps rows to Lx.

    Parameters
    ----------
    projection_interval : int or None, default None
        Project after each so many steps, and learn on from there (the paper draws 5000 and
        50 000).  None: only when learning is over, which the paper finds best.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        L'L, the PSD matrix nearest to `raw_matrix_`.
    components_ : ndarray of shape (n_components, n_features)
        L, one row for each positive eigenvalue, the largest first.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W since the last projection within learning, from which learning goes on.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.2 and figure 9.
    """

    name: ClassVar = "PsdOASIS"
    summary: ClassVar = "OASIS projected on the PSD cone, so that it gives an embedding too"
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)) a step, d^3 a projection, memory 4 d^2"

    _learned: ClassVar[str] = "raw_matrix_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OASIS._parameter_constraints,
        "projection_interval": [Interval(Integral, 1, None, closed="left"), None],
    }
    raw_matrix_: FloatArray = field(init=False)
    components_: FloatArray = field(init=False)

    projection_interval: int | None = None

    def transform(self, X: Any) -> FloatArray:
        """Return X L' (n_rows, n_components): rows whose inner products are the similarity."""
        return np.asarray(self._check_rows(X) @ self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _n_matrices(self, afresh: bool) -> int:
        return afresh + MATRICES_OF_PSD_FACTOR

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "components_": FittedArray(("n_components", "n_features")),
        }

    def _apply(self, X: Any, triplets: npt.NDArray[np.intp]) -> None:
        interval = self.projection_interval
        if interval is None:
            super()._apply(X, triplets)
            return
        while len(triplets):
            due = interval - self.n_steps_ % interval
            super()._apply(X, triplets[:due])
            if self.n_steps_ % interval == 0:
                L = psd_factor(self.raw_matrix_)
                np.matmul(L.T, L, out=self.raw_matrix_)
            triplets = triplets[due:]

    def _finish(self, X: Any = None) -> None:
        self.components_ = psd_factor(self.raw_matrix_, X)
        self.bilinear_matrix_ = self.components_.T @ self.components_
