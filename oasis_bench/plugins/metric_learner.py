"""The base classes of all metric learners; `plugins.learner` has the base class of each form."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from oasis_bench.data import (
    FloatArray,
    canonical,
    check_items,
    check_magnitude,
    checked_labels,
    class_labels,
    far_middle,
    without_offset,
)
from oasis_bench.system import UsageError, quoted, spelled
from oasis_bench.tasks import as_items, evaluate_ranking, kernel_ready, refuse_nan

TIES_SEED = 0
"""Seed of the order within ties, for `score` and for scorers."""


class FittedArray(NamedTuple):
    """What a fitted attribute must look like; `load_model` refuses a file in which it does not.

    Attributes
    ----------
    shape : tuple of int or str
        Its shape; () for a single number.  A string is the name of a length, which must be the same
        in all attributes of the learner that use it; 'n_features' is `n_features_in_`.
    dtype : type, default numpy.floating
        A numpy type, or a family of types.  Floating-point values must be finite.  For a fitted
        learner: `MetricLearner`, with the shape ().
    required : bool, default True
        Whether every fitted learner has the attribute.
    nonzero : bool, default False
        Whether each vector along the last axis must have a value other than 0, as the state of a
        random generator must.
    may_be_sparse : bool, default False
        Whether it may also be a csr_array.
    positive : bool, default False
        Whether all its values must be above 0.
    chosen_from : str, optional
        The name of the length that its numbers count from 0 up to, each at most once and in order:
        those of features, for example.
    """

    shape: tuple[int | str, ...]
    dtype: type = np.floating
    required: bool = True
    nonzero: bool = False
    may_be_sparse: bool = False
    positive: bool = False
    chosen_from: str | None = None

    def check_shape(self, name: str, value: Any, lengths: dict[str, int]) -> None:
        """Raise UsageError if the value of an attribute has another shape.

        Each named length that is not yet in `lengths` is added to it.
        """
        found = np.shape(value)
        if len(found) == len(self.shape):
            for length, n in zip(self.shape, found, strict=True):
                if isinstance(length, str):
                    lengths.setdefault(length, n)
        needed = tuple(lengths.get(n, n) if isinstance(n, str) else n for n in self.shape)
        if found != needed:
            raise UsageError(f"{name} has shape {found}: ({', '.join(map(str, needed))}) is needed")


class IndexVectors:
    """What learners and models have for an index of vectors: see `plugins.use.vectors`."""

    def query_vectors(self, X: Any, bound: float | None = None) -> Any:
        """Return the vector of each query; its inner products with `gallery_vectors` are scores.

        The score is `similarity`, with the blend of a model.  For a learner of a distance d that is
        used alone it is -d^2 / 2, which ranks as -d does.

        Parameters
        ----------
        X : array, CSR, DataFrame or Patches
            Items for the first step of the model, or for the learner.
        bound : float, optional
            Vectors for an index of Euclidean distances instead: the nearest are the most similar.
            An index that is a graph, such as HNSW, needs them (see the guide).  With 0, a
            similarity that is no distance may have none; the error then names the least number.
            Give the same number for queries and for gallery.

        Returns
        -------
        array or CSR of shape (n_items, n)
            CSR if a part of it is sparse.

        Raises
        ------
        UsageError
            If the similarity is no inner product of two such vectors, or `bound` is too small.
        """
        from oasis_bench.plugins.use import vectors  # here: it imports the forms of learners

        return vectors(self, X, bound, of_queries=True)

    def gallery_vectors(self, X: Any, bound: float | None = None) -> Any:
        """Return the vector of each item to be found: see `query_vectors`.

        A vector depends on its item alone, so items can be added to an index at any time.  For
        `OASIS` alone the vectors are the scaled rows; its blend adds columns.  Without `bound` they
        do not depend on what is learned.
        """
        from oasis_bench.plugins.use import vectors

        return vectors(self, X, bound, of_queries=False)


class MetricLearner(IndexVectors, BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn estimator that learns how similar two items are.

    Derive from this class only if none of its forms fits (`MahalanobisLearner`, `BilinearLearner`,
    `EmbeddingLearner`, `ExemplarLearner`).  Then define `fit` and one of
    these: `similarity`; or `score_embeddings`, with `embed` if something can be computed once for
    each item.

    Class attributes
    ----------------
    name : str
        The name in commands and tables.
    summary : str
        One line for ``list algorithms``.
    citation : str
        The paper, or 'none'.
    cost : str
        Time and memory of a fit with n rows, d features, k of them not 0 in a row, and c classes,
        such as 'time n^2 d an iteration, memory n^2'.
    search_space : mapping of str to sequence, default {}
        Hyper-parameters to tune, with the values to try; put the default first, as it is always
        tried.
    inner_params : mapping of str to value, default {}
        Hyper-parameters for fits on inner folds, if they differ from those of the final fit.  A
        larger tolerance, for example, saves time and leads to the same tuned values.  A value that
        an experiment sets is used for both.
    rotation_invariant : bool, default False
        Whether scores do not change, except by rounding, if all rows (training and test) are
        multiplied by an orthogonal matrix.  If an inner fold has fewer dense rows than features,
        such a learner gets the rows in the coordinates of their span.
    imports : sequence of str, default ()
        Heavy packages that the learner imports when it is used.  The harness imports them before it
        starts to measure time and memory.
    takes : {'rows', 'pixels', 'patches', 'patches+pixels'}, default 'rows'
        What an item is: a row of numbers, a picture (uint8, RGB), a set of local descriptors
        (`Patches`), or both (`Patches` with `pixels`).
    takes_sparse : bool, default False
        Whether `fit` accepts CSR rows without converting them to dense rows.
    takes_relevance : bool, default False
        Whether `fit` accepts a CSR relevance matrix (n_rows, n_queries) in place of labels.
    takes_triplets : bool, default False
        Whether it has ``partial_fit_triplets(X, triplets)``, which learns from given triplets
        (n_triplets, 3) of item numbers: query, positive, negative.
    takes_labels_with_triplets : bool, default False
        Whether it can learn from labels and triplets together, with ``fit(X, y, triplets=...)``.
    takes_pairs : bool, default False
        Whether it has ``partial_fit_pairs(X, alike, unlike)``, which learns from pairs (n_pairs, 2)
        of item numbers: pairs of the same class, and pairs of different classes.  A learner in
        steps gets equally many of both kinds, and uses one of each kind in a step.
    needs_labels : bool, default True
        Whether `fit` uses `y`.
    is_baseline : bool, default False
        Whether its score is minus the Euclidean distance of the rows, so that it is not blended
        with this baseline.  Derived classes do not inherit this.
    embeds_probabilities : bool, default False
        Whether `embed` returns the probability of each training class, in ascending order.  Then
        they are the posterior of an item, and no training rows vote.
    transductive : bool, default False
        Whether the score of a pair may depend on the other (unlabelled) items that are scored at
        the same time.
    with_transform : str
        For a learner without `transform`: the learners that error messages recommend instead.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    cost: ClassVar[str] = "not stated"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {}
    inner_params: ClassVar[Mapping[str, Any]] = {}
    rotation_invariant: ClassVar[bool] = False
    imports: ClassVar[Sequence[str]] = ()
    takes: ClassVar[str] = "rows"
    takes_sparse: ClassVar[bool] = False
    takes_relevance: ClassVar[bool] = False
    takes_triplets: ClassVar[bool] = False
    takes_labels_with_triplets: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = True
    is_baseline: ClassVar[bool] = False
    embeds_probabilities: ClassVar[bool] = False
    transductive: ClassVar[bool] = False
    with_transform: ClassVar[str] = "a learner of a distance, such as LMNN"

    _embeds_in_space: ClassVar[bool] = False  # whether `embed` returns points, (n_items, n)
    _shift_invariant: ClassVar[bool] = False  # whether `centre_` is subtracted from rows
    _fitted_arrays: ClassVar[dict[str, FittedArray]] = {}  # all that a kernel does not check

    def __init_subclass__(cls, **options: Any) -> None:
        """Make each `fit` check its rows and store their centre, as scikit-learn wraps `transform`.

        So a learner has precise distances even if its `fit` only sets the matrix.  `embed` checks
        the shape of its result.
        """
        super().__init_subclass__(**options)
        for name in ("fit", "partial_fit", "partial_fit_triplets", "partial_fit_pairs", "embed"):
            method = vars(cls).get(name)
            if method is not None and not getattr(method, "__isabstractmethod__", False):
                wrap = _checking_points if name == "embed" else _noting_rows
                setattr(cls, name, wrap(method))

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from items and their class labels.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
            Rows (n_items, n_features), pixels (n_items, height, width, 3), or patches.
        y : array of shape (n_items,)

        Returns
        -------
        MetricLearner
            The fitted learner itself.
        """

    @property
    def has_embedding(self) -> bool:
        """Whether items can be embedded once, and the embeddings scored.

        False if the learner overrides `similarity`, which needs the items themselves.
        """
        return type(self).similarity is MetricLearner.similarity

    def embed(self, X: Any) -> Any:
        """Return what is computed once for each item; by default the validated items.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items

        Returns
        -------
        array, CSR or Patches
            One entry for each item; an array of item numbers can index it.
        """
        return self._check_items(X)

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the similarity of every query to every gallery item, given their embeddings.

        Parameters
        ----------
        queries, gallery : array, CSR or Patches
            Results of `embed`.

        Returns
        -------
        ndarray of shape (n_queries, n_gallery)
            Larger is more similar.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how similar two items are: define `similarity` "
            "or `score_embeddings`, or derive it from a form such as EmbeddingLearner"
        )

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return u and a of queries, or v and c of gallery items: s1 is u'v + a + c.

        s1 is the similarity, or -d^2 / 2 for a distance d.  A learner that overrides
        `score_embeddings` has to override this too, or has no vectors for an index.

        Parameters
        ----------
        embedded : array, CSR or Patches
            A result of `embed`.
        of_queries : bool

        Returns
        -------
        vectors : array or CSR of shape (n_items, n)
        terms : ndarray of shape (n_items,), or None
            None if they are 0.
        """
        raise UsageError(
            f"{self.name} has no vectors for an index: its similarity is no inner product of a "
            "vector of the query and one of the item: call neighbours, or use the votes of its "
            "training rows (Posterior)"
        )

    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the similarity of every query to every gallery item.

        Parameters
        ----------
        queries, gallery : array, CSR or Patches
            Items: rows (n, n_features), pixels (n, height, width, 3), or patches.

        Returns
        -------
        ndarray of shape (n_queries, n_gallery)
            Larger is more similar.

        Raises
        ------
        UsageError
            If a similarity is not finite.
        """
        embedded = self.embed(gallery)
        asked = embedded if queries is gallery else self.embed(queries)
        return self.finite_scores(asked, embedded)

    def finite_scores(self, queries: Any, gallery: Any) -> FloatArray:
        """Return `score_embeddings`; raise UsageError if a score is not finite."""
        shape = queries.shape[0], gallery.shape[0]
        scores = kernel_ready(self.score_embeddings(queries, gallery), shape, "score_embeddings")
        return self.checked_scores(scores, "score_embeddings", (queries, gallery))

    def score(self, X: Any, y: Any) -> float:
        """Return the mean average precision of the ranking of X by each of its items.

        Each item is a query once, and all other items are ranked.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
        y : array of shape (n_items,), or sparse relevance of shape (n_items, n_queries)

        Returns
        -------
        float
            From 0 to 1.  Queries without another item of their class do not count.

        Raises
        ------
        ValueError
            If all classes have only one item, or if all items are of the same class.

        Notes
        -----
        A learner is not a classifier, so `cross_val_score` does not stratify its folds: they are
        successive rows.  If the rows are sorted by class, use
        ``cv=StratifiedKFold(5, shuffle=True, random_state=0)``.
        """
        (X,) = as_items(X)
        labels = ranked_labels(y, X.shape[0])
        return evaluate_ranking(self.similarity, X, labels, TIES_SEED).mean_average_precision

    @property
    def transform(self) -> Any:
        """Raise an error that says which learners have `transform`; some forms override it.

        Raises
        ------
        AttributeError
            Always.
        """
        raise AttributeError(
            f"{type(self).__name__} has no embedding, and so no transform: take "
            f"{self.with_transform}; or call its similarity"
        )

    def refusal(self, X: Any, y: Any) -> str | None:
        """Return the reason why the learner cannot learn from these items and labels, or None.

        The harness calls this before the first fit, to save time.  Examples are too few rows for a
        covariance, or too many features for the memory.  `fit` validates its input too.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
        y : array of shape (n_items,)

        Returns
        -------
        str or None
        """
        try:
            self._check(X, self._labels(y))
            if self.takes == "rows":
                check_magnitude(X, training=True)
        except (ValueError, MemoryError) as refused:
            return str(refused)
        return None

    def _check(self, X: Any, y: Any) -> None:
        """Raise ValueError or MemoryError if the learner cannot learn from these items and labels.

        `refusal` returns the text of the error.  `fit` calls this too.
        """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.target_tags.required = self.needs_labels
        return tags

    def _fitted_state(self) -> dict[str, FittedArray]:
        """Describe the fitted attributes, by the `_fitted_arrays` of the class and its bases."""
        state = {"feature_names_in_": FittedArray(("n_features",), np.object_, required=False)}
        if self._shift_invariant:
            state["centre_"] = FittedArray(("n_features",), required=False)
        for cls in reversed(type(self).__mro__):
            state |= vars(cls).get("_fitted_arrays", {})
        return state

    def _check_items(self, X: Any) -> Any:
        """Validate items of the kind that the fitted learner accepts."""
        if self.takes == "rows":
            return self._check_rows(X)
        check_is_fitted(self)
        check_items(self.takes, X)
        return X

    def _check_rows(self, X: Any) -> Any:
        """Validate rows: the same features as in `fit`."""
        check_is_fitted(self)
        rows = self._validated(
            X,
            reset=False,
            accept_sparse="csr" if self.takes_sparse else False,
            dtype=[np.float64, np.float32],
        )
        check_magnitude(rows)
        return rows

    def _centred(self, rows: Any) -> Any:
        """Return validated rows minus `centre_`, if there is one; sparse rows then become dense."""
        centre = getattr(self, "centre_", None)
        return rows if centre is None else without_offset(rows, centre)

    def _validated(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Validate rows and labels as `validate_data` does, and two things that it does not check.

        These are missing labels, and sparse rows that have a feature twice.
        """
        return validate_data(self, canonical(X), self._labels(y), **checks)

    def _labels(self, y: Any) -> Any:
        """Validate labels, except None and scikit-learn's 'no_validation'."""
        if y is None or isinstance(y, str):
            return y
        return checked_labels(y) if self.takes_relevance else class_labels(y)

    def _check_pairs(self, pairs: Any) -> tuple[FloatArray, FloatArray]:
        """Validate an (n_pairs, 2, n_features) array and split it into its two sides."""
        left, right = sides(pairs)
        return self._check_rows(left), self._check_rows(right)

    def checked_scores(
        self, scores: FloatArray, method: str, items: Sequence[Any] = ()
    ) -> FloatArray:
        """Return the scores of a method; raise an error if one is not finite.

        `items` are what was scored: a NaN by overflow is another mistake than that of a method.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            total = scores.sum(dtype=np.float64)  # one pass without a temporary
        if np.isfinite(total) or not (lost := int((~np.isfinite(scores)).sum())):
            return scores
        if np.isinf(scores).any() or any(map(_overflows, items)):
            raise UsageError(
                f"{method} returned NaN or infinity for {lost} of {scores.size} pairs: the rows or "
                "the learned matrix are too large: scale the rows "
                f"(run {spelled('scaling', 'standard')}, or StandardScaler) before fit"
            )
        for name, it in self._fitted_state().items():
            is_dense = it.dtype is np.floating and not it.may_be_sparse
            if is_dense and np.isnan(getattr(self, name, 0.0)).any():
                method = f"{name} has NaN: {method}"
        refuse_nan(lost, scores, method)
        return scores

    def _matrix(self, name: str, n_features: int) -> Any:
        """Return a fitted matrix; raise UsageError if `fit` has set none of the right shape."""
        if not hasattr(self, name):
            raise UsageError(f"{type(self).__name__}.fit did not set {name}")
        matrix = getattr(self, name)
        what = f"{name}, which {type(self).__name__}.fit has set,"
        self._fitted_state()[name].check_shape(what, matrix, {"n_features": n_features})
        return matrix


class IncrementalLearner(MetricLearner):
    """A learner that learns in steps, such as one step for each triplet.

    The number of steps is tuned on the inner folds, by early stopping.  Two calls of `partial_fit`
    with a and b steps must lead to the same model as one call with a + b steps, up to rounding.

    Attributes
    ----------
    n_steps : int
        The number of steps of `fit`, a parameter.
    """

    n_steps: int

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, n_steps: int | None = None) -> Self:
        """Continue from the current state.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
        y : array of shape (n_items,)
        n_steps : int, optional
            The number of further steps.  Default: the parameter `n_steps`.

        Returns
        -------
        IncrementalLearner
            The learner itself.
        """


def ranked_labels(y: Any, n_items: int) -> Any:
    """Return class labels as an array, or relevance as CSR: one for each item."""
    labels = checked_labels(y, n_items)
    several = sparse.issparse(labels)  # apart: the type checker would take y for less than it is
    if not several and len(labels) > 1 and (labels == labels[0]).all():
        name = quoted(labels[:1].tolist()[0])
        raise UsageError(
            f"each of the {len(labels)} rows is of class {name}, so that any ranking is right: "
            "shuffle the folds, cv=StratifiedKFold(5, shuffle=True, random_state=0)"
        )
    return labels


def sides(pairs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Split pairs (n_pairs, 2, ...) of rows or of pixels into the first and the second items."""
    array = np.asarray(pairs)
    if array.ndim not in (3, 5) or array.shape[1] != 2:
        raise ValueError(f"pairs of shape {array.shape}: (n_pairs, 2, n_features) is needed")
    return array[:, 0], array[:, 1]


DIGITS_LOST = {np.dtype(np.float32): 1e4, np.dtype(np.float64): 1e9}
"""Beyond this number of ranges away from zero, the values have too few digits left."""


def _warn_of_lost_digits(X: Any, middle: FloatArray, stacklevel: int) -> None:
    """Warn if the values of a column are so far from zero that they have lost their digits."""
    rows = np.asarray(X, dtype=middle.dtype)
    ranges = np.ptp(rows, axis=0)
    lost = (ranges > 0) & (np.abs(middle) / DIGITS_LOST[rows.dtype] > ranges)
    if lost.any():
        column = int(np.flatnonzero(lost)[0])
        warnings.warn(
            f"column {column} varies by {ranges[column]:.3g} around {middle[column]:.6g}, so "
            f"{rows.dtype} has rounded off the differences between its values: subtract a constant "
            "before the rounding, or give float64",
            stacklevel=stacklevel + 1,
        )


def _checking_points(embed: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap `embed`: raise UsageError if its result has not an entry for each item."""

    @wraps(embed)
    def checking(self: MetricLearner, X: Any) -> Any:
        points = embed(self, X)
        n_items = _num_samples(X)
        shape: Any = getattr(points, "shape", ())
        if shape[:1] != (n_items,) or (self._embeds_in_space and len(shape) != 2):
            found = f"an array of shape {shape}" if shape else f"a {type(points).__name__}"
            needed = f"({n_items}, n_components)" if self._embeds_in_space else f"{n_items} entries"
            raise UsageError(f"{type(self).__name__}.embed returned {found}: {needed} is needed")
        return points

    return checking


def _overflows(X: Any) -> bool:
    """Tell whether products of numbers overflow."""
    values = X.data if isinstance(X, sparse.csr_array) else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isinf(np.vdot(values, values)))


def _noting_rows(learn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that learns from rows: check their size, and set `centre_` if it is needed.

    The centre is from the rows of the first call.  It changes scores only by rounding.
    """

    @wraps(learn)
    def noting(self: MetricLearner, *args: Any, **kwargs: Any) -> Any:
        if self.takes != "rows":
            return learn(self, *args, **kwargs)
        X = args[0] if args else kwargs.get("X")
        check_magnitude(X, training=True)
        goes_on = isinstance(self, IncrementalLearner) and learn.__name__ != "fit"
        goes_on = goes_on and hasattr(self, "n_features_in_")
        found = learn(self, *args, **kwargs)
        if self._shift_invariant and not goes_on:
            self.__dict__.pop("centre_", None)
            if (middle := far_middle(X)) is not None:
                _warn_of_lost_digits(X, middle, stacklevel=2)
                self.centre_ = middle
        return found

    return noting
