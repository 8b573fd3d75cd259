"""Triplets of rows from class labels, or from several labels each, by the compiled samplers."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import class_labels, joint_distribution
from oasis_bench.sampling._class_triplets import draw_class_triplets
from oasis_bench.sampling._relevance_triplets import LabelGraph, running_sums

Triplets = npt.NDArray[np.intp]


class ClassTripletSampler:
    """Uniform triplets (query, positive, negative) from class labels.

    The query is uniform over the rows whose class has another row, the positive over the other
    rows of its class, the negative over the rows of other classes (Chechik et al. 2010,
    section 2.3).  Every draw is exact: no rejection, no modulo bias.

    Parameters
    ----------
    y : array of shape (n_rows,)
        Class labels.
    state : ndarray of shape (4,), uint64
        State of the xoshiro256++ generator, moved on in place by `draw`: a sampler made later
        with the same array goes on with the same stream.

    Raises
    ------
    ValueError
        With fewer than two classes, or where no class has two rows.

    Warns
    -----
    UserWarning
        Once, where classes of one row can give no query.
    """

    def __init__(self, y: npt.ArrayLike, state: npt.NDArray[np.uint64]) -> None:
        names, classes, counts = np.unique(class_labels(y), return_inverse=True, return_counts=True)
        if len(names) < 2:
            raise ValueError(
                f"triplets need at least 2 classes, but y has 1 class ({names[0]!s}): "
                "add rows of another class"
            )
        if counts.max() < 2:
            raise ValueError(
                f"triplets need a class of at least 2 rows, but each of the {len(names)} classes "
                "has 1: are these labels, or numbers to predict?"
            )
        if lonely := int((counts == 1).sum()):
            warnings.warn(
                f"{lonely} of {len(names)} classes have one row and give no query", stacklevel=3
            )
        self.state = state
        # Rows sorted by class, those that cannot be queries last.
        alone = counts[classes] == 1
        self._rows = np.lexsort((classes, alone)).astype(np.intp)
        self._n_queries = int((~alone).sum())
        sorted_classes = classes[self._rows]
        starts = np.flatnonzero(np.r_[True, sorted_classes[1:] != sorted_classes[:-1]])
        sizes = np.diff(np.r_[starts, len(classes)])
        self._starts = np.repeat(starts, sizes).astype(np.intp)
        self._sizes = np.repeat(sizes, sizes).astype(np.intp)

    def draw(self, n_triplets: int) -> Triplets:
        """Draw the next `n_triplets` of the stream, an array of row numbers (n_triplets, 3)."""
        triplets = np.empty((n_triplets, 3), dtype=np.intp)
        draw_class_triplets(
            self._rows, self._starts, self._sizes, self._n_queries, self.state, triplets
        )
        return triplets


def seed_state(seed: int) -> npt.NDArray[np.uint64]:
    """Expand a seed into the state (4,) of a generator; equal seeds give equal states."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64).astype(np.uint64, copy=False)


class RelevanceTripletSampler:
    r"""Triplets (query, positive, negative) from how relevant items are to labels.

    Two items are relevant to each other where :math:`R_{II}(p_1, p_2) > \theta` (see
    `relevance_factor`); at :math:`\theta = 0`, where they share a label.  The
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
        :math:`\theta`, at least 0.

    Raises
    ------
    ValueError
        Where `R` is not of this kind, or no item has both a positive and a negative.

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


def relevance_factor(R: Any) -> sparse.csr_array:
    r"""Return B (n_items, n_labels) with :math:`B B^\top = \Pr(p_1, p_2)`.

    :math:`B(p, q) = \Pr(p|q) \sqrt{\Pr(q)}`, since :math:`\Pr(p_1, p_2) = \sum_q \Pr(p_1|q)
    \Pr(p_2|q) \Pr(q)`.  Parameter and errors as in `joint_distribution`.
    """
    factor = joint_distribution(R)
    label_probability = np.bincount(factor.indices, factor.data, minlength=factor.shape[1])
    factor.data /= np.sqrt(label_probability[factor.indices])
    return factor


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
    weight_sums = weights[by_label]
    running_sums(weight_sums, label_ptr)
    places = np.empty(factor.nnz, dtype=np.intp)
    places[by_label] = np.arange(factor.nnz)
    before = np.where(places > label_ptr[labels], weight_sums[places - 1], 0.0)
    after = weight_sums[label_ptr[1:] - 1][labels] - weight_sums[places]
    mass_sums = weights * (before + after)
    running_sums(mass_sums, indptr)
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
