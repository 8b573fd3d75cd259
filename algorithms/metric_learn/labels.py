"""metric-learn's LMNN, NCA, LFDA, RCA and Covariance under the suite's interface.

Those that learn from drawn pairs are in `metric_learn_pairs.py`.  Left out: MLKR, a regression, and
SDML, which calls scikit-learn's graphical lasso with an argument that it no longer has.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from oasis_bench.algorithms._principal_axes import principal_axes
from oasis_bench.algorithms.metric_learn import _compatibility as _metric_learn
from oasis_bench.data.rows import FloatArray
from oasis_bench.plugins.learner import MahalanobisLearner
from oasis_bench.system.memory import require_memory

Counts = npt.NDArray[np.intp]

SOURCE = f"metric-learn {_metric_learn.VERSION}"

COUNT = [Interval(Integral, 1, None, closed="left")]
POSITIVE = [Interval(Real, 0, None, closed="neither")]


class MetricLearnAdapter(MahalanobisLearner):
    """What the adapters share: rows and labels are checked here, and metric-learn learns.

    The parameters are metric-learn's, by name and default, where a class does not say otherwise.
    """

    _estimator: ClassVar[type]
    _least_in_class: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def fit(self, X: Any, y: Any) -> Self:
        """Learn L from rows `X` (n_rows, n_features) and class labels `y` (n_rows,).

        Raises
        ------
        ValueError, MemoryError
            With one class, what `refusal` says, and where metric-learn's result is not finite.
        """
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        classes, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise ValueError(
                f"{self.name} needs at least 2 classes, but y has 1 class ({classes[0]!s})"
            )
        self._refuse(X, counts)
        components = np.asarray(self._learn(X, numbers, counts))
        if not (np.isrealobj(components) and components.size and np.isfinite(components).all()):
            raise ValueError(f"{SOURCE} found no finite matrix for these {len(X)} rows")
        self.components_ = components
        return self

    def _check(self, X: Any, y: Any) -> None:
        self._refuse(X, np.unique(y, return_counts=True)[1])

    def _refuse(self, X: Any, counts: Counts) -> None:
        if counts.min() < self._least_in_class:
            raise ValueError(
                f"{self.name} needs {self._least_in_class} rows of each class, but the smallest "
                f"has {counts.min()}"
            )
        n_rows, n_features = X.shape
        require_memory(
            self._peak_bytes(n_rows, n_features, len(counts)),
            f"{self.name} on {n_rows} rows of {n_features} features",
            "take fewer rows or features",
        )
        if not np.ptp(X, axis=0).any():
            raise ValueError(f"all {n_rows} rows are equal: {self.name} needs rows that differ")

    @abstractmethod
    def _peak_bytes(self, n: int, d: int, c: int) -> int:
        """Estimate what metric-learn allocates at its peak for n rows, d features, c classes."""

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        """Return what metric-learn's estimator is made with."""
        arguments: dict[str, Any] = self.get_params(deep=False)
        return arguments

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        """Return L; `y` holds class numbers from 0 on: metric-learn skips those below."""
        solver = self._estimator(**self._arguments(X.shape[1], counts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what they cause is checked in `fit`
            solver.fit(X, y)
        if hasattr(solver, "n_iter_"):
            self.n_iter_ = max(1, int(solver.n_iter_))  # some count from 0
        components: FloatArray = solver.components_
        return components


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

    References
    ----------
    Weinberger, Blitzer & Saul (2005), Distance Metric Learning for Large Margin Nearest Neighbor
    Classification, NIPS 18.
    """

    name: ClassVar = "metric-learn-LMNN"
    summary: ClassVar = f"{SOURCE}'s large margin nearest neighbour"
    citation: ClassVar = "Weinberger, Blitzer & Saul, NIPS 18 (2005)"
    cost: ClassVar = "time n^2 d an iteration, memory n^2 d"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"regularization": (0.125, 0.25, 0.5)}

    _estimator: ClassVar[type] = _metric_learn.LMNN
    _least_in_class: ClassVar[int] = 2
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": COUNT,
        "regularization": [Interval(Real, 0, 1, closed="neither")],
        "learn_rate": POSITIVE,
        "max_iter": COUNT,
        "convergence_tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        regularization: float = 0.5,
        learn_rate: float = 1e-3,
        max_iter: int = 1000,
        convergence_tol: float = 1e-3,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.regularization = regularization
        self.learn_rate = learn_rate
        self.max_iter = max_iter
        self.convergence_tol = convergence_tol

    def _peak_bytes(self, n: int, d: int, c: int) -> int:
        # Two (impostors, d) arrays, with all n^2 (c - 1) / 2 c pairs of different classes.
        return 8 * n**2 * (d + 6) * (c - 1) // c

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        possible = int(counts.min()) - 1
        if possible < self.n_neighbors:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is lowered to {possible}: "
                f"the smallest class has {possible + 1} rows",
                stacklevel=4,
            )
        n_neighbors = min(self.n_neighbors, possible)
        return {**super()._arguments(n_features, counts), "n_neighbors": n_neighbors}


class MetricLearnNCA(MetricLearnAdapter):
    """metric-learn's neighbourhood components analysis: L-BFGS on the leave-one-out objective.

    An evaluation of the objective costs O(n^2 d) time and O(n^2) memory.

    Parameters
    ----------
    max_iter : int, default 100

    References
    ----------
    Goldberger, Roweis, Hinton & Salakhutdinov (2005), Neighbourhood Components Analysis, NIPS 17.
    """

    name: ClassVar = "metric-learn-NCA"
    summary: ClassVar = f"{SOURCE}'s neighbourhood components analysis"
    citation: ClassVar = "Goldberger, Roweis, Hinton & Salakhutdinov, NIPS 17 (2005)"
    cost: ClassVar = "time n^2 d an evaluation, memory n^2"

    _estimator: ClassVar[type] = _metric_learn.NCA
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"max_iter": COUNT}

    def __init__(self, max_iter: int = 100) -> None:
        self.max_iter = max_iter

    def _peak_bytes(self, n: int, d: int, c: int) -> int:
        return 8 * (8 * n**2 + 40 * d**2)


class OfCovarianceAdapter(MetricLearnAdapter):
    """An adapter of what inverts a covariance, which is singular where pixels are always blank.

    metric-learn then returns NaN, or distances that are the same for all pairs.  So rows are first
    projected on their principal axes, without those of no variance, and on at most half as many as
    the covariance has degrees of freedom: with fewer rows an axis it is mostly noise.  Where there
    are rows enough, that changes no distance.
    """

    _least_axes: ClassVar[int] = 1

    @abstractmethod
    def _degrees_of_freedom(self, counts: Counts) -> int:
        """Count the differences of rows that the covariance is made of."""

    def _refuse(self, X: Any, counts: Counts) -> None:
        super()._refuse(X, counts)
        least = 2 * self._least_axes
        if (freedom := self._degrees_of_freedom(counts)) < least:
            raise ValueError(
                f"{self.name} needs a covariance of at least {least} degrees of freedom, but "
                f"{len(X)} rows in {len(counts)} classes give {freedom}: take more rows a class"
            )

    def _peak_bytes(self, n: int, d: int, c: int) -> int:
        return 8 * (3 * n * d + min(n, d) ** 2)

    def _learn(self, X: FloatArray, y: Counts, counts: Counts) -> FloatArray:
        centred = X - X.mean(axis=0)
        axes = principal_axes(centred)[1][: self._degrees_of_freedom(counts) // 2]
        return super()._learn(centred @ axes.T, y, counts) @ axes


class MetricLearnLFDA(OfCovarianceAdapter):
    """metric-learn's local Fisher discriminant analysis, after PCA where rows are few.

    A generalised eigenproblem of scatter matrices, weighted by the nearness of rows in a class:
    O(n^2 d / c + d^3) time, O((n / c)^2 + d^2) memory.

    Parameters
    ----------
    k : int or None, default None
        The neighbour that sets the local scale; None is 7, or d - 1 where that is less.
    embedding_type : {'weighted', 'orthonormalized', 'plain'}, default 'weighted'
        How long the eigenvectors are made.

    References
    ----------
    Sugiyama (2007), Dimensionality Reduction of Multimodal Labeled Data by Local Fisher
    Discriminant Analysis, JMLR 8.
    """

    name: ClassVar = "metric-learn-LFDA"
    summary: ClassVar = f"{SOURCE}'s local Fisher discriminant analysis"
    citation: ClassVar = "Sugiyama, JMLR 8 (2007)"
    cost: ClassVar = "time n^2 d / c + d^3, memory (n / c)^2 + n d + d^2"

    _estimator: ClassVar[type] = _metric_learn.LFDA
    _least_axes: ClassVar[int] = 2  # on one, metric-learn takes a row for its own neighbour
    _least_in_class: ClassVar[int] = 2
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "k": [*COUNT, None],
        "embedding_type": [StrOptions({"weighted", "orthonormalized", "plain"})],
    }

    def __init__(self, k: int | None = None, embedding_type: str = "weighted") -> None:
        self.k = k
        self.embedding_type = embedding_type

    def _peak_bytes(self, n: int, d: int, c: int) -> int:
        return super()._peak_bytes(n, d, c) + 24 * (n // c) ** 2

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return int(counts.sum()) - len(counts)


class MetricLearnRCA(OfCovarianceAdapter):
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

    References
    ----------
    Bar-Hillel, Hertz, Shental & Weinshall (2003), Learning Distance Functions using Equivalence
    Relations, ICML 20.
    """

    name: ClassVar = "metric-learn-RCA"
    summary: ClassVar = f"{SOURCE}'s relevant component analysis"
    citation: ClassVar = "Bar-Hillel, Hertz, Shental & Weinshall, ICML 20 (2003)"
    cost: ClassVar = "time n d^2 + d^3, memory n d + d^2"

    _estimator: ClassVar[type] = _metric_learn.RCA_Supervised
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_chunks": COUNT,
        "chunk_size": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_chunks: int = 100, chunk_size: int = 2, random_state: Any = None) -> None:
        self.n_chunks = n_chunks
        self.chunk_size = chunk_size
        self.random_state = random_state

    def _chunks(self, counts: Counts) -> int:
        return min(self.n_chunks, int((counts // self.chunk_size).sum()))

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return self._chunks(counts) * (self.chunk_size - 1)

    def _arguments(self, n_features: int, counts: Counts) -> dict[str, Any]:
        if (n_chunks := self._chunks(counts)) < self.n_chunks:
            warnings.warn(
                f"n_chunks={self.n_chunks} is lowered to {n_chunks}: {counts.sum()} rows give no "
                f"more chunklets of {self.chunk_size}",
                stacklevel=5,
            )
        return {**super()._arguments(n_features, counts), "n_chunks": n_chunks}


class MetricLearnCovariance(OfCovarianceAdapter):
    """metric-learn's Covariance: the inverse covariance of all rows, labels unread, after PCA.

    O(n d^2 + d^3) time, O(n d + d^2) memory.

    References
    ----------
    Mahalanobis (1936), On the Generalised Distance in Statistics.
    """

    name: ClassVar = "metric-learn-Covariance"
    summary: ClassVar = f"{SOURCE}'s inverse covariance, the baseline without labels"
    citation: ClassVar = "Mahalanobis, Proc. Nat. Inst. Sci. India 2 (1936)"
    cost: ClassVar = "time n d^2 + d^3, memory n d + d^2"

    _estimator: ClassVar[type] = _metric_learn.Covariance

    def _degrees_of_freedom(self, counts: Counts) -> int:
        return int(counts.sum()) - 1
