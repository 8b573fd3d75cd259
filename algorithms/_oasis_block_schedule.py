"""OASIS steps in blocks: one pass over W for many triplets, in their order or as a mini-batch.

A single step (`_oasis_steps.pyx`) reads and writes a few numbers here and there in W, most of them
from main memory.  A block goes over W row by row: each row is fetched once, applies the steps of
the block before and scores the triplets of this one.  Scores against the W before the block are
then made exact: step u adds tau_u (q_t . q_u)(v_u . v_t) to the score of a later triplet t,
v = p - n, and few pairs share features.  The numbers are those of single steps up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import oasis_bench.algorithms._oasis_blocks as _oasis_blocks
from oasis_bench.algorithms._oasis_dense_steps import solve_apart
from oasis_bench.data import FloatArray

MAX_FEATURES = 2**16
"""Features are kept in 16 bits, which halves what a pass reads."""

MOST_PARTS, ENTRIES_PER_PART = 16, 8192
"""Parts of W that threads take in turn, and the queries' entries that are worth one: 8192 take
about a millisecond.  Scores are summed part by part: the number of threads changes no result."""

SMALLEST, LARGEST = 256, 4096
"""Triplets in a block of steps in order: with fewer, single steps are faster; with more, what a
block copies leaves the cache."""

CACHED_BYTES = 16 * 2**20
"""A W of up to this size stays in the caches: single steps are faster.  Measured: up to 32 MiB on
an EPYC with a cache of this size, up to 6 MiB on a Xeon, on which this is too much."""

Triplets: TypeAlias = "npt.NDArray[np.intp]"
Scores: TypeAlias = "npt.NDArray[np.float64]"


class Block:
    """The rows of a block of triplets, copied out of `X`, canonical CSR, and what a pass makes.

    A packed block also has p - n rounded to 16 bits: a pass over W, which waits for memory, then
    reads a third less.
    """

    def __init__(self, X: Any, triplets: Triplets, is_packed: bool) -> None:
        lengths = X.indptr[triplets + 1] - X.indptr[triplets]
        d, m, n_query_entries = X.shape[1], len(triplets), int(lengths[:, 0].sum())
        n_entries_at_most = int(((lengths[:, 1] + lengths[:, 2] + 7) // 8 * 8).sum())
        self.n_triplets = m
        # Entries of the queries, triplet after triplet and row of W after row of W.
        self.query_start = np.empty(m + 1, dtype=np.intp)
        self.query_columns = np.empty(n_query_entries, dtype=np.uint16)
        self.query_values = np.empty(n_query_entries, dtype=X.dtype)
        self.row_start = np.empty(d + 1, dtype=np.intp)
        self.row_triplets = np.empty(n_query_entries, dtype=np.int32)
        self.row_weights = np.empty(n_query_entries, dtype=X.dtype)
        # Entries of v = p - n, in chunks of 8.
        self.start = np.empty(m, dtype=np.intp)
        self.count = np.empty(m, dtype=np.int32)
        self.columns = np.empty(n_entries_at_most, dtype=np.uint16)
        self.values = np.empty(n_entries_at_most, dtype=X.dtype)
        # |V|^2 and tau.
        self.norms, self.step = np.empty((2, m))
        self.n_entries = _oasis_blocks.load(X.data, X.indices, X.indptr, triplets, self)
        # The values in 16 bits, in units of `scale`.
        self.is_packed = is_packed
        self.packed = np.empty(n_entries_at_most if is_packed else 0, dtype=np.int16)
        self.scale = np.ones(m)
        if is_packed:
            _oasis_blocks.pack(self, self.values, self.packed, self.scale)
        _oasis_blocks.sort_by_row(self, self.query_values, np.empty(d, dtype=np.intp))

    def solve_apart(self, scores: Scores, aggressiveness: float) -> int:
        """Find each step from its own score alone; count the updates.

        Scores and steps of a packed block are in units of `scale`.
        """
        self.step = solve_apart(self.scale * scores, self.norms, aggressiveness)
        n_updates = int(np.count_nonzero(self.step))
        self.step *= self.scale
        return n_updates

    def solve_in_order(self, scores: Scores, aggressiveness: float) -> int:
        """Find the steps as if each were applied before the next; count the updates.

        The work space are lists: for each feature, the steps so far whose q, or p - n, has it, up
        to chunks of 8.
        """
        d, dtype = len(self.row_start) - 1, self.values.dtype
        size = max(self.n_entries, len(self.query_values)) + 8 * d
        return int(
            _oasis_blocks.solve_in_order(
                self,
                scores,
                aggressiveness,
                np.empty((2, d + 1), dtype=np.intp),
                np.empty((2, d), dtype=np.int32),
                np.empty((2, size), dtype=np.uint16),
                np.empty((2, size), dtype=dtype),
                np.empty(self.n_triplets, dtype=dtype),
            )
        )

    def parts(self) -> list[tuple[int, int]]:
        """Cut the rows of W into parts with about equally many entries of the queries."""
        d, n_entries = len(self.row_start) - 1, int(self.row_start[-1])
        n_parts = min(MOST_PARTS, 1 + n_entries // ENTRIES_PER_PART)
        shares = np.linspace(0, n_entries, n_parts + 1)[1:-1]
        cuts = [0, *np.searchsorted(self.row_start[:-1], shares).tolist(), d]
        return [(first, stop) for first, stop in pairwise(cuts) if first < stop]


def block_size(X: Any, queries: npt.NDArray[np.intp]) -> int:
    """Return how many triplets a block of steps in order should have, or 0: take single steps.

    A block reads and writes d^2 numbers and, for each pair of its triplets, the features that their
    queries share: the best size grows with d over the root of that number (measured on rows of 70
    non-zeros: 256 at d = 1500, 1200 at d = 4000, 4096 at d = 10 000).

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
    queries : ndarray of shape (n_triplets,)
        Row numbers; the first thousand are looked at.
    """
    d = X.shape[1]
    sample = queries[:1000]
    if d > MAX_FEATURES or d**2 * X.dtype.itemsize <= CACHED_BYTES or len(queries) < SMALLEST:
        return 0
    shares = np.bincount(X[sample].indices, minlength=d) / len(sample)
    size = d / np.sqrt(max((shares**2).sum(), 1e-3))
    return int(np.clip(0.6 * size, SMALLEST, LARGEST)) if size >= SMALLEST else 0


def learn_in_blocks(
    X: Any,
    batches: Iterator[Triplets],
    aggressiveness: float,
    W: FloatArray,
    in_order: bool,
    n_threads: int,
) -> int:
    """Learn from batches of triplets with one pass over W a batch, and return the updates.

    Parameters
    ----------
    X : CSR of shape (n_rows, n_features)
        Canonical; at most `MAX_FEATURES` features.
    batches : iterator of arrays of shape (n_triplets, 3)
        At most 65 536 triplets each where they are in order.
    aggressiveness : float
        C.
    W : ndarray of shape (n_features, n_features)
        Changed in place; of the type of `X`.
    in_order : bool
        Whether a step sees those before it of the same batch, as OASIS does, or only the W before
        the batch.
    n_threads : int
        The result does not depend on it.

    Returns
    -------
    int
    """
    solve = Block.solve_in_order if in_order else Block.solve_apart
    is_packed = W.dtype == np.float32 and not in_order
    done = nothing = Block(X, np.empty((0, 3), dtype=np.intp), is_packed)
    n_updates = 0
    pool = ThreadPoolExecutor(n_threads)

    def load() -> Block | None:
        triplets = next(batches, None)
        return None if triplets is None else Block(X, triplets, is_packed)

    def go_over(part: tuple[int, int]) -> Scores:
        """Apply the steps of `done` to a part of W; return what it adds to the next scores."""
        scores = np.zeros(following.n_triplets)
        _oasis_blocks.pass_over_rows(W, *part, done, following, scores)
        return scores

    try:
        loaded = load()
        while loaded is not None:
            following = loaded
            parts = following.parts()
            in_threads = len(parts) > 1
            loading = pool.submit(load) if in_threads else None
            added = pool.map(go_over, parts) if in_threads else map(go_over, parts)
            scores = sum(added, np.zeros(following.n_triplets))
            n_updates += solve(following, scores, aggressiveness)
            done, loaded = following, loading.result() if loading else load()
        following = nothing
        list(pool.map(go_over, done.parts()))
    finally:
        pool.shutdown(cancel_futures=True)
    return n_updates
