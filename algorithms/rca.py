"""RCA: whiten by the covariance within classes (Bar-Hillel et al. 2003)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from oasis_bench.algorithms.axes import WithinClassLearner
from oasis_bench.data import FloatArray


class RCA(WithinClassLearner):
    r"""Relevant component analysis, with the classes as chunklets.

    .. math::

        M = C^{-1}, \qquad
        C = \frac{1}{n} \sum_i (x_i - m_{y_i}) (x_i - m_{y_i})^\top ,

    where m_k is the mean of class k.  C of n rows in c classes has n - c degrees of freedom.
    If the rank of the rows is higher, C is singular, and the rows are projected on their first
    (n - c) // 2 principal axes: at n - c axes C could be inverted, but its least eigenvalues
    would come close to 0 (the law of Marchenko and Pastur) and the inverse would be all noise; at
    half as many they still come out at 9 % of the true ones.  Directions along which no class
    varies would weigh infinitely: they are left out.

    Time n d min(n, d), memory 3 n d + 4 min(n, d)^2 numbers.

    Parameters
    ----------
    n_axes : int or None, default None
        The number of principal axes that are whitened, those of largest variance first; at most the
        rank of the rows.  None: all axes if n - c is at least the rank, as in the paper, otherwise
        (n - c) // 2.  The papers on OASIS (JMLR 2010, section 5.3) also reduce the dimension first.
        With few rows the best number is much smaller, so it is tuned.
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
    Bar-Hillel, Hertz, Shental & Weinshall (2003), Learning Distance Functions using Equivalence
    Relations, ICML 20.
    """

    name: ClassVar = "RCA"
    summary: ClassVar = "relevant component analysis: inverse covariance within classes"
    citation: ClassVar = "Bar-Hillel, Hertz, Shental & Weinshall, ICML 20 (2003)"
    cost: ClassVar = "time n d min(n, d), memory n d + min(n, d)^2"

    def _learn(self, rows: FloatArray, classes: list[slice], directions: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(len(rows)) * directions)
