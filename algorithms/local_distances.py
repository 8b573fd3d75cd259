"""Local distance functions: weights of the features, or patches, of each training item."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from oasis_bench.algorithms._dual_ascent import (
    Constraints,
    DualAscent,
    Float64Array,
    Numbers,
    choose_by_one_pass,
    maximise,
    solve as solve,
)
from oasis_bench.algorithms.base import Count, FromZero, HyperParameters, Positive, Whole
from oasis_bench.data import FloatArray
from oasis_bench.plugins import ExemplarLearner, FittedArray, blocks
from oasis_bench.system import Progress, no_progress, require_memory, side_by_side


class LocalDistances(HyperParameters, ExemplarLearner):
    r"""A separate distance for each training item, with non-negative weights of the features.

    Training item j has a weight vector w_j.  Its distance to any item i is

    .. math::

        D_{ji} = w_j^\top d_{ji} , \qquad d_{ji,m} = |x_{j,m} - x_{i,m}| .

    All weights W together minimise

    .. math::

        \tfrac{1}{2} |W|^2 + C \sum_{(i, j, k)} [\, 1 - w_k^\top d_{ki} + w_j^\top d_{ji} \,]_+ ,
        \qquad W \ge 0 .

    The sum is over triplets of a reference i, a positive j of its class, and a negative k of
    another class.  A triplet compares distances from two different items, so these become
    comparable.  A pair (j, i) is used if i is among the `n_nearest` items nearest to j by some
    feature.  The triplets of a reference i combine each of its positive pairs with each of its
    negative pairs (section 5.2).

    Row actions maximise the dual problem (section 4), with Nesterov's momentum between passes.  The
    products of a reference's pairs are kept while its triplets are visited.  A pass over t triplets
    reads the distances of the pairs a few times, and takes O(t) more.  Steps whose order matters
    run on one core, the others on all cores.  Memory is at most n^2 d float32 numbers (the
    distances of the pairs) and 4 t float64 numbers.

    Parameters
    ----------
    C : float or None, default None
        The price of a loss of 1.  None: one online pass for each half order of magnitude; the value
        with the smallest mean loss before the updates is used (section 5.4).
    max_passes : int, default 1000
        The largest number of passes over the triplets.  0: all weights are 1, the baseline.
    tol : float, default 1e-3
        Stop when the gap, primal less dual, is at most this share of the primal.
    least_growth : float, default 1e-5
        Stop when the dual grows by less than this share of itself in a pass (section 5.3).  0:
        never.
    consistent : bool, default True
        False: the triplets of 2006, :math:`w_j^\top d_{jk} \ge w_j^\top d_{ji} + 1`.  Then each
        item j is a separate problem, and distances from different items have different scales.
    n_nearest : int or None, default 5
        The number of nearest items used for each feature of an item.  None: all items.
    random_state : int, RandomState or None, default None
        The seed of the order in which references are visited.

    Attributes
    ----------
    exemplars_ : ndarray of shape (n_items, n_features)
        The training rows.
    weights_ : list of ndarray of shape (n_features,), float64
        w_j of each training item.  Items in no triplet have the mean weights of the other items.
        If there is no triplet, as with one class, all weights are 1.
    C_ : float
        The C that was used.  This and the following attributes exist if something was learned.
    gap_ : float
        An upper bound of the distance of the primal objective from its minimum.
    primal_ : float
    duals_ : ndarray of shape (n_passes + 1,)
        The dual objective before the first pass and after each pass.
    n_passes_, n_triplets_ : int
    zero_share_ : float
        The share of zeros among the weights of items that are in a triplet.
    n_features_in_ : int

    References
    ----------
    Frome, Sha, Singer & Malik (2007), Learning Globally-Consistent Local Distance Functions for
    Shape-Based Image Retrieval and Classification, ICCV.  Frome, Singer & Malik (2006), Image
    Retrieval and Classification Using Local Distance Functions, NIPS 19: `consistent` False.
    """

    name: ClassVar = "LocalDistances"
    summary: ClassVar = "a weighted distance from each training item, learned with a hinge loss"
    citation: ClassVar = "Frome, Sha, Singer & Malik, ICCV 2007"
    cost: ClassVar = "time n^2 d + n^3 a pass, memory n^2 d + n^3, less by pruning"

    _fitted_arrays: ClassVar = {
        "exemplars_": FittedArray(("n_items", "n_features")),
        "duals_": FittedArray(("n_passes + 1",), required=False),
    }
    exemplars_: Any = field(init=False)
    weights_: list[Float64Array] = field(init=False)
    C_: float = field(init=False)
    gap_: float = field(init=False)
    primal_: float = field(init=False)
    duals_: Float64Array = field(init=False)
    n_passes_: int = field(init=False)
    n_triplets_: int = field(init=False)
    zero_share_: float = field(init=False)

    C: Positive | None = None
    max_passes: Whole = 1000
    tol: Positive = 1e-3
    least_growth: FromZero = 1e-5
    consistent: bool = True
    n_nearest: Count | None = 5

    def fit(self, X: Any, y: Any, *, progress: Progress = no_progress) -> Self:
        """Learn the weights of each item of `X` (n_items, n_features) from labels `y` (n_items,).

        `progress` is called as ``progress('passes', done, None)``, for how many there will be is
        not known; of pictures with patches first as ``progress('distances between patches', done,
        n_items)``.

        Warns
        -----
        ConvergenceWarning
            If `max_passes` came before `tol` and `least_growth`.

        Raises
        ------
        ValueError
            If a parameter, the items or the labels are not of this kind.
        MemoryError
            If the distances or the triplets take more than the memory that is free.
        """
        self._validate_params()
        X, y = self._check_training(X, y)
        check_classification_targets(y)
        seed = self._new_seed()
        for name in ("C_", "gap_", "primal_", "duals_", "n_passes_", "zero_share_", "n_triplets_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.max_passes == 0:
            self.exemplars_ = X
            self.weights_ = [np.ones(width) for width in self._widths(X)]
            return self
        constraints = self._constraints(X, np.unique(y, return_inverse=True)[1], progress)
        require_memory(  # four numbers each; two searches at a time select C
            (32 if self.C else 64) * constraints.n_triplets,
            f"{self.name} on {constraints.n_triplets:,} triplets",
            "use fewer items or features, or a smaller n_nearest",
        )
        if self.C is None:
            ascent = choose_by_one_pass(constraints, seed)
        else:
            ascent = DualAscent(constraints, float(self.C), np.random.default_rng(seed))
        found = maximise(ascent, self.tol, self.least_growth, self.max_passes, progress)
        if found.passes == self.max_passes and not found.is_within(self.tol):
            warnings.warn(
                f"{self.name} came to a gap of {found.gap / found.primal:.1e} of the primal in "
                f"max_passes={self.max_passes} passes, above tol={self.tol:g}: raise one of them",
                ConvergenceWarning,
                stacklevel=2,
            )
        in_triplets = constraints.in_triplets()
        weights = np.split(found.weights, constraints.starts[1:-1])
        learned = [w for w, is_in in zip(weights, in_triplets, strict=True) if is_in]
        mean = float(np.concatenate(learned).mean()) if learned else 1.0
        self.weights_ = [
            w.copy() if is_in else np.full_like(w, mean)
            for w, is_in in zip(weights, in_triplets, strict=True)
        ]
        self.exemplars_, self.C_ = X, ascent.C
        self.gap_, self.primal_, self.duals_ = found.gap, found.primal, np.array(found.duals)
        self.n_passes_, self.n_triplets_ = found.passes, constraints.n_triplets
        if learned:
            self.zero_share_ = float(np.mean(np.concatenate(learned) == 0))
        return self

    def similarity_to_training(self, queries: Any) -> FloatArray:
        """Return -D_ji of each query i (rows) and training item j (columns), in their order."""
        check_is_fitted(self)
        queries = self._check_items(queries)
        scores = np.empty((len(queries), len(self.weights_)))
        for part in blocks(len(queries), row_bytes=self._row_bytes()):
            scores[part] = -np.column_stack(self._distances_to(queries[part]))
        return self.checked_scores(scores, "similarity_to_training")

    def _constraints(self, X: Any, y: npt.NDArray[np.intp], progress: Progress) -> Constraints:
        """Return the triplets of the pairs of the short lists."""
        kept: list[FloatArray] = []
        references: list[Numbers] = []
        for j, distances in enumerate(self._training_distances(X, progress)):
            near = short_list(distances, j, self.n_nearest)
            references.append(near)
            kept.append(np.ascontiguousarray(distances[near]))
        return Constraints.of_classes(kept, references, y, self.consistent)

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = self._validated(X, y, dtype=[np.float64, np.float32])
        self._check(X, y)
        return X, y

    def _check(self, X: Any, y: Any) -> None:
        """Raise a MemoryError where the distances of all pairs may not fit."""
        if self.max_passes == 0:
            return
        widths = self._widths(X)
        n = len(widths)
        nearest = n if self.n_nearest is None else self.n_nearest
        n_numbers = sum(min(n, nearest * width) * width for width in widths)
        require_memory(
            4 * n_numbers,
            f"{self.name} on {n} items of {max(widths)} features or patches",
            "use fewer items or features, or a smaller n_nearest",
        )

    def _widths(self, X: Any) -> list[int]:
        """Return M_j of each item."""
        return [int(X.shape[1])] * X.shape[0]

    def _training_distances(self, X: Any, progress: Progress) -> Iterator[npt.NDArray[np.float32]]:
        """Go over the training items: d_ji for all items i, shape (n_items, M_j)."""
        for x in X:
            yield np.abs(X - x, dtype=X.dtype).astype(np.float32)

    def _row_bytes(self) -> int:
        return int(16 * self.exemplars_.shape[1] + 8 * len(self.weights_))

    def _distances_to(self, queries: Any) -> list[FloatArray]:
        """Return D_ji of each training item j to all queries i."""

        def distance(j: int) -> FloatArray:
            weights = self.weights_[j]
            used = np.flatnonzero(weights)
            return np.asarray(np.abs(queries[:, used] - self.exemplars_[j, used]) @ weights[used])

        return side_by_side(distance, range(len(self.weights_)))


def short_list(distances: FloatArray, j: int, n_nearest: int | None) -> Numbers:
    """Return the items among the `n_nearest` to item j by any of its features, without j.

    `distances` is (n_items, M_j); None, or more than there are, takes all.
    """
    others = np.delete(np.arange(len(distances)), j)
    if n_nearest is None or n_nearest >= len(others):
        return others
    nearest = np.argpartition(distances[others], n_nearest - 1, axis=0)[:n_nearest]
    return others[np.unique(nearest)]
