"""OASIS steps on dense rows in blocks: three matrix products for many triplets, in their order.

A single step (`_steps.pyx`) reads W for its score and changes it for its update: on dense rows it
waits for W, which leaves the caches near a core.  A block of triplets with queries Q and V = P - N
has the scores diag(Q W V') against the W before it.  They are made exact in order,

    s_t += sum_{u < t} tau_u (q_t . q_u)(v_t . v_u),

and W gets Q' diag(tau) V at once.  The products are BLAS's, on as many threads as it may use.  The
numbers are those of single steps up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import row_norms

from oasis_bench.algorithms.oasis import _steps as _oasis
from oasis_bench.data.rows import FloatArray
from oasis_bench.system.threads import slices

Triplets: TypeAlias = "npt.NDArray[np.intp]"

BLOCK = 128
"""Triplets in a block in order: with more, the products between them cost more than W does."""

LEAST_FEATURES = 256
"""With fewer, W stays in the cache next to a core, and single steps are as fast."""

LEAST_SHARE = 0.5
"""Share of the numbers that must not be 0: a single step passes over rows of W where q is 0."""

ROWS_COUNTED = 256
"""Rows whose numbers are counted."""

ROWS_AT_ONCE = 64
"""Rows of W that are changed at a time, which bounds the memory beside W."""


def dense_blocks_pay(X: FloatArray) -> bool:
    """Tell whether blocks take less time than single steps on dense rows (n_rows, n_features).

    Measured on one core of an EPYC: of 256 features they are 1.0 to 1.5 times as fast, of 784 and
    1280 twice and more, whatever share of the steps changes W.
    """
    some = X[:ROWS_COUNTED]
    n_entries = np.count_nonzero(some)
    return bool(X.shape[1] >= LEAST_FEATURES and n_entries >= LEAST_SHARE * some.size)


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
    for triplets in batches:
        query, positive, negative = triplets.T
        Q, V = X[query], X[positive]
        V -= X[negative]
        scores = np.einsum("ij,ij->i", Q @ W, V, dtype=np.float64)
        taus = np.zeros(len(Q), dtype=W.dtype)
        if in_order:
            products = Q @ Q.T
            products *= V @ V.T
            _oasis.solve_block(products, scores, aggressiveness, taus)
        else:
            norms = row_norms(Q, squared=True) * row_norms(V, squared=True)
            solve_apart(scores, norms, aggressiveness, taus)
        changed = np.flatnonzero(taus)
        n_updates += len(changed)
        Q, V = Q[changed] * taus[changed, None], V[changed]
        for rows in slices(len(W), ROWS_AT_ONCE):
            W[rows] += Q[:, rows].T @ V
    return n_updates


def solve_apart(
    scores: npt.NDArray[np.float64],
    norms: FloatArray,
    aggressiveness: float,
    taus: FloatArray,
) -> None:
    """Set each step from its own score alone.

    Parameters
    ----------
    scores, norms : ndarray of shape (n_triplets,)
        q'W(p - n), and |q|^2 |p - n|^2.
    aggressiveness : float
        C.
    taus : ndarray of shape (n_triplets,)
        Changed in place.
    """
    loss = 1 - scores
    taus[:] = 0
    np.divide(loss, norms, out=taus, where=(loss > 0) & (norms > 0), casting="same_kind")
    np.minimum(taus, aggressiveness, out=taus)
