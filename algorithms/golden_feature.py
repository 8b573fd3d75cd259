"""The golden feature of Deep Ranking: one weight for each kind of features, by maximum margin."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from oasis_bench.algorithms.base import LearnerOfKinds, Positive, check_triplets
from oasis_bench.data import Patches, check_items, class_labels
from oasis_bench.plugins import EmbeddingLearner, FittedArray
from oasis_bench.sampling import ClassTripletSampler, seed_state
from oasis_bench.system import slices

N_TRIPLETS = 20_000
"""Triplets that `fit` draws from class labels."""

AT_ONCE = 1024
"""Triplets whose differences are computed at a time."""

Float64Array = npt.NDArray[np.float64]


class GoldenFeature(LearnerOfKinds, EmbeddingLearner):
    r"""A non-negative combination of the distances by several kinds of features.

    .. math:: D(x, y) = \sum_k w_k |x_k - y_k|^2, \quad w_k = v_k / \sigma_k, \quad
        \min_{v \ge 0} \tfrac{1}{2} |v|^2
        + C \sum_{q,p,n} [1 - \sum_k v_k \delta_k / \sigma_k]_+^2

    where :math:`\delta_k = |q_k - n_k|^2 - |q_k - p_k|^2` of a triplet (query, positive, negative),
    and :math:`\sigma_k` is the root mean square of :math:`\delta_k` over the triplets.  The squared
    hinge makes the problem smooth, and its solution is unique: L-BFGS-B finds it.

    If the rows of a data set are features of several kinds (``--features lab+hog+lbp``), the data
    set gives each kind as `Patches` with one descriptor for each picture.  If there are several
    descriptors, such as local ones, :math:`x_k` is their mean.

    Parameters
    ----------
    C : float, default 0.1
    kinds : str or None, default None
        The kinds of features to use, joined by +.  None: all.  With a single kind nothing is
        learned, and items are ranked by its distance.
    random_state : int, RandomState or None, default None
        The seed of the triplets that `fit` samples from labels.

    Attributes
    ----------
    kinds_ : ndarray of shape (n_kinds,), object
        The names of the kinds.
    weights_ : ndarray of shape (n_kinds,)
        w.
    widths_ : ndarray of shape (n_kinds,), int64
        The number of features of each kind.
    objective_ : float
        The minimum of the objective.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (section 6.1).  They give no
    formula; the regulariser, the scales and the squared hinge are ours.
    """

    name: ClassVar = "GoldenFeature"
    summary: ClassVar = "a weight for each kind of features, learned with a hinge loss"
    citation: ClassVar = "Wang et al., CVPR 2014"
    cost: ClassVar = "time t d for the distances of t triplets, memory n d"
    search_space: ClassVar = {"C": (1e-3, 1e-2, 0.1, 1.0)}
    takes_triplets: ClassVar = True

    _fitted_arrays: ClassVar = {
        "weights_": FittedArray(("n_kinds",)),
        "_differences": FittedArray(("n_triplets", "n_kinds")),
    }
    weights_: Float64Array = field(init=False)
    objective_: float = field(init=False)
    _differences: Float64Array = field(init=False)

    C: Positive = 0.1

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from 20000 triplets that are sampled from class labels.

        Parameters
        ----------
        X : Patches of n_items pictures
        y : array of shape (n_items,)
            Labels of at least two classes, one of at least two pictures.

        Raises
        ------
        ValueError
            If X or y are not of this kind.
        """
        self._validate_params()
        self._check(X, y)
        state = seed_state(self._new_seed())
        triplets = ClassTripletSampler(class_labels(y), state).draw(N_TRIPLETS)
        return self._learn(X, triplets, afresh=True)

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets and those of earlier calls together.

        Parameters
        ----------
        X : Patches of n_items pictures
        triplets : array of shape (n_triplets, 3), integers
            Item numbers: query, positive, negative.  Without any, all weights are 1.

        Raises
        ------
        ValueError
            If X or the triplets are not of this kind; nothing is learned then.
        """
        self._validate_params()
        check_items("patches", X)
        given = check_triplets(triplets, len(X))
        return self._learn(X, given, afresh=not hasattr(self, "weights_"))

    def embed(self, X: Any) -> Any:
        """Return the features weighted by the roots of their weights: (n_items, sum of widths).

        Kinds follow one another in the order of `kinds_`; float32.
        """
        means = self._means(self._check_items(X))
        embedded = np.concatenate(means, axis=1, dtype=np.float32)
        embedded *= np.repeat(np.sqrt(self.weights_), self.widths_).astype(np.float32)
        return embedded

    def _learn(self, X: Patches, triplets: npt.NDArray[np.integer], afresh: bool) -> Self:
        if afresh:
            self._choose(X)
            self._differences = np.empty((0, len(self.kinds_)))
        new = _differences(self._means(X), triplets)
        self._differences = np.concatenate([self._differences, new])
        self.weights_, self.objective_ = largest_margin(self._differences, self.C)
        return self

    def _check(self, X: Any, y: Any) -> None:
        check_items("patches", X)
        ClassTripletSampler(class_labels(y, len(X)), seed_state(0))
        X.of_kinds(self.kinds)


def largest_margin(differences: Float64Array, C: float) -> tuple[Float64Array, float]:
    """Solve the problem of `GoldenFeature`; return the weights w (n_kinds,) and the objective.

    `differences` (n_triplets, n_kinds) are the deltas: by how much further away the negative is.
    The weights are all 1 where there is no triplet, or one kind alone.
    """
    n_triplets, n_kinds = differences.shape
    if not n_triplets or n_kinds == 1:
        return np.ones(n_kinds), 0.0
    scales = np.sqrt(np.mean(differences**2, axis=0))
    scales[scales == 0] = 1
    margins = differences / scales

    def objective(v: Float64Array) -> tuple[float, Float64Array]:
        short = np.maximum(1 - margins @ v, 0)
        return 0.5 * v @ v + C * short @ short, v - 2 * C * short @ margins

    found = minimize(
        objective,
        np.zeros(n_kinds),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * n_kinds,
        options={"ftol": 0, "gtol": 1e-9 * (1 + C * n_triplets), "maxiter": 10_000},
    )
    return found.x / scales, float(found.fun)


def _differences(means: list[Any], triplets: npt.NDArray[np.integer]) -> Float64Array:
    """Compute |q - n|^2 - |q - p|^2 of each triplet and kind: (n_triplets, n_kinds)."""
    differences = np.empty((len(triplets), len(means)))
    for part in slices(len(triplets), AT_ONCE):
        q, p, n = triplets[part].T
        for number, rows in enumerate(means):
            far, near = rows[q] - rows[n], rows[q] - rows[p]
            differences[part, number] = np.einsum("ij,ij->i", far, far)
            differences[part, number] -= np.einsum("ij,ij->i", near, near)
    return differences
