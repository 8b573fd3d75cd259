"""Pictures that show the same: equal files, and near copies by their thumbnails.

Not for what is done about them: each caller keeps or drops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.array_cache import Arrays, cache_key, cached
from oasis_bench.datasets.features.blocks import read_grey
from oasis_bench.datasets.features.picture_files import Picture, Workers
from oasis_bench.system.files import cache_home

SIDE = 16
"""Width and height of a thumbnail in pixels."""

NEAR = 6.0
"""Root mean square of the grey differences, of 255, up to which thumbnails show the same.

Measured on ten classes of Caltech256 and 5514 pictures of Caltech101: the copy that is rescaled and
has a watermark is at 4.4, and the nearest two pictures that differ are at 9.6."""

ROWS_AT_ONCE = 256

CODE = ("blocks.py", "duplicates.py")


def near_copies(
    pictures: Sequence[Picture], of: Sequence[Picture], workers: Workers
) -> frozenset[str]:
    """Find the pictures that are copies of others, be they rescaled, recoded or slightly marked.

    Two pictures are copies where their contents are equal or their grey thumbnails, 16 x 16
    pixels whatever their shape, differ by `NEAR` or less; copies that are mirrored, turned or
    cropped are not found.  Thumbnails are kept in ``thumbnails`` of the cache folder.

    Parameters
    ----------
    pictures : sequence of Picture
        Those that may be copies.
    of : sequence of Picture
        Those that they may be copies of.
    workers : Workers
        Told of the thumbnails made.

    Returns
    -------
    frozenset of str
        The contents of those of `pictures` that are copies.

    Raises
    ------
    UsageError
        Where the cache cannot be written.
    """
    contents, thumbnails = _thumbnails(pictures, workers)
    _, others = _thumbnails(of, workers)
    near = contents[_any_near(thumbnails, others)].tolist()
    equal = {picture.content for picture in pictures} & {picture.content for picture in of}
    return frozenset(equal.union(near))


def _any_near(rows: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Say of each row whether one of the others is near.

    Means differ by no more than the root mean square does: sorted by them, a few others remain
    for each block of rows.
    """
    order = np.argsort(rows.mean(axis=1))
    others = others[np.argsort(others.mean(axis=1))]
    means = others.mean(axis=1)
    near = np.zeros(len(rows), bool)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = order[start : start + ROWS_AT_ONCE]
        part = rows[block].astype(np.float64)
        first = np.searchsorted(means, part[0].mean() - NEAR, "left")
        last = np.searchsorted(means, part[-1].mean() + NEAR, "right")
        some = others[first:last].astype(np.float64)
        squares = np.einsum("ij,ij->i", some, some) - 2 * part @ some.T
        squares += np.einsum("ij,ij->i", part, part)[:, None]
        near[block] = squares.min(axis=1, initial=np.inf) <= NEAR**2 * SIDE**2
    return near


def _thumbnails(
    pictures: Iterable[Picture], workers: Workers
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.uint8]]:
    """Return the contents that can be decoded, and a row of grey pixels of each."""
    unique = {picture.content: picture for picture in pictures}
    key = cache_key(CODE, *sorted(unique))
    return cached(
        cache_home() / "thumbnails" / f"{key}.npz",
        partial(_make_thumbnails, list(unique.values()), workers),
        _parse_thumbnails,
    )


def _make_thumbnails(pictures: Sequence[Picture], workers: Workers) -> Arrays:
    rows, _ = workers.map(_thumbnail, pictures, "comparing pictures")
    none = np.empty((0, SIDE**2), np.uint8)
    return {
        "contents": np.array([picture.content for picture in rows], str),
        "thumbnails": np.concatenate([none, *(row[None] for row in rows.values())]),
    }


def _thumbnail(picture: Picture) -> npt.NDArray[np.uint8]:
    return np.asarray(read_grey(picture.path, SIDE)).reshape(-1)


def _parse_thumbnails(arrays: Arrays) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.uint8]]:
    contents, thumbnails = arrays["contents"], arrays["thumbnails"]
    if thumbnails.dtype != np.uint8 or thumbnails.shape != (len(contents), SIDE**2):
        raise ValueError(f"thumbnails {thumbnails.shape} of {len(contents)} pictures")
    return contents, thumbnails
