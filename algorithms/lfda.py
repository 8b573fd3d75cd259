"""LFDA: Fisher's discriminant with neighbours of a class weighing most (Sugiyama 2007)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from oasis_bench.algorithms.axes import AXES_GRID, WithinClassLearner, rounding, whitening
from oasis_bench.algorithms.base import Count
from oasis_bench.data import FloatArray
from oasis_bench.plugins import blocks
from oasis_bench.system import shared


class LFDA(WithinClassLearner):
    r"""Local Fisher discriminant analysis, with weighted eigenvectors.

    Let n_k be the number of rows in class k, and s_i the distance of row i to its `n_neighbors`-th
    nearest row of the same class.  Pairs of one class have the affinity

    .. math:: A_{ij} = \exp(-\|x_i - x_j\|^2 / (s_i s_j)) .

    The scatters within and between classes are

    .. math::

        S_w = \frac12 \sum_{y_i = y_j} \frac{A_{ij}}{n_{y_i}} z z^\top , \qquad
        S_b = \frac12 \sum_{y_i = y_j} A_{ij} \Big(\frac1n - \frac1{n_{y_i}}\Big) z z^\top
            + \frac12 \sum_{y_i \ne y_j} \frac1n z z^\top , \qquad z = x_i - x_j .

    The rows of L are the generalised eigenvectors v of S_b v = a S_w v with v'S_w v = 1, times
    the square root of their eigenvalue a.  If there are few rows, they are first projected on
    their principal axes, as for RCA, because S_w would be singular.

    Differences from metric-learn 0.7.0.  Its s_i is not the distance of i to any particular
    neighbour (it takes a column of the sorted distances instead of a row).  It adds S_w to S_b
    instead of subtracting it.  After a small class it lowers `n_neighbors` for all later classes.
    If S_w is singular, it gives NaN or complex numbers.

    Time n d min(n, d) + sum over classes of n_k^2 min(n, d), memory 3 n d + 4 min(n, d)^2
    numbers and a few blocks of 64 MiB.

    Parameters
    ----------
    n_components : int or None, default None
        The number of eigenvectors, those with the largest eigenvalues first.  None: all, as in the
        author's LFDA.m.
    n_neighbors : int, default 7
        The number of the neighbour that scales the affinity.  In a smaller class it is the farthest
        row.
    n_axes : int or None, default None
        The number of principal axes used for learning, those of largest variance first; at most the
        rank of the rows.  None, with n rows in c classes: (n - c) // 2, or all axes if these are
        fewer.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int

    References
    ----------
    Sugiyama (2007), Dimensionality Reduction of Multimodal Labeled Data by Local Fisher
    Discriminant Analysis, JMLR 8.
    """

    name: ClassVar = "LFDA"
    summary: ClassVar = "local Fisher discriminant analysis"
    citation: ClassVar = "Sugiyama, JMLR 8 (2007)"
    cost: ClassVar = "time n d min(n, d) + d n^2 / classes, memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        "n_axes": AXES_GRID,
        "n_components": (None, 1, 2, 4, 8, 16, 32, 64),  # the paper shows 1 and 2; all: LFDA.m
    }

    n_components: Count | None = None
    n_neighbors: Count = 7

    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        values, vectors, whitened = shared(
            _discriminants, rows, classes, directions, self.n_neighbors
        )
        kept = np.argsort(-values)[: self.n_components]
        lengths = np.sqrt(np.maximum(values[kept], 0))  # below 0 by rounding only
        return np.asarray(lengths[:, None] * vectors.T[kept] @ whitened)


def _discriminants(
    rows: FloatArray, classes: list[slice], directions: FloatArray, n_neighbors: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return eigenvalues, and eigenvectors as columns on the rows of a matrix that whitens S_w."""
    within, between = _local_scatters(rows, classes, n_neighbors)
    within = directions @ within @ directions.T
    floor = rounding(rows.shape) * float(np.trace(within))
    whitened = whitening(within, floor) @ directions
    values, vectors = eigh(whitened @ between @ whitened.T)
    return values, vectors, whitened


def _local_scatters(
    rows: FloatArray, classes: list[slice], n_neighbors: int
) -> tuple[FloatArray, FloatArray]:
    """Return S_w and S_b, both (n_axes, n_axes), of rows whose mean is 0."""
    n_rows = len(rows)
    within = np.zeros((rows.shape[1], rows.shape[1]))
    # All pairs at 1/n, less those of each class at 1/n, and these again by their affinity.
    between = rows.T @ rows
    for part in classes:
        members = rows[part] - rows[part].mean(axis=0)
        if len(members) < 2:
            continue
        local = _local_scatter(members, min(n_neighbors, len(members) - 1))
        within += local / len(members)
        between += local * (1 / n_rows - 1 / len(members))
        between -= len(members) / n_rows * (members.T @ members)
    return within, between


def _local_scatter(members: FloatArray, n_neighbors: int) -> FloatArray:
    """Return the sum over pairs of one class of A_ij (x_i - x_j)(x_i - x_j)', each pair once."""
    nearest = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(members)
    # Where rows coincide the scale is 0: next to any other distance the affinity is then 0.
    scale = np.maximum(nearest.kneighbors()[0][:, -1], 1e-150)
    laplacian_rows = np.empty_like(members)
    for rows in blocks(len(members), row_bytes=3 * 8 * len(members)):
        affinity = euclidean_distances(members[rows], members, squared=True)
        with np.errstate(over="ignore"):
            affinity /= -np.outer(scale[rows], scale)
        np.exp(affinity, out=affinity)
        degrees = affinity.sum(axis=1)
        laplacian_rows[rows] = degrees[:, None] * members[rows] - affinity @ members
    return np.asarray(members.T @ laplacian_rows)
