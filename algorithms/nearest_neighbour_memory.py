"""The baseline of a memory: items are similar where their nearest training rows share a class."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import row_norms

from oasis_bench.algorithms._label_shares import rows_and_shares
from oasis_bench.algorithms.shared import HyperParameters
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray, MetricLearner, blocks

ROUNDING = 1e-12
"""Squared distances that differ by this share of the squared lengths of the rows are equal."""


class NearestNeighbourMemory(HyperParameters, MetricLearner):
    r"""Whether the nearest training rows of two items have the same class.

    .. math::

        S(x, y) = [\, c(x) = c(y) \,] , \qquad c(x) = y_{j(x)}, \quad j(x) = \arg\min_j |x - x_j| .

    With several labels a row: whether they share one.  Of training rows that lie equally near, the
    first counts.

    It learns nothing but by heart, and it shows what a metric must beat: how far the labels of the
    training rows alone go among classes that were seen.  Of classes that it has not seen it knows
    nothing.  S has two values, so that the order within each is that of the ties, a random one.

    Time n d an item that is asked about; memory n d.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.

    Attributes
    ----------
    rows_ : ndarray or csr_array of shape (n_rows, n_features), float64
        The training rows.
    labels_ : csr_array of shape (n_rows, n_classes)
        1 where a row has a class.
    n_features_in_ : int

    References
    ----------
    Cover & Hart (1967), Nearest Neighbor Pattern Classification, IEEE Transactions on Information
    Theory 13: the rule of the nearest neighbour.
    """

    name: ClassVar = "NearestNeighbourMemory"
    summary: ClassVar = "same class of the nearest training rows, a baseline that learns by heart"
    citation: ClassVar = "Cover & Hart, IEEE Trans. Inf. Theory 13 (1967)"
    cost: ClassVar = "no time: the rows are kept; an item that is asked about costs n d"
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True

    _shift_invariant: ClassVar = True

    rows_: Any = field(init=False)
    labels_: sparse.csr_array = field(init=False)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"random_state": ["random_state"]}

    random_state: int | np.random.RandomState | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the rows and their labels.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        y : array of shape (n_rows,), or sparse matrix of shape (n_rows, n_labels)
            Class labels; or how relevant each row is to each of several labels.

        Raises
        ------
        ValueError
            Where the rows or the labels are not of this kind.
        """
        self._validate_params()
        X, shares = rows_and_shares(self, X, y, np.float64)
        self.rows_ = X if isinstance(X, np.ndarray) else sparse.csr_array(X)
        self.labels_ = shares.sign()
        return self

    def nearest(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the number of the training row nearest to each row of `X`, shape (n_rows,)."""
        X, gallery = self._centred(self._check_rows(X)), self._centred(self.rows_)
        found = np.empty(X.shape[0], dtype=np.intp)
        for part in blocks(len(found), row_bytes=32 * max(self.rows_.shape)):
            squared = euclidean_distances(X[part].astype(np.float64), gallery, squared=True)
            least = squared.min(axis=1)
            bound = least + ROUNDING * (least + row_norms(X[part], squared=True))
            found[part] = (squared <= bound[:, None]).argmax(axis=1)
        return found

    def embed(self, X: Any) -> sparse.csr_array:
        """Return the labels of the nearest training row of each row, shape (n_rows, n_classes)."""
        rows = self.nearest(X)
        return self.labels_[rows]

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return 1 where a query and a gallery item share a label, else 0, in blocks of queries."""
        scores = np.empty((queries.shape[0], gallery.shape[0]))
        for part in blocks(len(scores), row_bytes=32 * gallery.shape[0]):
            scores[part] = (queries[part] @ gallery.T).sign().toarray()
        return scores

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "rows_": FittedArray(("n_rows", "n_features"), may_be_sparse=True),
            "labels_": FittedArray(("n_rows", "n_classes"), may_be_sparse=True),
        }
