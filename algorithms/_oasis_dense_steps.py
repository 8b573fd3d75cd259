"""Quicker ways to the W of OASIS: dense rows in blocks, and few rows in their dual form.

Blocks are three matrix products for many triplets, in their order.

A single step (`_oasis_steps.pyx`) reads W for its score and changes it for its update: on dense
rows it waits for W, which leaves the caches near a core.  A block of triplets with queries Q and
V = P - N has the scores diag(Q W V') against the W before it.  They are made exact in order,

    s_t += sum_{u < t} tau_u (q_t . q_u)(v_t . v_u),

and W gets Q' diag(tau) V at once.  The products are BLAS's, in one thread: they are small, and more
threads wait for each other.  The numbers are those of single steps up to rounding.

The dual form: a step costs n_rows numbers, whatever d is.

The steps of a call add to W what the rows span: W = W_0 + X'AX, where a step with rows q, p, n adds
tau to A[q, p] and takes it from A[q, n].  With the Gram matrix K = XX' a score is

    q'W(p - n) = q'W_0(p - n) + K_q . (D_p - D_n),     D = (AK)',

and a step changes one number in each row b of D: D[b, q] += tau (K[b, p] - K[b, n]).  Row b of D is
brought up to date when row b is next a positive or a negative.  So a step goes over five rows of
n numbers that lie together, where W would be read and written at nnz(q) nnz(p - n) places.
The numbers are those of single steps up to rounding, where rows differ by more than a small share
of their length: a score is made of differences between entries of K.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import row_norms

import oasis_bench.algorithms._oasis_steps as _oasis
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
docs/tables/speed.md.  Of 256 features it is 1.0 to 1.5."""

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
            if in_order:
                products = _cosines(Q, lengths[0])
                products *= _cosines(V, lengths[1])
                taus, sums = np.empty(len(Q)), np.empty(len(Q), dtype=W.dtype)
                _oasis.solve_block(products, scores, norms, aggressiveness, sums, taus)
            else:
                taus = solve_apart(scores, norms**2, aggressiveness)
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


def solve_apart(scores: Numbers, squared_norms: Numbers, aggressiveness: float) -> Numbers:
    """Return each step (n_triplets,) from its own score alone, with C.

    Scores are q'W(p - n), the norms |q|^2 |p - n|^2.
    """
    loss = 1 - scores
    taus = np.zeros_like(loss)
    np.divide(loss, squared_norms, out=taus, where=(loss > 0) & (squared_norms > 0))
    return np.minimum(taus, aggressiveness, out=taus)


WORK_BYTES = 64 * 2**20
"""What K, D and products with the rows may take beside W."""

COLUMNS = 64
"""Columns of W that are brought up to date at a time."""

LEAST_SPREAD = 0.05
"""Share of the rows' mean squared length that their variance must have.

With less, K has too few digits of the differences between rows: measured, a share of 0.0001 leaves
2 digits in float32 and 10 in float64.
"""

CLOSE = 0.01
"""Where |p - n|^2 is less than this share of |p|^2 + |n|^2, it comes from the rows, not from K."""

CLOSE_NUMBERS = 2**20
"""Entries of such rows that are formed at a time."""


def dual_pays(X: Any, n_triplets: int) -> bool:
    """Tell whether steps in the dual form are as exact as steps on W, and take less time.

    The seconds are estimates from one core of a Xeon of 2023, and those of float64 on W from an
    EPYC beside other work; a wrong estimate costs time, not accuracy.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    n_triplets : int
        Steps after which W must be up to date.
    """
    (n, d), size = X.shape, X.dtype.itemsize
    if 2 * n * (n + d) * size > WORK_BYTES:  # K, D, rows and their changes
        return False
    is_dense = isinstance(X, np.ndarray)
    n_entries = np.count_nonzero(X[:ROWS_COUNTED]) / min(n, ROWS_COUNTED) if is_dense else X.nnz / n
    picked, passed = 8e-10 * size * n_entries, (5e-11 + 7.5e-12 * size) * d  # one row of W by p - n
    step = 2 * n_entries * (passed if is_dense else min(picked, passed))
    if is_dense and dense_blocks_pay(X, n_triplets):
        step /= GAIN
    dual_step = 2e-9 * n + 2e-13 * size * n**2
    products = 2 * (n + d) * n * min(3e-12 * size * d, 7e-10 * n_entries)
    is_quicker = products + n_triplets * dual_step < 0.8 * n_triplets * step
    return bool(is_quicker) and _spread(X) > LEAST_SPREAD


def _spread(X: Any) -> float:
    """Return the variance of the rows over their mean squared length; 0 where all are 0."""
    squared = row_norms(X, squared=True).mean(dtype=np.float64)
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    return float(1 - mean @ mean / squared) if squared > 0 else 0.0


def learn_in_dual(X: Any, triplets: Triplets, aggressiveness: float, W: FloatArray) -> int:
    """Apply triplets to `W` in their order, as single steps would; count the updates.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3)
    aggressiveness : float
        C.
    W : ndarray of shape (n_features, n_features)
        Changed in place; of the type of `X`.
    """
    n, m = X.shape[0], len(triplets)
    is_thin = not isinstance(X, np.ndarray) and X.nnz < 0.02 * X.shape[0] * X.shape[1]
    rows: Any = X if is_thin or isinstance(X, np.ndarray) else X.toarray()  # for quicker products
    product = rows @ rows.T
    K: FloatArray = product.toarray() if is_thin else product
    D = np.zeros_like(K)
    is_identity = (W.diagonal() == 1).all() and np.count_nonzero(W) == len(W)
    S = K if is_identity else (rows @ (rows @ W).T).T
    query, positive, negative = triplets.T
    n_updates = _oasis.step_dual(
        K,
        triplets,
        S[query, positive].astype(np.float64) - S[query, negative],
        _squared_norms(X, K, triplets),
        aggressiveness,
        D,
        np.empty((3, m), dtype=np.int32),
        np.empty(m, dtype=K.dtype),
        np.zeros(n, dtype=np.intp),
    )
    changes = D @ rows  # D holds A now
    for part in slices(W.shape[1], COLUMNS):
        W[:, part] += rows.T @ np.ascontiguousarray(changes[:, part])
    return int(n_updates)


def _squared_norms(X: Any, K: FloatArray, triplets: Triplets) -> Numbers:
    """Return |q|^2 |p - n|^2 of each triplet."""
    q, p, n = triplets.T
    squared = K.diagonal().astype(np.float64)
    both = squared[p] + squared[n]
    gaps = both - 2.0 * K[p, n]
    close = np.flatnonzero(gaps <= CLOSE * both)
    for part in slices(len(close), max(1, CLOSE_NUMBERS // X.shape[1])):
        some = close[part]
        gaps[some] = row_norms(X[p[some]] - X[n[some]], squared=True)
    return np.asarray(squared[q] * gaps)
