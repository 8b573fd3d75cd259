"""Triplets from pairwise relevance that fits memory: the distribution of Deep Ranking, exactly.

For a stream that does not fit, `oasis_bench.algorithms.deep_ranking.reservoir` comes near it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms.deep_ranking.reservoir import MOST_DROPPED, refuse_too_few
from oasis_bench.system import UsageError

Items = npt.NDArray[np.int64]
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

    Raises
    ------
    UsageError
        Where no picture can be a query, or there is one category and `out_of_class` is above 0.
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
        """Draw triplets of item numbers (n_triplets, 3).

        Raises
        ------
        UsageError
            Where 10000 queries in a row are dropped.
        """
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
