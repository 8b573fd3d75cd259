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
    """The rows of a block of triplets, in arrays that later blocks use again.

    A packed block also has p - n rounded to 16 bits: a pass over W, which waits for memory, then
    reads a third less.
    """

    def __init__(self, n_features: int, dtype: npt.DTypeLike, is_packed: bool) -> None:
        self.n_triplets = self.n_entries = 0
        # Entries of the queries, triplet after triplet and row of W after row of W.
        self.query_start = np.zeros(1, dtype=np.intp)
        self.query_columns = np.empty(1, dtype=np.uint16)
        self.query_values = np.empty(1, dtype=dtype)
        self.row_start = np.zeros(n_features + 1, dtype=np.intp)
        self.row_triplets = np.empty(1, dtype=np.int32)
        self.row_weights = np.empty(1, dtype=dtype)
        # Entries of v = p - n, in chunks of 8.
        self.start = np.empty(1, dtype=np.intp)
        self.count = np.empty(1, dtype=np.int32)
        self.columns = np.empty(8, dtype=np.uint16)
        self.values = np.empty(8, dtype=dtype)
        # The values in 16 bits, in units of `scale`.
        self.is_packed = is_packed
        self.packed = np.empty(8, dtype=np.int16)
        self.scale = np.ones(1)
        # |V|^2 and tau.
        self.norms = np.empty(1)
        self.step = np.empty(1)
        self._places = np.empty(n_features, dtype=np.intp)

    def load(self, X: Any, triplets: Triplets) -> None:
        """Copy the rows of the triplets out of `X`, canonical CSR."""
        lengths = X.indptr[triplets + 1] - X.indptr[triplets]
        m, n_query_entries = len(triplets), int(lengths[:, 0].sum())
        n_entries_at_most = int(((lengths[:, 1] + lengths[:, 2] + 7) // 8 * 8).sum())
        self.n_triplets = m
        self.query_start = np.empty(m + 1, dtype=np.intp)
        self._reserve(
            n_query_entries, "query_columns", "query_values", "row_triplets", "row_weights"
        )
        self._reserve(n_entries_at_most, "columns", "values")
        self._reserve(m, "start", "count", "norms", "step")
        self.n_entries = _oasis_blocks.load(X.data, X.indices, X.indptr, triplets, self)
        if self.is_packed:
            self._reserve(n_entries_at_most, "packed")
            self._reserve(m, "scale")
            _oasis_blocks.pack(self, self.values, self.packed, self.scale)
        _oasis_blocks.sort_by_row(self, self.query_values, self._places)

    def solve_apart(self, scores: Scores, aggressiveness: float) -> int:
        """Find each step from its own score alone; count the updates.

        Scores and steps of a packed block are in units of `scale`.
        """
        m = len(scores)
        scale = self.scale[:m] if self.is_packed else 1.0
        step = self.step[:m]
        solve_apart(scale * scores, self.norms[:m], aggressiveness, step)
        n_updates = int(np.count_nonzero(step))
        step *= scale
        return n_updates

    def parts(self) -> list[tuple[int, int]]:
        """Cut the rows of W into parts with about equally many entries of the queries."""
        d, n_entries = len(self.row_start) - 1, int(self.row_start[-1])
        n_parts = min(MOST_PARTS, 1 + n_entries // ENTRIES_PER_PART)
        shares = np.linspace(0, n_entries, n_parts + 1)[1:-1]
        cuts = [0, *np.searchsorted(self.row_start[:-1], shares).tolist(), d]
        return [(first, stop) for first, stop in pairwise(cuts) if first < stop]

    def _reserve(self, size: int, *names: str) -> None:
        """Make these arrays `size` long at least; their content is lost."""
        for name in names:
            array = getattr(self, name)
            if len(array) < size:
                setattr(self, name, np.empty(size + size // 8, dtype=array.dtype))


class OrderedSolver:
    """Finds the steps of a block as if each were applied before the next.

    Its work space are lists: for each feature, the steps so far whose q, or p - n, has it.
    """

    def __init__(self, n_features: int, dtype: npt.DTypeLike) -> None:
        self._start = np.empty((2, n_features + 1), dtype=np.intp)
        self._length = np.empty((2, n_features), dtype=np.int32)
        self._members = np.empty((2, 0), dtype=np.uint16)
        self._values = np.empty((2, 0), dtype=dtype)
        self._products = np.empty(0, dtype=dtype)

    def solve(self, block: Block, scores: Scores, aggressiveness: float) -> int:
        """Set the steps of `block` from its scores against the W before it; count the updates."""
        # Each list is filled up to chunks of 8.
        size = max(block.n_entries, len(block.query_values)) + 8 * self._length.shape[1]
        if self._members.shape[1] < size:
            self._members = np.empty((2, size), dtype=np.uint16)
            self._values = np.empty((2, size), dtype=self._values.dtype)
        if len(self._products) < block.n_triplets:
            self._products = np.empty(block.n_triplets, dtype=self._products.dtype)
        lists = self._start, self._length, self._members, self._values, self._products
        return int(_oasis_blocks.solve_in_order(block, scores, aggressiveness, *lists))


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
    solver = OrderedSolver(len(W), W.dtype) if in_order else None
    is_packed = W.dtype == np.float32 and not in_order
    done, following, spare = (Block(len(W), W.dtype, is_packed) for _ in range(3))
    n_updates = 0
    pool = ThreadPoolExecutor(n_threads)

    def load(block: Block) -> bool:
        triplets = next(batches, None)
        if triplets is None:
            return False
        block.load(X, triplets)
        return True

    def go_over(part: tuple[int, int]) -> Scores:
        """Apply the steps of `done` to a part of W; return what it adds to the next scores."""
        scores = np.zeros(following.n_triplets)
        _oasis_blocks.pass_over_rows(W, *part, done, following, scores)
        return scores

    try:
        more = load(following)
        while more:
            parts = following.parts()
            in_threads = len(parts) > 1
            loading = pool.submit(load, spare) if in_threads else None
            added = pool.map(go_over, parts) if in_threads else map(go_over, parts)
            scores = sum(added, np.zeros(following.n_triplets))
            if solver is not None:
                n_updates += solver.solve(following, scores, aggressiveness)
            else:
                n_updates += following.solve_apart(scores, aggressiveness)
            more = loading.result() if loading else load(spare)
            done, following, spare = following, spare, done
        following = Block(len(W), W.dtype, is_packed)
        list(pool.map(go_over, done.parts()))
    finally:
        pool.shutdown(cancel_futures=True)
    return n_updates
