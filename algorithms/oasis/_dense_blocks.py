"""OASIS steps on dense rows in blocks: three matrix products for many triplets, in their order.

A single step (`_steps.pyx`) reads W for its score and changes it for its update: on dense rows it
waits for W, which leaves the caches near a core.  A block of triplets with queries Q and V = P - N
has the scores diag(Q W V') against the W before it.  They are made exact in order,

    s_t += sum_{u < t} tau_u (q_t . q_u)(v_t . v_u),

and W gets Q' diag(tau) V at once.  The products are BLAS's, in one thread: they are small, and more
threads wait for each other.  The numbers are those of single steps up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms.oasis import _steps as _oasis
from oasis_bench.data import FloatArray
from oasis_bench.system import one_blas_thread, slices

Triplets: TypeAlias = "npt.NDArray[np.intp]"
Numbers: TypeAlias = "npt.NDArray[np.float64]"

BLOCK = 128
"""Triplets in a block in order: with more, the products between them cost more than W does."""

SMALLEST = 64
"""Of fewer triplets, single steps are as fast."""

LEAST_FEATURES = 256
"""With fewer, W stays in the cache next to a core, and single steps are as fast."""

LEAST_SHARE = 0.5
"""Share of the numbers that must not be 0: a single step passes over rows of W where q is 0."""

GAIN = 2.0
"""Times as fast as single steps that blocks are at least from some 700 features on; see
docs/results.md.  Of 256 features it is 1.0 to 1.5."""

ROWS_COUNTED = 256
"""Rows whose numbers are counted."""

ROWS_AT_ONCE = 64
"""Rows of W that are changed at a time, which bounds the memory beside W."""


def is_wide_and_dense(X: FloatArray) -> bool:
    """Tell whether a product with all of W costs less than passing over rows where q is 0."""
    some = X[:ROWS_COUNTED]
    n_entries = np.count_nonzero(some)
    return bool(X.shape[1] >= LEAST_FEATURES and n_entries >= LEAST_SHARE * some.size)


def dense_blocks_pay(X: FloatArray, n_triplets: int) -> bool:
    """Tell whether blocks take less time than single steps on dense rows (n_rows, n_features)."""
    return n_triplets >= SMALLEST and is_wide_and_dense(X)


def learn_in_dense_blocks(
    X: FloatArray,
    batches: Iterator[Triplets],
    aggressiveness: float,
    W: FloatArray,
    in_order: bool,
) -> int:
    """Learn from batches of triplets with three products a batch, and return the updates.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    batches : iterator of arrays of shape (n_triplets, 3)
    aggressiveness : float
        C.
    W : ndarray of shape (n_features, n_features)
        Changed in place; of the type of `X`.
    in_order : bool
        Whether a step sees those before it of the same batch, as OASIS does, or only the W before
        the batch.
    """
    n_updates = 0
    with one_blas_thread:
        for triplets in batches:
            query, positive, negative = triplets.T
            Q, V = X[query], X[positive]
            V -= X[negative]
            scores = np.einsum("ij,ij->i", Q @ W, V, dtype=np.float64)
            lengths = _lengths(Q), _lengths(V)
            norms = lengths[0] * lengths[1]  # |q| |v|
            taus = np.zeros(len(Q))
            if in_order:
                products = _cosines(Q, lengths[0])
                products *= _cosines(V, lengths[1])
                sums = np.empty(len(Q), dtype=W.dtype)
                _oasis.solve_block(products, scores, norms, aggressiveness, sums, taus)
            else:
                solve_apart(scores, norms**2, aggressiveness, taus)
            changed = np.flatnonzero(taus)
            n_updates += len(changed)
            if len(changed):
                Q, V = Q[changed] * taus[changed, None].astype(W.dtype), V[changed]
                for rows in slices(len(W), ROWS_AT_ONCE):
                    W[rows] += Q[:, rows].T @ V
    return n_updates


def _lengths(rows: FloatArray) -> Numbers:
    """Return the length of each row: in double, as squares may be too large for float32."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))


def _cosines(rows: FloatArray, lengths: Numbers) -> FloatArray:
    """Return the cosines between rows (n_rows, n_rows); 0 with rows of length 0."""
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    units = rows * inverse.astype(rows.dtype)[:, None]
    return np.asarray(units @ units.T)


def solve_apart(
    scores: Numbers, squared_norms: FloatArray, aggressiveness: float, taus: Numbers
) -> None:
    """Set each step from its own score alone.

    Parameters
    ----------
    scores, squared_norms : ndarray of shape (n_triplets,)
        q'W(p - n), and |q|^2 |p - n|^2.
    aggressiveness : float
        C.
    taus : ndarray of shape (n_triplets,)
        Changed in place.
    """
    loss = 1 - scores
    taus[:] = 0
    np.divide(loss, squared_norms, out=taus, where=(loss > 0) & (squared_norms > 0))
    np.minimum(taus, aggressiveness, out=taus)
