"""Cosine-OASIS: the cosine of rows that OASIS has embedded; our own variant, of no paper."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import normalize

from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.shared import MATRICES_OF_PSD_FACTOR, TripletLearner, psd_factor
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray


class CosineOASIS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TripletLearner):  # type: ignore[misc]
    r"""Cosine-OASIS: learn as OASIS does, rank by the cosine of the embedded rows.

    .. math:: S(x, y) = \frac{(Lx)^\top (Ly)}{|Lx|\,|Ly|}, \qquad L^\top L = \text{PSD part of } W .

    A row that W makes long is near the top of x'Wy for most queries - a hub - whatever it shows.
    The cosine leaves length out.  Hubs cost OASIS precision at 1 on digits and MNIST (see
    docs/results.md); where length carries meaning the cosine loses a little.  The parameters are
    those of `OASIS`; the factor L costs O(d^3) after learning, O(n d^2) where
    2 n <= d.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L, one row for each positive eigenvalue of the symmetric part of `raw_matrix_`.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it, from which learning goes on.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11: the steps.  Radovanovic, Nanopoulos &
    Ivanovic (2010), Hubs in Space, JMLR 11: what a hub is.
    """

    name: ClassVar = "CosineOASIS"
    summary: ClassVar = "cosine in the space that OASIS learned, so that no long row is a hub"
    citation: ClassVar = "oasis-bench; the steps: " + OASIS.citation
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)) a step, + d^2 min(n, d), memory 4 d^2"

    _learned: ClassVar[str] = "raw_matrix_"
    search_space: ClassVar = OASIS.search_space
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = OASIS._parameter_constraints
    raw_matrix_: FloatArray = field(init=False)
    components_: FloatArray = field(init=False)
    aggressiveness: float = 0.1

    _step = OASIS._step

    def transform(self, X: Any) -> FloatArray:
        """Return Lx / |Lx| for each row, (n_rows, n_components); where Lx is 0, zeros."""
        projected = self._check_rows(X) @ self.components_.T
        if not projected.shape[1]:  # no direction is left of W: scikit-learn refuses such rows
            return np.asarray(projected)
        return np.asarray(normalize(projected, copy=False))

    def embed(self, X: Any) -> FloatArray:
        """Return `transform`."""
        return self.transform(X)

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the cosines (n_queries, n_gallery)."""
        return np.asarray(queries @ gallery.T)

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return the cosine for each pair (x, y) of `pairs` (n_pairs, 2, n_features)."""
        left, right = (self.transform(side) for side in self._check_pairs(pairs))
        return np.asarray(np.einsum("ij,ij->i", left, right))

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

    def _finish(self, X: Any = None) -> None:
        self.components_ = psd_factor(self.raw_matrix_, X)
