"""What every metric learner is, whatever its form: the forms are in `plugins.learner`."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from oasis_bench.data import FloatArray, Labels, check_items
from oasis_bench.system import UsageError, shown
from oasis_bench.tasks import Similarity, evaluate_ranking

TIES_SEED = 0
"""Draws the order within ties of `score` and of scorers."""


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
    may_be_sparse : bool, default False
        Whether it may be a csr_array as well.
    """

    shape: tuple[int | str, ...]
    dtype: type = np.floating
    required: bool = True
    nonzero: bool = False
    may_be_sparse: bool = False


class MetricLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """A scikit-learn estimator that learns how similar two items are.

    A learner of none of the forms defines `fit` and one of these: `score_embeddings`, with `embed`
    where there is something to compute once for an item; or `similarity`.

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
    inner_params : mapping of str to value
        Hyper-parameters of the fits on inner folds, where these differ from the final fit's: a
        looser tolerance, which costs less and leads to the same choice.  What an experiment names
        itself holds for both.
    rotation_invariant : bool
        Whether turning all rows, those that it learns from and those that it is asked about, by
        one orthogonal matrix changes no score but by rounding.  On inner folds with fewer rows than
        features such a learner gets dense rows in the coordinates of what they span.
    imports : sequence of str
        Heavy packages that it imports when it is used.  The harness imports them before anything of
        a trial is timed or limited.
    takes : {'rows', 'pixels', 'patches', 'patches+pixels'}
        What an item is: a row of numbers, a picture (uint8, RGB), a set of local descriptors
        (`Patches`), or the last two (`Patches` with `pixels`).
    takes_sparse : bool
        Whether `fit` takes CSR rows without making them dense.
    takes_relevance : bool
        Whether `fit` takes, in place of labels, a CSR relevance (n_rows, n_queries).
    takes_triplets : bool
        Whether it has ``partial_fit_triplets(X, triplets)``, which learns from given triplets
        (n_triplets, 3) of item numbers: query, positive, negative.
    takes_labels_with_triplets : bool
        Whether it learns from both together, by ``fit(X, y, triplets=...)``.
    needs_labels : bool
        Whether `fit` reads `y`.
    transductive : bool
        Whether its answer on a pair may depend on the other items that it is asked about, which
        have no labels.
    with_transform : str
        What to take in its place where `transform` is needed, if it has none.
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
    needs_labels: ClassVar[bool] = True
    transductive: ClassVar[bool] = False
    with_transform: ClassVar[str] = "a learner of a distance, such as LMNN"

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from items `X` (n_items, ...) and class labels `y` (n_items,)."""

    @property
    def has_embedding(self) -> bool:
        """Whether items can be embedded once, and the embeddings scored.

        Not so for a learner with a `similarity` of its own, which takes the items themselves.
        """
        return type(self).similarity is MetricLearner.similarity

    def embed(self, X: Any) -> Any:
        """Return what is computed once for each item; where there is nothing, the items, checked.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items

        Returns
        -------
        array, CSR or Patches
            One entry an item: it can be indexed by an array of item numbers.
        """
        return self._check_items(X)

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Score every query against every gallery item, as `embed` returns them.

        Returns
        -------
        ndarray of shape (n_queries, n_gallery)
            Larger is more similar.
        """
        raise NotImplementedError(
            f"{type(self).__name__} says of no two items how similar they are: define `similarity` "
            "or `score_embeddings`, or derive it from a form such as EmbeddingLearner"
        )

    def similarity(self, queries: Any, gallery: Any) -> FloatArray:
        """Score every query against every gallery item.

        Parameters
        ----------
        queries, gallery : array, CSR or Patches
            Items: rows (n, n_features), pixels (n, height, width, 3), or patches.

        Returns
        -------
        ndarray of shape (n_queries, n_gallery)
            Larger is more similar.
        """
        return self.score_embeddings(self.embed(queries), self.embed(gallery))

    def score(self, X: Any, y: Any) -> float:
        """Return the mean average precision where each item is a query against all others.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
        y : array of shape (n_items,), or sparse relevance of shape (n_items, n_queries)

        Raises
        ------
        ValueError
            Where no item has another of its class, or all are of one class.

        Notes
        -----
        A learner is no classifier, so that `cross_val_score` takes folds of successive rows, which
        hold one class each where rows stand in the order of their labels:
        ``cv=StratifiedKFold(5, shuffle=True, random_state=0)`` mixes them.
        """
        similarity = similarity_by_number(self, X)
        labels = ranked_labels(y)
        numbers = np.arange(labels.shape[0])
        measured = evaluate_ranking(similarity, numbers, labels, seed=TIES_SEED)
        return measured.mean_average_precision

    @property
    def transform(self) -> Any:
        """There is none, unless a form defines it: say which learners have it.

        Raises
        ------
        AttributeError
            Always; TypeError where a Pipeline looks for it, which would not pass the text on.
        """
        reason = (
            f"{type(self).__name__} has no embedding, and so no transform: take "
            f"{self.with_transform}; or call its similarity"
        )
        asking = sys._getframe(1)
        if asking.f_code.co_name == "_validate_steps":
            raise TypeError(f"a Pipeline cannot hold it before its last step: {reason}")
        raise AttributeError(reason)

    @property
    def get_metric(self) -> Any:
        """There is none, unless the form `MahalanobisLearner` defines it: say who has it.

        Raises
        ------
        AttributeError
            Always.
        """
        raise AttributeError(
            f"{type(self).__name__} has no distance |Lx - Ly|, and so no get_metric: take a "
            "learner that has it, such as LMNN; or call its similarity"
        )

    def refusal(self, X: Any, y: Any) -> str | None:
        """Say why such items and labels cannot be learned from, or None where they can.

        The harness asks before the first fit, so that no hours are lost.  Reasons are too few rows
        for a covariance, or too many features for the memory; `fit` checks the input itself.

        Parameters
        ----------
        X : array, CSR or Patches of n_items items
        y : array of shape (n_items,)
        """
        try:
            self._check(X, y)
        except (ValueError, MemoryError) as refused:
            return str(refused)
        return None

    def _check(self, X: Any, y: Any) -> None:
        """Raise a ValueError or MemoryError where these items and labels cannot be learned from.

        `refusal` returns the text of the error.  `fit` calls this too.
        """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.target_tags.required = self.needs_labels
        return tags

    def _fitted_state(self) -> dict[str, FittedArray]:
        """Say what the fitted attributes look like; all that a kernel trusts must be here."""
        return {"feature_names_in_": FittedArray(("n_features",), np.object_, required=False)}

    def _check_items(self, X: Any) -> Any:
        """Validate items of the kind that the learner takes, once it is fitted."""
        if self.takes == "rows":
            return self._check_rows(X)
        check_is_fitted(self)
        check_items(self.takes, X)
        return X

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
        left, right = sides(pairs)
        return self._check_rows(left), self._check_rows(right)


class IncrementalLearner(MetricLearner):
    """A learner that learns in steps; early stopping chooses their number, `n_steps`.

    Two calls of `partial_fit` with a and b steps give the model of one call with a + b, up to
    rounding.
    """

    n_steps: int

    @abstractmethod
    def partial_fit(self, X: Any, y: Any, n_steps: int | None = None) -> Self:
        """Learn `n_steps` more steps (default: the parameter `n_steps`) from where it is."""


def similarity_by_number(learner: MetricLearner, X: Any) -> Similarity:
    """Return the similarity of the items of `X`, asked by their numbers: each is embedded once."""
    items, similarity = X, learner.similarity
    if learner.has_embedding:
        items, similarity = learner.embed(X), learner.score_embeddings
    return lambda queries, _: similarity(_safe_indexing(items, queries), items)


def ranked_labels(y: Any) -> Labels:
    """Return class labels as an array, or relevance as CSR.

    Raises
    ------
    UsageError
        Where all rows are of one class, so that any ranking is right.
    """
    several = sparse.issparse(y)  # apart: the type checker would take y for less than it is
    if several:
        return sparse.csr_array(y)
    labels = np.asarray(y)
    if labels.size > 1 and (labels == labels.flat[0]).all():
        name = shown(labels.ravel().tolist()[0])
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
