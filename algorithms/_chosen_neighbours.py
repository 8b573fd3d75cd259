"""Sums over all pairs of rows, for objectives by which rows choose their neighbours.

Row i chooses j with a probability that falls with the distance, exp(-|Lx_i - Lx_j|^2) over the sum
of those of all other rows.  Not the objectives themselves: those are MCML's and NCA's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from oasis_bench.data import FloatArray
from oasis_bench.system import slices

Weigh: TypeAlias = Callable[[FloatArray, int, FloatArray], float]
"""A function of `_neighbour_choice`: scores of a block become weights W, in place.

It is given the scores (b, n_rows), the number of the block's first row, and the sums of W over
rows (n_rows,), to which it adds; it returns the block's share of the objective.
"""

FAR, LONG = 1e3, 1e6
"""Squares from which float32 has too few digits: of the length of Lx, as it gives distances to 1e-4
there; and of the length of x times that of L, as sums of Lx cancel there."""

BLOCK_BYTES = 8 * 2**20
"""Pairs of rows are gone through in blocks of this size: others are no faster."""


def slope(
    rows: FloatArray, L: FloatArray, weigh: Weigh, row_sum: float, coarse: bool = False
) -> tuple[float, FloatArray]:
    """Return the objective and L `laplacian`, shape (k, d), in float64 as `rows` are.

    With `coarse` by products in float32, where these have digits enough.
    """
    projected = rows @ L.T
    if coarse:
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows).max()) or 1.0
        short = length**2 * np.vdot(L, L) < LONG
        if short and np.einsum("ij,ij->i", projected, projected).max() < FAR:
            single = (rows / length).astype(np.float32)  # rows of any scale fit into it
            scaled, projected = (L * length).astype(np.float32), projected.astype(np.float32)
            value, found = _slope(single, scaled, projected, weigh, row_sum)
            return value, found.astype(np.float64) * length
    return _slope(rows, L, projected, weigh, row_sum)


def _slope(
    rows: FloatArray, L: FloatArray, projected: FloatArray, weigh: Weigh, row_sum: float
) -> tuple[float, FloatArray]:
    """Return the objective and L `laplacian` by products of the type of `rows`.

    Time n^2 k + n^2 min(2k, d): of W + W' the product with Lx takes two passes over W, that with x
    one, for the other is its transpose.
    """
    if rows.shape[1] < 2 * len(L):
        value, product = laplacian(rows, projected, weigh, row_sum)
        return value, L @ product
    totals, value = np.full(len(rows), row_sum), 0.0
    product = np.zeros(projected.shape)
    for block, weights, share in _blocks(projected, weigh, totals):
        value += share
        product[block] -= weights @ projected
        product -= weights.T @ projected[block]
    product += totals[:, None] * projected
    return value, product.T.astype(rows.dtype) @ rows


def laplacian(
    rows: FloatArray, projected: FloatArray, weigh: Weigh, row_sum: float
) -> tuple[float, FloatArray]:
    """Return the objective and X'(diag(W1 + W'1) - W - W')X, shape (d, d), symmetric.

    Time n^2 (k + d) + n d^2.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d)
        X.  Their mean is near 0, for the sake of rounding alone.  Products are of their type.
    projected : ndarray of shape (n_rows, k)
        XL', of the same type.
    weigh : callable
        Gives W.
    row_sum : float
        W1, the same for all rows.
    """
    totals, value = np.full(len(rows), row_sum), 0.0
    sums = np.empty_like(rows)
    for block, weights, share in _blocks(projected, weigh, totals):
        value += share
        np.matmul(weights, rows, out=sums[block])
    product = rows.T @ ((totals / 2).astype(rows.dtype)[:, None] * rows - sums)
    return value, product + product.T


def _blocks(
    projected: FloatArray, weigh: Weigh, totals: FloatArray
) -> Iterator[tuple[slice, FloatArray, float]]:
    """Yield rows, their weights (b, n_rows), which the next block overwrites, and their value."""
    n_rows = len(projected)
    squares = np.einsum("ij,ij->i", projected, projected)
    ones = np.ones_like(squares)
    # minus the squared distance: 2 z_i z_j - |z_i|^2 - |z_j|^2
    left = np.column_stack([2 * projected, -squares, ones])
    right = np.column_stack([projected, ones, -squares]).T
    step = min(n_rows, max(1, BLOCK_BYTES // (projected.itemsize * n_rows)))
    scores = np.empty((step, n_rows), dtype=projected.dtype)
    for block in slices(n_rows, step):
        weights = np.matmul(left[block], right, out=scores[: block.stop - block.start])
        yield block, weights, weigh(weights, block.start, totals)
