"""metric-learn's LMNN, NCA, LFDA, RCA and Covariance: they learn from all rows and labels.

Those that learn from drawn pairs are in `from_tuples.py`.  Left out: MLKR, a regression, and SDML,
which calls scikit-learn's graphical lasso with an argument that it no longer has.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import metric_learn

from oasis_bench.algorithms._label_learner import possible_neighbours
from oasis_bench.algorithms.metric_learn._adapter import (
    SOURCE,
    Counts,
    CovarianceAdapter,
    MetricLearnAdapter,
)


@dataclass(eq=False, repr=False)
class MetricLearnLMNN(MetricLearnAdapter):
    """metric-learn's LMNN: gradient descent on L with all impostors looked for at each step.

    An iteration costs O(n^2 d) time; while most rows are impostors of each other, as at the start
    on rows of unit length, O(n^2 d) memory.  It stops by an absolute change of the objective, so
    that rows on another scale stop elsewhere.

    Parameters
    ----------
    n_neighbors : int, default 3
        Target neighbours; lowered, with a warning, where the smallest class has too few rows.
    regularization : float in (0, 1), default 0.5
        Weight of the pull, omega of the papers, who choose it from {0.125, 0.25, 0.5}.
    learn_rate : float, default 1e-3
        First step.  metric-learn's default of 1e-7 suits rows of length 100: on rows of unit length
        the steps, which grow by 1 % each, need most of the 1000 iterations to get long enough.
    max_iter : int, default 1000
        Iterations at most; metric-learn counts the start, and the end, among them.
    convergence_tol : float, default 1e-3
        Change of the objective below which it stops, after 50 iterations.
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.
    """

    name: ClassVar = "metric-learn-LMNN"
    summary: ClassVar = f"{SOURCE}'s large margin nearest neighbour"
    citation: ClassVar = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    cost: ClassVar = "time n^2 d an iteration, memory n^2 d"
    search_space: ClassVar = {"regularization": (0.125, 0.25, 0.5)}

    _estimator: ClassVar = metric_learn.LMNN
    _least_in_class: ClassVar = 2

    n_neighbors: int = 3
    regularization: float = 0.5
    learn_rate: float = 1e-3
    max_iter: int = 1000
    convergence_tol: float = 1e-3
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        # Two (impostors, d) arrays, with all n^2 (c - 1) / 2 c pairs of different classes.
        return n**2 * (d + 6) * (c - 1) // c

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        n_neighbors = possible_neighbours(self.n_neighbors, int(counts.min()), stacklevel=5)
        return {**super()._arguments(n_features, counts), "n_neighbors": n_neighbors}


@dataclass(eq=False, repr=False)
class MetricLearnNCA(MetricLearnAdapter):
    """metric-learn's neighbourhood components analysis: L-BFGS on the leave-one-out objective.

    An evaluation of the objective costs O(n^2 d) time and O(n^2) memory.

    Parameters
    ----------
    max_iter : int, default 100
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.
    """

    name: ClassVar = "metric-learn-NCA"
    summary: ClassVar = f"{SOURCE}'s neighbourhood components analysis"
    citation: ClassVar = "Goldberger, Roweis, Hinton & Salakhutdinov, NIPS 17 (2004)"
    cost: ClassVar = "time n^2 d an evaluation, memory n^2"

    _estimator: ClassVar = metric_learn.NCA

    max_iter: int = 100
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 8 * n**2 + 40 * d**2


@dataclass(eq=False, repr=False)
class MetricLearnLFDA(CovarianceAdapter):
    """metric-learn's local Fisher discriminant analysis, after PCA where rows are few.

    `LFDA` says how it differs from the paper.  O(n^2 d / c + d^3) time, O((n / c)^2 + d^2) memory.

    Parameters
    ----------
    k : int or None, default None
        The neighbour that sets the local scale; None is 7, or d - 1 where that is less.
    embedding_type : {'weighted', 'orthonormalized', 'plain'}, default 'weighted'
        How long the eigenvectors are made.
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.
    """

    name: ClassVar = "metric-learn-LFDA"
    summary: ClassVar = f"{SOURCE}'s local Fisher discriminant analysis"
    citation: ClassVar = "Sugiyama, JMLR 8 (2007)"
    cost: ClassVar = "time n^2 d / c + d^3, memory (n / c)^2 + n d + d^2"

    _estimator: ClassVar = metric_learn.LFDA
    _least_axes: ClassVar = 2  # on one, metric-learn takes a row for its own neighbour
    _least_in_class: ClassVar = 2

    k: int | None = None
    embedding_type: str = "weighted"
    random_state: Any = None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return super()._n_numbers(n, d, c) + 3 * (n // c) ** 2

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return int(counts.sum()) - len(counts)


@dataclass(eq=False, repr=False)
class MetricLearnRCA(CovarianceAdapter):
    """metric-learn's relevant component analysis, on drawn chunklets, after PCA where they are few.

    L is the inverse root of the covariance within the chunklets: O(n d^2 + d^3) time, O(d^2)
    memory.  metric-learn draws the last class only when the others have no rows left.

    Parameters
    ----------
    n_chunks : int, default 100
        Chunklets, each of rows of one class; lowered, with a warning, where rows are too few.
    chunk_size : int, default 2
        Rows of a chunklet.
    random_state : int, RandomState or None, default None
    """

    name: ClassVar = "metric-learn-RCA"
    summary: ClassVar = f"{SOURCE}'s relevant component analysis"
    citation: ClassVar = "Bar-Hillel, Hertz, Shental & Weinshall, ICML 20 (2003)"
    cost: ClassVar = "time n d^2 + d^3, memory n d + d^2"

    _estimator: ClassVar = metric_learn.RCA_Supervised

    n_chunks: int = 100
    chunk_size: int = 2
    random_state: Any = None

    def _possible_chunks(self, counts: Counts) -> int:
        return min(self.n_chunks, int((counts // self.chunk_size).sum()))

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return self._possible_chunks(counts) * (self.chunk_size - 1)

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        if (n_chunks := self._possible_chunks(counts)) < self.n_chunks:
            warnings.warn(
                f"n_chunks={self.n_chunks} is lowered to {n_chunks}: {counts.sum()} rows give no "
                f"more chunklets of {self.chunk_size}",
                stacklevel=6,
            )
        return {**super()._arguments(n_features, counts), "n_chunks": n_chunks}


@dataclass(eq=False, repr=False)
class MetricLearnCovariance(CovarianceAdapter):
    """metric-learn's Covariance: the inverse covariance of all rows, labels unread, after PCA.

    O(n d^2 + d^3) time, O(n d + d^2) memory.

    Parameters
    ----------
    random_state : int, RandomState or None, default None
        Not read, as nothing is random: every learner has it.
    """

    name: ClassVar = "metric-learn-Covariance"
    summary: ClassVar = f"{SOURCE}'s inverse covariance, the baseline without labels"
    citation: ClassVar = "Mahalanobis, Proc. Nat. Inst. Sci. India 2 (1936)"
    cost: ClassVar = "time n d^2 + d^3, memory n d + d^2"

    _estimator: ClassVar = metric_learn.Covariance

    random_state: Any = None

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return int(counts.sum()) - 1
