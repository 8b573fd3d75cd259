"""Deep Ranking as its authors train it: triplets by the relevance that a golden feature gives."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.deep_ranking.deep_ranking import DeepRanking
from oasis_bench.algorithms.deep_ranking.golden_feature import GoldenFeature
from oasis_bench.data import PATCHES_AND_PIXELS, Patches, check_items, class_labels
from oasis_bench.plugins import EmbeddingLearner, FittedArray
from oasis_bench.system import require_memory

Floats = npt.NDArray[np.float64]

OF_THE_NETWORK = (
    *("backbone", "freeze_backbone", "dimension", "gap"),
    *("out_of_class", "sampling", "margin"),
)
"""Parameters that `DeepRanking` has as well, and gets."""

PAIR_BYTES = 70
"""Bytes that `relevance_within` takes for each pair of pictures that share a category: measured."""


class GoldenDeepRanking(EmbeddingLearner):
    r"""A network that learns from pixels what hand-made features say of pictures of one category.

    .. math:: r_{ij} = \Pr(D(k, l) > D(i, j))

    for pictures i, j of one category, where k, l are all pairs that share a category, those of
    every category together; 0 for others.  D is the distance of `GoldenFeature`, learned from the
    given triplets or, without any, from the labels.  `DeepRanking` then learns from triplets that
    are drawn by this relevance.  `embed` reads the pixels alone, but takes the same items.

    Parameters
    ----------
    backbone, freeze_backbone, dimension, gap, out_of_class, sampling
        As `DeepRanking` has them.
    margin : float, default 0.1
        T_r (eq. 8).
    n_triplets : int, default 20000
        The steps of the network.
    C : float, default 0.1
        Of `GoldenFeature`.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    kinds_ : ndarray of shape (n_kinds,), object
        The names of the kinds of features.
    weights_ : ndarray of shape (n_kinds,)
        Their weights in D.
    parameters_ : ndarray of shape (n_parameters,), float32
        All weights of the network.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (sections 5.1 and 6.1).  They do
    not say how a distance becomes a relevance: the rank is ours.
    """

    name: ClassVar = "GoldenDeepRanking"
    summary: ClassVar = "DeepRanking from triplets by the relevance of a golden feature"
    citation: ClassVar = "Wang et al., CVPR 2014"
    cost: ClassVar = "time of DeepRanking, memory of all pairs of a category"
    imports: ClassVar = DeepRanking.imports
    takes: ClassVar = PATCHES_AND_PIXELS
    takes_labels_with_triplets: ClassVar = True

    kinds_: npt.NDArray[np.object_]
    weights_: Floats
    parameters_: npt.NDArray[np.float32]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: DeepRanking._parameter_constraints[name] for name in OF_THE_NETWORK},
        "n_triplets": [Interval(Integral, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        backbone: Literal["small", "efficientnet-lite0"] = "small",
        freeze_backbone: bool = False,
        dimension: int = 128,
        gap: float = 0.2,
        out_of_class: float = 0.2,
        sampling: Literal["weighted", "uniform", "reservoir"] = "weighted",
        margin: float = 0.1,
        n_triplets: int = 20_000,
        C: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.backbone = backbone
        self.freeze_backbone = freeze_backbone
        self.dimension = dimension
        self.gap = gap
        self.out_of_class = out_of_class
        self.sampling = sampling
        self.margin = margin
        self.n_triplets = n_triplets
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, triplets: Any = None) -> Self:
        """Learn the golden feature, then the network.

        Parameters
        ----------
        X : Patches with pixels, of n_items pictures
        y : array of shape (n_items,)
            The category of each; pictures of one are told apart by the features.
        triplets : array of shape (n_triplets, 3), integers, optional
            Item numbers: query, positive, negative, as people judged them.

        Raises
        ------
        UsageError
            Where torch is missing, or what is given is not of this kind.
        MemoryError
            Where the pairs of pictures of one category do not fit into memory.
        """
        self._validate_params()
        self._check(X, y)
        seeds = check_random_state(self.random_state).randint(2**31, size=2)
        golden, features = GoldenFeature(self.C, random_state=int(seeds[0])), Patches(X.kinds)
        if triplets is None:
            golden.fit(features, y)
        else:
            golden.partial_fit_triplets(features, triplets)
        relevance = relevance_within(golden, features, class_labels(y))
        network = self._network(int(seeds[1])).fit(X.pixels, y, relevance=relevance)
        self.kinds_, self.weights_ = golden.kinds_, golden.weights_
        self.parameters_ = network.parameters_
        return self

    def embed(self, X: Any) -> Any:
        """Return the points of pictures, of unit length: (n_items, dimension), float32."""
        X = self._check_items(X)
        network = self._network(seed=0)
        network.parameters_ = self.parameters_
        return network.embed(X.pixels)

    def _network(self, seed: int) -> DeepRanking:
        return DeepRanking(
            **{name: getattr(self, name) for name in OF_THE_NETWORK},
            n_steps=self.n_triplets,
            random_state=seed,
        )

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        check_items(PATCHES_AND_PIXELS, X)
        n_pairs = int((np.unique(class_labels(y), return_counts=True)[1] ** 2).sum())
        require_memory(
            PAIR_BYTES * n_pairs,
            f"{self.name} on {n_pairs:,} pairs of pictures that share a category",
            "use fewer pictures a category",
        )
        self._network(seed=0)._check(X.pixels, y)

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            "kinds_": FittedArray(("n_kinds",), np.object_),
            "weights_": FittedArray(("n_kinds",)),
            "parameters_": FittedArray(("n_parameters",), np.float32),
        }


def relevance_within(golden: GoldenFeature, X: Patches, y: npt.NDArray[Any]) -> sparse.csr_array:
    """Return r_ij, the share of all pairs that share a category that are further apart.

    A csr_array (n_items, n_items) from 0 to 1; pairs of equal distance count as a half.  0 for
    pictures of two categories `y`, and for a picture and itself.
    """
    embedded = golden.embed(X)
    pairs, distances = [], []
    for category in np.unique(y):
        own = np.flatnonzero(y == category)
        others = ~np.eye(len(own), dtype=bool)
        pairs.append(own[np.argwhere(others)])
        distances.append(euclidean_distances(embedded[own], squared=True)[others])
    D = np.concatenate(distances)
    relevance = 1 - (rankdata(D) - 0.5) / max(1, len(D))
    return sparse.csr_array((relevance, tuple(np.concatenate(pairs).T)), shape=(len(y), len(y)))
