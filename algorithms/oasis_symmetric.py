"""OASIS with a symmetric W: projected after learning, after each update, or by its score.

Also those with a positive semi-definite W: projected, or kept so by the LogDet divergence.
"""

from __future__ import annotations

from dataclasses import field
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, get_lapack_funcs, qr
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms import _oasis_reference, _oasis_symmetric_steps as _oasis_symmetric
from oasis_bench.algorithms.base import LogDetLearner, TripletLearner, uses_twin
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.data import FloatArray, symmetric_part
from oasis_bench.plugins import FittedArray, blocks


class ProjOASIS(OASIS):
    """Proj-OASIS: the W of OASIS, made symmetric after learning.

    The parameters are those of `OASIS`.  `partial_fit` continues from the W before the projection.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        (W + W') / 2.  It is symmetric, and may have negative eigenvalues.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.1.
    """

    name: ClassVar = "ProjOASIS"
    summary: ClassVar = "OASIS, made symmetric once after learning"
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)) a step, memory 2 d^2"

    _learned: ClassVar[str] = "raw_matrix_"
    raw_matrix_: FloatArray = field(init=False)

    def _n_matrices(self, afresh: bool) -> int:
        return afresh + 1

    def _finish(self, X: Any = None) -> None:
        self.bilinear_matrix_ = symmetric_part(self.raw_matrix_)


class OnlineProjOASIS(OASIS):
    r"""Online-Proj-OASIS: OASIS whose W is made symmetric after each update.

    .. math:: W \leftarrow W + \tau (V + V^\top) / 2, \quad V = q (p - n)^\top

    with the :math:`\tau` of OASIS.  So each step is a step of OASIS and then the projection.  W
    starts as I and stays symmetric up to rounding.  A step costs twice as much as one of OASIS.
    The parameters and attributes are those of `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.1; the preprint (2009), 5.2.4.
    """

    name: ClassVar = "OnlineProjOASIS"
    summary: ClassVar = "OASIS, made symmetric after each update"
    cost: ClassVar = "time 2 nnz(q) (nnz(p) + nnz(n)) a step, memory d^2"

    def _step(self, X: Any, triplets: NDArray[np.intp], W: FloatArray) -> int:
        C = float(self.aggressiveness)
        if uses_twin():
            return _oasis_reference.step_online_proj(X, triplets, C, W)
        return symmetric_step(X, triplets, C, False, W)


class DissimOASIS(TripletLearner):
    r"""Dissim-OASIS: OASIS on the score S'(x, y) = -(x - y)'W(x - y).

    .. math::

        \ell = \max(0, 1 - S'(q, p) + S'(q, n)), \quad
        V = (q - p)(q - p)^\top - (q - n)(q - n)^\top, \quad
        W \leftarrow W - \min(C, \ell / \|V\|^2)\, V .

    W starts as I and stays symmetric up to rounding, but may get negative eigenvalues.  So S' is
    neither x'Wy nor minus a squared distance.  `similarity` and `pair_score` return S' itself.  A
    step costs about twice as much as one of OASIS.  The parameters are those of `OASIS`.

    Attributes
    ----------
    dissimilarity_matrix_ : ndarray of shape (n_features, n_features)
        W; float32 if the rows are float32, otherwise float64.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Shalit, Sharma & Bengio (2009), An Online Algorithm for Large Scale Image Similarity
    Learning, preprint, section 2.2.
    """

    name: ClassVar = "DissimOASIS"
    summary: ClassVar = "OASIS on minus (x - y)'W(x - y), W symmetric but not positive"
    citation: ClassVar = OASIS.citation
    cost: ClassVar = "time nnz(q - p)^2 + nnz(q - n)^2 a step, memory d^2"

    _learned: ClassVar[str] = "dissimilarity_matrix_"
    _shift_invariant: ClassVar = True
    search_space: ClassVar = OASIS.search_space
    dissimilarity_matrix_: FloatArray = field(init=False)
    aggressiveness: Annotated[float, Interval(Real, 0, None, closed="neither")] = 0.1

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return S'(x, y) for each pair (x, y) of `pairs` (n_pairs, 2, n_features)."""
        left, right = self._check_pairs(pairs)
        return -_quadratic(left - right, self.dissimilarity_matrix_)

    def embed(self, X: Any) -> Any:
        """Return the rows, checked; those far from zero less a constant row."""
        return self._centred(super().embed(X))

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return S' (n_queries, n_gallery), formed in blocks of queries."""
        W = symmetric_part(self.dissimilarity_matrix_)
        dtype = np.result_type(queries.dtype, W.dtype, gallery.dtype)
        scores = np.empty((queries.shape[0], gallery.shape[0]), dtype=dtype)
        of_gallery = _quadratic(gallery, W)
        for rows in blocks(queries.shape[0], row_bytes=W.shape[1] * dtype.itemsize):
            block = queries[rows]
            scores[rows] = (gallery @ (2 * (block @ W)).T).T
            scores[rows] -= _quadratic(block, W)[:, None]
            scores[rows] -= of_gallery
        return scores

    def _step(self, X: Any, triplets: NDArray[np.intp], W: FloatArray) -> int:
        C = float(self.aggressiveness)
        if uses_twin():
            return _oasis_reference.step_dissim(X, triplets, C, W)
        return symmetric_step(X, triplets, C, True, W)


def symmetric_step(
    X: Any, triplets: NDArray[np.intp], aggressiveness: float, dissimilar: bool, W: FloatArray
) -> int:
    """Apply the compiled steps of Dissim-OASIS or of Online-Proj-OASIS to W in place."""
    options = (triplets, aggressiveness, dissimilar, W, *workspace(X))
    if isinstance(X, sparse.csr_array | sparse.csr_matrix):
        return _oasis_symmetric.step_csr(X.data, X.indices, X.indptr, *options)
    return _oasis_symmetric.step_dense(X, *options)


def workspace(X: Any) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int32]]:
    """Allocate the two vectors of a kernel's step: spread out, their entries, their columns."""
    shape = 2, X.shape[1]
    return np.zeros(shape, X.dtype), np.empty(shape, X.dtype), np.empty(shape, np.int32)


def _quadratic(X: Any, W: FloatArray) -> FloatArray:
    """Return x'Wx for each row x, formed in blocks of rows."""
    values = np.empty(X.shape[0], dtype=np.result_type(X.dtype, W.dtype))
    for rows in blocks(X.shape[0], row_bytes=W.shape[1] * values.dtype.itemsize):
        block = X[rows]
        images = block @ W
        product = block.multiply(images) if sparse.issparse(X) else block * images
        values[rows] = np.asarray(product.sum(axis=1)).ravel()
    return values


MATRICES_OF_PSD_FACTOR = 3
"""Matrices of the shape of W that `psd_factor` holds at once beside W: divide and conquer, LAPACK's
driver 'evd', works in two.  It is up to four times as fast as the default, which takes none, where
many eigenvalues are 1, and five times as exact."""

PROBES, NEGLIGIBLE = 8, 1000.0
"""Directions outside of a span that tell whether W - I has a part there: more than so many times
the rounding error."""


def psd_factor(W: FloatArray, rows: Any = None) -> FloatArray:
    """Factor the projection of W on the cone of positive semi-definite (PSD) matrices.

    L = diag(sqrt(eigenvalues)) V' over the positive eigenvalues of the symmetric part of W, the
    largest first: L'L is the PSD matrix nearest to W in the Frobenius norm.  Where W is the
    identity outside of what `rows` span, and they are at most half as many as features, eigenvalues
    are sought in the span alone.
    """
    if rows is not None and 2 * rows.shape[0] <= len(W):
        found = _psd_factor_in_span(W, rows)
        if found is not None:
            return found
    # The transpose is the same matrix in the order of LAPACK, which then needs no copy.
    values, vectors = eigh(symmetric_part(W).T, overwrite_a=True, driver="evd")
    order = np.flatnonzero(values > 0)[::-1]
    factor = vectors.T[order]
    factor *= np.sqrt(values[order])[:, None]
    return factor


def _psd_factor_in_span(W: FloatArray, rows: Any) -> FloatArray | None:
    """Return `psd_factor` of a W that is the identity outside of what rows span, else None."""
    X: Any = rows if isinstance(rows, np.ndarray) else rows.toarray()
    n, d = X.shape
    (reflectors, tau), _ = qr(X.T.astype(W.dtype), mode="raw", overwrite_a=True, check_finite=False)
    multiply: Any = get_lapack_funcs("ormqr", (reflectors,))

    def turned(vectors: FloatArray) -> FloatArray:
        """Return Q times columns, in their place: the first n of Q span the rows."""
        return np.asarray(multiply("L", "N", reflectors, tau, vectors, 64 * d, overwrite_c=True)[0])

    def columns(n_columns: int) -> FloatArray:
        return np.zeros((d, n_columns), W.dtype, order="F")

    probes, basis = columns(PROBES), columns(n)
    probes[n:] = np.random.RandomState(0).normal(size=(d - n, PROBES))
    np.fill_diagonal(basis, 1)
    basis = turned(basis)
    change = symmetric_part(W)
    change[np.diag_indices_from(change)] -= 1
    outside = np.linalg.norm(change @ turned(probes)) / np.sqrt(PROBES)
    if outside > NEGLIGIBLE * np.finfo(W.dtype).eps * np.linalg.norm(change):
        return None
    values, vectors = eigh(basis.T @ change @ basis, overwrite_a=True, driver="evd")
    del change
    kept = np.flatnonzero(values > -1)[::-1]
    vectors = vectors[:, kept] * np.sqrt(1 + values[kept])
    n_longer = np.count_nonzero(values > 0)
    factor = columns(d - n + len(kept))
    ends = n_longer, n_longer + d - n  # of the eigenvalues above 1, and of those outside
    factor[:n, : ends[0]], factor[:n, ends[1] :] = np.split(vectors, [n_longer], axis=1)
    np.fill_diagonal(factor[n:, ends[0] : ends[1]], 1)
    return turned(factor).T


class Factored(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TripletLearner):  # type: ignore[misc]
    """Learns W, `raw_matrix_`, by steps; its model is L, with L'L the PSD part of W."""

    _learned: ClassVar[str] = "raw_matrix_"
    raw_matrix_: FloatArray = field(init=False)
    components_: FloatArray = field(init=False)

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


class PsdOASIS(Factored, OASIS):
    """Psd-OASIS: the W of OASIS, projected on the positive semi-definite (PSD) cone.

    The projection takes the symmetric part of W without its negative eigenvalues, and costs
    O(d^3).  W is then L'L, S(x, y) = (Lx)'(Ly), and `transform` maps rows to Lx.

    Parameters
    ----------
    projection_interval : int or None, default None
        Project after this number of steps, and continue from the projection (the paper uses 5000
        and 50 000).  None: only after learning, which is best in the paper.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        L'L, the PSD matrix nearest to `raw_matrix_`.
    components_ : ndarray of shape (n_components, n_features)
        L, one row for each positive eigenvalue, the largest first.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W before the last projection, from which learning continues.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.2 and figure 9.
    """

    name: ClassVar = "PsdOASIS"
    summary: ClassVar = "OASIS projected on the PSD cone, so that it gives an embedding too"
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)) a step, d^3 a projection, memory 4 d^2"

    projection_interval: Annotated[int | None, Interval(Integral, 1, None, closed="left")] = None

    def transform(self, X: Any) -> FloatArray:
        """Return X L' (n_rows, n_components): rows whose inner products are the similarity."""
        return np.asarray(self._check_rows(X) @ self.components_.T)

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
        super()._finish(X)
        self.bilinear_matrix_ = self.components_.T @ self.components_


class LogDetOASIS(LogDetLearner):
    r"""LogDet-OASIS: a Mahalanobis distance from triplets, positive definite without projection.

    LogDetOASIS starts from A = I.  A step on the triplet (q, p, n), with :math:`z_+ = q - p` and
    :math:`z_- = q - n`, minimises

    .. math::

        D_{ld}(A, A_{old}) + \frac{\eta}{2} [m + z_+^\top A z_+ - z_-^\top A z_-]_+^2 ,

    which has the LogDet divergence where OASIS has the Frobenius norm (an open question of section
    6.2).  The solution is :math:`A^{-1} = A_{old}^{-1} + \alpha (z_+ z_+^\top - z_- z_-^\top)` with
    :math:`\alpha = \eta (m + z_+^\top A z_+ - z_-^\top A z_-)`.  It changes A by a matrix of rank
    2.  :math:`\alpha` is the only root of a cubic equation for which A is positive definite; it is
    halved if a step would make A grow a millionfold.  A step costs O(d^2), also for sparse rows.
    A has d^2 float64 numbers, whatever the precision of the rows.

    Parameters
    ----------
    eta : float, default 0.08
        The weight of the loss; a larger value makes larger steps.  The papers give no value for
        triplets, so the default and the search space are those of `LEGO` (JMLR 2010, 5.3.2).
    margin : float, default 1.0
        m.  The squared distance of a negative should be larger than that of a positive by this
        amount.
    n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        L, with L'L = A; float32 if the rows are float32, otherwise float64.
    mahalanobis_matrix_ : ndarray of shape (n_features, n_features)
        A in float64, from which learning continues.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.2; the divergence and the form of
    the step from Jain, Kulis, Dhillon & Grauman (2008), Online Metric Learning and Fast
    Similarity Search, NIPS 21.
    """

    name: ClassVar = "LogDetOASIS"
    summary: ClassVar = "OASIS's triplets under the LogDet divergence, a Mahalanobis distance"
    citation: ClassVar = "after Chechik et al., JMLR 11 (2010), 6.2 & Jain et al., NIPS 21 (2008)"
    cost: ClassVar = "time d^2 a step, d^3 at the end, memory 5 d^2"

    margin: Annotated[float, Interval(Real, 0, None, closed="neither")] = 1.0

    def _n_matrices(self, afresh: bool) -> int:
        return 2 * afresh + MATRICES_OF_PSD_FACTOR

    @staticmethod
    def _factor(M: npt.NDArray[np.float64]) -> FloatArray:
        return psd_factor(M)

    def _step(self, X: Any, triplets: npt.NDArray[np.intp], W: npt.NDArray[Any]) -> int:
        eta, margin = float(self.eta), float(self.margin)
        if uses_twin():
            return _oasis_reference.step_logdet(X, triplets, eta, margin, W)
        products = np.empty((2, X.shape[1]))
        options = (triplets, eta, margin, W, products, *workspace(X))
        if isinstance(X, sparse.csr_array | sparse.csr_matrix):
            return _oasis_symmetric.step_logdet_csr(X.data, X.indices, X.indptr, *options)
        return _oasis_symmetric.step_logdet_dense(X, *options)
