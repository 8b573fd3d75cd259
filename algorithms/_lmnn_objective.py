"""The objective of LMNN: target neighbours, the working set of impostors, value and gradient.

Not how it is minimised: that is `Descent` of `lmnn.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from sklearn.neighbors import NearestNeighbors

from oasis_bench.algorithms import _lmnn

Doubles: TypeAlias = "npt.NDArray[np.float64]"
Singles: TypeAlias = "npt.NDArray[np.float32]"
Rows: TypeAlias = "npt.NDArray[np.int32]"

SLACK = 0.3
"""Pairs enter the working set from so much farther than they count, as a fraction."""

LEADING = 0.95
"""Pairs are first searched for on the axes that hold this share of the variance of Z, on which no
pair is farther apart than on all.  These are few: 40 of 140, and fewer later on."""

ROUNDING = 1e-5
"""That search is in single precision; its squared distances are taken to be less by this share of
the rows' squared lengths, so that none within reach is missed."""

BLOCK_ROWS = 1024
"""Rows on a side of a block of distances: 4 MB."""

SCALE_ANCHORS, SCALE_IMPOSTORS = 200, 500
"""Rows that the scale of the start is found from."""


class Value(NamedTuple):
    """The objective at a point, over the working set.

    Attributes
    ----------
    exact : float
        eps(M) with the hinge as it is.
    smoothed : float
        With the hinge rounded off at its kink, the function that is descended.
    rounding : float
        What the duality gap owes to the rounding alone.
    dual : float
        Sum of the triplets' multipliers: a lower bound of the minimum where they are feasible.
    """

    exact: float
    smoothed: float
    rounding: float
    dual: float


class Objective:
    """eps as a function of Z = X A', with the weights that its gradient needs.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d)
        Sorted by class.
    starts : ndarray of shape (n_classes + 1,)
        Where each class begins, and n_rows.
    targets : ndarray of shape (n_rows, k)
        Target neighbours of each row.
    pull_weight : float
    width : float
        Losses from 0 to this are on the rounded part of the hinge.
    """

    def __init__(
        self, rows: Doubles, starts: Rows, targets: Rows, pull_weight: float, width: float
    ) -> None:
        self.rows, self.starts, self.targets = rows, starts, targets
        self.pull_weight, self.width = pull_weight, width
        self.target_slopes = np.zeros(targets.shape)
        self.use_pairs(np.empty((0, 2), dtype=np.int32))

    def use_pairs(self, pairs: Rows) -> None:
        """Take `pairs` (m, 2) of rows of different classes as the working set."""
        self.pairs = pairs
        self.pair_slopes = np.zeros(len(pairs))

    def value(self, Z: Doubles) -> Value:
        """Evaluate at Z (n_rows, r), and keep the slopes of the hinges."""
        distances = np.empty(self.targets.shape)
        self.target_slopes[:] = 0
        pull = self.pull_weight * _lmnn.target_distances(Z, self.targets, distances)
        push = 1 - self.pull_weight
        hinge, smoothed, product, slopes = _lmnn.hinge_losses(
            Z, self.pairs, distances, self.width, self.target_slopes, self.pair_slopes
        )
        return Value(
            pull + push * hinge, pull + push * smoothed, push * (hinge - product), push * slopes
        )

    def laplacian_times(self, Z: Doubles) -> Doubles:
        """Return B Z (n_rows, r), where X'BX is the gradient of the last value in M."""
        push = 1 - self.pull_weight
        product = np.zeros_like(Z)
        _lmnn.laplacian_times(
            Z,
            self.targets,
            self.pull_weight + push * self.target_slopes,
            self.pairs,
            push * self.pair_slopes,
            product,
        )
        return product

    def gradient(self) -> Doubles:
        """Return the gradient in M (d, d) of the last value."""
        return self.rows.T @ self.laplacian_times(self.rows)

    def pull_gradient(self) -> Doubles:
        """Return the gradient in M (d, d) of the pull alone, which is constant."""
        differences = np.zeros((self.rows.shape[1],) * 2)
        for column in self.targets.T:
            step = self.rows - self.rows[column]
            differences += step.T @ step
        return self.pull_weight * differences

    def find_impostors(self, Z: Doubles) -> None:
        """Make the working set of all pairs within reach at Z, and of those somewhat beyond."""
        distances = np.empty(self.targets.shape)
        _lmnn.target_distances(Z, self.targets, distances)
        reach = (1 + SLACK) * (1 + distances.max(axis=1))
        leading = _on_leading_axes(Z)
        norms = (1 - ROUNDING) * np.einsum("ij,ij->i", leading, leading)
        found = []
        with np.errstate(over="ignore", invalid="ignore"):  # such pairs are checked like others
            single = leading.astype(np.float32), norms.astype(np.float32), reach.astype(np.float32)
            for sides in self._blocks():
                pairs = _near(*single, *sides)
                found.append(pairs[: _lmnn.keep_within_reach(Z, reach, pairs)].copy())
        self.use_pairs(np.concatenate(found))

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        n_rows = len(self.rows)
        for start, stop in zip(self.starts[:-2], self.starts[1:-1], strict=True):
            for left in range(start, stop, BLOCK_ROWS):
                for right in range(stop, n_rows, BLOCK_ROWS):
                    yield (
                        slice(left, min(left + BLOCK_ROWS, stop)),
                        slice(right, min(right + BLOCK_ROWS, n_rows)),
                    )


def _on_leading_axes(Z: Doubles) -> Doubles:
    """Return the centred rows (n_rows, k) on the principal axes that hold most of the variance."""
    centred = Z - Z.mean(axis=0)
    variances, axes = eigh(centred.T @ centred)
    left_out = np.cumsum(variances) <= (1 - LEADING) * variances.sum()
    leading: Doubles = centred @ axes[:, ~left_out]
    return leading


def _near(Z: Singles, norms: Singles, reach: Singles, left: slice, right: slice) -> Rows:
    products = Z[left] @ Z[right].T
    room = max(1, products.size // 16)
    while True:
        pairs = np.empty((room, 2), dtype=np.int32)
        count = _lmnn.pairs_within_reach(
            products,
            norms[left],
            norms[right],
            reach[left],
            reach[right],
            left.start,
            right.start,
            pairs,
        )
        if count <= room:
            return pairs[:count]
        room = count


def target_neighbours(X: Doubles, starts: Rows, n_neighbors: int) -> Rows:
    """Return the `n_neighbors` nearest rows of the same class (n_rows, n_neighbors)."""
    targets = np.empty((len(X), n_neighbors), dtype=np.int32)
    for start, stop in pairwise(starts.tolist()):
        search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X[start:stop])
        targets[start:stop] = start + search.kneighbors(return_distance=False)
    return targets


def best_scale(X: Doubles, starts: Rows, targets: Rows, pull_weight: float) -> float:
    """Return about the s that minimises eps(sI), found from some of the rows.

    eps(sI) is convex and piecewise linear in s, with a kink at 1 / c for each triplet whose
    impostor is c farther than its target: the slope changes its sign where the c below 1 / s
    sum up to the pull.
    """
    n_rows = len(X)
    anchors = np.unique(np.linspace(0, n_rows - 1, SCALE_ANCHORS).astype(int))
    others = np.unique(np.linspace(0, n_rows - 1, SCALE_IMPOSTORS).astype(int))
    classes = np.searchsorted(starts, np.arange(n_rows), side="right")
    near = ((X[anchors, None] - X[targets[anchors]]) ** 2).sum(axis=2)
    norms = np.einsum("ij,ij->i", X, X)
    far = norms[anchors, None] + norms[others] - 2 * X[anchors] @ X[others].T
    margins = (far[:, None] - near[:, :, None])[
        np.broadcast_to(
            (classes[anchors, None] != classes[others])[:, None],
            (len(anchors), targets.shape[1], len(others)),
        )
    ]
    margins.sort()
    share = (n_rows / len(others)) * (1 - pull_weight) / pull_weight
    enough = np.flatnonzero(np.cumsum(margins) * share >= near.sum())
    margin = margins[enough[0] if len(enough) else -1]
    return float(1 / margin) if margin > 0 else 1.0
