"""What a metric learner is: the base class and the two forms of a similarity.

A plugin derives from `BilinearLearner` (x'Wy) or `MahalanobisLearner` (|Lx - Ly|), and from
`IncrementalLearner` as well where it learns step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import check_is_fitted, validate_data

from oasis_bench.data.rows import FloatArray
from oasis_bench.system.threads import slices
from oasis_bench.tasks.scoring import project, score_sparse

BLOCK_BYTES = 64 * 2**20
"""Working memory of a bilinear `similarity` beyond its result."""


class FittedArray(NamedTuple):
    """What a fitted attribute must look like; `load_model` refuses a file where it does not.

    Attributes
    ----------
    shape : tuple of int or str
        Its shape; () for a single number.  A string names a length, which is the same wherever
        the attributes of a learner use this name; 'n_features' is `n_features_in_`.
    dtype : type, default numpy.floating
        A numpy type, or a family of them.  Floating values must be finite.
    required : bool, default True
        Whether every fitted learner has the attribute.
    nonzero : bool, default False
        Whether each vector along the last axis must have a value other than 0, as the state of a
        random generator must.
    """

    shape: tuple[int | str, ...]
    dtype: type = np.floating
    required: bool = True
    nonzero: bool = False


class MetricLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn estimator that learns how similar two rows are.

    Class attributes
    ----------------
    name : str
        What the user types and the tables print.
    summary : str
        One line for `list`.
    citation : str
        The paper, or 'none'.
    cost : str
        Time and memory of a fit in n rows, d features and c classes, such as
        'time n^2 d an iteration, memory n^2'.
    search_space : mapping of str to sequence
        Hyper-parameters that the inner folds choose, with the values to try.
    takes_sparse : bool
        Whether `fit` takes CSR rows without making them dense.
    takes_relevance : bool
        Whether `fit` takes, in place of labels, a CSR relevance (n_rows, n_queries).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    cost: ClassVar[str] = "not stated"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    takes_sparse: ClassVar[bool] = False
    takes_relevance: ClassVar[bool] = False

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows `X` (n_rows, n_features) and class labels `y` (n_rows,)."""

    @abstractmethod
    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Score every query against every gallery row.

        Parameters
        ----------
        queries : array or CSR of shape (n_queries, n_features)
        gallery : array or CSR of shape (n_gallery, n_features)

        Returns
        -------
        ndarray of shape (n_queries, n_gallery)
            Larger is more similar.
        """

    def refusal(self, X: Any, y: Any) -> str | None:
        """Say why such rows and labels cannot be learned from, or None where they can.

        The harness asks before the first fit, so that no hours are lost.  Reasons are too few rows
        for a covariance, or too many features for the memory; `fit` checks the input itself.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        """
        try:
            self._check(X, y)
        except (ValueError, MemoryError) as refused:
            return str(refused)
        return None

    def _check(self, X: Any, y: Any) -> None:
        """Raise a ValueError or MemoryError where these rows and labels cannot be learned from.

        `refusal` returns the text of the error.  `fit` calls this too.
        """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.target_tags.required = True
        return tags

    def _fitted_state(self) -> dict[str, FittedArray]:
        """Say what the fitted attributes look like; all that a kernel trusts must be here."""
        return {"feature_names_in_": FittedArray(("n_features",), np.object_, required=False)}

    def _check_rows(self, X: Any) -> Any:
        """Validate rows against what was seen in `fit`."""
        check_is_fitted(self)
        return validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr" if self.takes_sparse else False,
            dtype=[np.float64, np.float32],
        )

    def _check_pairs(self, pairs: Any) -> tuple[FloatArray, FloatArray]:
        """Validate an (n_pairs, 2, n_features) array and split it into its two sides."""
        array = np.asarray(pairs)
        if array.ndim != 3 or array.shape[1] != 2:
            raise ValueError(f"pairs of shape {array.shape}: (n_pairs, 2, n_features) is needed")
        return self._check_rows(array[:, 0]), self._check_rows(array[:, 1])


class BilinearLearner(MetricLearner):
    """A learner of S(x, y) = x'Wy; W need not be symmetric or positive.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        W.
    """

    bilinear_matrix_: FloatArray

    def get_bilinear_matrix(self) -> FloatArray:
        """Return a copy of W, shape (n_features, n_features)."""
        check_is_fitted(self)
        return self.bilinear_matrix_.copy()

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "bilinear_matrix_": FittedArray(("n_features", "n_features")),
        }

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return x'Wy for each pair (x, y) of `pairs` (n_pairs, 2, n_features), order kept."""
        left, right = self._check_pairs(pairs)
        return np.asarray(np.einsum("ij,ij->i", left @ self.bilinear_matrix_, right))

    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Return Q W G' (n_queries, n_gallery), formed in blocks of queries."""
        queries, gallery = self._check_rows(queries), self._check_rows(gallery)
        W = self.bilinear_matrix_
        dtype = np.result_type(queries.dtype, W.dtype, gallery.dtype)
        scores = np.empty((queries.shape[0], gallery.shape[0]), dtype=dtype)
        for rows in blocks(queries.shape[0], row_bytes=W.shape[1] * dtype.itemsize):
            projected = project(queries[rows], W)
            if sparse.issparse(gallery):
                score_sparse(projected, gallery, scores[rows])
            else:
                np.matmul(projected, gallery.T, out=scores[rows], casting="same_kind")
        return scores


class MahalanobisLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MetricLearner):  # type: ignore[misc]
    """A learner of d(x, y) = |Lx - Ly|, a distance: M = L'L is positive semi-definite.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    """

    components_: FloatArray

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return M = L'L, shape (n_features, n_features)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "components_": FittedArray(("n_components", "n_features")),
        }

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _project(self, X: Any) -> Any:
        return X @ self.components_.T

    def transform(self, X: Any) -> Any:
        """Return X L' (n_rows, n_components): rows whose Euclidean distance is d."""
        return self._project(self._check_rows(X))

    def pair_distance(self, pairs: Any) -> FloatArray:
        """Return |Lx - Ly|, unsquared, for each pair of `pairs` (n_pairs, 2, n_features)."""
        left, right = self._check_pairs(pairs)
        return np.asarray(np.linalg.norm(self._project(left - right), axis=1))

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return minus the distance of each pair: larger is more similar."""
        return -self.pair_distance(pairs)

    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Return minus the distance of every query to every gallery row."""
        distances = euclidean_distances(self.transform(queries), self.transform(gallery))
        return np.asarray(np.negative(distances, out=distances))


class IncrementalLearner(MetricLearner):
    """A learner that learns in steps; early stopping chooses their number, `n_steps`.

    Two calls of `partial_fit` with a and b steps give the model of one call with a + b, up to
    rounding.
    """

    n_steps: int

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, n_steps: int | None = None) -> Self:
        """Learn `n_steps` more steps (default: the parameter `n_steps`) from where it is."""


def blocks(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Cut `n_rows` rows into slices that take at most `BLOCK_BYTES` of working memory each."""
    return slices(n_rows, max(1, BLOCK_BYTES // max(1, row_bytes)))
