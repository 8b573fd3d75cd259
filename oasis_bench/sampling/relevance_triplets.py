"""Triplets of rows that have several labels each, drawn by the compiled sampler."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import relevance_factor
from oasis_bench.sampling._relevance_triplets import LabelGraph, running_sums
from oasis_bench.sampling.class_triplets import Triplets


class RelevanceTripletSampler:
    r"""Triplets (query, positive, negative) from how relevant items are to labels.

    Two items are relevant to each other where :math:`R_{II}(p_1, p_2) > \theta` (see
    `oasis_bench.data.matrices`); at :math:`\theta = 0`, where they share a label.  The
    query is uniform over the items that have a positive and a negative (Chechik et al. 2010,
    sections 2.3 and 5.2.1).  Every draw is exact, and memory grows with the entries of `R` alone.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_items, n_labels)
        Finite and not negative; a label is the paper's text query.
    state : ndarray of shape (4,), uint64
        State of the xoshiro256++ generator, moved on in place by `draw`: a sampler made later
        with the same array goes on with the same stream.
    weighted : bool, default False
        Whether a positive is drawn with probability proportional to R_II (query, positive), or
        uniformly over the relevant items.
    negatives : {'exact', 'any'}, default 'exact'
        'exact': uniform over the irrelevant items.  'any': uniform over all other items, which
        is cheaper and, where labels are many, adds little noise.
    threshold : float, default 0
        :math:`\theta`.

    Raises
    ------
    ValueError
        Where a parameter is not of this kind, or no item has both a positive and a negative.

    Warns
    -----
    UserWarning
        Once, where some items can give no query.
    """

    def __init__(
        self,
        R: Any,
        state: npt.NDArray[np.uint64],
        weighted: bool = False,
        negatives: Literal["exact", "any"] = "exact",
        threshold: float = 0.0,
    ) -> None:
        if negatives not in ("exact", "any"):
            raise ValueError(f"negatives is {negatives!r}: it must be 'exact' or 'any'")
        if not 0 <= threshold < np.inf:
            raise ValueError(f"threshold is {threshold!r}: a finite number of at least 0 is needed")
        self.state = state
        self._exact = negatives == "exact"
        factor = relevance_factor(R)
        self._graph = _label_graph(factor, threshold, weighted)
        usable = np.empty(factor.shape[0], dtype=np.uint8)
        self._graph.find_queries(self._exact, usable)
        self._queries = np.flatnonzero(usable)
        lacking = "relevant item" if negatives == "any" else "relevant or no irrelevant item"
        if not len(self._queries):
            raise ValueError(
                f"triplets need an item with a positive and a negative, but each of the "
                f"{len(usable)} items has no other {lacking}: lower the threshold ({threshold}), "
                "leave common labels out or add items"
            )
        if left_out := len(usable) - len(self._queries):
            warnings.warn(
                f"{left_out} of {len(usable)} items have no other {lacking} and give no query",
                stacklevel=3,
            )

    def draw(self, n_triplets: int) -> Triplets:
        """Draw the next `n_triplets` of the stream, an array of row numbers (n_triplets, 3)."""
        triplets = np.empty((n_triplets, 3), dtype=np.intp)
        self._graph.draw(self._queries, self._exact, self.state, triplets)
        return triplets


def _label_graph(factor: sparse.csr_array, threshold: float, weighted: bool) -> LabelGraph:
    """Lay items and labels out for the kernel.

    Label q gives a pair the weight w(p1, q) w(p2, q).  The sum over the labels is R_II where w = B,
    and the number of shared labels where w = 1; the kernel divides by that number.
    """
    factor = factor[:, np.bincount(factor.indices, minlength=factor.shape[1]) > 1]
    factor.sort_indices()
    indptr, labels = factor.indptr.astype(np.intp), factor.indices
    weights = factor.data if weighted else np.ones(factor.nnz)
    # Rising weights, so that a small one is not lost in the sum of larger ones before it.
    by_label = np.lexsort((weights, labels))
    label_ptr = np.r_[0, np.bincount(labels, minlength=factor.shape[1]).cumsum()].astype(np.intp)
    images = np.repeat(np.arange(factor.shape[0], dtype=np.int32), np.diff(indptr))[by_label]
    weight_sums = _running_sums(weights[by_label], label_ptr)
    places = np.empty(factor.nnz, dtype=np.intp)
    places[by_label] = np.arange(factor.nnz)
    before = np.where(places > label_ptr[labels], weight_sums[places - 1], 0.0)
    after = weight_sums[label_ptr[1:] - 1][labels] - weight_sums[places]
    mass_sums = _running_sums(weights * (before + after), indptr)
    return LabelGraph(
        indptr,
        labels.astype(np.int32),
        factor.data,
        mass_sums,
        places,
        label_ptr,
        images,
        weight_sums,
        threshold,
        weighted,
    )


def _running_sums(
    values: npt.NDArray[np.float64], indptr: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    sums = np.empty_like(values)
    running_sums(values, indptr, sums)
    return sums
