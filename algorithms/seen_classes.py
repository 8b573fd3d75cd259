"""Baselines that know the classes alone: a classifier, and a memory of the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from oasis_bench.algorithms.base import Count, HyperParameters, Positive
from oasis_bench.data import FloatArray, joint_distribution, without_offset
from oasis_bench.plugins import FittedArray, InnerProducts, MetricLearner, blocks
from oasis_bench.system import require_memory


def rows_and_shares(
    learner: MetricLearner, X: Any, y: Any, dtype: npt.DTypeLike | list[npt.DTypeLike]
) -> tuple[Any, sparse.csr_array]:
    """Validate the rows and labels (or how relevant each row is to each label) of a `fit`.

    The shares (n_rows, n_classes) are those of each class in a row's labels: rows sum to 1, or to 0
    without a label.  There is a column for each class that a row has.  The rows have the first type
    of `dtype`, where theirs is not among them.
    """
    if sparse.issparse(y):
        check_consistent_length(X, y)
        X = learner._validated(X, accept_sparse="csr", dtype=dtype)
        return X, label_shares(y)
    X, y = learner._validated(X, y, accept_sparse="csr", dtype=dtype)
    return X, label_shares(y)


def label_shares(y: Any) -> sparse.csr_array:
    """Return the share of each class that `y` has in each row's labels: see `rows_and_shares`."""
    if sparse.issparse(y):
        relevance = joint_distribution(y)
        totals = relevance.sum(axis=1)
        rows = np.repeat(np.arange(len(totals)), np.diff(relevance.indptr))
        shares, names = relevance.data / totals[rows], relevance.indices
        indptr: npt.NDArray[Any] = relevance.indptr
    else:
        check_classification_targets(y)
        shares, names, indptr = np.ones(len(y)), y, np.arange(len(y) + 1)
    classes, numbers = np.unique(names, return_inverse=True)
    return sparse.csr_array((shares, numbers, indptr), shape=(len(indptr) - 1, len(classes)))


class ClassifierPosterior(InnerProducts, HyperParameters, MetricLearner):
    r"""The probability that two items have one class, by a logistic regression.

    .. math::

        S(x, y) = p(x)^\top p(y), \qquad
        p_c(x) = \frac{e^{w_c^\top x + b_c}}{\sum_{c'} e^{w_{c'}^\top x + b_{c'}}} ,

    where p(x) are the class probabilities of scikit-learn's multinomial logistic regression.  It
    minimises

    .. math:: \tfrac{1}{2} \sum_c |w_c|^2 - C \sum_i \sum_c q_{ic} \log p_c(x_i) ,

    where q_ic is the share of class c in the labels of row i (1 if it is the only label).  If there
    are two classes, the penalty is twice this one, as in scikit-learn.

    This is not a metric.  It shows what a metric must beat among seen classes, where knowing the
    classes is enough.  Only unseen classes show what a metric has learned beyond the seen ones.

    An iteration takes O(n d c) time, where c is the number of classes.  Memory is 25 d c + 4 n c
    numbers; if rows have several labels, also a copy of a row for each of its labels.

    Parameters
    ----------
    C : float, default 1.0
        The weight of the loss relative to the penalty, as in scikit-learn.
    max_iter : int, default 1000
        The largest number of iterations of L-BFGS.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        w.  If there are two classes, one row is minus the other.
    intercept_ : ndarray of shape (n_classes,)
        b; if `centre_` exists, it is subtracted from the rows first.
    centre_ : ndarray of shape (n_features,)
        As in `MahalanobisLearner`.
    n_features_in_ : int
    """

    name: ClassVar = "ClassifierPosterior"
    summary: ClassVar = "inner product of class probabilities by logistic regression, a baseline"
    citation: ClassVar = "Cox, J. R. Stat. Soc. B 20 (1958); scikit-learn's LogisticRegression"
    cost: ClassVar = "time n d c an iteration, memory d c + n c"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "C": (1.0, 1e-4, 1e-3, 0.01, 0.1, 10.0, 100.0, 1e3, 1e4)  # of LogisticRegressionCV
    }
    rotation_invariant: ClassVar = True
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True
    embeds_probabilities: ClassVar = True

    _shift_invariant: ClassVar = True
    _fitted_arrays: ClassVar = {
        "coef_": FittedArray(("n_classes", "n_features")),
        "intercept_": FittedArray(("n_classes",)),
    }
    coef_: FloatArray = field(init=False)
    intercept_: FloatArray = field(init=False)

    C: Positive = 1.0
    max_iter: Count = 1000

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        y : array of shape (n_rows,), or sparse matrix of shape (n_rows, n_labels)
            Class labels; or how relevant each row is to each of several labels.  Labels that no
            row has do not matter.

        Warns
        -----
        ConvergenceWarning
            If L-BFGS stopped at `max_iter`.

        Raises
        ------
        ValueError
            If a parameter is out of bounds, or fewer than two classes have rows.
        MemoryError
            If the weights and probabilities take more than the memory that is free.
        """
        self._validate_params()
        X, shares = rows_and_shares(self, X, y, [np.float64, np.float32])
        X = without_offset(X)  # far from zero L-BFGS does not come to the minimum
        self._check_shares(shares, X.shape[1])
        rows = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
        one_each = np.array_equal(rows, np.arange(shares.shape[0]))
        solver = LogisticRegression(C=self.C, max_iter=self.max_iter)
        solver.fit(X if one_each else X[rows], shares.indices, sample_weight=shares.data)
        coef, intercept = solver.coef_, solver.intercept_
        if len(coef) == 1:  # of two classes: the log-odds of the second
            coef = np.concatenate([-coef, coef]) / 2
            intercept = np.concatenate([-intercept, intercept]) / 2
        self.coef_, self.intercept_ = coef, intercept
        return self

    def embed(self, X: Any) -> FloatArray:
        """Return p(x) for each row of `X`, shape (n_rows, n_classes), float64.

        With a small C all p(x)'p(y) are nearly equal: in float32 rounding would order them.
        """
        X = self._centred(self._check_rows(X))
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(softmax(scores.astype(np.float64), axis=1))

    def _check(self, X: Any, y: Any) -> None:
        self._check_shares(label_shares(y), X.shape[1])

    def _check_shares(self, shares: sparse.csr_array, n_features: int) -> None:
        n_rows, n_classes = shares.shape
        if n_classes < 2:
            raise ValueError(
                f"{self.name} needs at least 2 classes, but y has 1 class: it has nothing to tell "
                "apart"
            )
        require_memory(
            8 * n_classes * (25 * n_features + 4 * shares.nnz),
            f"{self.name} on {n_rows} rows of {n_features} features in {n_classes} classes",
            "use fewer rows, features or classes",
        )


ROUNDING = 1e-12
"""Squared distances that differ by this share of the squared lengths of the rows are equal."""


class NearestNeighbourMemory(HyperParameters, MetricLearner):
    r"""Whether the nearest training rows of two items have the same class.

    .. math::

        S(x, y) = [\, c(x) = c(y) \,] , \qquad c(x) = y_{j(x)}, \quad j(x) = \arg\min_j |x - x_j| .

    If rows have several labels, S is 1 if they share one.  If several training rows are equally
    near, the first one counts.

    This baseline only memorises the training rows.  It shows how far their labels alone lead among
    seen classes, which a metric must beat.  It knows nothing about unseen classes.  S has only two
    values, and ties are ranked at random.

    A query takes O(n d) time.  Memory is n d.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    rows_ : ndarray or csr_array of shape (n_rows, n_features), float64
        The training rows.
    labels_ : csr_array of shape (n_rows, n_classes)
        The classes of each row: 1 if it has the class.
    n_features_in_ : int

    References
    ----------
    Cover & Hart (1967), Nearest Neighbor Pattern Classification, IEEE Transactions on Information
    Theory 13: the rule of the nearest neighbour.
    """

    name: ClassVar = "NearestNeighbourMemory"
    summary: ClassVar = "labels of the nearest training rows: a baseline without a learned metric"
    citation: ClassVar = "Cover & Hart, IEEE Trans. Inf. Theory 13 (1967)"
    cost: ClassVar = "none: the rows are stored; a query takes time n d"
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True

    _shift_invariant: ClassVar = True

    _fitted_arrays: ClassVar = {
        "rows_": FittedArray(("n_rows", "n_features"), may_be_sparse=True),
        "labels_": FittedArray(("n_rows", "n_classes"), may_be_sparse=True),
    }
    rows_: Any = field(init=False)
    labels_: sparse.csr_array = field(init=False)

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
            If the rows or the labels are not of this kind.
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

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return the label of each item; refuse rows of several labels, which may share two."""
        if (self.labels_.sum(axis=1) > 1).any():
            return super().inner_product(embedded, of_queries)
        return embedded, None
