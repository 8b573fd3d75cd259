"""Triplets of rows from class labels, drawn by the compiled sampler."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from oasis_bench.data import class_labels
from oasis_bench.sampling._class_triplets import draw_class_triplets

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
