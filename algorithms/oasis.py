"""OASIS: online learning of a bilinear similarity from triplets (Chechik et al. 2010)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

import oasis_bench.algorithms._oasis_steps as _oasis
from oasis_bench.algorithms._oasis_block_schedule import block_size, learn_in_blocks
from oasis_bench.algorithms._oasis_dense_steps import (
    BLOCK,
    dense_blocks_pay,
    dual_pays,
    learn_in_dense_blocks,
    learn_in_dual,
)
from oasis_bench.algorithms.base import TRIPLETS_PER_DRAW, Positive, TripletLearner
from oasis_bench.data import FloatArray
from oasis_bench.plugins import BilinearLearner
from oasis_bench.system import slices


class OASIS(TripletLearner, BilinearLearner):
    r"""Online Algorithm for Scalable Image Similarity (OASIS).

    OASIS learns the matrix W of the bilinear similarity :math:`S_W(x, y) = x^\top W y`.  It starts
    from W = I.  In each step it samples a triplet (q, p, n) of a query, a relevant row and an
    irrelevant row, and makes a passive-aggressive update:

    .. math::

        \ell = \max(0, 1 - q^\top W (p - n)), \quad V = q (p - n)^\top, \quad
        W \leftarrow W + \min(C, \ell / \|V\|^2)\, V .

    A step costs nnz(q) (nnz(p) + nnz(n)) for CSR rows, independent of the number of features d, and
    nnz(q) d for dense rows.  W has d^2 numbers of the rows' precision.  Other ways to compute the
    same W, up to rounding, are used if they are faster.  With many features, memory access is the
    bottleneck; then steps are computed in blocks, which read W only once for sparse rows and
    use matrix products for dense rows.  For up to about 1500 rows and many steps, the dual form is
    used: a step costs n_rows operations, in addition to a few products with the rows, and memory is
    W plus up to about 64 MiB.

    Parameters
    ----------
    aggressiveness : float, default 0.1
        C, the upper bound of the step size (0.1 in the paper's figures).
    n_steps : int, default 30000
        The number of triplets for `fit`.  A benchmark tunes it by early stopping.  (With ten
        classes, the paper's curves saturate near 30 000, figure 5.)
    weighted_positives : bool, default False
        With several labels per row: sample a positive with a probability proportional to its
        relevance (R_II, from the labels that it shares with the query), not uniformly over the
        relevant rows (section 2.3).
    negatives : {'exact', 'any'}, default 'exact'
        With several labels per row: sample negatives from the irrelevant rows ('exact') or, which
        is faster, from all other rows ('any') (section 2.3).
    threshold : float, default 0.0
        With several labels per row: theta.  A row is relevant if its R_II exceeds it (equation 10).
    random_state : int, RandomState or None, default None
        Seed of the triplets.  The same int gives exactly the same W on the same kind of processor,
        with the same number of BLAS threads.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        W; float32 if the rows are float32, otherwise float64.
    n_steps_ : int
        The number of steps since the beginning of `fit`.
    n_updates_ : int
        The number of these steps with a positive loss, which changed W.  If a loss is close to 0,
        rounding decides.
    n_features_in_ : int
        The number of features.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity
    Through Ranking, JMLR 11, 1109-1135: figure 1, equations 3 to 9.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from oasis_bench.algorithms import OASIS
    >>> X, y = load_digits(return_X_y=True)
    >>> X = normalize(X)
    >>> learner = OASIS(n_steps=10_000, random_state=0).fit(X[:1000], y[:1000])
    >>> learner.similarity(X[1000:1003], X[:1000]).shape
    (3, 1000)
    """

    name: ClassVar = "OASIS"
    summary: ClassVar = "online bilinear similarity from triplets, sparse or dense rows"
    citation: ClassVar = "Chechik, Sharma, Shalit & Bengio, JMLR 11 (2010)"
    cost: ClassVar = "time k^2, or n, a step, memory d^2"
    # The paper shows .01 to .3 (JMLR 2010, 5.3.2), of rows of unit length.  Those of tables are
    # longer: there .01 was tuned in 10 of 21 partitions (docs/fair-comparison.md).  1e-6 is hardly
    # a step: W stays I, which suits classes that were not seen.
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "aggressiveness": (0.1, 1e-6, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.3, 1.0)
    }

    aggressiveness: Positive = 0.1

    def _step(self, X: Any, triplets: npt.NDArray[np.intp], W: FloatArray) -> int:
        C = float(self.aggressiveness)
        if dual_pays(X, min(len(triplets), TRIPLETS_PER_DRAW)):
            parts = slices(len(triplets), TRIPLETS_PER_DRAW)
            return sum(learn_in_dual(X, triplets[part], C, W) for part in parts)
        if isinstance(X, sparse.csr_array | sparse.csr_matrix):
            if size := block_size(X, triplets[:, 0]):
                batches = (triplets[k : k + size] for k in range(0, len(triplets), size))
                return learn_in_blocks(X, batches, C, W, in_order=True, n_threads=1)
            values = np.empty(X.shape[1], dtype=X.dtype)
            columns = np.empty(X.shape[1], dtype=np.int32)
            spread = np.zeros(X.shape[1], dtype=X.dtype)
            rows = X.data, X.indices, X.indptr
            return int(_oasis.step_csr(*rows, triplets, C, W, values, columns, spread))
        if dense_blocks_pay(X, len(triplets)):
            batches = (triplets[part] for part in slices(len(triplets), BLOCK))
            return learn_in_dense_blocks(X, batches, C, W, in_order=True)
        return int(_oasis.step_dense(X, triplets, C, W, np.empty(X.shape[1], dtype=X.dtype)))
