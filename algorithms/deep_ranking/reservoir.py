"""Triplets from pairwise relevance by reservoir sampling: a stream of pictures is read once.

Source: Wang et al., Learning Fine-grained Image Similarity with Deep Ranking, CVPR 2014, section
5.1; Efraimidis & Spirakis, Weighted random sampling with a reservoir, 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from oasis_bench.system import UsageError

Items: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
PairRelevance: TypeAlias = Callable[[Items, Items], Floats]
"""r_ij of pairs: two arrays of item numbers of one shape, to an array of that shape."""

AT_ONCE = 16
"""Candidates that are drawn for a query at once: those after the first accepted are left."""

MOST_DROPPED = 10_000
"""After so many dropped queries in a row, no triplet is to be expected."""


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

    def buffers(self) -> dict[int, tuple[Items, Floats]]:
        """Return the pictures of each category, largest key first, and their r_j."""
        return {name: (items, totals) for name, (_, items, totals) in self._buffers.items()}


class ReservoirSampler:
    """Triplets (query, positive, negative) of the pictures in the buffers.

    The query is uniform over all buffers.  A positive p is drawn uniformly from the query's buffer
    and taken with probability min(1, r_qp / r_p), else drawn again.  A negative of another category
    is uniform over the other buffers; one of the same category is drawn like the positive, and
    taken only where r_qp - r_qn >= `margin` (eq. 8).  After `most_failures` candidates for one
    place the query is dropped, and another takes its place in a triplet of the same kind, so that
    `out_of_class` is the expected share in what is drawn.

    Parameters
    ----------
    reservoir : Reservoir
        As it is now: what comes later is not seen.
    relevance : callable
        ``relevance(a, b)`` gives r of the pairs, 0 or more.
    out_of_class : float, default 0.2
        Probability that a negative is of another category (the paper's best, section 6.6).
    margin : float, default 0
        T_r, in the unit of r.
    most_failures : int, default 1000

    Attributes
    ----------
    n_triplets, n_rejected_positives, n_rejected_negatives, n_dropped : int
        Counts of all draws.  A candidate that is the query itself is rejected, too.
    """

    def __init__(
        self,
        reservoir: Reservoir,
        relevance: PairRelevance,
        out_of_class: float = 0.2,
        margin: float = 0.0,
        most_failures: int = 1000,
    ) -> None:
        if not 0 <= out_of_class <= 1:
            raise UsageError(f"out_of_class is {out_of_class}: a share from 0 to 1 is needed")
        if not 0 <= margin < np.inf:
            raise UsageError(f"margin is {margin}: a finite number of at least 0 is needed")
        if most_failures < 1:
            raise UsageError(f"most_failures is {most_failures}: at least 1 is needed")
        buffers = reservoir.buffers()
        sizes = np.array([len(items) for items, _ in buffers.values()], np.int64)
        refuse_too_few(sizes.max(initial=0) >= 2, len(sizes), out_of_class)
        self._items = np.concatenate([items for items, _ in buffers.values()])
        self._totals = np.concatenate([totals for _, totals in buffers.values()])
        self._starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._sizes = np.repeat(sizes, sizes)
        self._relevance = relevance
        self.out_of_class, self.margin = out_of_class, margin
        self.most_failures = most_failures
        self.n_triplets = self.n_dropped = 0
        self.n_rejected_positives = self.n_rejected_negatives = 0

    def draw(self, n_triplets: int, rng: np.random.Generator) -> Items:
        """Draw triplets of item numbers (n_triplets, 3)."""
        triplets = np.empty((n_triplets, 3), np.int64)
        outside = rng.random(n_triplets) < self.out_of_class
        empty = np.arange(n_triplets)
        in_a_row = 0
        while len(empty):
            query = rng.integers(len(self._items), size=len(empty))
            positive, relevance, rejected = self._draw_own(query, rng)
            self.n_rejected_positives += rejected
            done = positive >= 0
            negative = np.full(len(empty), -1)
            far = done & outside[empty]
            negative[far] = self._draw_other(query[far], rng)
            near = done & ~outside[empty]
            negative[near], _, rejected = self._draw_own(
                query[near], rng, positive[near], relevance[near]
            )
            self.n_rejected_negatives += rejected
            done = negative >= 0
            found = np.stack([query[done], positive[done], negative[done]], axis=1)
            triplets[empty[done]] = self._items[found]
            empty = empty[~done]
            self.n_dropped += len(empty)
            in_a_row = 0 if done.any() else in_a_row + len(empty)
            if in_a_row >= MOST_DROPPED:
                raise UsageError(
                    f"{in_a_row} queries in a row gave no triplet with a negative of "
                    f"{'another' if outside[empty].any() else 'the same'} category: lower the "
                    f"margin ({self.margin}) or raise most_failures ({self.most_failures})"
                )
        self.n_triplets += n_triplets
        return triplets

    def _draw_other(self, query: Items, rng: np.random.Generator) -> Items:
        """Draw from the buffers of other categories, uniformly."""
        others = rng.integers(len(self._items) - self._sizes[query])
        behind = others >= self._starts[query]
        return np.asarray(np.where(behind, others + self._sizes[query], others))

    def _draw_own(
        self,
        query: Items,
        rng: np.random.Generator,
        positive: Items | None = None,
        of_positive: Floats | None = None,
    ) -> tuple[Items, Floats, int]:
        """Draw from each query's own buffer, by relevance; a negative where there is a positive.

        Returns places in the buffers, -1 after too many failures, their relevance, and how many
        were rejected.
        """
        place, found = np.full(len(query), -1), np.zeros(len(query))
        active = np.arange(len(query))
        tried = n_rejected = 0
        while len(active) and tried < self.most_failures:
            asking = query[active, None]
            shape = (len(active), min(AT_ONCE, self.most_failures - tried))
            drawn = self._starts[asking] + rng.integers(self._sizes[asking], size=shape)
            asked, items = np.broadcast_to(self._items[asking], shape), self._items[drawn]
            r = self._relevance(asked, items)
            taken = (rng.random(shape) < r / self._totals[drawn]) & (asked != items)
            if positive is not None and of_positive is not None:
                taken &= of_positive[active, None] - r >= self.margin
                taken &= self._items[positive[active, None]] != items
            hit, first = taken.any(axis=1), taken.argmax(axis=1)
            n_rejected += int(np.where(hit, first, shape[1]).sum())
            rows = np.flatnonzero(hit)
            place[active[rows]], found[active[rows]] = (
                drawn[rows, first[rows]],
                r[rows, first[rows]],
            )
            active = active[~hit]
            tried += shape[1]
        return place, found, n_rejected


def refuse_too_few(has_pair: bool, n_categories: int, out_of_class: float) -> None:
    """Raise UsageError where no triplet can be drawn.

    `has_pair` says whether a category has two pictures that are relevant to each other.
    """
    if not has_pair:
        raise UsageError(
            "triplets need a category with 2 relevant pictures or more: give other categories "
            "or a relevance above 0"
        )
    if out_of_class > 0 and n_categories < 2:
        raise UsageError(
            f"out_of_class is {out_of_class}, but all pictures are of 1 category: give 0"
        )
