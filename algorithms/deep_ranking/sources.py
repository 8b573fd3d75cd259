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
from scipy.sparse.csgraph import connected_components

from oasis_bench.algorithms.deep_ranking.reservoir import Floats, Items, Reservoir
from oasis_bench.algorithms.shared import check_triplets
from oasis_bench.data import canonical, class_labels
from oasis_bench.sampling import ClassTripletSampler
from oasis_bench.system import UsageError

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
        self._everything = np.arange(n_pictures)
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

    def source(self, seed: int, part: npt.NDArray[np.bool_] | None = None) -> Source:
        """Return what draws triplets of all, or of a part of the pictures or judged triplets."""
        if self._triplets is not None:
            return JudgedSource(self._triplets if part is None else self._triplets[part])
        items = self._everything if part is None else self._everything[part]
        if self._relevance is None:
            return LabelSource(items, self._y[items])
        _, categories = np.unique(self._y[items], return_inverse=True)
        R = self._relevance[items][:, items].tocoo()
        counts = (categories[R.row] == categories[R.col]) & (R.row != R.col)
        totals: Any = np.bincount(R.row[counts], R.data[counts], len(items))
        if self._sampling["sampling"] == "reservoir":
            reservoir = Reservoir(self._capacity, seed)
            reservoir.add(items, categories, totals)
            items, categories, totals = reservoir.kept()
        return RelevanceSampler(items, categories, totals, self._of_pairs, **self._sampling)

    def _of_pairs(self, a: Items, b: Items) -> Floats:
        return np.asarray(self._relevance[a, b], np.float64)

    def split(self, fraction: float, seed: int) -> tuple[Source, Source]:
        """Return two sources that share no class, category or judged query.

        The second has about `fraction` of the pictures or judged triplets.
        """
        groups = self._y if self._triplets is None else groups_of(self._triplets)
        apart = held_out(groups, fraction, np.random.default_rng([seed, 1]))
        return self.source(seed, ~apart), self.source(seed, apart)


class Source(Protocol):
    """Gives triplets."""

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets (n_triplets, 3): query, positive, negative."""


class LabelSource:
    """Uniform triplets of the pictures `items` (n,), from their labels `y` (n,)."""

    def __init__(self, items: Items, y: npt.NDArray[Any]) -> None:
        self._items = items
        self._state = np.ones(4, np.uint64)
        self._sampler = ClassTripletSampler(y, self._state)

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Triplets:
        """Draw triplets."""
        self._state[:] = rng.integers(1, 2**63, size=4)
        return np.asarray(self._items[self._sampler.draw(n_triplets)])


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


def held_out(groups: npt.NDArray[Any], fraction: float, rng: np.random.Generator) -> Any:
    """Choose whole groups at random until they have `fraction` of all, as a mask (n,)."""
    names, numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_chosen = int(np.searchsorted(np.cumsum(counts[order]), fraction * len(groups))) + 1
    n_chosen = max(2, n_chosen)
    if len(names) - n_chosen < 2:
        raise UsageError(
            f"validation_fraction = {fraction} of {len(names)} classes or queries leaves fewer "
            "than 2 to learn from: give less of it, or 0"
        )
    return np.isin(numbers, order[:n_chosen])


def groups_of(triplets: Triplets) -> Items:
    """Return the group of each triplet (n,): those that share a picture are of one."""
    n_items = int(triplets.max()) + 1
    queries = np.repeat(triplets[:, 0], 2)
    links = sparse.coo_array(
        (np.ones(len(queries)), (queries, triplets[:, 1:].ravel())), (n_items, n_items)
    )
    _, groups = connected_components(links, directed=False)
    return np.asarray(groups[triplets[:, 0]])


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
