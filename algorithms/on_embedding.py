"""A learner on what another learner makes of pictures; both of them are parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import validate_parameter_constraints

from oasis_bench.algorithms.base import TORCH, HyperParameters, check_triplets
from oasis_bench.data import FloatArray, Patches, check_items, class_labels
from oasis_bench.plugins import (
    FittedArray,
    IncrementalLearner,
    MetricLearner,
    Registry,
    form_of,
)
from oasis_bench.system import UsageError, require_memory

POINTS = "embedding"
"""The kind of features that the embedder's points are, beside those of the items."""

PAIR_BYTES = 70
"""Bytes that `relevance_within` takes for each pair of items that share a category: measured."""


class _OnEmbedding(HyperParameters, MetricLearner):
    """What follows the order embedder, learner; each is a learner or its registered name.

    As in scikit-learn, ``embedder__n_steps`` is the parameter `n_steps` of `embedder`.
    """

    cost: ClassVar = "time and memory of the embedder, and of the learner"
    citation: ClassVar = "Wang et al., CVPR 2014"
    imports: ClassVar = TORCH
    _takes_of: ClassVar[Mapping[str, tuple[str, ...]]]  # of each part: what its items may be

    _fitted_arrays: ClassVar = dict.fromkeys(
        ("embedder_", "learner_"), FittedArray((), MetricLearner)
    )
    embedder_: MetricLearner = field(init=False)
    learner_: MetricLearner = field(init=False)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` those of the parts too, as ``embedder__n_steps``."""
        params: dict[str, Any] = super().get_params(deep=False)
        for name, part in self._parts().items() if deep else ():
            params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also of the parts; the name of a part becomes a learner with defaults."""
        for name in self._takes_of:
            if name in params:
                setattr(self, name, params.pop(name))
            if any(key.startswith(f"{name}__") for key in params):
                setattr(self, name, self._parts().get(name))
        super().set_params(**params)
        return self

    @property
    def _parameter_constraints(self) -> dict[str, list[Any]]:  # type: ignore[override]
        bounds: dict[str, list[Any]] = {"random_state": ["random_state"]}
        for name, part in self._parts().items():
            own = getattr(part, "_parameter_constraints", {})
            bounds |= {f"{name}__{key}": value for key, value in own.items()}
        return bounds

    def _validate_params(self) -> None:
        validate_parameter_constraints(self._parameter_constraints, self.get_params(), self.name)

    def embed(self, X: Any) -> Any:
        """Return what the learner makes of the embedder's points: one entry an item."""
        X = self._check_items(X)
        return self.learner_.embed(_described(self.embedder_, X))

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the learner's scores."""
        return self.learner_.score_embeddings(queries, gallery)

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, FloatArray | None]:
        """Return the learner's vectors and terms."""
        return form_of(self.learner_)(embedded, of_queries)

    def _parts(self) -> dict[str, MetricLearner]:
        """Return the learners that the parameters are or name, unfitted."""
        parts = {}
        for name, takes in self._takes_of.items():
            given = getattr(self, name)
            if name == "relevance" and given in (None, "none"):
                continue
            part = Registry.load().algorithms[given]() if isinstance(given, str) else given
            if not (isinstance(part, MetricLearner) and part.takes in takes and part.has_embedding):
                raise UsageError(
                    f"{name} = {given!r}: a learner of {' or '.join(takes)} that embeds items, or "
                    "its name, is needed"
                )
            parts[name] = part
        return parts

    def _learn(
        self, X: Any, y: Any, triplets: Any = None, embedder: MetricLearner | None = None
    ) -> Self:
        """Learn by triplets or by labels; `embedder` goes on where it is, None: a new one."""
        self._validate_params()
        check_items(self.takes, X)
        triplets = None if triplets is None else check_triplets(triplets, len(X))
        rng = check_random_state(self.random_state)
        parts = {name: _seeded(part, rng) for name, part in self._parts().items()}
        # A copy goes on: the model stays as it is until both have learned.
        embedder = copy.deepcopy(embedder) or parts["embedder"]
        seen = _seen_by(embedder, X)
        if "relevance" in parts:
            features = Patches(X.kinds)
            by = _taught(parts["relevance"], features, y, triplets, rng)
            with_relevance: Any = embedder
            relevance = relevance_within(by, features, class_labels(y))
            with_relevance.fit(seen, y, relevance=relevance)
        else:
            _taught(embedder, seen, y, triplets, rng)
        learner = _taught(parts["learner"], _described(embedder, X), y, triplets, rng)
        self.embedder_, self.learner_ = embedder, learner
        return self

    def _check(self, X: Any, y: Any) -> None:
        check_items(self.takes, X)
        parts = self._parts()
        if "relevance" in parts:
            n_pairs = int((np.unique(class_labels(y), return_counts=True)[1] ** 2).sum())
            require_memory(
                PAIR_BYTES * n_pairs,
                f"{self.name} on {n_pairs:,} pairs of pictures that share a category",
                "use fewer pictures a category",
            )
        parts["embedder"]._check(_seen_by(parts["embedder"], X), y)


class OnEmbedding(_OnEmbedding):
    r"""A learner on top of an embedder of pictures: two learners, one after the other.

    .. math:: S(x, y) = S_{\text{learner}}(f(x), f(y))

    The embedder f learns first.  Then the learner learns from the embeddings of the same pictures,
    with the same labels or triplets.  The default is `OASIS` on embeddings of `DeepRanking`.

    Parameters
    ----------
    embedder : learner or str, default 'DeepRanking'
        A learner that embeds pixels, or its registered name.
    learner : learner or str, default 'OASIS'
        A learner of rows, which are the embeddings.  Set parameters of both with
        ``set_params(embedder__multiscale=False, learner__aggressiveness=0.3)``.
    random_state : int, RandomState or None, default None
        The seed of both learners, unless they have their own, and of the given triplets that a
        learner in steps uses.

    Attributes
    ----------
    embedder_, learner_ : learner
        Fitted.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (table 2).
    """

    name: ClassVar = "OnEmbedding"
    summary: ClassVar = "a learner on another's embedding, such as OASIS on DeepRanking"
    takes: ClassVar = "pixels"
    takes_triplets: ClassVar = True
    _takes_of: ClassVar = {"embedder": ("pixels",), "learner": ("rows",)}

    embedder: MetricLearner | str = "DeepRanking"
    learner: MetricLearner | str = "OASIS"

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from class labels.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8
        y : array of shape (n_pictures,)

        Raises
        ------
        UsageError
            If a package is missing, or what is given is not of this kind.
        """
        return self._learn(X, y)

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets; a learner in steps samples from them with replacement.

        The embedder continues for its `n_steps`.  The learner starts again, because the embeddings
        have changed.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8
        triplets : array of shape (n_triplets, 3), integers
            Numbers of pictures: query, positive, negative.  Without any, it stays as it is or at
            first was.

        Raises
        ------
        UsageError
            If a package is missing, or what is given is not of this kind.
        """
        embedder = getattr(self, "embedder_", None)
        if embedder is not None and not len(check_triplets(triplets, len(X))):
            return self
        return self._learn(X, None, triplets, embedder)


class OnEmbeddingAndFeatures(_OnEmbedding):
    r"""A learner on the embeddings and other features of pictures, with a weight for each kind.

    .. math:: D(x, y) = w_0 |f(x) - f(y)|^2 + \sum_k w_k |x_k - y_k|^2, \qquad
        r_{ij} = \Pr(D_r(k, l) > D_r(i, j))

    D is the distance of the default learner, `GoldenFeature`.  Its first kind of features,
    'embedding', is the output of the embedder f; ``learner__kinds="embedding"`` uses only f.

    The embedder learns from :math:`r_{ij}`, the relevance of the pictures i and j of one category.
    It is the share of pairs (k, l) that are farther apart, among all pairs that share a category.
    The distance :math:`D_r` is that of the learner `relevance`, which learns first, from the
    features alone.

    Parameters
    ----------
    embedder : learner or str, default 'DeepRanking'
        A learner that embeds pixels or features, or its registered name.  Its `fit` accepts a
        relevance (`DeepRanking` and `RankingLayer`).
    learner : learner or str, default 'GoldenFeature'
        A learner of patches, which are the embeddings and the features.
    relevance : learner, str or None, default 'GoldenFeature'
        A learner of patches, which are the features.  None or 'none': the embedder learns from the
        same input as the learner, from triplets if there are any.
    random_state : int, RandomState or None, default None
        The seed of the learners, unless they have their own, and of the given triplets that a
        learner in steps uses.

    Attributes
    ----------
    embedder_, learner_ : learner
        Fitted.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (sections 5.1 and 6.1, table 2).
    They do not say how a distance becomes a relevance: the rank is ours.
    """

    name: ClassVar = "OnEmbeddingAndFeatures"
    summary: ClassVar = "a learner on another's embedding joined with features of the pictures"
    takes: ClassVar = Patches.AND_PIXELS
    takes_labels_with_triplets: ClassVar = True
    _takes_of: ClassVar = {
        "embedder": ("pixels", "patches"),
        "learner": ("patches",),
        "relevance": ("patches",),
    }

    embedder: MetricLearner | str = "DeepRanking"
    learner: MetricLearner | str = "GoldenFeature"
    relevance: MetricLearner | str | None = "GoldenFeature"

    def fit(self, X: Any, y: Any, *, triplets: Any = None) -> Self:
        """Learn the relevance, then the embedding, then the learner.

        Parameters
        ----------
        X : Patches with pixels, of n_items pictures
        y : array of shape (n_items,)
            The category of each; pictures of one are told apart by the features.
        triplets : array of shape (n_triplets, 3), integers, optional
            Item numbers: query, positive, negative, as people judged them.

        Raises
        ------
        UsageError
            If a package is missing, or what is given is not of this kind.
        MemoryError
            If the pairs of pictures of one category do not fit into memory.
        """
        self._check(X, y)
        return self._learn(X, y, triplets)


def relevance_within(learner: MetricLearner, X: Patches, y: npt.NDArray[Any]) -> sparse.csr_array:
    """Return r_ij, the share of all pairs that share a category that are less similar.

    A csr_array (n_items, n_items) from 0 to 1; pairs of equal similarity count as a half.  0 for
    items of two categories `y`, and for an item and itself.
    """
    embedded = learner.embed(X)
    pairs, scores = [], []
    for category in np.unique(y):
        own = np.flatnonzero(y == category)
        others = ~np.eye(len(own), dtype=bool)
        pairs.append(own[np.argwhere(others)])
        scores.append(learner.score_embeddings(embedded[own], embedded[own])[others])
    S = np.concatenate(scores)
    relevance = (rankdata(S) - 0.5) / max(1, len(S))
    return sparse.csr_array((relevance, tuple(np.concatenate(pairs).T)), shape=(len(y), len(y)))


def _seen_by(embedder: MetricLearner, X: Any) -> Any:
    """Return what an embedder takes of items: their pixels, or their features."""
    if not isinstance(X, Patches):
        return X
    return X.pixels if embedder.takes == "pixels" else Patches(X.kinds)


def _described(embedder: MetricLearner, X: Any) -> Any:
    """Return the points of pictures; where they have features, before them as one more kind."""
    points = embedder.embed(_seen_by(embedder, X))
    if not isinstance(X, Patches):
        return points
    return Patches({**Patches.one_each({POINTS: points}).kinds, **X.kinds})


def _seeded(part: MetricLearner, rng: np.random.RandomState) -> MetricLearner:
    """Return an unfitted copy, with a seed where it has none."""
    copy: MetricLearner = clone(part)
    seed = int(rng.randint(2**31))
    if copy.get_params().get("random_state", seed) is None:
        copy.set_params(random_state=seed)
    return copy


def _taught(
    learner: MetricLearner, X: Any, y: Any, triplets: Any, rng: np.random.RandomState
) -> MetricLearner:
    """Let it learn by triplets where there are some and it takes them, else by labels."""
    if triplets is None or not learner.takes_triplets:
        return learner.fit(X, y)
    if isinstance(learner, IncrementalLearner) and len(triplets):
        triplets = triplets[rng.randint(len(triplets), size=learner.n_steps)]
    by_triplets: Any = learner
    by_triplets.partial_fit_triplets(X, triplets)
    return learner
