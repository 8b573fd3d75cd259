"""OASIS on the points of a network that has learned from the same triplets."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.deep_ranking.deep_ranking import DeepRanking
from oasis_bench.algorithms.deep_ranking.holds_network import NETWORK_CONSTRAINTS, HoldsNetwork
from oasis_bench.algorithms.deep_ranking.sources import JudgedSource, check_triplets
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.data import FloatArray, check_items
from oasis_bench.plugins import FittedArray


class DeepRankingOASIS(HoldsNetwork):
    r"""`OASIS` on what `DeepRanking` makes of pictures: two learners, one after the other.

    .. math:: S(x, y) = f(x)^\top W f(y)

    The network f learns first, then OASIS learns W on the network's points of the same pictures.
    Without steps of OASIS, W is I, and pictures are ranked as by the network alone.

    Parameters
    ----------
    backbone, dimension, freeze_backbone, gap, n_steps
        As `DeepRanking` has them.
    multiscale : bool, default False
        As `DeepRanking` has it; the paper's table 2 is of single-scale ranking.
    aggressiveness : float, default 0.1
        C of `OASIS`.
    n_oasis_steps : int, default 20000
        Triplets that OASIS learns from.
    random_state : int, RandomState or None, default None

    Attributes
    ----------
    parameters_, n_steps_, precision_
        Of the network, as `DeepRanking` has them.
    bilinear_matrix_ : ndarray of shape (dimension, dimension), float32
        W.

    References
    ----------
    J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. Learning
    fine-grained image similarity with deep ranking. CVPR, 2014 (table 2).
    """

    name: ClassVar = "DeepRankingOASIS"
    summary: ClassVar = "OASIS on the points of DeepRanking, from the same triplets"
    citation: ClassVar = "Wang et al., CVPR 2014"
    cost: ClassVar = "time and memory of DeepRanking, and of OASIS"
    takes: ClassVar = "pixels"
    takes_triplets: ClassVar = True

    bilinear_matrix_: FloatArray

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NETWORK_CONSTRAINTS,
        "aggressiveness": [Interval(Real, 0, None, closed="neither")],
        "n_oasis_steps": [Interval(Integral, 0, None, closed="left")],
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
        aggressiveness: float = 0.1,
        n_oasis_steps: int = 20_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.backbone = backbone
        self.dimension = dimension
        self.multiscale = multiscale
        self.freeze_backbone = freeze_backbone
        self.gap = gap
        self.n_steps = n_steps
        self.aggressiveness = aggressiveness
        self.n_oasis_steps = n_oasis_steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from triplets that each learner draws from class labels.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8
        y : array of shape (n_pictures,)

        Raises
        ------
        UsageError
            Where torch is missing, or what is given is not of this kind.
        """
        self._validate_params()
        seeds = self._seeds()
        network = self._network(seeds[0]).fit(X, y)
        return self._keep(network, self._oasis(seeds[1]).fit(network.embed(X), y))

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets, of which each learner draws its steps, with repetition.

        The network goes on from where it is, for `n_steps` more.  OASIS begins anew, as the points
        have changed.

        Parameters
        ----------
        X : ndarray of shape (n_pictures, height, width, 3), uint8
        triplets : array of shape (n_triplets, 3), integers
            Numbers of pictures: query, positive, negative.  Without any, it stays as it is, or
            has the network's first weights and W = I.

        Raises
        ------
        UsageError
            Where torch is missing, or what is given is not of this kind.
        """
        self._validate_params()
        check_items("pixels", X)
        given = check_triplets(triplets, len(X))
        if not len(given) and hasattr(self, "parameters_"):
            return self
        of_network, of_oasis = self._seeds()
        network = self._network_after(given, X, of_network)
        drawn = given
        if len(given):
            drawn = JudgedSource(given).draw(self.n_oasis_steps, np.random.default_rng(of_oasis))
        oasis = self._oasis(of_oasis).partial_fit_triplets(network.embed(X), drawn)
        return self._keep(network, oasis)

    def embed(self, X: Any) -> Any:
        """Return the network's points f(x), of unit length: (n_pictures, dimension), float32."""
        return self._network(seed=0).embed(self._check_items(X))

    def score_embeddings(self, queries: Any, gallery: Any) -> FloatArray:
        """Return f(x)'W f(y) of every query and every gallery item."""
        return np.asarray(queries @ self.bilinear_matrix_ @ gallery.T)

    def _oasis(self, seed: int) -> OASIS:
        return OASIS(self.aggressiveness, n_steps=self.n_oasis_steps, random_state=seed)

    def _keep(self, network: DeepRanking, oasis: OASIS) -> Self:
        self._keep_network(network)
        self.bilinear_matrix_ = oasis.bilinear_matrix_
        return self

    def _check(self, X: Any, y: Any) -> None:
        super()._check(X, y)
        self._network(seed=0)._check(X, y)

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "bilinear_matrix_": FittedArray(("dimension", "dimension")),
        }
