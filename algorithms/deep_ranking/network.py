"""The multiscale network of Deep Ranking (Wang et al. 2014, section 4), in torch.

Imports torch: only functions that use it import this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

Vector = npt.NDArray[np.float32]

SMALL_CHANNELS = (16, 32, 64, 128)
LOW_RESOLUTIONS = (4, 8)
N_FILTERS = 96
POOLED_SIDE = 4


class MultiscaleNetwork(nn.Module):  # type: ignore[misc]
    """Pictures (n, 3, height, width), values from -1 to 1, to points of unit length.

    A convolutional network sees the picture in full, and two shallow paths see it at a quarter and
    at an eighth of its size.  What each gives is normalised to unit length; one linear layer maps
    the joined parts, and its output has unit length again.

    Parameters
    ----------
    backbone : {'small', 'efficientnet-lite0'}
    dimension : int
        Numbers of the embedding.
    multiscale : bool
        Whether there are the two paths.
    dropout : float
        Share of the inputs of the linear layer that are left out in training.
    """

    def __init__(self, backbone: str, dimension: int, multiscale: bool, dropout: float) -> None:
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
    """Write a vector that `to_vector` made into tensors of the same shapes.

    Raises
    ------
    ValueError
        Where its length is another.
    """
    sizes = [one.numel() for one in tensors]
    if sum(sizes) != len(vector):
        raise ValueError(f"{len(vector)} numbers for a network of {sum(sizes)}")
    with torch.no_grad():
        for one, part in zip(tensors, np.split(vector, np.cumsum(sizes)[:-1]), strict=True):
            one.copy_(torch.from_numpy(part.copy()).view(one.shape))


def state_of(network: nn.Module) -> list[Any]:
    """Return all tensors that decide an embedding: parameters and statistics of layers."""
    return [one for one in network.state_dict().values() if one.is_floating_point()]


def _backbone(name: str) -> tuple[nn.Module, int]:
    """Make a convolutional network, and say how many numbers it gives of a picture."""
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
    from oasis_bench.datasets.features.efficientnet_lite0 import N_FEATURES, efficientnet_lite0

    return efficientnet_lite0(classifier=False), N_FEATURES
