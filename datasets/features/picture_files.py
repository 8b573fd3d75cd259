"""Picture files: RGB of 8 bits, hashes of their contents, and threads that work on many of them.

Not for what is computed from a picture, but for its pixels at one size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Patches, Pixels, Rows
from oasis_bench.datasets.files import Arrays, cache_key, cached, reason_of
from oasis_bench.system import (
    Progress,
    UsageError,
    available_cores,
    cache_home,
    check_value,
    open_regular,
    require_memory,
    slices,
)

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image


FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""What is decoded.  Pillow knows more, of which some start other programs (EPS: Ghostscript)."""


class UnusableImageError(Exception):
    """A picture file that cannot be used; the message is the reason, without the file's name."""


class TooSmallError(UnusableImageError):
    """A picture that can be decoded, but is too small for enough blocks."""


def read_image(path: Path, enough: int | None = None) -> Image:
    """Decode a picture to RGB, 8 bits a channel.

    The EXIF orientation is applied, transparent pixels become white, 16-bit greys lose their low
    byte, and of an animation the first frame counts.  Where `enough` pixels of width and height are
    enough, a JPEG of a multiple is decoded at a fraction of its size, which is much faster.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            n_pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
            if limit is not None and n_pixels > limit:
                raise UnusableImageError(f"{n_pixels} pixels, more than {limit}: shrink it")
            if enough is not None:
                image.draft("RGB", (enough, enough))
            ImageOps.exif_transpose(image, in_place=True)
            return _to_rgb(image)
    except UnusableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnusableImageError(f"no picture in any of {', '.join(FORMATS)}") from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise UnusableImageError(reason_of(error)) from error


def _to_rgb(image: Image) -> Image:
    from PIL import Image

    if image.mode == "F":
        raise UnusableImageError("its pixels are floats of no known range: save it with 8 bits")
    if image.mode.startswith("I"):  # Pillow would clip 16 bits to 8 instead of scaling them
        high_bytes = np.clip(np.asarray(image), 0, 0xFFFF) >> 8
        return Image.fromarray(high_bytes.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


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


class PictureRows(NamedTuple):
    """Rows of pictures: `X` of those numbered `kept`, ascending; the others with the reason.

    `patches` are there where rows are made of several kinds of features: one a picture and kind.
    """

    X: Rows
    kept: Sequence[int]
    left_out: Sequence[tuple[Path, Fault]]
    remarks: tuple[str, ...] = ()
    patches: Patches | None = None


@dataclass(frozen=True)
class Workers:
    """Threads that each take the next item; NumPy and Pillow release Python's lock.

    `progress` is called with the number of items done; `n_workers` is by default one for each core.
    """

    progress: Progress
    n_workers: int | None = None

    def map(
        self, function: Callable[[T], R], items: Iterable[T], what: str
    ) -> tuple[dict[T, R], dict[T, Fault]]:
        """Return the results of the items, and the faults of the items without a result."""
        results: dict[T, R] = {}
        faults: dict[T, Fault] = {}
        pool = ThreadPoolExecutor(self.n_workers or available_cores())
        try:
            futures = {item: pool.submit(function, item) for item in items}
            for done, (item, future) in enumerate(futures.items(), start=1):
                try:
                    results[item] = future.result()
                except UnusableImageError as error:
                    faults[item] = Fault(str(error), isinstance(error, TooSmallError))
                self.progress(what, done, len(futures))
        finally:
            pool.shutdown(cancel_futures=True)
        return results, faults


def hashed_pictures(paths: Sequence[Path], workers: Workers) -> list[Picture]:
    """Hash each file (SHA-256); a file that cannot be read has the reason in place of a hash."""
    hashes, faults = workers.map(_content_hash, dict.fromkeys(paths), "reading picture files")
    contents = hashes | {path: fault.reason for path, fault in faults.items()}
    return [Picture(path, contents[path]) for path in paths]


def arrays_of_faults(faults: Mapping[Picture, Fault]) -> Arrays:
    """Return faults as arrays, for a file."""
    return {
        "faulty": np.array([picture.content for picture in faults], str),
        "reasons": np.array([fault.reason for fault in faults.values()], str),
        "too_small": np.array([fault.too_small for fault in faults.values()], bool),
    }


def faults_of_arrays(arrays: Arrays) -> dict[str, Fault]:
    """Return the faults that `arrays_of_faults` made arrays of, by the pictures' contents."""
    parts = (arrays[name].tolist() for name in ("faulty", "reasons", "too_small"))
    return {content: Fault(*fault) for content, *fault in zip(*parts, strict=True)}


def fault_lines(left_out: Sequence[tuple[Path, Fault]], what: str) -> Iterator[str]:
    """Name each broken file with the reason; count those that are only too small."""
    small = [(path, fault.reason) for path, fault in left_out if fault.too_small]
    for path, fault in left_out:
        if not fault.too_small:
            yield f"{what}: {str(path)!r}: {fault.reason}"
    if small:
        path, reason = small[0]
        yield f"{what}: {len(small)} too small: such as {str(path)!r}: {reason}"


def _content_hash(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnusableImageError(reason_of(error)) from error


def rows_in_parts(
    pictures: Sequence[Picture],
    folder: str,
    code: Sequence[str],
    decided_by: Sequence[str],
    compute: Callable[[Sequence[Picture], int], Arrays],
) -> tuple[PictureRows, Arrays]:
    """Return the row of each picture, float32, and what `compute` returned for the last part.

    One file of the cache holds 256 pictures, under a hash of their contents, of the modules `code`
    and of what else decides the rows: after Ctrl-C a call goes on from there.  `compute` is called
    with some pictures of different contents, and how many are done already; it returns 'rows'
    (n_usable, n_features), the arrays of `arrays_of_faults`, and others.
    """
    unique = list({picture.content: picture for picture in pictures}.values())
    found: dict[str, npt.NDArray[np.float32]] = {}
    faults: dict[str, Fault] = {}
    arrays: Arrays = {}
    for part in slices(len(unique), AT_ONCE):
        some = unique[part]
        key = cache_key(code, *decided_by, *(one.content for one in some))
        path = cache_home() / folder / f"{key}.npz"
        arrays = cached(path, partial(compute, some, part.start))
        faults |= faults_of_arrays(arrays)
        usable = (one.content for one in some if one.content not in faults)
        found |= zip(usable, arrays["rows"], strict=True)
    kept = [number for number, one in enumerate(pictures) if one.content in found]
    left_out = [(one.path, faults[one.content]) for one in pictures if one.content in faults]
    X = np.array([found[pictures[number].content] for number in kept], np.float32)
    return PictureRows(X, kept, left_out), arrays


CODE = (__file__,)


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
