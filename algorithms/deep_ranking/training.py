"""Steps of Deep Ranking's network on batches of triplets, and its embeddings of pictures.

Imports torch: only functions that use it import this module.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from oasis_bench.algorithms.deep_ranking.network import (
    MultiscaleNetwork,
    Vector,
    from_vector,
    state_of,
    to_vector,
    triplet_loss,
)
from oasis_bench.data import Pixels
from oasis_bench.system import slices

Triplets = npt.NDArray[np.int64]

EMBEDDED_AT_ONCE = 32
"""Every block has so many pictures, filled up with black ones: one alone has the same numbers."""


@dataclass(frozen=True)
class Settings:
    """What decides a step, beside the network; see `DeepRanking`."""

    gap: float
    learning_rate: float
    momentum: float
    weight_decay: float
    shift: float
    freeze_backbone: bool


class Trainer:
    """Stochastic gradient steps with Nesterov's momentum, on the GPU where there is one.

    A step is decided by the weights, the momentum, its triplets and a seed, so that learning goes
    on as if it had never stopped.  Where memory runs out, a batch is cut in halves whose gradients
    are summed.

    Parameters
    ----------
    network : MultiscaleNetwork
    momentum : ndarray, optional
        The vector that `momentum` returned; None: zeros.
    pictures : ndarray of shape (n_pictures, height, width, 3), uint8
    settings : Settings
    """

    def __init__(
        self,
        network: MultiscaleNetwork,
        momentum: Vector | None,
        pictures: Pixels,
        settings: Settings,
    ) -> None:
        self.network = on_device(network)
        self.pictures, self.settings = pictures, settings
        network.backbone.requires_grad_(not settings.freeze_backbone)
        self._learned = [one for one in network.parameters() if one.requires_grad]
        self._optimizer = torch.optim.SGD(
            self._learned,
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=2 * settings.weight_decay,  # torch's is half of |w|^2
            nesterov=settings.momentum > 0,
        )
        self._velocity = [torch.zeros_like(one) for one in self._learned]
        if momentum is not None:
            from_vector(momentum, self._velocity)
        for one, velocity in zip(self._learned, self._velocity, strict=True):
            self._optimizer.state[one]["momentum_buffer"] = velocity
        self._at_once: int | None = None
        self._features = None
        if settings.freeze_backbone:  # of pictures that are not shifted, once
            self._features = _in_blocks(network.eval().backbone, pictures)

    def step(self, triplets: Triplets, rng: np.random.Generator) -> None:
        """Change the weights by one batch of triplets (n_triplets, 3) of picture numbers."""
        items, places = np.unique(triplets, return_inverse=True)
        places = places.reshape(triplets.shape)
        pictures = shifted(self.pictures[items], self.settings.shift, rng)
        seed = int(rng.integers(2**63))
        self.network.train()
        while True:
            try:
                self._optimizer.zero_grad()
                with torch.random.fork_rng():
                    torch.manual_seed(seed)
                    for part in slices(len(triplets), self._at_once or len(triplets)):
                        self._add_gradient(items, pictures, places[part], len(triplets))
                break
            except RuntimeError as error:
                self._halve(error, len(triplets))
        self._optimizer.step()

    def momentum(self) -> Vector:
        """Return the momentum of all weights that are learned, as one vector."""
        return to_vector(self._velocity)

    def weights(self) -> Vector:
        """Return all that decides an embedding, as one vector."""
        return to_vector(state_of(self.network))

    def _add_gradient(
        self, items: Triplets, pictures: Pixels, places: Triplets, n_triplets: int
    ) -> None:
        some, order = np.unique(places, return_inverse=True)
        inputs = as_tensor(pictures[some], device_of(self.network))
        features = None if self._features is None else self._features[items[some]]
        with torch.autocast("cuda", torch.bfloat16, enabled=inputs.is_cuda):
            embedded = self.network(inputs, features)
        query, positive, negative = embedded.float()[order.reshape(places.shape)].unbind(1)
        loss = triplet_loss(query, positive, negative, self.settings.gap)
        (loss.sum() / n_triplets).backward()

    def _halve(self, error: RuntimeError, n_triplets: int) -> None:
        """Take half of the triplets at once from now on, where `error` says that memory ran out."""
        text = str(error).lower()
        told = "alloc" in text or "could not create a" in text  # the latter: oneDNN's scratchpads
        if not isinstance(error, torch.OutOfMemoryError) and not told:
            raise error
        now = min(self._at_once or n_triplets, n_triplets)
        if now == 1:
            raise MemoryError(
                "one triplet of pictures needs more memory than there is: give smaller pictures"
            ) from error
        self._at_once = now // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        warnings.warn(
            f"memory ran out with {now} triplets at once: going on with {self._at_once} at once; "
            "a smaller batch_size or smaller pictures need less",
            stacklevel=6,
        )


def embedded(network: MultiscaleNetwork, pictures: Pixels) -> Vector:
    """Return the embedding of each picture (n_pictures, dimension)."""
    found: Vector = _in_blocks(on_device(network).eval(), pictures).cpu().numpy()
    return found


def shifted(pictures: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """Shift each picture by up to a `share` of its sides, at random; its edge is repeated."""
    n, height, width, _ = pictures.shape
    most = [round(share * side) for side in (height, width)]
    if not any(most):
        return pictures
    rows, columns = (
        np.clip(
            np.arange(side) + rng.integers(-limit, limit, size=(n, 1), endpoint=True), 0, side - 1
        )
        for side, limit in zip((height, width), most, strict=True)
    )
    found = np.empty_like(pictures)
    for number, picture in enumerate(pictures):  # a third of the time of one index for all
        found[number] = picture.take(rows[number], axis=0).take(columns[number], axis=1)
    return found


def on_device(network: MultiscaleNetwork) -> MultiscaleNetwork:
    """Move a network to the GPU where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device, memory_format=torch.channels_last)
    return network


def device_of(network: torch.nn.Module) -> Any:
    """Return where a network's weights are."""
    return next(network.parameters()).device


def as_tensor(pictures: Pixels, device: Any) -> Any:
    """Return pictures as values from -1 to 1, channels first."""
    channels = torch.from_numpy(np.ascontiguousarray(pictures)).to(device).permute(0, 3, 1, 2)
    return channels.float() / 127.5 - 1


def _in_blocks(network: torch.nn.Module, pictures: Pixels) -> Any:
    """Apply a network that learns nothing now to pictures, in blocks of one size."""
    found = []
    device = device_of(network)
    with torch.no_grad():
        for part in slices(len(pictures), EMBEDDED_AT_ONCE):
            block = pictures[part]
            missing = EMBEDDED_AT_ONCE - len(block)
            filled = np.concatenate(
                [block, np.zeros_like(block, shape=(missing, *block.shape[1:]))]
            )
            found.append(network(as_tensor(filled, device))[: len(block)])
    return torch.cat(found)
