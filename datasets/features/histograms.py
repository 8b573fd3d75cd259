"""Pictures as rows of colours and textures, for which nothing is learned.

Not for visterms, whose codebooks are learned from other pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from oasis_bench.data import FloatArray
from oasis_bench.datasets.features import blocks, decoding, local_binary_patterns
from oasis_bench.datasets.features.blocks import BlockLayout, ColourCodebook, block_descriptors
from oasis_bench.datasets.features.decoding import read_image
from oasis_bench.datasets.features.picture_files import Picture, Workers
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import UsageError, cache_home

SIDE = 128
"""Width and height to which a picture is resized first."""

QUARTERS = BlockLayout(block=SIDE // 2, stride=SIDE // 2, min_blocks=4)
"""The four quarters of a picture, at one scale."""

LEVELS = np.arange(32, 256, 64, dtype=np.uint8)
COLOURS = np.stack(np.meshgrid(LEVELS, LEVELS, LEVELS, indexing="ij"), axis=-1).reshape(-1, 3)
"""A grid of 4 levels of red, green and blue: 64 colours."""

CODE = (blocks.__file__, decoding.__file__, local_binary_patterns.__file__, __file__)


def picture_histograms(pictures: Sequence[Picture], workers: Workers) -> FloatArray:
    """Describe each quarter of each picture by texture and colours: (n_pictures, 492), float32.

    A picture is resized to 128 x 128 pixels.  For each quarter, the histogram of its 59 uniform
    local binary patterns is joined with that of its nearest of 64 colours on a grid; each of the
    two sums to 1.  The rows are kept in ``histograms`` of the cache folder.
    """
    unique = {picture.content: picture for picture in pictures}
    arrays = cached(
        cache_home() / "histograms" / f"{cache_key(CODE, *unique)}.npz",
        partial(_describe, list(unique.values()), workers),
    )
    places = {content: number for number, content in enumerate(unique)}
    return np.asarray(arrays["rows"][[places[picture.content] for picture in pictures]])


def _describe(pictures: Sequence[Picture], workers: Workers) -> Arrays:
    codebook = ColourCodebook(COLOURS)

    def describe(picture: Picture) -> FloatArray:
        from PIL import Image  # where it is used: a trial does without

        image = read_image(picture.path).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        return block_descriptors(image, QUARTERS, codebook).ravel()

    rows, faults = workers.map(describe, pictures, "describing pictures")
    for picture, fault in faults.items():
        raise UsageError(f"{picture.path} cannot be used: {fault.reason}")
    return {"rows": np.stack(list(rows.values()))}
