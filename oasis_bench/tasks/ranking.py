"""Scores and rankings by a similarity: ranks of relevant items, the best k, all others in order.

There is one rule: higher scores come first and, within a tie, a random order that a seed fixes.
Scores are in memory for a block of queries at a time, never for all pairs.  Dense gallery rows are
scored by BLAS, sparse ones by the compiled kernel on all cores.  Relevance and averages are in
`oasis_bench.tasks.retrieval`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import FloatArray, canonical
from oasis_bench.system import Progress, UsageError, no_progress, side_by_side, slices
from oasis_bench.tasks._ranking import (
    QUERY_GROUP_BYTES,
    best,
    rank_relevant,
    score_csr,
    work_space_sizes,
)
from oasis_bench.tasks.groups import Groups

Numbers = npt.NDArray[np.intp]
Similarity = Callable[[Any, Any], FloatArray]
Result = TypeVar("Result")

BLOCK_BYTES = 256 * 2**20
"""Size of the scores that exist at once; a similarity may need as much again."""

PART_SCORES = 2**22
"""Scores that a thread ranks at a stretch: some tens of milliseconds of work."""


def top_k(
    similarity: Similarity,
    queries: Any,
    gallery: Any,
    k: int,
    seed: int,
    left_out: npt.ArrayLike | None = None,
    progress: Progress = no_progress,
) -> tuple[Numbers, FloatArray]:
    """Find, for each query, the k gallery rows of the highest scores.

    Parameters
    ----------
    similarity : callable
        ``similarity(queries, gallery)`` gives scores (n_queries, n_gallery): a fitted learner's
        method.
    queries, gallery : array or CSR of shape (n_queries, n_features), (n_gallery, n_features)
    k : int
    seed : int
        Decides the order within ties, and that in which the gallery is scored.
    left_out : array of shape (n_queries,), optional
        For each query a gallery row that is not ranked: the query itself, where it is one.
    progress : callable, default no_progress
        Called as ``progress('ranking', done, n_queries)`` after each block.

    Returns
    -------
    rows : ndarray of shape (n_queries, k)
        Numbers of gallery rows, best first.
    scores : ndarray of shape (n_queries, k)
        Their scores.

    Raises
    ------
    ValueError
        Where a similarity is NaN or not of its shape, or where `k` or `left_out` is out of bounds.
    """
    gallery, queries = as_items(gallery, queries)
    n_queries, n_gallery = queries.shape[0], gallery.shape[0]
    if left_out is None:
        missing = np.full(n_queries, -1, dtype=np.intp)
    else:
        missing = checked_rows(left_out, n_gallery)
    if not n_queries:
        raise UsageError("there are no queries: give at least one")
    if len(missing) != n_queries:
        raise ValueError(f"left_out names {len(missing)} rows for {n_queries} queries: one each")
    n_ranked = n_gallery - (left_out is not None)
    if not 1 <= k <= n_ranked:
        items = "items" if left_out is None else "other items"
        raise UsageError(
            f"k = {k}: the gallery has {n_ranked} {items}: give a number from 1 to {n_ranked}"
        )
    place = places(tie_order(seed, n_gallery))
    found: list[tuple[Numbers, FloatArray]] = []

    def take(start: int, scores: FloatArray) -> None:
        def rank(part: slice) -> tuple[Numbers, FloatArray]:
            skipped = missing[start + part.start : start + part.stop]
            rows = best_of(scores[part], skipped, place, k)
            return rows, np.take_along_axis(scores[part], rows, axis=1)

        found.extend(rank_in_parts(scores, rank))

    score_in_blocks(similarity, queries, np.arange(n_queries), gallery, take, progress, seed=seed)
    rows, scores = zip(*found, strict=True)
    return np.concatenate(rows), np.concatenate(scores)


def rank_others(
    scores: FloatArray, queries: Numbers, tie_order: Numbers, groups: Groups | None = None
) -> Numbers:
    """Rank, for each query, all other items by falling score.

    Parameters
    ----------
    scores : ndarray of shape (n_queries, n_items)
    queries : ndarray of shape (n_queries,)
        The number of each query among the items; it is left out of its own ranking.
    tie_order : ndarray of shape (n_items,)
        A permutation; items of equal score keep its order.
    groups : ndarray of shape (n_items,), optional
        The group of each item; the query's own group is left out, too.

    Returns
    -------
    ndarray of shape (n_queries, n_items - 1)
        Item numbers; -1 at the end of a row in place of the others of its query's group.

    Raises
    ------
    ValueError
        Where a score is NaN.
    """
    n_items = scores.shape[1]
    if len(queries) != len(scores) or len(tie_order) != n_items:
        given = f"{len(queries)} queries and {len(tie_order)} tie places"
        raise ValueError(f"{given} for scores of shape {scores.shape}")
    left_out = checked_rows(queries, n_items)
    found = best_of(kernel_ready(scores), left_out, places(tie_order), n_items - 1)
    if groups is not None:
        found[groups[found] == groups[queries][:, None]] = -1
        found = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), axis=1)
    return found


def score_in_blocks(
    similarity: Similarity,
    X: Any,
    rows: Numbers,
    gallery: Any,
    take: Callable[[int, FloatArray], object],
    progress: Progress = no_progress,
    seed: int = 0,
) -> None:
    """Score the rows ``X[rows]`` against a gallery, a block at a time, and give `take` the scores.

    `X` and the gallery come from `as_items`, in one call if they are the same.
    ``take(start, scores)`` gets those (n_block, n_gallery) of ``rows[start]`` and after, in the
    order of the gallery, and must not keep them.  The similarity gets the gallery in a random
    order: BLAS rounds the items at the end of a block otherwise, so that equal items would be
    ranked by class.
    """
    n_queries, n_gallery = len(rows), gallery.shape[0]
    size = block_size(n_gallery, getattr(X, "dtype", float))
    # A score of items of one number has no sum to round; and it may be looked up by that number.
    is_moved = not isinstance(gallery, np.ndarray) or np.prod(gallery.shape[1:]) != 1
    place = places(tie_order(seed, n_gallery)) if is_moved else None
    if place is not None:
        shuffled = take_items(gallery, np.argsort(place))
        if X is gallery:
            X, rows = shuffled, place[rows]
        gallery = shuffled
    similarity, X, gallery = _with_gallery_embedded(similarity, X, gallery)
    for block in slices(n_queries, size):
        scores = similarity(take_items(X, rows[block]), gallery)
        scores = kernel_ready(scores, (block.stop - block.start, n_gallery))
        if place is not None:
            scores = _columns(scores, place)
        take(block.start, scores)
        del scores  # before the next block is scored
        progress("ranking", block.stop, n_queries)


def as_items(*given: Any) -> tuple[Any, ...]:
    """Return items that can be taken by their numbers, sparse rows without repeated entries."""
    known = {id(X): canonical(X) if hasattr(X, "shape") else np.asarray(X) for X in given}
    return tuple(known[id(X)] for X in given)


def take_items(items: Any, numbers: Numbers) -> Any:
    """Return the items of these numbers, in their order."""
    return items.iloc[numbers] if hasattr(items, "iloc") else items[numbers]


def _columns(scores: FloatArray, numbers: Numbers) -> FloatArray:
    """Return the columns of these numbers, in their order, taken on all cores."""
    taken = np.empty_like(scores)
    rank_in_parts(
        scores, lambda part: scores[part].take(numbers, axis=1, out=taken[part], mode="clip")
    )
    return taken


def _with_gallery_embedded(
    similarity: Similarity, X: Any, gallery: Any
) -> tuple[Similarity, Any, Any]:
    """Return what to score in place of items: a learner's `similarity` embeds both sides anew.

    Where the similarity is of a learner with an embedding, the gallery is embedded, or checked,
    once and not once a block; of other queries each block is.
    """
    learner: Any = getattr(similarity, "__self__", None)
    if not getattr(learner, "has_embedding", False) or similarity != learner.similarity:
        return similarity, X, gallery
    score, embedded = learner.finite_scores, learner.embed(gallery)
    if X is gallery:
        return score, embedded, embedded
    return lambda queries, _: score(learner.embed(queries), embedded), X, embedded


def rank_in_parts(scores: FloatArray, rank: Callable[[slice], Result]) -> list[Result]:
    """Return ``rank(part)`` of each part of the rows of scores, in order, done on all cores."""
    return side_by_side(rank, list(slices(len(scores), max(1, PART_SCORES // scores.shape[1]))))


def block_size(n_gallery: int, dtype: npt.DTypeLike, n_bytes: int | None = None) -> int:
    """Return how many queries to score at once, so that the scores take at most `n_bytes`.

    By default these are `BLOCK_BYTES`.

    A number above the group size of the sparse kernel is rounded down to whole groups.
    """
    number_bytes = 4 if dtype == np.float32 else 8
    n_queries = max(1, (n_bytes or BLOCK_BYTES) // (number_bytes * n_gallery))
    group = QUERY_GROUP_BYTES // number_bytes
    return n_queries - n_queries % group if n_queries > group else n_queries


def kernel_ready(
    scores: FloatArray, shape: tuple[int, int] | None = None, method: str = "similarity"
) -> FloatArray:
    """Return scores, of a shape if given, as kernels take them: float32 or float64, by rows.

    `method` is the name of the method that returned them.
    """
    found = getattr(scores, "shape", None)
    if shape and found != shape:
        what = f"a {type(scores).__name__}" if found is None else f"an array of shape {found}"
        raise ValueError(
            f"{method} returned {what}: {shape} is needed, for {shape[0]} queries and {shape[1]} "
            "items of the gallery"
        )
    if scores.dtype.kind == "c":
        raise ValueError("the scores are complex numbers, which have no order: return real ones")
    return np.ascontiguousarray(scores, np.float32 if scores.dtype == np.float32 else np.float64)


def best_of(scores: FloatArray, left_out: Numbers, place: Numbers, k: int) -> Numbers:
    """Return the columns of the k highest scores of each row, best first (n_rows, k).

    `left_out` holds for each row a column that is not ranked, or -1; `place` as from `places`.
    """
    found = np.empty((len(scores), k), dtype=np.intp)
    if k == 0:
        return found
    refuse_nan(best(scores, left_out, place, found), scores)
    return found


def relevant_ranks(
    scores: FloatArray, left_out: sparse.csr_array, place: Numbers, relevant: sparse.csr_array
) -> Numbers:
    """Return the ranks, from 1, of the relevant items of each query among all others (nnz,).

    `left_out` (n_queries, n_items) has an entry for each item that is not ranked, such as the query
    itself.  `relevant`, of the same shape, has one for each relevant item, one or more for a query,
    and none in the place of one of `left_out`.  The ranks of query i are at
    ``relevant.indptr[i]:relevant.indptr[i + 1]``, ascending.  `place` comes from `places`.
    """
    out_indptr, out = (part.astype(np.intp) for part in (left_out.indptr, left_out.indices))
    indptr, columns = (part.astype(np.intp) for part in (relevant.indptr, relevant.indices))
    most = int(np.diff(indptr).max())
    n_cells, n_borders = work_space_sizes(most)
    ranks = np.empty(len(columns), dtype=np.intp)
    undefined = rank_relevant(
        scores,
        out_indptr,
        out,
        place,
        indptr,
        columns,
        np.empty(most, scores.dtype),
        np.empty(most, np.intp),
        np.empty(most + 1, np.intp),
        np.empty(n_cells, np.int32),
        np.empty(n_borders, np.int32),
        ranks,
    )
    refuse_nan(undefined, scores)
    return ranks


@lru_cache(maxsize=2)
def tie_order(seed: int, n_items: int) -> Numbers:
    """Draw the order of items within a tie: a permutation of their numbers, read-only."""
    order = np.random.default_rng(seed).permutation(n_items).astype(np.intp)
    order.flags.writeable = False
    return order


def places(tie_order: Numbers) -> Numbers:
    """Return the place of each item in the order of ties."""
    place = np.empty(len(tie_order), dtype=np.intp)
    place[tie_order] = np.arange(len(tie_order))
    return place


def checked_rows(rows: npt.ArrayLike, n_rows: int) -> Numbers:
    """Return row numbers as an array; raise ValueError where one is not 0 to `n_rows` - 1."""
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"row numbers of shape {numbers.shape} and type {numbers.dtype}: integers are needed"
        )
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n_rows:
        raise ValueError(
            f"row numbers {numbers.min()} to {numbers.max()}: 0 to {n_rows - 1} is needed"
        )
    return numbers.astype(np.intp)


def refuse_nan(undefined: int, scores: FloatArray, method: str = "similarity") -> None:
    """Raise ValueError where so many of the scores that a method returned are NaN."""
    if undefined:
        raise ValueError(
            f"{method} returned NaN for {undefined} of {scores.size} pairs: NaN has no rank"
        )


GALLERY_ROWS = 16_384
"""Gallery rows that one thread scores at a stretch: some milliseconds of work."""

QUERY_ROWS = 16
"""Queries that one thread projects at a stretch."""


def project(queries: Any, W: FloatArray) -> FloatArray:
    """Return queries @ W (n_queries, n_columns); sparse queries on all cores."""
    if not sparse.issparse(queries):
        return np.asarray(queries @ W)
    rows = canonical(queries)
    parts = list(slices(rows.shape[0], QUERY_ROWS))
    return np.concatenate(side_by_side(lambda part: rows[part] @ W, parts))


def score_bilinear(queries: Any, W: FloatArray, gallery: Any, scores: FloatArray) -> None:
    """Write ``queries @ W @ gallery.T`` to `scores` (n_queries, n_gallery)."""
    projected = project(queries, W)
    if sparse.issparse(gallery):
        score_sparse(projected, gallery, scores)
    else:
        np.matmul(projected, gallery.T, out=scores, casting="same_kind")


def score_sparse(projected: FloatArray, gallery: Any, scores: FloatArray) -> None:
    """Write ``projected @ gallery.T`` to `scores` (n_queries, n_gallery), on all cores.

    `projected` is q'W (n_queries, n_features).  A score is the sum over a gallery row's entries in
    their order, whatever the blocks and threads: equal rows have equal scores.
    """
    groups = _grouped(projected, scores.dtype)
    width = groups.shape[2]

    def score(rows: slice) -> None:
        data, indices, indptr = _entries(gallery, rows)
        data = data.astype(scores.dtype, copy=False)
        for number, group in enumerate(groups):
            queries = slice(number * width, (number + 1) * width)
            score_csr(data, indices, indptr, group, scores[queries, rows])

    side_by_side(score, list(slices(gallery.shape[0], GALLERY_ROWS)))


def _grouped(projected: FloatArray, dtype: npt.DTypeLike) -> FloatArray:
    """Lay queries out as (n_groups, n_features, width), filled up with zeros."""
    n_queries, n_features = projected.shape
    width = QUERY_GROUP_BYTES // np.dtype(dtype).itemsize
    groups = np.zeros((-(-n_queries // width), n_features, width), dtype=dtype)
    for number, group in enumerate(groups):
        members = projected[number * width : (number + 1) * width]
        group[:, : len(members)] = members.T
    return groups


def _entries(
    gallery: Any, rows: slice
) -> tuple[FloatArray, npt.NDArray[np.int32], npt.NDArray[np.intp]]:
    """Return the parts of some CSR rows, checked: the values, their columns, where rows begin.

    scipy checks these arrays only when a matrix is made, and they may have changed since.  The
    check costs little here: it loads what the kernel reads next into the cache.
    """
    indptr = gallery.indptr[rows.start : rows.stop + 1].astype(np.intp)
    entries = slice(max(0, indptr[0]), indptr[-1])
    data, indices = gallery.data[entries], gallery.indices[entries]
    indptr -= indptr[0]
    if (np.diff(indptr) < 0).any() or not len(data) == len(indices) == indptr[-1]:
        raise ValueError("the gallery is not valid CSR: its indptr does not fit its entries")
    if len(indices) and not 0 <= indices.min() <= indices.max() < gallery.shape[1]:
        held = f"columns {indices.min()} to {indices.max()} of {gallery.shape[1]}"
        raise ValueError(f"the gallery is not valid CSR: {held}")
    return data, indices.astype(np.int32, copy=False), indptr
