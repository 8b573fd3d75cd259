"""A part of a stream of pictures, kept by relevance: the stream is read once.

Source: Wang et al., Learning Fine-grained Image Similarity with Deep Ranking, CVPR 2014, section
5.1; Efraimidis & Spirakis, Weighted random sampling with a reservoir, 2006.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
