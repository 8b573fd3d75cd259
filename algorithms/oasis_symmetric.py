"""OASIS with a symmetric W: projected after learning, after each update, or by its score.

Also those with a positive semi-definite W, by projection; and the cosine of rows that such a W
embeds, from I or from rows whitened within classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, get_lapack_funcs, qr
from sklearn.base import TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

import oasis_bench.algorithms._oasis_symmetric_steps as _oasis_symmetric
from oasis_bench.algorithms.base import Count, Positive, TripletLearner
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray, InnerProducts, LinearMap, blocks
from oasis_bench.system import require_memory


def symmetric_part(W: FloatArray) -> FloatArray:
    """Return (W + W') / 2, the symmetric matrix nearest to W (d, d) in the Frobenius norm."""
    total = W + W.T
    return np.divide(total, 2, out=total)


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
    cost: ClassVar = "time k^2 a step, memory 2 d^2"

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
    cost: ClassVar = "time k^2 a step, memory d^2"

    def _step(self, X: Any, triplets: NDArray[np.intp], W: FloatArray) -> int:
        C = float(self.aggressiveness)
        return int(_oasis_symmetric.step(*rows_of(X), triplets, C, False, W, *workspace(X)))


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
    summary: ClassVar = "OASIS on minus (x - y)'W(x - y), W symmetric, not always PSD"
    citation: ClassVar = OASIS.citation
    cost: ClassVar = "time k^2 a step, memory d^2"

    _learned: ClassVar[str] = "dissimilarity_matrix_"
    _shift_invariant: ClassVar = True
    search_space: ClassVar = OASIS.search_space
    dissimilarity_matrix_: FloatArray = field(init=False)
    aggressiveness: Positive = 0.1

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

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray]:
        """Return 2 Wx of queries, or the gallery rows, and -x'Wx."""
        W = symmetric_part(self.dissimilarity_matrix_)
        return embedded @ (2 * W) if of_queries else embedded, -_quadratic(embedded, W)

    def _step(self, X: Any, triplets: NDArray[np.intp], W: FloatArray) -> int:
        C = float(self.aggressiveness)
        return int(_oasis_symmetric.step(*rows_of(X), triplets, C, True, W, *workspace(X)))


def rows_of(X: Any) -> tuple[FloatArray, FloatArray, Any, Any]:
    """Return rows as the kernels take them: dense, or the arrays of CSR; the rest is empty."""
    if isinstance(X, np.ndarray):
        return X, np.empty(0, X.dtype), *np.empty((2, 0), np.int32)
    return np.empty((0, 0), X.dtype), X.data, X.indices, X.indptr


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


class Factored(LinearMap, TransformerMixin, TripletLearner):  # type: ignore[misc]
    """Learns W, `raw_matrix_`, by steps; its model is L, with L'L the PSD part of W."""

    _learned: ClassVar[str] = "raw_matrix_"
    raw_matrix_: FloatArray = field(init=False)
    components_: FloatArray = field(init=False)

    def _n_matrices(self, afresh: bool) -> int:
        return afresh + MATRICES_OF_PSD_FACTOR

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
    cost: ClassVar = "time k^2 a step, d^3 a projection, memory 4 d^2"

    projection_interval: Count | None = None

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


class CosineOASIS(InnerProducts, Factored):
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
    summary: ClassVar = "cosine in the space of OASIS, so that long vectors do not rank first"
    citation: ClassVar = "oasis-bench; the steps: " + OASIS.citation
    cost: ClassVar = "time k^2 a step, + d^2 min(n, d), memory 4 d^2"

    search_space: ClassVar = OASIS.search_space
    aggressiveness: Positive = 0.1

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

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return the cosine for each pair (x, y) of `pairs` (n_pairs, 2, n_features)."""
        left, right = (self.transform(side) for side in self._check_pairs(pairs))
        return np.asarray(np.einsum("ij,ij->i", left, right))


class WhitenedOASIS(CosineOASIS):
    r"""Whitened OASIS: start from the covariance within classes, then learn as Cosine-OASIS does.

    .. math::

        S(x, y) = \frac{(L A x)^\top (L A y)}{|L A x|\,|L A y|}, \qquad
        A = \sqrt{s\,\bar\lambda}\,(o I + (1 - o) P)\,
            \big((1 - s) C + s\,\bar\lambda I\big)^{-1/2} ,

    where C is the covariance within classes, :math:`\bar\lambda` the mean of its positive
    eigenvalues, and P the projection on the span of the differences between class means, computed
    after whitening the rows and scaling them to unit length.  s and o are the parameters
    `shrinkage` and `outside`.  OASIS then learns W from W = I on the rows Ax / |Ax|, and L'L is
    the PSD part of W.

    OASIS starts from I.  With few rows a class it is worse than LDA on good features, such as a
    network's embeddings.  WhitenedOASIS starts close to LDA.  With o = 0 it would start in LDA's
    subspace; with o = 1 it starts from the whitening of RCA, which suits unseen classes better.
    Centred rows suit it (``--scaling center+l2``).  Computing A costs O(n d min(n, d) + d^3) time
    and memory of 5 n d + d^2 numbers.

    Parameters
    ----------
    shrinkage : float in (0, 1], default 0.8
        s.  With 1 the rows are not whitened.
    outside : float in (0, 1], default 0.4
        o, the weight of directions outside the span of the differences between class means.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L A.
    start_ : ndarray of shape (n_features, n_features)
        A.  It is I if learning began with triplets or with several labels a row, or if no class
        varies.
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
    cost: ClassVar = "time d^2 a step, + n d min(n, d) + d^3, memory 5 n d + 5 d^2"
    takes_sparse: ClassVar = False
    takes_relevance: ClassVar = False
    # Measured on embeddings: o decides between classes that are seen (.1) and others (1, the most).
    # The other two were widened when 33 corpora tuned their ends in 20 to 68 % of the partitions.
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "outside": (0.4, 0.1, 0.025, 1),
        "shrinkage": (0.8, 0.05, 0.2, 0.5, 0.95),
        "aggressiveness": (0.1, 1e-3, 0.01, 1.0, 10.0),
    }

    _fitted_arrays: ClassVar = {"start_": FittedArray(("n_features", "n_features"))}
    start_: FloatArray = field(init=False)

    shrinkage: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.8
    outside: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.4

    def _n_matrices(self, afresh: bool) -> int:
        return super()._n_matrices(afresh) + afresh

    def _validate_rows(self, X: Any, afresh: bool, y: Any = "no_validation") -> Any:
        """Return the whitened rows, on which the steps are; the first ones decide how."""
        validated = super()._validate_rows(X, afresh, y)
        rows, labels = validated if isinstance(validated, tuple) else (validated, None)
        if afresh:
            self._check_memory(rows, afresh)
            self.start_ = np.eye(rows.shape[1], dtype=rows.dtype)
            if labels is not None and not sparse.issparse(labels):
                n_rows, n_features = rows.shape
                require_memory(
                    5 * rows.nbytes,
                    f"{self.name} on {n_rows} rows of {n_features} features",
                    "use fewer rows or features",
                )
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
