"""Near-duplicates: pictures whose files are equal or whose thumbnails are nearly equal.

Not for what is done about them: each caller keeps or drops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_argmin_min

from oasis_bench.datasets.features import decoding
from oasis_bench.datasets.features.decoding import read_image
from oasis_bench.datasets.features.picture_files import Picture, Workers
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import cache_home

SIDE = 16
"""Width and height of a thumbnail in pixels."""

NEAR = 6.0
"""Largest root mean square of the grey differences, of 255, between thumbnails of duplicates.

Measured on ten classes of Caltech256 and 5514 pictures of Caltech101: the copy that is rescaled and
has a watermark is at 4.4, and the nearest two pictures that differ are at 9.6."""

CODE = (decoding.__file__, __file__)


def near_duplicates(
    pictures: Sequence[Picture], others: Sequence[Picture], workers: Workers
) -> frozenset[str]:
    """Return the contents of the `pictures` that are copies of `others`, also rescaled or recoded.

    Two pictures are near-duplicates where their contents are equal, or where their grey
    thumbnails, 16 x 16 pixels whatever their shape, differ by `NEAR` or less.  Copies that are
    mirrored, turned or cropped are not found.  Thumbnails are kept in ``thumbnails`` of the cache
    folder.

    Raises
    ------
    UsageError
        Where the cache cannot be written.
    """
    equal = {picture.content for picture in pictures} & {picture.content for picture in others}
    contents, thumbnails = _thumbnails(pictures, workers)
    _, other_thumbnails = _thumbnails(others, workers)
    if not len(thumbnails) or not len(other_thumbnails):
        return frozenset(equal)
    # The distance of two thumbnails is SIDE times the root mean square of their differences.
    _, distances = pairwise_distances_argmin_min(thumbnails, other_thumbnails)
    return frozenset(equal.union(contents[distances <= NEAR * SIDE].tolist()))


def _thumbnails(
    pictures: Iterable[Picture], workers: Workers
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float32]]:
    """Return the contents that can be decoded, and a row of grey pixels for each."""
    unique = {picture.content: picture for picture in pictures}
    key = cache_key(CODE, *sorted(unique))
    arrays = cached(
        cache_home() / "thumbnails" / f"{key}.npz",
        partial(_make_thumbnails, list(unique.values()), workers),
    )
    return arrays["contents"], arrays["thumbnails"].astype(np.float32)


def _make_thumbnails(pictures: Sequence[Picture], workers: Workers) -> Arrays:
    rows, _ = workers.map(_thumbnail, pictures, "comparing pictures")
    return {
        "contents": np.array([picture.content for picture in rows], str),
        "thumbnails": np.array(list(rows.values()), np.uint8).reshape(-1, SIDE**2),
    }


def _thumbnail(picture: Picture) -> npt.NDArray[np.uint8]:
    from PIL import Image

    grey = read_image(picture.path, enough=4 * SIDE).convert("L")
    return np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)).reshape(-1)
