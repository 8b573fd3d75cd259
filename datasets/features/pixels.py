"""Pictures decoded to pixels of one size, for learners that take them.

Not for rows: visterms and histograms are made of the pictures in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from oasis_bench.data import Pixels
from oasis_bench.datasets.features import picture_files
from oasis_bench.datasets.features.picture_files import Picture, Workers, read_image
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import UsageError, cache_home, check_value, require_memory

CODE = (picture_files.__file__, __file__)


def check_side(side: int | None) -> None:
    """Raise UsageError where the option `pixels` of a data set is no whole number above 0."""
    if side is not None:
        check_value("pixels", side, int, least=1)


def pixels_of(pictures: Sequence[Picture], side: int, workers: Workers) -> Pixels:
    """Decode each picture to `side` x `side` pixels: (n_pictures, side, side, 3), uint8.

    A picture is resized as a whole by a filter that averages (Pillow's bilinear one); nothing is
    cut off, and its sides are stretched to be equal.  The pixels are kept in ``pixels`` of the
    cache folder, under a hash of the contents of the pictures.
    """
    unique = {picture.content: picture for picture in pictures}
    places = {content: number for number, content in enumerate(unique)}
    try:
        require_memory(
            2 * len(pictures) * side**2 * 3,
            f"{len(pictures)} pictures of {side} x {side} pixels",
            "ask for smaller ones",
        )
    except MemoryError as error:
        raise UsageError(str(error)) from error
    key = cache_key(CODE, str(side), *unique)
    arrays = cached(
        cache_home() / "pixels" / f"{key}.npz",
        partial(_decode, list(unique.values()), side, workers),
    )
    return np.asarray(arrays["pixels"][[places[picture.content] for picture in pictures]])


def _decode(pictures: Sequence[Picture], side: int, workers: Workers) -> Arrays:
    pixels = np.empty((len(pictures), side, side, 3), np.uint8)

    def decode(number: int) -> None:
        from PIL import Image  # where it is used: a trial does without

        image = read_image(pictures[number].path, enough=2 * side)
        pixels[number] = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))

    _, faults = workers.map(decode, range(len(pictures)), "decoding pictures")
    for number, fault in faults.items():
        raise UsageError(f"{pictures[number].path} cannot be used: {fault.reason}")
    return {"pixels": pixels}
