"""OASIS with a symmetric W: projected after learning, after each update, or by its score."""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis import (
    _reference as _oasis_reference,
    _symmetric_steps as _oasis_symmetric,
)
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.shared import TripletLearner, uses_twin
from oasis_bench.data import FloatArray, symmetric_part
from oasis_bench.plugins import blocks


class ProjOASIS(OASIS):
    """Proj-OASIS: the W of OASIS, made symmetric once learning is over.

    The parameters are those of `OASIS`; learning goes on from the W before the projection.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        (W + W') / 2, symmetric; indefinite in general.
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

    with the :math:`\tau` of OASIS, so that each step is its step and then the projection; W
    starts as I and stays symmetric up to rounding.  A step costs twice one of OASIS.  The
    parameters and attributes are those of `OASIS`.

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

    W starts as I and stays symmetric up to rounding, but not positive: S' is neither x'Wy nor
    minus a squared distance, and `similarity` and `pair_score` give S' itself.  A step costs
    about twice one of OASIS.  The parameters are those of `OASIS`.

    Attributes
    ----------
    dissimilarity_matrix_ : ndarray of shape (n_features, n_features)
        W; float32 where the rows are float32, else float64.
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
