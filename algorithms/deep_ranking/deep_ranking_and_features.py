"""A golden feature of a network's points and of hand-made features, by the same triplets."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.deep_ranking.deep_ranking import DeepRanking
from oasis_bench.algorithms.deep_ranking.golden_feature import GoldenFeature
from oasis_bench.algorithms.deep_ranking.holds_network import NETWORK_CONSTRAINTS, HoldsNetwork
from oasis_bench.algorithms.deep_ranking.sources import check_triplets
from oasis_bench.data import PATCHES_AND_PIXELS, Patches, check_items
from oasis_bench.plugins import EmbeddingLearner, FittedArray

Floats = npt.NDArray[np.float64]

POINTS = "deep_ranking"
"""The kind of features that the network's points are."""


class DeepRankingAndFeatures(HoldsNetwork, EmbeddingLearner):
    r"""`GoldenFeature` of what `DeepRanking` makes of pictures, and of their other features.

    .. math:: D(x, y) = w_0 |f(x) - f(y)|^2 + \sum_k w_k |x_k - y_k|^2, \quad w \ge 0

    The network f learns first, then the weights of its points and of each kind of features are
    learned by maximum margin, from the same pictures.

    Parameters
    ----------
    backbone, dimension, freeze_backbone, gap, n_steps
        As `DeepRanking` has them.
    multiscale : bool, default False
        As `DeepRanking` has it; the paper's table 2 joins features to single-scale ranking.
    C : float, default 0.1
        Of `GoldenFeature`.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    parameters_, n_steps_, precision_
        Of the network, as `DeepRanking` has them.
    kinds_ : ndarray of shape (n_kinds,), object
        'deep_ranking', which are the network's points, and the names of the kinds of features.
    weights_ : ndarray of shape (n_kinds,)
        w.
    widths_ : ndarray of shape (n_kinds,), int64
        The numbers of each kind.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (table 2).  That the golden feature
    joins the two is ours.
    """

    name: ClassVar = "DeepRankingAndFeatures"
    summary: ClassVar = "a weight for the points of DeepRanking and for each kind of features"
    citation: ClassVar = "Wang et al., CVPR 2014"
    cost: ClassVar = "time and memory of DeepRanking, and of GoldenFeature"
    takes: ClassVar = PATCHES_AND_PIXELS
    takes_triplets: ClassVar = True

    kinds_: npt.NDArray[np.object_]
    weights_: Floats
    widths_: npt.NDArray[np.int64]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NETWORK_CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        backbone: Literal["small", "efficientnet-lite0"] = "small",
        dimension: int = 128,
        multiscale: bool = False,
        freeze_backbone: bool = False,
        gap: float = 0.2,
        n_steps: int = 20_000,
        C: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.backbone = backbone
        self.dimension = dimension
        self.multiscale = multiscale
        self.freeze_backbone = freeze_backbone
        self.gap = gap
        self.n_steps = n_steps
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from triplets that the network and the golden feature draw from class labels.

        Parameters
        ----------
        X : Patches with pixels, of n_items pictures
        y : array of shape (n_items,)

        Raises
        ------
        UsageError
            Where torch is missing, or what is given is not of this kind.
        """
        self._validate_params()
        check_items(PATCHES_AND_PIXELS, X)
        of_network, of_golden = self._seeds()
        network = self._network(of_network).fit(X.pixels, y)
        golden = GoldenFeature(self.C, random_state=of_golden).fit(joined(network, X), y)
        return self._keep(network, golden)

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets: the network draws its steps of them, with repetition.

        The network goes on from where it is, for `n_steps` more.  The weights are learned anew from
        these triplets, as the points have changed.

        Parameters
        ----------
        X : Patches with pixels, of n_items pictures
        triplets : array of shape (n_triplets, 3), integers
            Numbers of pictures: query, positive, negative.  Without any, it stays as it is, or
            has the network's first weights and w = 1.

        Raises
        ------
        UsageError
            Where torch is missing, or what is given is not of this kind.
        """
        self._validate_params()
        check_items(PATCHES_AND_PIXELS, X)
        given = check_triplets(triplets, len(X))
        if not len(given) and hasattr(self, "parameters_"):
            return self
        of_network, _ = self._seeds()
        network = self._network_after(given, X.pixels, of_network)
        golden = GoldenFeature(self.C).partial_fit_triplets(joined(network, X), given)
        return self._keep(network, golden)

    def embed(self, X: Any) -> Any:
        """Return points and features, by the roots of their weights: (n_items, sum of widths)."""
        X = self._check_items(X)
        golden = GoldenFeature()
        for name in ("kinds_", "weights_", "widths_"):
            setattr(golden, name, getattr(self, name))
        return golden.embed(joined(self._network(seed=0), X))

    def _keep(self, network: DeepRanking, golden: GoldenFeature) -> Self:
        self._keep_network(network)
        self.kinds_, self.weights_, self.widths_ = golden.kinds_, golden.weights_, golden.widths_
        return self

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        check_items(PATCHES_AND_PIXELS, X)
        self._network(seed=0)._check(X.pixels, y)

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "kinds_": FittedArray(("n_kinds",), np.object_),
            "weights_": FittedArray(("n_kinds",)),
            "widths_": FittedArray(("n_kinds",), np.integer),
        }


def joined(network: DeepRanking, X: Patches) -> Patches:
    """Return the features of pictures, and before them the network's points as one more kind."""
    points = Patches.one_each({POINTS: network.embed(X.pixels)})
    return Patches({**points.kinds, **X.kinds})
