"""Where the triplets of Deep Ranking come from: class labels, relevance, or what people judged.

Each source draws `n` triplets of picture numbers from a generator, and keeps no state but counts.
`RelevanceSampler` draws exactly from relevance that fits memory; `reservoir` comes near it for a
stream that does not.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from oasis_bench.algorithms.deep_ranking.reservoir import (
    MOST_DROPPED,
    Reservoir,
    ReservoirSampler,
    refuse_too_few,
)
from oasis_bench.data import canonical, class_labels
from oasis_bench.sampling import ClassTripletSampler
from oasis_bench.system import UsageError

Triplets = npt.NDArray[np.int64]
Items = npt.NDArray[np.int64]

CAPACITY = 1000
"""Pictures of a category in the reservoir."""


class Given:
    """What a learner is given: labels, labels with relevance, or judged triplets.

    As `DeepRanking.fit` takes them, with the parameters of `DeepRanking` that say how to sample.
    """

    def __init__(
        self,
        n_pictures: int,
        y: Any,
        relevance: Any,
        triplets: Any,
        sampling: str,
        out_of_class: float,
        margin: float,
    ) -> None:
        self._everything = np.arange(n_pictures)
        self._triplets, self._relevance = None, None
        self._sampling, self._negatives = sampling, (out_of_class, margin)
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
        if self._sampling == "reservoir":
            return reservoir_source(items, self._y[items], self._relevance, seed, *self._negatives)
        weighted = self._sampling == "weighted"
        return RelevanceSampler(items, self._y[items], self._relevance, weighted, *self._negatives)

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


def reservoir_source(
    items: Items,
    y: npt.NDArray[Any],
    relevance: Any,
    seed: int,
    out_of_class: float,
    margin: float,
) -> ReservoirSampler:
    """Return a sampler of what a reservoir keeps of the pictures `items`, which it reads once.

    What `relevance` (n_pictures, n_pictures) says of pictures of different categories is not looked
    at.
    """
    _, categories = np.unique(y, return_inverse=True)
    totals = np.zeros(len(items))
    for members in np.split(np.argsort(categories), np.cumsum(np.bincount(categories))[:-1]):
        own = relevance[items[members]][:, items[members]]
        totals[members] = own.sum(axis=1) - own.diagonal()
    reservoir = Reservoir(CAPACITY, seed)
    reservoir.add(items, categories, totals)

    def of_pairs(a: Items, b: Items) -> npt.NDArray[np.float64]:
        return np.asarray(relevance[a.ravel(), b.ravel()], np.float64).reshape(a.shape)

    return ReservoirSampler(reservoir, of_pairs, out_of_class, margin)


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


def check_triplets(triplets: Any, n_pictures: int) -> Triplets:
    """Return triplets as int64, checked."""
    array = np.asarray(triplets)
    if array.ndim != 2 or array.shape[1] != 3 or not np.issubdtype(array.dtype, np.integer):
        raise UsageError(
            f"triplets of shape {array.shape} and type {array.dtype}: integers of shape "
            "(n_triplets, 3) are needed"
        )
    if array.size and (array.min() < 0 or array.max() >= n_pictures):
        raise UsageError(
            f"triplets name pictures {array.min()} to {array.max()}: 0 to {n_pictures - 1} are "
            "needed"
        )
    return array.astype(np.int64)


Floats = npt.NDArray[np.float64]


class RelevanceSampler:
    r"""Triplets (query, positive, negative) of pictures with categories and a relevance.

    Weighted, a query q is drawn with probability proportional to :math:`r_q = \sum_p r_{qp}`, the
    sum over its category, and its positive p to :math:`r_{qp}` (Wang et al., eq. 6, 7).  A negative
    n of another category is uniform; one of the same category is drawn like the positive, of those
    with :math:`r_{qp} - r_{qn} \ge` `margin` (eq. 8).  Where there is none, the query is dropped,
    and another takes its place in a triplet of the same kind.

    Not weighted, the query is uniform, its positive is uniform of those with :math:`r_{qp} > 0`,
    and a negative of the same category uniform of those with that margin (section 6.6).

    Parameters
    ----------
    items, y : array of shape (n,)
        Numbers of pictures, and the category of each.
    relevance : csr_array of shape (n_pictures, n_pictures)
        0 or more; what it says of pictures of different categories is not looked at.
    weighted : bool, default True
    out_of_class : float, default 0.2
        Probability that a negative is of another category.
    margin : float, default 0
        T_r, in the unit of r.

    Attributes
    ----------
    n_triplets, n_rejected_positives, n_rejected_negatives, n_dropped : int
        Counts of all draws, as `ReservoirSampler` has them.  Candidates are drawn by their chances,
        so that none is ever rejected; queries are dropped.
    """

    def __init__(
        self,
        items: Items,
        y: npt.NDArray[Any],
        relevance: Any,
        weighted: bool = True,
        out_of_class: float = 0.2,
        margin: float = 0.0,
    ) -> None:
        self.weighted, self.out_of_class, self.margin = weighted, out_of_class, margin
        self.n_triplets = self.n_dropped = 0
        self.n_rejected_positives = self.n_rejected_negatives = 0
        _, categories = np.unique(y, return_inverse=True)
        order = np.argsort(categories, kind="stable")
        self._items = items[order]
        self._starts: list[int] = []
        self._rows: list[Floats] = []  # of each picture, its relevance to those of its category
        stops = np.cumsum(np.bincount(categories))
        for own in np.split(self._items, stops[:-1]):
            r = relevance[own][:, own].toarray().astype(np.float64)
            np.fill_diagonal(r, 0)
            self._starts += [len(self._rows)] * len(own)
            self._rows.extend(r)
        totals = np.array([row.sum() for row in self._rows])
        self._queries = np.cumsum(totals if weighted else totals > 0)
        refuse_too_few(bool(self._queries[-1]), len(stops), out_of_class)

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Items:
        """Draw triplets of item numbers (n_triplets, 3)."""
        outside = rng.random(n_triplets) < self.out_of_class
        places = [self._triplet(bool(other), rng) for other in outside]
        self.n_triplets += n_triplets
        return np.asarray(self._items[np.array(places, np.int64).reshape(-1, 3)])

    def _triplet(self, outside: bool, rng: np.random.Generator) -> tuple[int, int, int]:
        """Draw the places of one triplet; `outside`: its negative is of another category."""
        for _ in range(MOST_DROPPED):
            query = _drawn(self._queries, rng)
            r, start = self._rows[query], self._starts[query]
            positive = _drawn(np.cumsum(r if self.weighted else r > 0), rng)
            if outside:
                negative = int(rng.integers(len(self._items) - len(r)))
                return query, start + positive, negative + len(r) * (negative >= start)
            chances = (r[positive] - r >= self.margin) * (r if self.weighted else 1.0)
            chances[[positive, query - start]] = 0
            if chances.any():
                return query, start + positive, start + _drawn(np.cumsum(chances), rng)
            self.n_dropped += 1
        raise UsageError(
            f"{MOST_DROPPED} queries in a row gave no triplet with a negative of the same "
            f"category: lower the margin ({self.margin})"
        )


def _drawn(sums: npt.NDArray[Any], rng: np.random.Generator) -> int:
    """Draw a number, given the sums of the chances up to each (n,)."""
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
