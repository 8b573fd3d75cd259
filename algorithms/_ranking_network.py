"""Deep Ranking's multiscale network (Wang et al. 2014, section 4), its steps and its embeddings.

Imports torch: only functions that use it import this module.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from oasis_bench.data import Pixels
from oasis_bench.system import slices

Vector = npt.NDArray[np.float32]

SMALL_CHANNELS = (16, 32, 64, 128)
LOW_RESOLUTIONS = (4, 8)
N_FILTERS = 96
POOLED_SIDE = 4

EMBEDDED_AT_ONCE = 32
"""Every block has so many pictures, filled up with black ones: one alone has the same numbers."""


class MultiscaleNetwork(nn.Module):  # type: ignore[misc]
    """Pictures (n, 3, height, width), values from -1 to 1, to points of unit length.

    A convolutional network sees the picture in full, and two shallow paths see it at a quarter and
    at an eighth of its size.  What each gives is normalised to unit length; one linear layer maps
    the joined parts, and its output has unit length again.

    Parameters
    ----------
    backbone : {'small', 'efficientnet-lite0'} or int
        A network; or the number of features in rows that are given in place of pictures.
    dimension : int
        Numbers of the embedding.
    multiscale : bool
        Whether there are the two paths.
    dropout : float
        Share of the inputs of the linear layer that are left out in training.
    """

    def __init__(
        self, backbone: str | int, dimension: int, multiscale: bool, dropout: float
    ) -> None:
        super().__init__()
        self.backbone, n_features = _backbone(backbone)
        self.paths = nn.ModuleList(
            LowResolutionPath(factor) for factor in LOW_RESOLUTIONS if multiscale
        )
        self.dropout = nn.Dropout(dropout)
        n_joined = n_features + len(self.paths) * N_FILTERS * POOLED_SIDE**2
        self.embedding = nn.Linear(n_joined, dimension)
        # Nearly an isometry: before its first step it ranks as the joined parts do.
        nn.init.orthogonal_(self.embedding.weight)
        nn.init.zeros_(self.embedding.bias)

    def forward(self, pictures: Any, features: Any = None) -> Any:
        """Embed pictures; `features` are what the backbone gives, where that is known already."""
        full = self.backbone(pictures) if features is None else features
        parts = [full, *(path(pictures) for path in self.paths)]
        joined = torch.cat([functional.normalize(part) for part in parts], dim=1)
        return functional.normalize(self.embedding(self.dropout(joined)))

    def train(self, mode: bool = True) -> MultiscaleNetwork:
        """Switch dropout; batch normalisation keeps the statistics that came with the weights."""
        super().train(mode)
        for layer in self.backbone.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()
        return self

    def weights(self) -> Vector:
        """Return all that decides an embedding, as one vector."""
        return to_vector(self._state())

    def set_weights(self, vector: Vector) -> None:
        """Take the weights that `weights` returned."""
        from_vector(vector, self._state())

    def _state(self) -> list[Any]:
        """Return the tensors that decide an embedding: parameters and statistics of layers."""
        return [one for one in self.state_dict().values() if one.is_floating_point()]


class LowResolutionPath(nn.Module):  # type: ignore[misc]
    """A picture at a fraction of its size through one convolution and max-pooling (figure 3)."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.convolution = nn.Conv2d(3, N_FILTERS, 8, stride=4, padding=4)

    def forward(self, pictures: Any) -> Any:
        """Return 96 x 4 x 4 numbers of each picture."""
        small = [math.ceil(side / self.factor) for side in pictures.shape[2:]]
        found = self.convolution(functional.adaptive_avg_pool2d(pictures, small))
        return functional.adaptive_max_pool2d(functional.relu(found), POOLED_SIDE).flatten(1)


def triplet_loss(query: Any, positive: Any, negative: Any, gap: float) -> Any:
    """Return max(0, g + D(q, p) - D(q, n)) of each triplet of embeddings (eq. 3), shape (n,)."""
    near, far = ((query - other).square().sum(dim=1) for other in (positive, negative))
    return functional.relu(gap + near - far)


def to_vector(tensors: Sequence[Any]) -> Vector:
    """Join tensors to one vector on the processor."""
    return np.concatenate([one.detach().cpu().numpy().ravel() for one in tensors])


def from_vector(vector: Vector, tensors: Sequence[Any]) -> None:
    """Write a vector that `to_vector` made into tensors of the same shapes."""
    sizes = [one.numel() for one in tensors]
    if sum(sizes) != len(vector):
        raise ValueError(f"{len(vector)} numbers for a network of {sum(sizes)}")
    with torch.no_grad():
        for one, part in zip(tensors, np.split(vector, np.cumsum(sizes)[:-1]), strict=True):
            one.copy_(torch.from_numpy(part.copy()).view(one.shape))


def _backbone(name: str | int) -> tuple[nn.Module, int]:
    """Make a convolutional network, and say how many numbers it gives of a picture."""
    if isinstance(name, int):
        return nn.Identity(), name
    if name == "small":
        layers: list[nn.Module] = []
        for n_in, n_out in zip((3, *SMALL_CHANNELS), SMALL_CHANNELS, strict=False):
            layers += [
                nn.Conv2d(n_in, n_out, 3, padding=1),
                nn.GroupNorm(4, n_out),
                nn.ReLU(),
                nn.MaxPool2d(2, ceil_mode=True),
            ]
        layers[-1] = nn.AdaptiveAvgPool2d(1)
        return nn.Sequential(*layers, nn.Flatten()), SMALL_CHANNELS[-1]
    from oasis_bench.datasets.efficientnet_lite0 import efficientnet_lite0

    network = efficientnet_lite0(classifier=True)
    return network[:-1], network[-1].in_features


Triplets = npt.NDArray[np.int64]


class Trainer:
    """Stochastic gradient steps with Nesterov's momentum, on the GPU where there is one.

    A step is decided by the weights, the momentum, its triplets and a seed, so that learning goes
    on as if it had never stopped.  Where memory runs out, a batch is cut in halves whose gradients
    are summed.

    Parameters
    ----------
    network : MultiscaleNetwork
    velocity : ndarray, optional
        The vector that `velocity` returned; None: zeros.
    pictures : ndarray of shape (n_pictures, height, width, 3), uint8; or rows of features, float32
    gap, learning_rate, momentum, weight_decay, shift, freeze_backbone
        Those of `DeepRanking`.
    """

    def __init__(
        self,
        network: MultiscaleNetwork,
        velocity: Vector | None,
        pictures: Pixels,
        *,
        gap: float,
        learning_rate: float,
        momentum: float,
        weight_decay: float,
        shift: float = 0.0,
        freeze_backbone: bool = False,
    ) -> None:
        self.network = on_device(network)
        self.pictures, self._gap, self._shift = pictures, gap, shift
        network.backbone.requires_grad_(not freeze_backbone)
        self._learned = [one for one in network.parameters() if one.requires_grad]
        self._optimizer = torch.optim.SGD(
            self._learned,
            lr=learning_rate,
            momentum=momentum,
            weight_decay=2 * weight_decay,  # torch's is half of |w|^2
            nesterov=momentum > 0,
        )
        self._velocity = [torch.zeros_like(one) for one in self._learned]
        if velocity is not None and len(velocity) == sum(one.numel() for one in self._velocity):
            from_vector(velocity, self._velocity)  # otherwise the backbone was frozen, or is now
        for one, its_velocity in zip(self._learned, self._velocity, strict=True):
            self._optimizer.state[one]["momentum_buffer"] = its_velocity
        self._at_once: int | None = None
        # What a frozen backbone gives of pictures that are not shifted, each computed once.
        self._features: dict[int, Any] | None = {} if freeze_backbone else None

    def step(self, triplets: Triplets, rng: np.random.Generator) -> None:
        """Change the weights by one batch of triplets (n_triplets, 3) of picture numbers."""
        items, places = np.unique(triplets, return_inverse=True)
        places = places.reshape(triplets.shape)
        features = self._of_frozen_backbone(items)
        pictures = shifted(self.pictures[items], self._shift, rng)
        seed = int(rng.integers(2**63))
        self.network.train()
        while True:
            try:
                self._optimizer.zero_grad()
                with torch.random.fork_rng():
                    torch.manual_seed(seed)
                    for part in slices(len(triplets), self._at_once or len(triplets)):
                        self._add_gradient(features, pictures, places[part], len(triplets))
                break
            except RuntimeError as error:
                self._halve(error, len(triplets))
        self._optimizer.step()

    def velocity(self) -> Vector:
        """Return the momentum of all weights that are learned, as one vector."""
        return to_vector(self._velocity)

    def _of_frozen_backbone(self, items: Triplets) -> Any:
        """Return what a frozen backbone gives of pictures, or None.

        It is applied to those that it has not seen, and to others that make its blocks full.
        """
        if (known := self._features) is None:
            return None
        if new := [item for item in items.tolist() if item not in known]:
            others = (it for it in range(len(self.pictures)) if it not in known and it not in new)
            block = [*new, *islice(others, -len(new) % EMBEDDED_AT_ONCE)]
            found = _in_blocks(self.network.eval().backbone, self.pictures[block])
            known.update(zip(block, found, strict=True))
        return torch.stack([known[item] for item in items.tolist()])

    def _add_gradient(
        self, features: Any, pictures: Pixels, places: Triplets, n_triplets: int
    ) -> None:
        some, order = np.unique(places, return_inverse=True)
        inputs = as_tensor(pictures[some], device_of(self.network))
        features = None if features is None else features[some]
        with torch.autocast("cuda", torch.bfloat16, enabled=inputs.is_cuda):
            embedded = self.network(inputs, features)
        query, positive, negative = embedded.float()[order.reshape(places.shape)].unbind(1)
        loss = triplet_loss(query, positive, negative, self._gap)
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
    n, *sides = pictures.shape[:-1]
    most = [round(share * side) for side in sides]
    if not any(most):
        return pictures
    rows, columns = (
        np.clip(
            np.arange(side) + rng.integers(-limit, limit, size=(n, 1), endpoint=True), 0, side - 1
        )
        for side, limit in zip(sides, most, strict=True)
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
    """Return pictures as values from -1 to 1, channels first; rows of features as they are."""
    if pictures.ndim == 2:
        return torch.from_numpy(pictures).to(device)
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
