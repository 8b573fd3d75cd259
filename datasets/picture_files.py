"""Picture files: decoded, hashed, described side by side, and what the cache keeps of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import PICTURE_FORMATS, Patches, Pixels, Rows, rgb_of
from oasis_bench.datasets.files import Arrays, cache_key, cached, reason_of
from oasis_bench.system import (
    Progress,
    UsageError,
    cache_home,
    check_value,
    n_cores,
    open_regular,
    require_memory,
    slices,
)

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image


class UnusableImageError(Exception):
    """A picture file that cannot be used; the message is the reason, without the file's name."""


class TooSmallError(UnusableImageError):
    """A picture that can be decoded, but is too small for enough blocks."""


def read_image(path: Path, enough: int | None = None) -> Image:
    """Decode a picture to RGB, 8 bits a channel.

    The EXIF orientation is applied, transparent pixels become white, greys of more bits are scaled
    to 8 bits, and of an animation the first frame counts.  Where `enough` pixels of width and
    height are enough, a JPEG of a multiple is decoded at a fraction of its size, which is much
    faster.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with open_regular(path) as file, Image.open(file, formats=PICTURE_FORMATS) as image:
            n_pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
            if limit is not None and n_pixels > limit:
                raise UnusableImageError(f"{n_pixels} pixels, more than {limit}: shrink it")
            if enough is not None:
                image.draft("RGB", (enough, enough))
            ImageOps.exif_transpose(image, in_place=True)
            converted: Image.Image = rgb_of(image)
            return converted
    except (UnusableImageError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise UnusableImageError(f"no picture in any of {', '.join(PICTURE_FORMATS)}") from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise UnusableImageError(reason_of(error)) from error


T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 256
"""Pictures in a file of the cache: what Ctrl-C loses at most."""


@dataclass(frozen=True)
class Picture:
    """A file and the hash of its content, which decides all that is computed from it."""

    path: Path
    content: str


class Fault(NamedTuple):
    """Why a picture cannot be used; `too_small` where only its size is the reason."""

    reason: str
    too_small: bool = False


LeftOut: TypeAlias = "list[tuple[Path, Fault]]"
Parts: TypeAlias = "tuple[npt.NDArray[Any], ...]"
"""What is computed from one picture: arrays of equal length, such as a row or its patches."""

Compute: TypeAlias = (
    "Callable[[Sequence[Picture], Progress], tuple[dict[Picture, Parts], dict[Picture, Fault]]]"
)


class PictureRows(NamedTuple):
    """Rows of pictures: `X` of those numbered `kept`, ascending; the others with the reason.

    `patches` are there where rows are made of several kinds of features: one a picture and kind.
    """

    X: Rows
    kept: list[int]
    left_out: LeftOut
    remarks: tuple[str, ...] = ()
    patches: Patches | None = None


def in_threads(
    function: Callable[[T], R], what: str, items: Iterable[T], progress: Progress
) -> tuple[dict[T, R], dict[T, Fault]]:
    """Return the results of the items, and the faults of the items without a result.

    NumPy and Pillow release Python's lock; there is a thread for each core.
    """
    results: dict[T, R] = {}
    faults: dict[T, Fault] = {}
    pool = ThreadPoolExecutor(n_cores())
    try:
        futures = {item: pool.submit(function, item) for item in items}
        for done, (item, future) in enumerate(futures.items(), start=1):
            try:
                results[item] = future.result()
            except UnusableImageError as error:
                faults[item] = Fault(str(error), isinstance(error, TooSmallError))
            progress(what, done, len(futures))
    finally:
        pool.shutdown(cancel_futures=True)
    return results, faults


def hashed_pictures(paths: Sequence[Path], progress: Progress) -> list[Picture]:
    """Hash each file (SHA-256); one that cannot be read has its path and the reason instead."""
    files = dict.fromkeys(paths)
    hashes, faults = in_threads(_content_hash, "reading picture files", files, progress)
    contents = hashes | {path: f"{path}: {fault.reason}" for path, fault in faults.items()}
    return [Picture(path, contents[path]) for path in paths]


def _content_hash(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnusableImageError(reason_of(error)) from error


def number_of(text: str) -> int:
    """Return a number that a text decides, to seed what is drawn."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def described(
    pictures: Iterable[Picture],
    compute: Compute,
    folder: str,
    code: Sequence[str],
    decided_by: Sequence[str],
    progress: Progress,
) -> tuple[dict[str, Parts], dict[str, Fault]]:
    """Return by its content what is computed from each picture, and why others have nothing.

    One file in this folder of the cache holds 256 pictures, under a hash of their contents, of the
    modules `code` and of what else decides the result: after Ctrl-C a call goes on from there.
    """
    unique = list({picture.content: picture for picture in pictures}.values())
    found: dict[str, Parts] = {}
    faults: dict[str, Fault] = {}
    for part in slices(len(unique), AT_ONCE):
        some = unique[part]

        def here(what: str, done: int, _: int | None, before: int = part.start) -> None:
            progress(what, before + done, len(unique))

        key = cache_key(code, *decided_by, *(one.content for one in some))
        path = cache_home() / folder / f"{key}.npz"
        arrays = cached(path, partial(_packed, compute, some, here))
        faults |= faults_of(arrays)
        usable = [one.content for one in some if one.content not in faults]
        n_parts = sum(name.startswith("part") for name in arrays)
        parts = (arrays[f"part{number}"] for number in range(n_parts))
        pieces = [np.split(one, arrays["ends"][:-1]) for one in parts]
        found |= zip(usable, zip(*pieces, strict=True), strict=True)
    return found, faults


def _packed(compute: Compute, pictures: Sequence[Picture], progress: Progress) -> Arrays:
    """Return the results and the faults of some pictures as the arrays of one file."""
    results, faults = compute(pictures, progress)
    parts = [np.concatenate(part) for part in zip(*results.values(), strict=True)]
    ends = np.cumsum([len(first) for first, *_ in results.values()], dtype=np.int64)
    numbered = {f"part{number}": part for number, part in enumerate(parts)}
    return {"ends": ends, **numbered, **arrays_of_faults(faults)}


def arrays_of_faults(faults: dict[Picture, Fault]) -> Arrays:
    """Return faults as arrays, for a file."""
    return {
        "faulty": np.array([picture.content for picture in faults], str),
        "reasons": np.array([fault.reason for fault in faults.values()], str),
        "too_small": np.array([fault.too_small for fault in faults.values()], bool),
    }


def faults_of(arrays: Arrays) -> dict[str, Fault]:
    """Return the faults that `arrays_of_faults` made arrays of, by the pictures' contents."""
    parts = (arrays[name].tolist() for name in ("faulty", "reasons", "too_small"))
    return {content: Fault(*fault) for content, *fault in zip(*parts, strict=True)}


def named(pictures: Iterable[Picture], faults: dict[str, Fault]) -> LeftOut:
    """Return the paths of the pictures that cannot be used, each with the reason."""
    return [(one.path, faults[one.content]) for one in pictures if one.content in faults]


def picture_rows(
    pictures: Sequence[Picture], found: dict[str, Parts], faults: dict[str, Fault]
) -> PictureRows:
    """Return what was `described` as rows, where each picture has one, float32."""
    kept = [number for number, one in enumerate(pictures) if one.content in found]
    X = np.array([found[pictures[number].content][0][0] for number in kept], np.float32)
    return PictureRows(X, kept, named(pictures, faults))


def fault_lines(left_out: LeftOut, what: str = "left out") -> Iterator[str]:
    """Name each broken file with the reason; count those that are only too small."""
    small = [(path, fault.reason) for path, fault in left_out if fault.too_small]
    for path, fault in left_out:
        if not fault.too_small:
            yield f"{what}: {str(path)!r}: {fault.reason}"
    if small:
        path, reason = small[0]
        yield f"{what}: {len(small)} too small: such as {str(path)!r}: {reason}"


def refuse_left_out(left_out: LeftOut) -> None:
    """Raise UsageError where a picture cannot be used."""
    for path, fault in left_out:
        raise UsageError(f"{path} cannot be used: {fault.reason}")


CODE = (__file__,)


def check_count(name: str, value: int | None, least: int = 1) -> None:
    """Raise UsageError where an option is given and is no whole number of `least` or more."""
    if value is not None:
        check_value(name, value, int, least)


def resized(picture: Picture, side: int, enough: int | None = None) -> Image:
    """Return a picture stretched to a square; nothing is cut off, and pixels are averaged."""
    from PIL import Image  # where it is used: a trial does without

    return read_image(picture.path, enough).resize((side, side), Image.Resampling.BILINEAR)


def pixels_of(
    pictures: Sequence[Picture], side: int, progress: Progress
) -> tuple[Pixels, list[int], LeftOut]:
    """Decode pictures to `side` x `side` pixels (n_usable, side, side, 3), uint8.

    Then come the numbers of the pictures that can be used, and the others with the reason.
    """
    require_memory(
        2 * len(pictures) * side**2 * 3,
        f"{len(pictures)} pictures of {side} x {side} pixels",
        "ask for smaller ones",
    )

    def decode(picture: Picture) -> Parts:
        return (np.asarray(resized(picture, side, 2 * side))[None],)

    compute = partial(in_threads, decode, "decoding pictures")
    found, faults = described(pictures, compute, "pixels", CODE, [str(side)], progress)
    kept = [number for number, one in enumerate(pictures) if one.content not in faults]
    parts = [found[pictures[number].content][0] for number in kept]
    none = np.empty((0, side, side, 3), np.uint8)
    return np.concatenate([none, *parts]), kept, named(pictures, faults)


THUMBNAIL = 16
"""Width and height of a thumbnail in pixels."""

NEAR = 6.0
"""Largest root mean square of the grey differences, of 255, between thumbnails of duplicates.

Measured on ten classes of Caltech256 and 5514 pictures of Caltech101: the copy that is rescaled and
has a watermark is at 4.4, and the nearest two pictures that differ are at 9.6."""


def near_duplicates(
    pictures: Sequence[Picture], others: Sequence[Picture], progress: Progress
) -> frozenset[str]:
    """Return the contents of the `pictures` that are copies of `others`, also rescaled or recoded.

    Two pictures are near-duplicates where their contents are equal, or where their grey
    thumbnails, 16 x 16 pixels whatever their shape, differ by `NEAR` or less.  Copies that are
    mirrored, turned or cropped are not found.
    """
    from sklearn.metrics import pairwise_distances_argmin_min  # here: processes do without

    compute = partial(in_threads, _thumbnail, "comparing pictures")
    own, of = (
        described(some, compute, "thumbnails", CODE, (), progress)[0] for some in (pictures, others)
    )
    equal = {picture.content for picture in pictures} & {picture.content for picture in others}
    if not own or not of:
        return frozenset(equal)
    rows, other_rows = (
        np.concatenate([parts[0] for parts in found.values()], dtype=np.float32)
        for found in (own, of)
    )
    # The distance of two thumbnails is their side times the root mean square of their differences.
    _, distances = pairwise_distances_argmin_min(rows, other_rows)
    return frozenset(equal.union(np.array(list(own))[distances <= NEAR * THUMBNAIL].tolist()))


def _thumbnail(picture: Picture) -> Parts:
    from PIL import Image

    grey = read_image(picture.path, enough=4 * THUMBNAIL).convert("L")
    small = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return (np.asarray(small).reshape(1, -1),)
