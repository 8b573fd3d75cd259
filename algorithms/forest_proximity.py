"""ForestProximity: the share of random trees in which two rows fall into one leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.base import Count, SupervisedLearner
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray, blocks


class ForestProximity(SupervisedLearner):
    r"""The proximity of two rows in extremely randomised trees.

    .. math:: S(x, y) = \frac1T \sum_{t=1}^T [\, \ell_t(x) = \ell_t(y) \,] ,

    where :math:`\ell_t(x)` is the leaf of tree t that row x falls into.  The trees learn to tell
    the classes apart, and split by single features, so S does not depend on the scale of the
    features, and is far from any distance |Lx - Ly|.  It takes T + 1 values: ties are ranked at
    random.

    Each tree learns from all rows.  A node takes the best of `max_features` features, each cut at
    random.  These are scikit-learn's ExtraTreeClassifier.

    RF-GAP (Rhodes et al. 2023) divides by the number of training rows in the leaf, and is defined
    for a training row and any other.  For pairs of new rows we tried to divide by it, too: on each
    of four data sets the ranking was worse.

    Time T n log(n) times the number of tried features, memory 6 T n numbers.  A pair of rows takes
    time in proportion to the leaves that they share.

    Parameters
    ----------
    n_trees : int, default 100
        T.
    max_features : float in (0, 1], default 0.3
        The share of the features that a node tries, at least one feature.
    min_samples_leaf : int, default 1
        The least number of training rows in a leaf.
    random_state : int, RandomState or None, default None
        The seed of the trees.

    Attributes
    ----------
    features_, thresholds_ : ndarray of shape (n_nodes,)
        A row goes to the left at a node if its feature, in float32, is at most the threshold.
    children_ : ndarray of shape (n_nodes, 2)
        The numbers of the nodes to the left and to the right; of a leaf, itself.
    roots_ : ndarray of shape (n_trees,)
        The node at which each tree begins.
    depth_ : int
        The number of nodes above the deepest leaf.
    centre_ : ndarray of shape (n_features,)
        As in `MahalanobisLearner`.
    n_features_in_ : int

    References
    ----------
    Breiman (2001), Random Forests, Machine Learning 45: the proximity is of his implementation.
    Geurts, Ernst & Wehenkel (2006), Extremely Randomized Trees, Machine Learning 63.
    Rhodes, Cutler & Moon (2023), Geometry- and Accuracy-Preserving Random Forest Proximities, IEEE
    Transactions on Pattern Analysis and Machine Intelligence 45.
    """

    name: ClassVar = "ForestProximity"
    summary: ClassVar = "share of extremely randomised trees in which two rows share a leaf"
    citation: ClassVar = (
        "Breiman, Machine Learning 45 (2001); Geurts et al., Machine Learning 63 (2006)"
    )
    cost: ClassVar = "time T n log(n) d, memory T n; T = 100 trees"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        # From hardly any features, where trees know little of the classes, to all; and leaves from
        # single rows on.  In a first look .3 and 1 were best.
        "max_features": (0.3, 0.03, 0.1, 1.0),
        "min_samples_leaf": (1, 3, 10, 30),
    }

    _shift_invariant: ClassVar = True
    _fitted_arrays: ClassVar = {
        "features_": FittedArray(("n_nodes",), np.integer),
        "thresholds_": FittedArray(("n_nodes",)),
        "children_": FittedArray(("n_nodes", 2), np.integer),
        "roots_": FittedArray(("n_trees",), np.integer),
        "depth_": FittedArray((), np.integer),
    }
    features_: npt.NDArray[np.intp] = field(init=False)
    thresholds_: npt.NDArray[np.float64] = field(init=False)
    children_: npt.NDArray[np.intp] = field(init=False)
    roots_: npt.NDArray[np.intp] = field(init=False)
    depth_: int = field(init=False)

    n_trees: Count = 100
    max_features: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.3
    min_samples_leaf: Count = 1

    def _fit(self, X: Any, y: Any) -> None:
        rng, rows = check_random_state(self.random_state), np.asarray(X, np.float32)
        parts, roots, depths, n_nodes = [], [], [], 0
        for _ in range(self.n_trees):
            tree = ExtraTreeClassifier(
                max_features=float(self.max_features),  # the integer 1 would be one feature
                min_samples_leaf=self.min_samples_leaf,
                random_state=rng.randint(2**31),
            )
            grown = tree.fit(rows, y).tree_
            sides = np.stack([grown.children_left, grown.children_right], axis=1)
            itself = np.arange(len(sides))[:, None]
            children = np.where(sides < 0, itself, sides) + n_nodes
            parts.append((np.maximum(grown.feature, 0), grown.threshold, children))
            roots.append(n_nodes)
            depths.append(grown.max_depth)
            n_nodes += len(sides)
        self.features_, self.thresholds_, self.children_ = map(
            np.concatenate, zip(*parts, strict=True)
        )
        self.roots_, self.depth_ = np.array(roots), int(max(depths))

    def embed(self, X: Any) -> sparse.csr_array:
        """Return the leaves that each row falls into, as ones, (n_rows, n_nodes)."""
        rows = np.asarray(self._centred(self._check_rows(X)), np.float32)
        nodes = np.tile(self.roots_, (len(rows), 1))
        of_row = np.arange(len(rows))[:, None]
        for _ in range(self.depth_):
            is_right = rows[of_row, self.features_[nodes]] > self.thresholds_[nodes]
            nodes = self.children_[nodes, is_right.astype(np.intp)]
        ends = np.arange(len(rows) + 1) * len(self.roots_)
        shape = len(rows), len(self.features_)
        return sparse.csr_array((np.ones(nodes.size), nodes.ravel(), ends), shape=shape)

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return the share of trees in which every query and gallery item share a leaf."""
        scores = np.empty((queries.shape[0], gallery.shape[0]))
        for part in blocks(len(scores), row_bytes=24 * gallery.shape[0]):
            scores[part] = (queries[part] @ gallery.T).toarray()
        return scores / len(self.roots_)

    def inner_product(self, embedded: Any, of_queries: bool) -> tuple[Any, None]:
        """Return the leaves, those of queries as shares of the trees; no terms."""
        return embedded / len(self.roots_) if of_queries else embedded, None

    def _n_numbers(self, n: int, d: int, c: int) -> int:
        return 6 * self.n_trees * n + n * d
