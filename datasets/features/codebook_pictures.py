"""The pictures that codebooks are learned from: those of another data set, without copies.

Not for learning a codebook: `visterms` and `hand_made`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_argmin_min

from oasis_bench.datasets.features import picture_files
from oasis_bench.datasets.features.picture_files import (
    Picture,
    Workers,
    hashed_pictures,
    read_image,
)
from oasis_bench.datasets.files import Arrays, cache_key, cached
from oasis_bench.plugins import load_registry
from oasis_bench.system import UsageError, cache_home

SIDE = 16
"""Width and height of a thumbnail in pixels."""

NEAR = 6.0
"""Largest root mean square of the grey differences, of 255, between thumbnails of duplicates.

Measured on ten classes of Caltech256 and 5514 pictures of Caltech101: the copy that is rescaled and
has a watermark is at 4.4, and the nearest two pictures that differ are at 9.6."""

CODE = (picture_files.__file__, __file__)


def pictures_of_source(
    source_name: str, name: str, workers: Workers, tell: Callable[[str], None]
) -> list[Picture]:
    """Find the pictures of the data set that the codebooks of data set `name` are learned from."""
    source: Any = load_registry().datasets[source_name]()
    if not hasattr(source, "find_images"):
        raise UsageError(f"data set {source.name!r} holds no images to learn codebooks from")
    try:
        found = source.find_images(workers.progress, tell)
    except UsageError as error:
        raise UsageError(
            f"the codebooks of {name} are learned from {source.name}: {error}"
        ) from error
    return hashed_pictures([path for path, _ in found], workers)


def without_copies(
    teachers: Sequence[Picture],
    evaluated: Sequence[Picture],
    source_name: str,
    name: str,
    workers: Workers,
) -> list[Picture]:
    """Return the pictures that teach the codebooks, without copies of the evaluated ones.

    Caltech256's classes that end in -101 hold pictures of Caltech101.
    """
    copies = near_duplicates(teachers, evaluated, workers)
    others = [picture for picture in teachers if picture.content not in copies]
    if not others:
        raise UsageError(
            f"the codebooks of {name} are learned from pictures that are all among those to be "
            f"evaluated: where these are {source_name}, run it by its name"
        )
    return others


def teachers_of(
    source_name: str,
    name: str,
    evaluated: Sequence[Picture],
    workers: Workers,
    tell: Callable[[str], None],
) -> list[Picture]:
    """Return the pictures of `pictures_of_source`, `without_copies` of the evaluated ones."""
    found = pictures_of_source(source_name, name, workers, tell)
    return without_copies(found, evaluated, source_name, name, workers)


def near_duplicates(
    pictures: Sequence[Picture], others: Sequence[Picture], workers: Workers
) -> frozenset[str]:
    """Return the contents of the `pictures` that are copies of `others`, also rescaled or recoded.

    Two pictures are near-duplicates where their contents are equal, or where their grey
    thumbnails, 16 x 16 pixels whatever their shape, differ by `NEAR` or less.  Copies that are
    mirrored, turned or cropped are not found.  Thumbnails are kept in ``thumbnails`` of the cache
    folder.
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
