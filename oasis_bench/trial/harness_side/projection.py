"""Places some test items in a plane: by their rows, and by the scores of a learner.

For the figures of learned spaces in a report; not a measure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.tasks import Numbers, Scores

CLASSES, ITEMS_PER_CLASS = 10, 25
"""The most that are projected of a trial."""

Points = npt.NDArray[np.float64]


class Projection:
    """Keeps the scores of some test items among each other, block after block.

    `y` has the class numbers of the test items, which are in a random order; the `seed` draws the
    classes, where there are more than `CLASSES`.  `items` are places, at most `ITEMS_PER_CLASS` of
    a class.
    """

    def __init__(self, y: npt.NDArray[np.int64], seed: int) -> None:
        classes = np.random.default_rng(seed).permutation(np.unique(y))[:CLASSES]
        of_class = [np.flatnonzero(y == number)[:ITEMS_PER_CLASS] for number in np.sort(classes)]
        self.items: Numbers = np.sort(np.concatenate(of_class))
        self._scores = np.empty((len(self.items), len(self.items)))

    def add(self, start: int, scores: Scores) -> None:
        """Take the scores (n_block, n_test) of the queries from `start` on."""
        held = (self.items >= start) & (self.items < start + len(scores))
        self._scores[held] = scores[self.items[held] - start][:, self.items]

    def points(self) -> Points | None:
        """Return where the items lie by their scores; see `plane`."""
        return plane(self._scores)


def plane(similarity: Points) -> Points | None:
    """Place items in the plane of the two principal axes of their similarity.

    These are the first two eigenvectors of B = J (S + S') J / 2 with J = I - 11'/n, each times the
    square root of its eigenvalue; an axis of a negative eigenvalue has length 0.  Where S is minus
    the squared distance this is classical scaling (Torgerson, Psychometrika 17, 1952); where it is
    x'Wy with a symmetric positive W, the principal components of the items that W maps.

    The places, of shape (n, 2), are in units in which the mean of x^2 + y^2 is the share of the
    plane in the sum of all absolute eigenvalues.  None where a similarity is not finite, or all
    are alike.
    """
    largest = float(np.abs(similarity).max(initial=0.0))
    if not 0 < largest < np.inf:  # nor NaN
        return None
    gram = similarity / largest
    gram = (gram + gram.T) / 2
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()
    values, axes = np.linalg.eigh(gram)
    total = float(np.abs(values).sum())
    if total <= len(values) * np.finfo(float).eps * len(values):
        return None
    first, lengths = axes[:, :-3:-1], np.sqrt(np.maximum(values[:-3:-1], 0) / total)
    # The sign of an eigenvector is free: its largest entry is positive.
    signs = np.sign(first[np.abs(first).argmax(axis=0), range(first.shape[1])])
    return np.asarray(first * signs * lengths * np.sqrt(len(values)))


def plane_of_rows(rows: Any) -> Points | None:
    """Return where rows (n, n_features), dense or sparse, lie by their principal components."""
    products = rows @ rows.T
    return plane(np.asarray(products.toarray() if hasattr(products, "toarray") else products))
