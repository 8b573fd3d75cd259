"""Where the triplets of Deep Ranking come from: class labels, relevance, or what people judged.

Each source draws triplets of picture numbers from a generator, and keeps no state but counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.algorithms.base import check_triplets
from oasis_bench.data import canonical, class_labels
from oasis_bench.sampling import ClassTripletSampler
from oasis_bench.system import UsageError

Items = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Reservoir:
    """A buffer of pictures for each category; r_j decides what is kept of a stream.

    Picture j comes with the key u^(1/r_j), u uniform on (0, 1], and a full buffer drops its
    smallest key.  With a capacity of 1, picture j is kept with probability r_j / sum of r.  A
    larger buffer is a draw without replacement, each next picture with probability proportional to
    its r.

    Parameters
    ----------
    capacity : int
        Pictures that a buffer holds at most.
    random_state : int or sequence of int
        Seeds u.  However the stream is cut into parts, the buffers are the same.

    Attributes
    ----------
    n_seen, n_irrelevant : int
        Pictures that came, and those among them with r_j = 0, which are never kept.
    """

    def __init__(self, capacity: int, random_state: int | list[int]) -> None:
        if capacity < 1:
            raise UsageError(f"capacity is {capacity}: a buffer holds at least 1 picture")
        self.capacity = capacity
        self.n_seen = self.n_irrelevant = 0
        self._rng = np.random.default_rng(random_state)
        self._buffers: dict[int, tuple[Floats, Items, Floats]] = {}

    def add(self, items: npt.ArrayLike, categories: npt.ArrayLike, totals: npt.ArrayLike) -> None:
        """Read the next part of the stream: numbers of pictures, categories, and r_j (eq. 6)."""
        items, categories = np.asarray(items, np.int64), np.asarray(categories, np.int64)
        totals = np.asarray(totals, np.float64)
        if totals.size and not (totals.min() >= 0 and np.isfinite(totals).all()):
            raise UsageError(
                f"total relevance from {totals.min()} to {totals.max()}: finite numbers of at "
                "least 0 are needed"
            )
        u = 1 - self._rng.random(len(items))
        relevant = totals > 0
        self.n_seen += len(items)
        self.n_irrelevant += int(len(items) - relevant.sum())
        items, categories, totals = items[relevant], categories[relevant], totals[relevant]
        keys = np.log(u[relevant]) / totals  # in the order of u^(1/r), which is 0 for a small r
        order = np.argsort(categories, kind="stable")
        names, starts = np.unique(categories[order], return_index=True)
        for category, part in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
            new = (keys[part], items[part], totals[part])
            old = self._buffers.get(category, tuple(values[:0] for values in new))
            both = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
            kept = np.argsort(-both[0], kind="stable")[: self.capacity]
            self._buffers[category] = (both[0][kept], both[1][kept], both[2][kept])

    def kept(self) -> tuple[Items, Items, Floats]:
        """Return the pictures, by category and largest key first; their categories; their r_j."""
        if not self._buffers:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        _, items, totals = map(np.concatenate, zip(*self._buffers.values(), strict=True))
        sizes = [len(items) for _, items, _ in self._buffers.values()]
        return items, np.repeat(list(self._buffers), sizes), totals


Triplets = npt.NDArray[np.int64]
PairRelevance: TypeAlias = Callable[[Items, Items], Floats]
"""r_ij of pairs: two arrays of item numbers of one shape, to an array of that shape."""

MOST_DROPPED = 10_000
"""After so many dropped queries in a row, no triplet is to be expected."""

ROWS_KEPT = 10_000
"""Queries whose relevance to their category is kept at hand."""


class Given:
    """What a learner is given: labels, labels with relevance, or judged triplets.

    As `DeepRanking.fit` takes them; `capacity` is of a `Reservoir`, and `sampling` are the
    parameters of `RelevanceSampler`.
    """

    def __init__(
        self,
        n_pictures: int,
        y: Any,
        relevance: Any,
        triplets: Any,
        capacity: int = 1000,
        **sampling: Any,
    ) -> None:
        self._triplets: Triplets | None = None
        self._relevance: Any = None
        self._capacity, self._sampling = capacity, sampling
        if triplets is not None:
            self._triplets = check_triplets(triplets, n_pictures)
            if not len(self._triplets):
                raise UsageError("there are no triplets: give at least one")
            return
        if y is None:
            raise UsageError("there is nothing to learn from: give labels (y) or triplets")
        self._y = class_labels(y, n_pictures)
        if relevance is not None:
            self._relevance = check_relevance(relevance, n_pictures)

    def source(self, seed: int) -> Source:
        """Return what draws triplets."""
        if self._triplets is not None:
            return JudgedSource(self._triplets)
        items = np.arange(len(self._y))
        if self._relevance is None:
            return LabelSource(self._y)
        _, categories = np.unique(self._y, return_inverse=True)
        R = self._relevance.tocoo()
        counts = (categories[R.row] == categories[R.col]) & (R.row != R.col)
        totals: Any = np.bincount(R.row[counts], R.data[counts], len(items))
        if self._sampling["sampling"] == "reservoir":
            reservoir = Reservoir(self._capacity, seed)
            reservoir.add(items, categories, totals)
            items, categories, totals = reservoir.kept()
        return RelevanceSampler(items, categories, totals, self._of_pairs, **self._sampling)

    def _of_pairs(self, a: Items, b: Items) -> Floats:
        return np.asarray(self._relevance[a, b], np.float64)


class Source(Protocol):
    """Gives triplets."""

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets (n_triplets, 3): query, positive, negative."""


class LabelSource:
    """Uniform triplets of pictures, from their labels `y` (n,)."""

    def __init__(self, y: npt.NDArray[Any]) -> None:
        self._state = np.ones(4, np.uint64)
        self._sampler = ClassTripletSampler(y, self._state)

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets."""
        self._state[:] = rng.integers(1, 2**63, size=4)
        return np.asarray(self._sampler.draw(n_triplets), np.int64)


class JudgedSource:
    """Given triplets (n, 3), in random order with repetition."""

    def __init__(self, triplets: Triplets) -> None:
        self._triplets = triplets

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets."""
        return np.asarray(self._triplets[rng.integers(len(self._triplets), size=n_triplets)])


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

    Of pictures that a `Reservoir` keeps by their :math:`r_p`, the query is uniform and a picture of
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
    n_triplets, n_dropped : int
        Triplets, and dropped queries, of all draws.
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
        self.n_triplets = self.n_dropped = 0
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
        self.n_triplets += n_triplets
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
