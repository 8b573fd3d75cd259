"""GMML: the geometric mean of two scatters as a metric, in closed form (Zadeh et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.axes import (
    AXES_GRID,
    WithinClassLearner,
    pair_scatter,
    rounding,
    whitening,
)
from oasis_bench.data import FloatArray


class GMML(WithinClassLearner):
    r"""Geometric mean metric learning, over all pairs.

    Let S be the sum of :math:`z z^\top` over the pairs of rows of one class, and D that over the
    pairs of two classes, z their difference.  The paper minimises, over positive definite M,

    .. math:: \operatorname{tr}(M S) + \operatorname{tr}(M^{-1} D) ,

    which wants small distances within classes by M, and small ones between classes by its inverse.
    The slope is 0 where M solves the Riccati equation M S M = D: at the midpoint of the geodesic
    from the inverse of S to D.  M may be any point of it,

    .. math::

        M = S^{-1} \sharp_t D = S^{-1/2} \big(S^{1/2} D\, S^{1/2}\big)^t S^{-1/2} ,
        \qquad 0 \le t \le 1 .

    The paper samples 40 c (c - 1) pairs for c classes.  Here S and D are of all pairs, which costs
    less: with the scatter T_k of class k, of n_k rows, and the scatter T of all n rows,
    :math:`S = \sum_k n_k T_k` and D = nT - S.  In place of the paper's regularisation, rows are
    projected on their principal axes, as for `RCA`.  Directions along which no class varies are
    left out.

    Time n d min(n, d), memory 3 n d + 4 min(n, d)^2 numbers.

    Parameters
    ----------
    t : float in [0, 1], default 0.5
        The place on the geodesic.  With 0, M is the inverse of S, and with 1 it is D.
    n_axes : int or None, default None
        The number of principal axes used for learning, those of largest variance first; at most the
        rank of the rows.  None, with n rows in c classes: (n - c) // 2, or all axes if these are
        fewer.
    random_state : int, RandomState or None, default None
        Not used, because nothing is random.  All learners have this parameter.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L, with L'L = M.
    n_axes_ : int
        The number of principal axes that were used.
    n_features_in_ : int

    References
    ----------
    Zadeh, Hosseini & Sra (2016), Geometric Mean Metric Learning, ICML 33.
    """

    name: ClassVar = "GMML"
    summary: ClassVar = "geometric mean of the scatters of equal and of different pairs"
    citation: ClassVar = "Zadeh, Hosseini & Sra, ICML 33 (2016)"
    cost: ClassVar = "time n d min(n, d), memory n d + min(n, d)^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        # The paper tunes all of [0, 1]; in a first look .1 to .3 was best on most data.
        "t": (0.5, 0, 0.1, 0.2, 0.3, 0.4, 0.7, 1),
        "n_axes": AXES_GRID,
    }

    t: Annotated[float, Interval(Real, 0, 1, closed="both")] = 0.5

    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        alike = pair_scatter(rows, classes)
        unlike = len(rows) * rows.T @ rows - alike
        whitened = whitening(alike, rounding(rows.shape) * float(np.trace(alike)))  # S^-1/2
        root = whitened / np.square(whitened).sum(axis=1, keepdims=True)  # S^1/2
        values, vectors = eigh(root @ unlike @ root.T)
        lengths = np.maximum(values, 0) ** (self.t / 2)  # below 0 by rounding only
        return np.asarray(lengths[:, None] * vectors.T @ whitened)
