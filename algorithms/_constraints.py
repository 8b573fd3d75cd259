"""The triplets of local distance functions, as pairs and groups of pairs: never one row a triplet.

A pair is an exemplar j and a reference i with the distances d_ji.  `_dual_ascent.py` solves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray

Numbers = npt.NDArray[np.intp]


@dataclass(eq=False)
class Constraints:
    """Triplets of a negative pair and a positive pair: w_k'd_ki >= w_j'd_ji + 1.

    Each negative goes with a run of `positives`: triplet t = first_alpha[n] + q - first[n] is the
    negative n and the positive q.

    Attributes
    ----------
    distances : list of ndarray of shape (n_rows_j, M_j)
        C-contiguous, float32 or float64, all alike.
    exemplars : ndarray of shape (n_pairs,)
        j of each pair.
    rows : ndarray of shape (n_pairs,)
        The row of ``distances[j]`` that is d_ji.
    groups : ndarray of shape (n_negatives,)
        Negatives of one group share what has to be read for them: they are visited together.
    negatives : ndarray of shape (n_negatives,)
        The pair of each.
    first, last, first_alpha : ndarray of shape (n_negatives,)
        Its positives are ``positives[first:last]``, its triplets begin at `first_alpha`.
    positives : ndarray
        Pairs.
    """

    distances: list[FloatArray]
    exemplars: Numbers
    rows: Numbers
    groups: Numbers
    negatives: Numbers
    first: Numbers
    last: Numbers
    positives: Numbers
    pair_bounds: Numbers
    consistent: bool = True

    def __post_init__(self) -> None:
        places = np.array([array.ctypes.data for array in self.distances], dtype=np.intp)
        strides = np.array([array.strides[0] for array in self.distances], dtype=np.intp)
        self.addresses = places[self.exemplars] + strides[self.exemplars] * self.rows
        self.number = np.zeros(1, self.distances[0].dtype if self.distances else np.float64)
        self.starts = np.cumsum([0, *(a.shape[1] for a in self.distances)], dtype=np.intp)
        self.bounds = np.searchsorted(self.groups, np.arange(self.n_groups + 1))
        counts = self.last - self.first
        self.n_triplets = int(counts.sum())
        self.first_alpha = np.cumsum(counts, dtype=np.intp) - counts
        self._by_exemplar = np.argsort(self.exemplars, kind="stable")
        self._exemplar_bounds = np.searchsorted(
            self.exemplars[self._by_exemplar], np.arange(len(self.distances) + 1)
        )
        self.squares = np.empty(len(self.rows))
        for j, array in enumerate(self.distances):
            pairs = self.pairs_of(slice(j, j + 1))
            chosen = array[self.rows[pairs]]
            self.squares[pairs] = np.einsum("ij,ij->i", chosen, chosen, dtype=np.float64)

    @property
    def n_groups(self) -> int:
        """The number of groups, empty ones among them."""
        return len(self.pair_bounds) - 1

    @property
    def n_numbers(self) -> int:
        """About how many distances all pairs have."""
        return len(self.rows) * int(self.starts[-1]) // max(1, len(self.distances))

    def pairs_of(self, exemplars: slice) -> Numbers:
        """Return the pairs of some exemplars."""
        bounds = self._exemplar_bounds
        return self._by_exemplar[bounds[exemplars.start] : bounds[exemplars.stop]]

    def negatives_of(self, groups: Numbers) -> Numbers:
        """Return the negatives of some groups, group after group."""
        parts = [np.arange(self.bounds[g], self.bounds[g + 1]) for g in groups]
        return np.concatenate([np.empty(0, dtype=np.intp), *parts])

    def in_triplets(self) -> npt.NDArray[np.bool_]:
        """Say of each exemplar whether it is in a triplet, shape (n_exemplars,)."""
        found = np.zeros(len(self.distances), dtype=bool)
        found[self.exemplars[self.negatives]] = True
        for g in np.unique(self.groups):
            n = self.bounds[g]
            found[self.exemplars[self.positives[self.first[n] : self.last[n]]]] = True
        return found

    @classmethod
    def of_triplets(cls, distances: list[FloatArray], triplets: Numbers) -> Self:
        """Take triplets (n_triplets, 3) of reference, positive and negative, each an alpha."""
        n_images = distances[0].shape[0] if distances else 0
        references, of_positives, of_negatives = triplets.T
        codes = np.tile(references, 2) * n_images + np.concatenate([of_positives, of_negatives])
        pairs, numbers = np.unique(codes, return_inverse=True)
        positives, negatives = np.split(numbers, 2)
        order = np.argsort(negatives, kind="stable")
        distinct, first, counts = np.unique(negatives[order], return_index=True, return_counts=True)
        of_pairs = pairs // max(1, n_images)
        return cls(
            distances,
            exemplars=pairs % max(1, n_images),
            rows=of_pairs,
            groups=of_pairs[distinct],
            negatives=distinct,
            first=first,
            last=first + counts,
            positives=positives[order],
            pair_bounds=np.searchsorted(of_pairs, np.arange(n_images + 1)),
        )

    @classmethod
    def of_classes(
        cls,
        distances: list[FloatArray],
        references: Sequence[Numbers],
        y: npt.NDArray[Any],
        consistent: bool = True,
    ) -> Self:
        """Take all pairs of a positive and a negative with the same reference, or exemplar.

        Parameters
        ----------
        distances : list of ndarray of shape (n_rows_j, M_j)
        references : sequence of ndarray of shape (n_rows_j,)
            The references i of the rows of ``distances[j]``.
        y : ndarray of shape (n_images,)
            Classes: a pair is positive where j and i are of one class.
        consistent : bool
            Whether a group is of one reference, as in 2007; else of one exemplar, as in 2006.
        """
        counts = [len(numbers) for numbers in references]
        exemplars = np.repeat(np.arange(len(distances)), counts)
        of_rows = np.concatenate([np.arange(count) for count in counts])
        of_references = np.concatenate([np.asarray(part, dtype=np.intp) for part in references])
        order = np.argsort(of_references if consistent else exemplars, kind="stable")
        exemplars, of_rows, of_references = exemplars[order], of_rows[order], of_references[order]
        groups = of_references if consistent else exemplars
        is_positive = y[exemplars] == y[of_references]
        positives, negatives = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        bounds = np.searchsorted(groups[positives], np.arange(len(y) + 1))
        first, last = bounds[groups[negatives]], bounds[groups[negatives] + 1]
        kept = last > first
        return cls(
            distances,
            exemplars=exemplars,
            rows=of_rows,
            groups=groups[negatives[kept]],
            negatives=negatives[kept],
            first=first[kept],
            last=last[kept],
            positives=positives,
            pair_bounds=np.searchsorted(groups, np.arange(len(y) + 1)),
            consistent=consistent,
        )
