"""The forms of metric learners, which are the base classes for plugins.

`BilinearLearner` is x'Wy, `MahalanobisLearner` |Lx - Ly|, `EmbeddingLearner` |f(x) - f(y)|, and
`ExemplarLearner` a similarity to training items only.  A learner that learns in steps also derives
from `IncrementalLearner`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import Pipeline
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from oasis_bench.data import FloatArray, ReadTable, Scaling, apply_steps, table_of
from oasis_bench.plugins.metric_learner import FittedArray, MetricLearner, sides
from oasis_bench.system import UsageError, quoted, slices
from oasis_bench.tasks import kernel_ready, score_bilinear

BLOCK_BYTES = 64 * 2**20
"""Working memory of `similarity`, besides the result."""

CANCELS = 1e-8
"""Squared distances below this share of the squared lengths of two rows are computed anew from
their difference: |x|^2 + |y|^2 - 2x'y has too few digits."""


class BilinearLearner(MetricLearner):
    """A learner of S(x, y) = x'Wy; W need not be symmetric or positive.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        W.
    """

    _fitted_arrays: ClassVar = {"bilinear_matrix_": FittedArray(("n_features", "n_features"))}

    bilinear_matrix_: FloatArray

    def get_bilinear_matrix(self) -> FloatArray:
        """Return a copy of W, shape (n_features, n_features)."""
        check_is_fitted(self)
        return self.bilinear_matrix_.copy()

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return x'Wy for each pair (x, y) of `pairs` (n_pairs, 2, n_features), order kept."""
        left, right = self._check_pairs(pairs)
        W = self._matrix("bilinear_matrix_", left.shape[1])
        return np.asarray(np.einsum("ij,ij->i", left @ W, right))

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return Q W G' (n_queries, n_gallery), formed in blocks of queries."""
        W = self._matrix("bilinear_matrix_", queries.shape[1])
        dtype = np.result_type(queries.dtype, W.dtype, gallery.dtype)
        scores = np.empty((queries.shape[0], gallery.shape[0]), dtype=dtype)
        for rows in blocks(queries.shape[0], row_bytes=W.shape[1] * dtype.itemsize):
            score_bilinear(queries[rows], W, gallery, scores[rows])
        return scores

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return W'x of queries, or the gallery rows themselves; no terms."""
        if not of_queries:
            return embedded, None
        return embedded @ self._matrix("bilinear_matrix_", embedded.shape[1]), None


class InnerProducts:
    """The scores of learners whose similarity is the inner product of two embeddings."""

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the inner products of embeddings, shape (n_queries, n_gallery)."""
        return np.asarray(queries @ gallery.T)

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return the embeddings; no terms."""
        return embedded, None


class EmbeddingLearner(TransformerMixin, MetricLearner):  # type: ignore[misc]
    """A learner of d(x, y) = |f(x) - f(y)| for any function f; a subclass defines `embed`."""

    _embeds_in_space: ClassVar[bool] = True

    @abstractmethod
    def embed(self, X: Any) -> Any:
        """Return f(x) for each item of `X`, shape (n_items, n_components)."""

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return minus the distance of every query to every gallery item."""
        squares = squared_distances(queries, gallery)
        return np.negative(np.sqrt(squares, out=squares), out=squares)

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return the points f(x), and -|f(x)|^2 / 2."""
        return of_distances(embedded)

    def transform(self, X: Any) -> Any:
        """Return the embedding f(x) of each item (n_items, n_components)."""
        return self.embed(X)

    def pair_distance(self, pairs: Any) -> FloatArray:
        """Return |f(x) - f(y)|, unsquared, for each pair (x, y) of `pairs` (n_pairs, 2, ...)."""
        left, right = sides(pairs)
        return np.asarray(np.linalg.norm(self.embed(left) - self.embed(right), axis=1))

    def pair_score(self, pairs: Any) -> FloatArray:
        """Return minus the distance of each pair: larger is more similar."""
        return -self.pair_distance(pairs)


class LinearMap(ClassNamePrefixFeaturesOutMixin):  # type: ignore[misc]
    """What learners of a matrix L, `components_`, have in common: the number of its rows."""

    _fitted_arrays: ClassVar = {"components_": FittedArray(("n_components", "n_features"))}

    components_: FloatArray

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


class MahalanobisLearner(LinearMap, EmbeddingLearner):
    """A learner of d(x, y) = |Lx - Ly|, a distance: M = L'L is positive semi-definite.

    A shift of all rows changes no distance, but rows far from zero lose digits.  So `fit` stores a
    centre c, and `embed` subtracts it before the projection.  The centre depends only on the
    training rows, so the score of a pair does not depend on the other rows.  The base class stores
    it, so a learner only has to set `components_`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    centre_ : ndarray of shape (n_features,)
        c: the middle of a column if the column is more than ten of its ranges away from zero,
        otherwise 0.  It exists if the rows of `fit` are dense and have such a column.
    """

    _shift_invariant: ClassVar[bool] = True

    centre_: FloatArray

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return M = L'L, shape (n_features, n_features)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def get_metric(self) -> Callable[..., float]:
        """Return the distance as a function of two rows, as ``get_metric`` of metric-learn does.

        Use it as a metric of scikit-learn, such as ``KNeighborsClassifier(metric=...)``.  A later
        fit does not change it.  Calling `transform` first is faster, because it maps each row once.
        """
        check_is_fitted(self)
        return partial(learned_distance, self.components_.copy())

    def _project(self, X: Any) -> Any:
        return X @ self._matrix("components_", X.shape[1]).T

    def embed(self, X: Any) -> Any:
        """Return (x - c) L' for each row, where c is `centre_`, or 0 if there is none.

        Distances are those of `transform`, without its loss of digits far from zero.
        """
        return self._project(self._centred(self._check_rows(X)))

    def transform(self, X: Any) -> Any:
        """Return X L' (n_rows, n_components): rows whose Euclidean distance is d.

        As in metric-learn, rows are not centred.  So columns far from zero lose digits that
        `similarity`, `embed` and `pair_distance` keep.
        """
        return self._project(self._check_rows(X))

    def pair_distance(self, pairs: Any) -> FloatArray:
        """Return |Lx - Ly|, unsquared, for each pair of `pairs` (n_pairs, 2, n_features)."""
        left, right = self._check_pairs(pairs)
        return np.asarray(np.linalg.norm(self._project(left - right), axis=1))


def learned_distance(L: FloatArray, u: Any, v: Any, squared: bool = False) -> float:
    """Return |Lu - Lv|, or its square, of two rows (n_features,)."""
    rows = [np.asarray(row, dtype=float) for row in (u, v)]
    for row in rows:
        if row.shape != L.shape[1:]:
            raise ValueError(f"a row of shape {row.shape}: {L.shape[1:]} is needed")
    mapped = L @ (rows[0] - rows[1])
    return float(mapped @ mapped if squared else np.linalg.norm(mapped))


class ExemplarLearner(MetricLearner):
    """A learner of a similarity to training items only, such as a distance function for each.

    Two unseen items have no similarity, so it can only be evaluated on tasks whose gallery is the
    training items.  Frome, Sha, Singer & Malik, ICCV 2007.
    """

    @abstractmethod
    def similarity_to_training(self, queries: Any) -> FloatArray:
        """Score every query against every training item (n_queries, n_train), in their order.

        Larger is more similar.
        """

    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Raise an error, because only the similarity to training items is known.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(
            f"{self.name} has only a similarity to its training items: call "
            "similarity_to_training, and use a task such as classification"
        )

    @property
    def score(self) -> Any:
        """Raise an error, because mean average precision needs a similarity of unseen items."""
        raise AttributeError(f"{self.name} has no similarity of test items, and so no score")


def of_distances(points: Any) -> tuple[Any, FloatArray]:
    """Return points u and terms a in float64: -|u - v|^2 / 2 is u'v + a + c."""
    points = points.astype(np.float64, copy=False)
    return points, row_norms(points, squared=True) / -2


def form_of(learner: MetricLearner) -> Callable[[Any, bool], tuple[Any, FloatArray | None]]:
    """Return `inner_product` of a learner, or the refusal if its scores are defined below it."""
    classes = type(learner).__mro__
    form, scores = (
        next(i for i, cls in enumerate(classes) if name in vars(cls))
        for name in ("inner_product", "score_embeddings")
    )
    if form <= scores and learner.has_embedding:
        return learner.inner_product
    return partial(MetricLearner.inner_product, learner)


def as_inner_product(learner: type[MetricLearner], scores: FloatArray) -> FloatArray:
    """Return s1: -d^2 / 2 if the scores are minus a distance d, else the scores."""
    of_distances = (
        issubclass(learner, EmbeddingLearner)
        and learner.score_embeddings is EmbeddingLearner.score_embeddings
        and learner.similarity is MetricLearner.similarity
    )
    if not of_distances:
        return scores
    squares = scores.astype(np.float64)
    return np.multiply(squares, squares, out=squares) / -2


def s1_with(learner: MetricLearner, gallery: Any) -> Callable[[Any], FloatArray]:
    """Return a function of queries: their s1 with a gallery.

    An exemplar learner was fitted on this gallery.
    """
    held = learner.embed(gallery) if learner.has_embedding else gallery

    def score(X: Any) -> FloatArray:
        if isinstance(learner, ExemplarLearner):
            scores, method = learner.similarity_to_training(X), "similarity_to_training"
        elif learner.has_embedding:  # `similarity` refuses scores that are not finite
            scores, method = learner.score_embeddings(learner.embed(X), held), "score_embeddings"
        else:
            scores, method = learner.similarity(X, held), "similarity"
        scores = kernel_ready(scores, (X.shape[0], gallery.shape[0]), method)
        return as_inner_product(type(learner), scores)

    return score


def learner_of(estimator: Any, items: list[Any]) -> tuple[MetricLearner, list[Any]]:
    """Return the learner at the end of pipelines and searches, and the items as its input.

    Columns of a DataFrame are selected by the names of the columns that it was fitted on.  Other
    columns are ignored.
    """
    items = [_by_name(estimator, X) for X in items]
    while not isinstance(estimator, MetricLearner):
        if isinstance(estimator, Pipeline):
            *steps, (_, last) = estimator.steps
            if isinstance(estimator[0], ReadTable):
                items, steps = [estimator[0].transform(X) for X in items], steps[1:]
            scaling = Scaling.of([step for _, step in steps])
            if scaling is not None:
                for X in items:
                    scaling.refuse(X)
            for _, step in steps:
                if step not in (None, "passthrough"):
                    items = [step.transform(X) for X in items]
            estimator = last
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            raise UsageError(
                f"a {type(estimator).__name__} has no similarity: give a learner or pipeline"
            )
    return estimator, items


def baseline_rows(estimator: Any, items: list[Any], prepared: list[Any]) -> list[Any]:
    """Return items as the input of the baseline in an estimator's blend.

    `prepared` are the items as the input of the learner.
    """
    blend = getattr(estimator, "blend_", None)
    if blend is None or blend.steps is None:
        return prepared
    return [apply_steps(blend.steps, read_rows(estimator, X)) for X in items]


def read_rows(model: Pipeline, X: Any) -> Any:
    """Return items as the input of the first step of a model after that which reads tables."""
    X = _by_name(model, X)
    return model[0].transform(X) if isinstance(model[0], ReadTable) else X


def _by_name(estimator: Any, X: Any) -> Any:
    """Return a table with the columns, by name, that an estimator was fitted on; or other items."""
    X, names = table_of(X), getattr(estimator, "feature_names_in_", None)
    first = estimator[0] if isinstance(estimator, Pipeline) else None
    if names is None or not hasattr(X, "columns") or isinstance(first, ReadTable):
        return X
    if missing := [name for name in names if name not in X.columns]:
        more = f" and {len(missing) - 1} more" * (len(missing) > 1)
        raise UsageError(f"the rows lack the column {quoted(missing[0])}{more} of the fitted model")
    return X[list(names)]


def blocks(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Cut `n_rows` rows into slices that take at most `BLOCK_BYTES` of working memory each."""
    return slices(n_rows, max(1, BLOCK_BYTES // max(1, row_bytes)))


def squared_distances(queries: Any, gallery: Any) -> FloatArray:
    """Return |x - y|^2 of rows, dense or sparse (n_queries, n_gallery).

    For dense rows, distances that are small relative to |x|^2 + |y|^2 keep all their digits.
    """
    if not queries.shape[1]:  # no direction is left, as with M = 0: scikit-learn refuses such rows
        return np.zeros((queries.shape[0], gallery.shape[0]))
    with config_context(assume_finite=True), np.errstate(invalid="ignore", over="ignore"):
        squares: FloatArray = euclidean_distances(queries, gallery, squared=True)
    if sparse.issparse(queries) or sparse.issparse(gallery):
        return squares
    own, lengths = (row_norms(rows, squared=True) for rows in (queries, gallery))
    if not np.isfinite(own).all() or not np.isfinite(lengths).all():
        return squares  # nor are they
    for rows in blocks(len(squares), row_bytes=8 * len(gallery)):
        found = np.flatnonzero(squares[rows] <= CANCELS * (own[rows].max() + lengths.max()))
        for part in blocks(len(found), row_bytes=3 * 8 * queries.shape[1]):
            i, j = np.divmod(found[part], len(gallery))
            i += rows.start
            near = squares[i, j] <= CANCELS * (own[i] + lengths[j])
            i, j = i[near], j[near]
            gaps = np.subtract(queries[i], gallery[j], dtype=np.float64)
            squares[i, j] = np.einsum("ij,ij->i", gaps, gaps)
    return squares
