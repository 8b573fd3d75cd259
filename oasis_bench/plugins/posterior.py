"""The posterior use of a fitted learner: the training rows vote for the class of an item.

The posterior of x is a softmax vote of the training rows t by their similarity s1(x, t), which is
that of a blend (`plugins.blending`):

    P(c|x) = sum over t of class c of e(x, t) / sum over all t of e(x, t),
    e(x, t) = exp((s1(x, t) - max_t s1(x, t)) / (tau h)).

h is the median, over the training rows, of s1 of the nearest other training row minus s1 of the
tenth nearest, or of the last one.  A training row does not vote for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from oasis_bench.data import class_labels
from oasis_bench.plugins.learner import InnerProducts, blocks, s1_with
from oasis_bench.plugins.metric_learner import FittedArray, MetricLearner
from oasis_bench.tasks import as_items, kernel_ready

TAUS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The temperatures tau that are tried, in units of h."""

NEAR = 10
"""h compares the nearest training row with the one of this rank."""

Shares = npt.NDArray[np.float64]


class NoScaleError(ValueError):
    """The similarities of training rows have no scale, so they cannot vote."""


class Posterior(InnerProducts, MetricLearner):
    r"""The inner product of the posteriors of two items, by the votes of the training rows.

    .. math:: S(x, y) = P(x)^\top P(y) \quad\text{or}\quad \sum_c \sqrt{P_c(x) P_c(y)}

    The first form is for items of the training classes: it is the probability that both have one
    class.  The second form is for items of other classes.

    Parameters
    ----------
    learner : MetricLearner
        A fitted learner of rows.  Neither `fit` nor a clone fits it again.
    tau : float, default 1.0
        The temperature of the votes, in units of h.
    known_classes : bool, default True
        Whether the items to compare are of the training classes.

    Attributes
    ----------
    rows_ : array or CSR of shape (n_rows, n_features)
        The training rows, as the learner takes them.
    labels_ : ndarray of shape (n_rows,)
        The class of each row.
    width_ : float
        h; 1 for a learner whose embedding has class probabilities.
    """

    name: ClassVar = "Posterior"
    summary: ClassVar = "the posterior use of a fitted learner"
    citation: ClassVar = "none"
    takes_sparse: ClassVar = True

    _fitted_arrays: ClassVar = {
        "rows_": FittedArray(("n_rows", "n_features"), may_be_sparse=True),
        "labels_": FittedArray(("n_rows",), np.generic),
        "width_": FittedArray((), positive=True),
    }

    _parameter_constraints: ClassVar = {
        "learner": [MetricLearner],
        "tau": [Interval(Real, 0, None, closed="neither")],
        "known_classes": ["boolean"],
    }

    def __init__(self, learner: MetricLearner, tau: float = 1.0, known_classes: bool = True):
        self.learner = learner
        self.tau = tau
        self.known_classes = known_classes

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the rows that the learner was fitted on, and their classes, for the votes.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            All of these rows, in the order of the fit.
        y : array of shape (n_rows,)

        Raises
        ------
        NoScaleError
            If h is 0 or not finite, so that similarities cannot be compared with it.
        """
        self._validate_params()
        check_consistent_length(X, y)
        (self.rows_,), self.labels_ = as_items(X), class_labels(y)
        self.width_ = 1.0 if self.learner.embeds_probabilities else self._width()
        if not (np.isfinite(self.width_) and self.width_ > 0):
            raise NoScaleError(
                f"the posterior use of {self.learner.name} is not offered: the nearest training "
                f"rows are as similar as the {NEAR}th nearest, so votes have no scale"
            )
        return self

    def __sklearn_clone__(self) -> Self:
        """Keep the fitted learner in a clone, as scikit-learn's `FrozenEstimator` does."""
        return type(self)(self.learner, self.tau, self.known_classes)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The training classes, ascending, shape (n_classes,)."""
        return np.unique(self.labels_)

    @property
    def n_features_in_(self) -> Any:
        """The number of features of a row."""
        return self.learner.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """The names of the features, if the learner was fitted on a table."""
        return self.learner.feature_names_in_

    def embed(self, X: Any) -> Shares:
        """Return P, or its square root for unknown classes, of each row (n_rows, n_classes)."""
        return self.points(self.shares(X)[0])

    def transform(self, X: Any) -> Shares:
        """Return the result of `embed`; inner products of its rows are the similarity."""
        return self.embed(X)

    def embed_training(self, places: npt.NDArray[np.intp]) -> Shares:
        """Return the embedding of training rows, by their numbers; none votes for itself."""
        return self.points(self.shares(self.rows_[places], places=places)[0])

    def points(self, shares: Shares) -> Shares:
        """Return the embedding of items with these posteriors."""
        return shares if self.known_classes else np.sqrt(shares)

    def shares(
        self,
        X: Any,
        taus: Sequence[float] | None = None,
        places: npt.NDArray[np.intp] | None = None,
    ) -> Shares:
        """Return the posteriors P of rows, shape (n_taus, n_rows, n_classes).

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        taus : sequence of float, optional
            Default: `tau` alone.
        places : array of int, shape (n_rows,), optional
            The numbers of the rows in `rows_`, if they are training rows.
        """
        check_is_fitted(self)
        taus = (self.tau,) if taus is None else taus
        if self.learner.embeds_probabilities:
            shape = X.shape[0], len(self.classes_)
            probabilities = kernel_ready(self.learner.embed(X), shape, "embed")
            own = self.learner.checked_scores(probabilities, "embed")
            return np.stack([own.astype(np.float64)] * len(taus))
        n_training = len(self.labels_)
        votes = (self.labels_[:, None] == self.classes_).astype(np.float64)
        found = np.empty((len(taus), X.shape[0], votes.shape[1]))
        score = s1_with(self.learner, self.rows_)
        for part in blocks(X.shape[0], row_bytes=4 * 8 * n_training):
            scores = np.array(score(X[part]), dtype=np.float64)  # a copy
            if places is not None:
                scores[np.arange(len(scores)), places[part]] = -np.inf
            scores -= scores.max(axis=1, keepdims=True)
            for i, tau in enumerate(taus):
                np.matmul(np.exp(scores / (tau * self.width_)), votes, out=found[i, part])
        found /= found.sum(axis=2, keepdims=True)
        return found

    def _width(self) -> float:
        n = len(self.labels_)
        rank = min(NEAR, n - 1)
        if rank < 1:
            return 0.0
        score, gaps = s1_with(self.learner, self.rows_), np.empty(n)
        for part in blocks(n, row_bytes=4 * 8 * n):
            scores = np.array(score(self.rows_[part]), dtype=np.float64)  # a copy
            own = np.arange(part.start, part.stop)
            scores[np.arange(len(scores)), own] = -np.inf
            nearest = np.partition(scores, n - rank, axis=1)[:, n - rank :]
            with np.errstate(invalid="ignore"):
                gaps[part] = nearest.max(axis=1) - nearest[:, 0]
        return float(np.median(gaps))


def without_votes(learner: MetricLearner) -> MetricLearner:
    """Return the learner of a `Posterior`, or the learner itself."""
    return learner.learner if isinstance(learner, Posterior) else learner


def refusal_of_votes(learner: type[MetricLearner], y: Any, judged: bool) -> str | None:
    """Return the reason why training items cannot vote for a learner, or None if they can.

    `y` are the labels of the training items; `judged` tells whether the learner learns from
    judgements of items.
    """
    if learner.takes != "rows":
        return f"{learner.name} takes {learner.takes}: only training rows vote for classes"
    if judged:
        return "judged pairs and triplets have no classes to vote for"
    if sparse.issparse(y):
        return "items of several labels have no single class to vote for"
    return None
