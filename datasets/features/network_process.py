"""What a process of its own does for `embeddings`: it alone imports torch, and embeds pictures.

A process has one thread of torch: on cores that others use too, threads that wait for each other
take ten times as long.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.picture_files import UnusableImageError, read_image
from oasis_bench.datasets.files import reason_of
from oasis_bench.system import UsageError, shown

IMAGENET = "ImageNet (ILSVRC 2012: 1.3 million photographs of 1000 classes)"


class Loaded(NamedTuple):
    """A network without its classifier: `transform` makes a tensor of a picture."""

    network: Any
    transform: Any
    side: int
    n_features: int
    device: str
    about: str


class Embedded(NamedTuple):
    """Rows of the pictures that can be decoded, in their order; `faults` of the others by number.

    `about` says whose weights they are.
    """

    rows: npt.NDArray[np.float32]
    faults: dict[int, str]
    about: str


def embed(name: str | None, paths: Sequence[Path]) -> Embedded:
    """Embed pictures by timm's network of this name; None: the package's EfficientNet-Lite0."""
    import torch

    loaded = load(name)
    tensors, faults = [], {}
    for number, path in enumerate(paths):
        try:
            image = read_image(path, enough=2 * loaded.side)
        except UnusableImageError as error:
            faults[number] = str(error)
        else:
            tensors.append(loaded.transform(image))
    if not tensors:
        return Embedded(np.empty((0, loaded.n_features), np.float32), faults, loaded.about)
    batch = torch.stack(tensors).to(loaded.device, memory_format=torch.channels_last)
    with torch.inference_mode():
        rows = loaded.network(batch).float().cpu().numpy()
    return Embedded(rows, faults, loaded.about)


def sees_gpu() -> bool:
    """Tell whether torch finds a GPU."""
    import torch

    return bool(torch.cuda.is_available())


@lru_cache(maxsize=1)
def load(name: str | None, classifier: bool = False) -> Loaded:
    """Load a network and what it was trained with: size, filter, crop, mean and deviation.

    With its `classifier`, it gives the scores of its classes in place of pooled features.
    """
    import torch

    torch.set_num_threads(1)
    device = "cuda" if sees_gpu() else "cpu"
    if name is None:
        from oasis_bench.datasets.features import efficientnet_lite0 as lite0

        network, transform = lite0.efficientnet_lite0(classifier), lite0.prepared
        about = f"EfficientNet-Lite0, trained on {IMAGENET}"
        side, n_features = lite0.SIDE, lite0.N_FEATURES
    else:
        from timm.data import create_transform, resolve_data_config

        network, about = _of_timm(name)
        config = resolve_data_config({}, model=network)
        if not classifier:
            network.reset_classifier(0)
        transform = create_transform(**config, is_training=False)
        side, n_features = max(config["input_size"][1:]), network.num_features
    network.eval()
    network.to(device, memory_format=torch.channels_last)  # half the time on a processor
    return Loaded(network, transform, side, n_features, device, about)


def _of_timm(name: str) -> tuple[Any, str]:
    """Make a network of timm, with its weights from the cache of the hub or downloaded."""
    import timm

    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # the error says it all
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"features timm:{shown(name)}: {hint}timm.list_pretrained() of timm {timm.__version__} "
            "names its networks"
        )
    try:
        network = timm.create_model(name, pretrained=True)
    except Exception as error:  # timm, the hub and HTTP raise nearly anything
        raise UsageError(
            f"features timm:{name}: its weights cannot be loaded ({reason_of(error)}): load them "
            "once where the network can be reached, or take efficientnet-lite0, whose weights are "
            "installed"
        ) from error
    facts = network.pretrained_cfg
    weights = ".".join(filter(None, (facts["architecture"], facts.get("tag"))))
    card = f", see https://huggingface.co/{hub}" if (hub := facts.get("hf_hub_id")) else ""
    return network, f"{weights} of timm, trained on what the end of its name says{card}"
