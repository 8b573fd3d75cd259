"""Steps A += weight (Az)(Az)' on pairs, taken in blocks: two passes over A a block, by BLAS.

A small A is changed step by step.  Shared by LEGO and ITML; their kernels say what a step's weight
is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg.blas import dsymm, dsyrk

from oasis_bench.plugins import blocks

Float64Array: TypeAlias = npt.NDArray[np.float64]
Result = TypeVar("Result")

PAIRS_PER_BLOCK, PAIRS_AT_ONCE = 64, 4096
"""More would cost more within a block, m^2 d, than is saved in passes over A; and of a small A."""

SMALL = 32
"""Up to so many features a step on A costs less than a block of steps."""


def pairs_per_block(A: Float64Array) -> int:
    """Return of how many pairs `take_steps` is given the differences."""
    return PAIRS_AT_ONCE if len(A) <= SMALL else PAIRS_PER_BLOCK


def differences(X: Any, left: npt.NDArray[np.intp], right: npt.NDArray[np.intp]) -> Float64Array:
    """Return x_left - x_right (n_pairs, n_features), dense and in float64; both are row numbers."""
    if isinstance(X, sparse.csr_array | sparse.csr_matrix):
        rows = X[left].astype(np.float64) - X[right].astype(np.float64)
        return np.asarray(rows.toarray())
    return np.asarray(np.subtract(X[left], X[right], dtype=np.float64))


def squared_distances(
    X: Any, left: npt.NDArray[np.intp], right: npt.NDArray[np.intp]
) -> Float64Array:
    """Return |x_left - x_right|^2 (n_pairs,), formed in blocks of pairs."""
    squares = np.empty(len(left))
    for block in blocks(len(left), row_bytes=3 * 8 * X.shape[1]):  # Z and what it is made from
        Z = differences(X, left[block], right[block])
        np.einsum("ij,ij->i", Z, Z, out=squares[block])
    return squares


def take_steps(
    A: Float64Array,
    Z: Float64Array,
    kernel: Callable[[Float64Array, Float64Array, Float64Array], Result],
) -> Result:
    """Take one block of steps on `A`; of a large A only the upper triangle is read or changed.

    `A` is C-contiguous, `Z` (n_pairs, n_features) has the differences of the pairs.
    ``kernel(A, products, weights)`` takes the steps of a small A.  Of a large one it gets no row.
    Then it finds the Az before the block in `products`, one row for each z, leaves there the Az
    before the step of that z, and writes the steps' weights.  What it returns is returned.
    """
    if len(A) <= SMALL:
        return kernel(A, np.empty_like(Z), np.empty(len(Z)))
    # BLAS sees transposes: its lower triangle in the order of columns is the upper one of A.
    products = dsymm(1.0, A.T, Z.T, lower=1).T
    weights = np.empty(len(Z))
    result = kernel(np.empty((0, 0)), products, weights)
    add_steps(A, products, weights)
    return result


def add_steps(A: Float64Array, products: Float64Array, weights: Float64Array) -> None:
    """Add the steps of a block, whose Az are `products`, to the upper triangle of `A`."""
    # What grows A comes first: an interrupt in between leaves it positive definite.
    for sign in (1.0, -1.0):
        chosen = sign * weights > 0
        if chosen.any():
            factor = products[chosen] * np.sqrt(np.abs(weights[chosen]))[:, None]
            dsyrk(sign, factor.T, beta=1.0, c=A.T, lower=1, overwrite_c=1)


def mirror(A: Float64Array) -> None:
    """Copy the upper triangle of `A` on the lower one, in place."""
    for row in range(len(A)):
        A[row + 1 :, row] = A[row, row + 1 :]
