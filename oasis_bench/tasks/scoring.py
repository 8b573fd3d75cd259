"""Scores of sparse gallery rows, by the compiled kernel on all cores.

Not for dense gallery rows, which BLAS scores, and not for ranking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import canonical_csr
from oasis_bench.system import side_by_side, slices
from oasis_bench.tasks._ranking import QUERY_GROUP_BYTES, score_csr

FloatArray = npt.NDArray[np.floating]

GALLERY_ROWS = 16_384
"""Gallery rows that one thread scores at a stretch: some milliseconds of work."""

QUERY_ROWS = 16
"""Queries that one thread projects at a stretch."""


def project(queries: Any, W: FloatArray) -> FloatArray:
    """Return queries @ W (n_queries, n_columns); sparse queries on all cores."""
    if not sparse.issparse(queries):
        return np.asarray(queries @ W)
    rows = canonical_csr(queries)
    parts = list(slices(rows.shape[0], QUERY_ROWS))
    return np.concatenate(side_by_side(lambda part: rows[part] @ W, parts))


def score_sparse(projected: FloatArray, gallery: Any, scores: FloatArray) -> None:
    """Write ``projected @ gallery.T`` to `scores`, on all cores.

    A score is the sum over a gallery row's entries in their order, the same whatever the blocks
    and the number of threads: equal rows have equal scores.

    Parameters
    ----------
    projected : ndarray of shape (n_queries, n_features)
        q'W of each query.
    gallery : CSR of shape (n_gallery, n_features)
    scores : ndarray of shape (n_queries, n_gallery), float32 or float64
        Written to; each row contiguous.

    Raises
    ------
    ValueError
        Where the gallery is not valid CSR: the kernel would read outside its arrays.
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
        raise ValueError(
            f"the gallery is not valid CSR: columns {indices.min()} to {indices.max()} of "
            f"{gallery.shape[1]}"
        )
    return data, indices.astype(np.int32, copy=False), indptr
