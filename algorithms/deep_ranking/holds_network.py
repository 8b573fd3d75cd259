"""What learners that hold a `DeepRanking` have in common: its parameters and what it learned."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from oasis_bench.algorithms.deep_ranking.deep_ranking import LEARNED, DeepRanking
from oasis_bench.algorithms.deep_ranking.sources import Triplets
from oasis_bench.data import Pixels
from oasis_bench.plugins import FittedArray, MetricLearner

OF_THE_NETWORK = ("backbone", "dimension", "multiscale", "freeze_backbone", "gap", "n_steps")
"""Parameters that `DeepRanking` has as well, and gets."""

NETWORK_CONSTRAINTS = {name: DeepRanking._parameter_constraints[name] for name in OF_THE_NETWORK}


class HoldsNetwork(MetricLearner):
    """A learner made of a `DeepRanking` and of another that learns after it, on its points."""

    imports: ClassVar = DeepRanking.imports

    parameters_: npt.NDArray[np.float32]
    random_state: int | np.random.RandomState | None

    def _seeds(self) -> tuple[int, int]:
        """Draw the seeds of the network and of the other learner."""
        of_network, of_other = check_random_state(self.random_state).randint(2**31, size=2)
        return int(of_network), int(of_other)

    def _network(self, seed: int) -> DeepRanking:
        """Make the network, as it was learned where it was."""
        chosen = {name: getattr(self, name) for name in OF_THE_NETWORK}
        network = DeepRanking(**chosen, random_state=seed)
        if hasattr(self, "parameters_"):
            _copy_learned(self, network)
        return network

    def _network_after(self, triplets: Triplets, pictures: Pixels, seed: int) -> DeepRanking:
        """Return the network `n_steps` later; without triplets, as it is or at first was."""
        network = self._network(seed)
        if len(triplets):
            return network.partial_fit(pictures, triplets=triplets)
        return network.partial_fit_triplets(pictures, triplets)

    def _keep_network(self, network: DeepRanking) -> None:
        _copy_learned(network, self)

    def _fitted_state(self) -> dict[str, FittedArray]:
        return self._network(seed=0)._fitted_state()


def _copy_learned(source: MetricLearner, target: Any) -> None:
    for name in LEARNED:
        setattr(target, name, getattr(source, name))
