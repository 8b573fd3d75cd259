"""The cosine of rows that OASIS has embedded, from I or from rows whitened within classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.algorithms.oasis_symmetric import Factored
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray


class CosineOASIS(Factored):
    r"""Cosine-OASIS: learn as OASIS does, rank by the cosine of the embedded rows.

    .. math:: S(x, y) = \frac{(Lx)^\top (Ly)}{|Lx|\,|Ly|}, \qquad L^\top L = \text{PSD part of } W .

    W makes some rows longer than others.  A long row has a large x'Wy with most queries: it is a
    *hub*.  The cosine ignores the length.  Hubs cost OASIS precision at 1 on digits and MNIST.  If
    the length carries meaning, the cosine loses a little.  The parameters are those of `OASIS`.
    The factor L costs O(d^3) after learning, or O(n d^2) if 2 n <= d.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L, one row for each positive eigenvalue of the symmetric part of `raw_matrix_`.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it, from which learning continues.
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

    search_space: ClassVar = OASIS.search_space
    aggressiveness: Annotated[float, Interval(Real, 0, None, closed="neither")] = 0.1

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


class WhitenedOASIS(CosineOASIS):
    r"""Whitened OASIS: start from the covariance within classes, then learn as Cosine-OASIS does.

    .. math::

        S(x, y) = \frac{(L A x)^\top (L A y)}{|L A x|\,|L A y|}, \qquad
        A = (o I + (1 - o) P)\,\big((1 - s) C + s\,\bar\lambda I\big)^{-1/2} ,

    where C is the covariance within classes, :math:`\bar\lambda` the mean of its positive
    eigenvalues, and P the projection on the span of the whitened class means.  OASIS then learns W
    from W = I on the rows Ax / |Ax|, and L'L is the PSD part of W.

    OASIS starts from I.  With few rows a class it is worse than LDA on good features, such as a
    network's embeddings.  WhitenedOASIS starts close to LDA.  With o = 0 it would start in LDA's
    subspace; with o = 1 it starts from the whitening of RCA, which loses less on unseen classes.
    Centred rows suit it (``--scaling center+l2``).  Computing A costs O(n d min(n, d) + d^2) time
    and d^2 numbers.

    Parameters
    ----------
    shrinkage : float in (0, 1], default 0.8
        s.  With 1 the rows are not whitened.
    outside : float in (0, 1], default 0.4
        o, the weight of directions outside the span of the class means.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L A.
    start_ : ndarray of shape (n_features, n_features)
        A.  It is I if learning began with triplets, which have no classes, or if no class varies.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it on the whitened rows, from which learning continues.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11: the steps.  Bar-Hillel, Hertz, Shental &
    Weinshall (2003), ICML 20: the whitening.  Friedman (1989), Regularized Discriminant Analysis,
    Journal of the American Statistical Association 84: the shrinkage.
    """

    name: ClassVar = "WhitenedOASIS"
    summary: ClassVar = "CosineOASIS that starts from the covariance within classes, near LDA"
    citation: ClassVar = "oasis-bench; the steps: " + OASIS.citation
    cost: ClassVar = "time d a step, + d^2 min(n, d), memory 5 d^2"
    takes_sparse: ClassVar = False
    takes_relevance: ClassVar = False
    # Measured on embeddings: o decides between classes that are seen (.1) and others (1, the most).
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "outside": (0.4, 0.1, 0.025, 1),
        "shrinkage": (0.8, 0.5, 0.95),
        "aggressiveness": (0.1, 0.01, 1.0),
    }

    start_: FloatArray = field(init=False)

    shrinkage: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.8
    outside: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.4

    def _n_matrices(self, afresh: bool) -> int:
        return super()._n_matrices(afresh) + afresh

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {**super()._fitted_state(), "start_": FittedArray(("n_features", "n_features"))}

    def _validate_rows(self, X: Any, afresh: bool, y: Any = "no_validation") -> Any:
        """Return the whitened rows, on which the steps are; the first ones decide how."""
        validated = super()._validate_rows(X, afresh, y)
        rows, labels = validated if isinstance(validated, tuple) else (validated, None)
        if afresh:
            self._check_memory(rows, afresh)
            self.start_ = np.eye(rows.shape[1], dtype=rows.dtype)
            if labels is not None and not sparse.issparse(labels):
                self.start_ = self._whitening(rows, labels)
        whitened = np.ascontiguousarray(normalize(rows @ self.start_.T))
        return whitened if labels is None else (whitened, labels)

    def _whitening(self, X: FloatArray, y: Any) -> FloatArray:
        classes, of_row = np.unique(y, return_inverse=True)

        def means(rows: FloatArray) -> FloatArray:
            return np.stack([rows[y == label].mean(axis=0) for label in classes])

        values, axes = _spectrum((X - means(X)[of_row]) / np.sqrt(len(X), dtype=X.dtype))
        A = np.eye(X.shape[1], dtype=X.dtype)
        if not len(values):
            return A
        s, ridge = self.shrinkage, self.shrinkage * values.mean()
        A += (axes.T * (np.sqrt(ridge / ((1 - s) * values + ridge)) - 1)) @ axes
        whitened = means(normalize(X @ A.T))
        _, span = _spectrum(whitened - whitened.mean(axis=0))
        P = span.T @ span
        return np.asarray(self.outside * A + (1 - self.outside) * P @ A, dtype=X.dtype)

    def _finish(self, X: Any = None) -> None:
        super()._finish(X)
        self.components_ = self.components_ @ self.start_


def _spectrum(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive eigenvalues of rows'rows, and their eigenvectors as rows."""
    _, singular, axes = np.linalg.svd(rows, full_matrices=False)
    kept = singular > singular.max(initial=0) * max(rows.shape) * np.finfo(rows.dtype).eps
    return singular[kept] ** 2, axes[kept]
