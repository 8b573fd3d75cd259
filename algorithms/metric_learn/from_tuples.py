"""metric-learn's ITML, MMC, LSML and SCML: they learn from pairs, pairs of pairs or triplets.

metric-learn draws these from the labels.  Those that learn from all rows are in `from_rows.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import metric_learn
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oasis_bench.algorithms.metric_learn._adapter import SOURCE, Counts, MetricLearnAdapter
from oasis_bench.data import FloatArray


def _drawn(n_constraints: int | None, c: int) -> int:
    """Return m, how many tuples metric-learn draws of each kind for c classes."""
    return 20 * c**2 if n_constraints is None else n_constraints


@dataclass(eq=False, repr=False)
class MetricLearnITML(MetricLearnAdapter):
    """metric-learn's information-theoretic metric learning: cyclic LogDet projections on m pairs.

    Its bounds, the 5th and 95th percentile of the distances, are of unsquared distances and are
    compared with squared ones: not what the paper defines.  An iteration goes over all pairs, in
    Python, and costs O(m d^2) time; the percentiles take O(n^2) memory.

    Parameters
    ----------
    gamma : float, default 1.0
        Weight of the slack; the paper chooses it from {0.01, 0.1, 1, 10}.
    n_constraints : int or None, default None
        Pairs of the same class, and as many of different ones; None is 20 classes^2.
    max_iter : int, default 1000
    random_state : int, RandomState or None, default None
        Decides the pairs.
    """

    name: ClassVar = "metric-learn-ITML"
    summary: ClassVar = f"{SOURCE}'s information-theoretic metric learning"
    citation: ClassVar = "Davis, Kulis, Jain, Sra & Dhillon, ICML 24 (2007)"
    cost: ClassVar = "time m d^2 an iteration, memory n^2 + m d; m = 20 c^2"
    search_space: ClassVar = {"gamma": (0.01, 0.1, 1.0, 10.0)}

    _estimator: ClassVar = metric_learn.ITML_Supervised
    _least_in_largest: ClassVar = 2

    gamma: float = 1.0
    n_constraints: int | None = None
    max_iter: int = 1000
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # The distances of the rows that are drawn, sorted in a copy, beside the pairs.
        return 2 * n**2 + 10 * _drawn(self.n_constraints, c) * d


@dataclass(eq=False, repr=False)
class MetricLearnMMC(MetricLearnAdapter):
    """metric-learn's MMC (Xing et al.): alternating projections, then a gradient step, on m pairs.

    A projection costs an eigendecomposition, a step O(m d^2) time and memory: the outer product of
    every pair is kept.  Where no projection meets the constraints metric-learn returns its start,
    the Euclidean distance, and a `ConvergenceWarning` says so.  Its variant for a diagonal matrix,
    which often ends in NaN, is left out.

    Parameters
    ----------
    n_constraints : int or None, default None
        Pairs of the same class, and as many of different ones; None is 20 classes^2.
    max_iter : int, default 100
    max_proj : int, default 100
        Projections an iteration at most.  metric-learn's default of 10 000 takes minutes for 60
        rows of 64 features, which end where they began, as with 100.
    random_state : int, RandomState or None, default None
        Decides the pairs.
    """

    name: ClassVar = "metric-learn-MMC"
    summary: ClassVar = f"{SOURCE}'s metric for clustering (Xing et al.)"
    citation: ClassVar = "Xing, Ng, Jordan & Russell, NIPS 15 (2003)"
    cost: ClassVar = "time d^3 a projection, m d^2 an iteration, memory m d^2; m = 20 c^2"

    _estimator: ClassVar = metric_learn.MMC_Supervised
    _least_in_largest: ClassVar = 2

    n_constraints: int | None = None
    max_iter: int = 100
    max_proj: int = 100
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return _drawn(self.n_constraints, c) * d * (d + 10)

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        components = super()._learn(X, y, counts)
        if np.array_equal(components, np.eye(X.shape[1])):
            warnings.warn(
                f"{SOURCE}'s MMC met its constraints in none of max_proj={self.max_proj} "
                "projections and returns the Euclidean distance: raise max_proj",
                ConvergenceWarning,
                stacklevel=4,
            )
        return components


@dataclass(eq=False, repr=False)
class MetricLearnLSML(MetricLearnAdapter):
    """metric-learn's least squared-residual metric learning, on m drawn pairs of pairs.

    A same-class pair should be nearer than the different-class pair beside it; LogDet keeps M near
    I.  On rows of unit length it stays there: on digits the eigenvalues end within 0.2 % of 1 and
    the ranking is the Euclidean one, while longer rows move it.  An iteration tries ten steps:
    O(m d^2 + d^3) time, O(m d) memory.

    Parameters
    ----------
    n_constraints : int or None, default None
        Pairs of pairs; None is 20 classes^2.
    max_iter : int, default 1000
    random_state : int, RandomState or None, default None
        Decides the pairs.

    References
    ----------
    Liu, Guo, Zhou & Wang (2012), Metric Learning from Relative Comparisons by Minimizing Squared
    Residual, ICDM 12.
    """

    name: ClassVar = "metric-learn-LSML"
    summary: ClassVar = f"{SOURCE}'s least squared-residual metric learning"
    citation: ClassVar = "Liu, Guo, Zhou & Wang, ICDM 12 (2012)"
    cost: ClassVar = "time m d^2 + d^3 an iteration, memory m d; m = 20 c^2"

    _estimator: ClassVar = metric_learn.LSML_Supervised
    _least_in_largest: ClassVar = 2

    n_constraints: int | None = None
    max_iter: int = 1000
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 10 * d**2 + 7 * _drawn(self.n_constraints, c) * d


@dataclass(eq=False, repr=False)
class MetricLearnSCML(MetricLearnAdapter):
    """metric-learn's sparse compositional metric learning: M as a sum of b weighted LDA directions.

    The squared differences of all t = k_genuine k_impostor n triplets along all b directions are
    kept: 3 t b numbers, and about as much time as k-means, b LDAs and `max_iter` dual-averaging
    steps take.

    Parameters
    ----------
    k_genuine, k_impostor : int, defaults 3 and 10
        Neighbours of a row, of its class and of others, that make its triplets.
    beta : float, default 1e-5
        Weight of the sparsity.
    n_basis : int or None, default None
        b, at most 2 n (c - 1) - 1; None is 20 d.
    max_iter : int, default 10000
    random_state : int, RandomState or None, default None

    References
    ----------
    Shi, Bellet & Sha (2014), Sparse Compositional Metric Learning, AAAI 28.
    """

    name: ClassVar = "metric-learn-SCML"
    summary: ClassVar = f"{SOURCE}'s sparse compositional metric learning"
    citation: ClassVar = "Shi, Bellet & Sha, AAAI 28 (2014)"
    cost: ClassVar = "time n d b + b an iteration, memory 90 n b; b = 20 d directions"

    _estimator: ClassVar = metric_learn.SCML_Supervised
    _least_in_class: ClassVar = 2

    k_genuine: int = 3
    k_impostor: int = 10
    beta: float = 1e-5
    n_basis: int | None = None
    max_iter: int = 10_000
    random_state: Any = None

    def _directions(self, n: int, d: int, c: int) -> int:
        wanted = 20 * d if self.n_basis is None else self.n_basis
        return min(wanted, 2 * n * min(c - 1, d) - 1)

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        triplets = self.k_genuine * self.k_impostor * n
        return triplets * max(3 * self._directions(n, d, c), 12 * d)

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        return {
            **super()._arguments(n_features, counts),
            "n_basis": self._directions(int(counts.sum()), n_features, len(counts)),
            "output_iter": min(500, self.max_iter),  # its default, and it must not be more
        }

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        components = super()._learn(X, y, counts)
        return components if len(components) else np.zeros((1, X.shape[1]))  # no weights: M = 0
