"""Positivity of a matrix: its projection on the PSD cone as a factor L.

The one home of this for all learners; not for distances or similarities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh, get_lapack_funcs, qr

from oasis_bench.data import FloatArray, symmetric_part

MATRICES_OF_PSD_FACTOR = 3
"""Matrices of the shape of W that `psd_factor` holds at once beside W: divide and conquer, LAPACK's
driver 'evd', works in two.  It is up to four times as fast as the default, which takes none, where
many eigenvalues are 1, and five times as exact."""

PROBES, NEGLIGIBLE = 8, 1000.0
"""Directions outside of a span that tell whether W - I has a part there: more than so many times
the rounding error."""


def psd_factor(W: FloatArray, rows: Any = None) -> FloatArray:
    """Factor the projection of W on the cone of positive semi-definite (PSD) matrices.

    L = diag(sqrt(eigenvalues)) V' over the positive eigenvalues of the symmetric part of W, the
    largest first: L'L is the PSD matrix nearest to W in the Frobenius norm.  Where W is the
    identity outside of what `rows` span, and they are at most half as many as features, eigenvalues
    are sought in the span alone.
    """
    if rows is not None and 2 * rows.shape[0] <= len(W):
        found = _psd_factor_in_span(W, rows)
        if found is not None:
            return found
    # The transpose is the same matrix in the order of LAPACK, which then needs no copy.
    values, vectors = eigh(symmetric_part(W).T, overwrite_a=True, driver="evd")
    order = np.flatnonzero(values > 0)[::-1]
    factor = vectors.T[order]
    factor *= np.sqrt(values[order])[:, None]
    return factor


def _psd_factor_in_span(W: FloatArray, rows: Any) -> FloatArray | None:
    """Return `psd_factor` of a W that is the identity outside of what rows span, else None."""
    X: Any = rows if isinstance(rows, np.ndarray) else rows.toarray()
    n, d = X.shape
    (reflectors, tau), _ = qr(X.T.astype(W.dtype), mode="raw", overwrite_a=True, check_finite=False)
    multiply: Any = get_lapack_funcs("ormqr", (reflectors,))

    def turned(vectors: FloatArray) -> FloatArray:
        """Return Q times columns, in their place: the first n of Q span the rows."""
        return np.asarray(multiply("L", "N", reflectors, tau, vectors, 64 * d, overwrite_c=True)[0])

    def columns(n_columns: int) -> FloatArray:
        return np.zeros((d, n_columns), W.dtype, order="F")

    probes, basis = columns(PROBES), columns(n)
    probes[n:] = np.random.RandomState(0).normal(size=(d - n, PROBES))
    np.fill_diagonal(basis, 1)
    basis = turned(basis)
    change = symmetric_part(W)
    change[np.diag_indices_from(change)] -= 1
    outside = np.linalg.norm(change @ turned(probes)) / np.sqrt(PROBES)
    if outside > NEGLIGIBLE * np.finfo(W.dtype).eps * np.linalg.norm(change):
        return None
    values, vectors = eigh(basis.T @ change @ basis, overwrite_a=True, driver="evd")
    del change
    kept = np.flatnonzero(values > -1)[::-1]
    vectors = vectors[:, kept] * np.sqrt(1 + values[kept])
    n_longer = np.count_nonzero(values > 0)
    factor = columns(d - n + len(kept))
    ends = n_longer, n_longer + d - n  # of the eigenvalues above 1, and of those outside
    factor[:n, : ends[0]], factor[:n, ends[1] :] = np.split(vectors, [n_longer], axis=1)
    np.fill_diagonal(factor[n:, ends[0] : ends[1]], 1)
    return turned(factor).T
