"""From a picture to its blocks: decoding, scales, and each block's LBP and colour histograms.

Not for codebooks of blocks, visterm counts or their cache: those are in `visterms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oasis_bench.system.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""What is decoded.  Pillow knows more, of which some start other programs (EPS: Ghostscript)."""

N_POINTS = 8
DIAGONAL = 1.41421
"""sin and cos of 45 degrees times the radius of 2, rounded as scikit-image rounds it."""

N_PATTERNS = 59
"""8 * 7 + 2 uniform patterns, and one code for all the others."""

STRIP_ROWS = 64
"""Rows that are worked on at once: what they need stays in the processor's cache."""


class UnusableImageError(Exception):
    """A file that gives no blocks; the message is the reason, without the file's name."""


class TooSmallError(UnusableImageError):
    """A picture that is whole, but too small for enough blocks."""


def read_image(path: Path) -> Picture:
    """Decode a picture to RGB, 8 bits a channel.

    The EXIF orientation is applied, transparent pixels are laid on white, 16-bit greys lose
    their low byte, and of an animation the first frame counts.

    Parameters
    ----------
    path : Path
        A file of one of `FORMATS`.

    Returns
    -------
    PIL.Image.Image
        Of mode RGB.

    Raises
    ------
    UnusableImageError
        Where the file is missing, broken, no picture, or has more pixels than
        `PIL.Image.MAX_IMAGE_PIXELS`.
    """
    return _read(path, _upright)


def read_grey(path: Path, side: int) -> Picture:
    """Decode a picture to `side` x `side` grey pixels, whatever its shape.

    A JPEG is decoded at a fraction of its size, which is much faster than `read_image`.

    Parameters
    ----------
    path : Path
        A file of one of `FORMATS`.
    side : int
        Width and height of the result.

    Returns
    -------
    PIL.Image.Image
        Of mode L.

    Raises
    ------
    UnusableImageError
        As for `read_image`.
    """
    return _read(path, partial(_shrunk_grey, side))


def _read(path: Path, decode: Callable[[Picture], Picture]) -> Picture:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=FORMATS) as image:
            n_pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
            if limit is not None and n_pixels > limit:
                raise UnusableImageError(f"{n_pixels} pixels, more than {limit}: shrink it")
            return decode(image)
    except UnusableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnusableImageError(f"no picture in any of {', '.join(FORMATS)}") from error
    except Exception as error:  # Pillow's decoders raise nearly anything on a broken file
        text = error.strerror if isinstance(error, OSError) else None
        reason = " ".join((text or str(error)).split())
        raise UnusableImageError(reason or type(error).__name__) from error


def _upright(image: Picture) -> Picture:
    from PIL import ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    return _to_rgb(image)


def _shrunk_grey(side: int, image: Picture) -> Picture:
    from PIL import Image

    image.draft("RGB", (4 * side, 4 * side))
    return _upright(image).convert("L").resize((side, side), Image.Resampling.BILINEAR)


def _to_rgb(image: Picture) -> Picture:
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


@dataclass(frozen=True)
class BlockLayout:
    """Where the blocks of a picture lie (JMLR 2010, section 3).

    Parameters
    ----------
    block : int, default 64
        Width and height of a block in pixels.
    stride : int, default 32
        Pixels between the corners of neighbouring blocks; it divides `block`.
    scale : float, default 1.25
        The picture is shrunk by this factor again and again.
    min_blocks : int, default 10
        The last scale is the last one with as many blocks.

    Raises
    ------
    UsageError
        Where a parameter is out of bounds.
    """

    block: int = 64
    stride: int = 32
    scale: float = 1.25
    min_blocks: int = 10

    def __post_init__(self) -> None:
        for name in ("block", "stride", "min_blocks"):
            if (value := getattr(self, name)) < 1:
                raise UsageError(f"{name}={value}: at least 1 is needed")
        if self.block % self.stride:
            raise UsageError(
                f"stride={self.stride} does not divide block={self.block}: choose one that does"
            )
        if not self.scale > 1:
            raise UsageError(f"scale={self.scale}: a factor above 1 is needed, such as 1.25")

    def n_blocks(self, width: int, height: int) -> int:
        """Count the blocks that fit into a picture of that size, at that size alone."""
        columns, rows = ((side - self.block) // self.stride + 1 for side in (width, height))
        return max(columns, 0) * max(rows, 0)

    def sizes(self, width: int, height: int) -> list[tuple[int, int]]:
        """List width and height at each scale, the picture's own first.

        Raises
        ------
        TooSmallError
            Where not even the first has `min_blocks` blocks.
        """
        sizes: list[tuple[int, int]] = []
        size = (width, height)
        while self.n_blocks(*size) >= self.min_blocks:
            sizes.append(size)
            factor = self.scale ** len(sizes)
            size = (round(width / factor), round(height / factor))
        if not sizes:
            raise TooSmallError(
                f"{width} x {height} pixels hold {self.n_blocks(width, height)} blocks of "
                f"{self.block} x {self.block}, fewer than {self.min_blocks}"
            )
        return sizes


@dataclass(frozen=True, eq=False)
class ColourCodebook:
    """A few colours, and for every colour there is the nearest of them.

    Parameters
    ----------
    colours : ndarray of shape (n_colours, 3), uint8
        Red, green, blue; at most 256 of them.
    """

    colours: npt.NDArray[np.uint8]

    @cached_property
    def nearest(self) -> npt.NDArray[np.uint8]:
        """The nearest colour of each red + 256 green + 65536 blue, shape (2**24,).

        Squared distances of whole numbers are exact; of equally near colours it is the first.
        """
        levels = np.arange(256, dtype=np.int32)
        # The colour's number in the low byte: the least value is the nearest, then the first.
        red, green, blue = (
            (levels - self.colours[:, [channel]].astype(np.int32)) ** 2 << 8 for channel in range(3)
        )
        green_red = green[:, :, None] + red[:, None, :]
        green_red += np.arange(len(self.colours), dtype=np.int32)[:, None, None]
        table = np.empty((256, 256, 256), np.uint8)
        for level in range(256):
            best = green_red[0] + blue[0, level]
            for distances, further in zip(green_red[1:], blue[1:, level], strict=True):
                np.minimum(best, distances + further, out=best)
            table[level] = best & 0xFF
        return table.reshape(-1)


def block_descriptors(
    image: Picture, layout: BlockLayout, codebook: ColourCodebook
) -> npt.NDArray[np.float32]:
    """Describe each block by its texture and its colours.

    A row is the histogram of the block's local binary patterns (the 59 codes of `lbp_codes`)
    joined with the one of its nearest codebook colours; each of the two sums to 1.  Patterns are
    those of the whole picture, so a block's border pixels see their neighbours outside of it.

    Parameters
    ----------
    image : PIL.Image.Image
        Of mode RGB.  It is shrunk by bilinear filtering, each scale from the picture itself;
        patterns come from its luma (ITU-R 601-2, Pillow's mode L).
    layout : BlockLayout
        Where the blocks lie.
    codebook : ColourCodebook
        Of n_colours colours.

    Returns
    -------
    ndarray of shape (n_blocks, 59 + n_colours), float32
        Scale by scale, row of blocks by row of blocks.

    Raises
    ------
    TooSmallError
        Where the picture is too small for `layout`.
    """
    from PIL import Image

    per_side = layout.block // layout.stride
    n_bins = N_PATTERNS + len(codebook.colours)
    descriptors = []
    for size in layout.sizes(*image.size):
        shrunk = image if size == image.size else image.resize(size, Image.Resampling.BILINEAR)
        cells = _cell_histograms(shrunk, layout.stride, codebook)
        blocks = np.lib.stride_tricks.sliding_window_view(cells, (per_side, per_side), axis=(0, 1))
        descriptors.append(blocks.sum(axis=(3, 4)).reshape(-1, n_bins))
    return np.concatenate(descriptors, dtype=np.float32) / np.float32(layout.block**2)


def _cell_histograms(image: Picture, side: int, codebook: ColourCodebook) -> npt.NDArray[np.int32]:
    """Count patterns and colours in cells of `side` x `side` pixels: (rows, columns, bins).

    Blocks overlap, cells do not: each pixel is counted once.
    """
    n_colours = len(codebook.colours)
    grey = np.asarray(image.convert("L"))
    n_rows, n_columns = grey.shape[0] // side, grey.shape[1] // side
    cells = np.empty((n_rows, n_columns, N_PATTERNS + n_colours), np.int32)
    step = max(1, STRIP_ROWS // side)
    for first in range(0, n_rows, step):
        strip = cells[first : first + step]
        start, stop = first * side, (first + len(strip)) * side
        patterns = lbp_codes(grey, start, stop)
        strip[..., :N_PATTERNS] = _histograms(patterns, side, N_PATTERNS)
        pixels = np.asarray(image.crop((0, start, image.width, stop)).convert("RGBX"))
        colours = codebook.nearest.take(pixels.view("<u4")[..., 0] & 0xFFFFFF)
        strip[..., N_PATTERNS:] = _histograms(colours, side, n_colours)
    return cells


def _histograms(codes: npt.NDArray[np.uint8], side: int, n_bins: int) -> npt.NDArray[np.intp]:
    """Count the codes in each cell of a strip; columns that fill no cell are left out."""
    n_rows, n_columns = codes.shape[0] // side, codes.shape[1] // side
    rows, columns = (np.arange(n * side) // side for n in (n_rows, n_columns))
    cell = (rows[:, None] * n_columns + columns) * n_bins
    bins = (cell + codes[:, : n_columns * side]).reshape(-1)
    return np.bincount(bins, minlength=n_rows * n_columns * n_bins).reshape(
        n_rows, n_columns, n_bins
    )


def lbp_codes(
    grey: npt.NDArray[np.uint8], start: int = 0, stop: int | None = None
) -> npt.NDArray[np.uint8]:
    """Compute uniform local binary patterns of 8 points at radius 2.

    Equal to scikit-image's ``local_binary_pattern(grey, 8, 2, 'nri_uniform')`` (Ahonen, Hadid &
    Pietikainen 2004), bit for bit, and some six times as fast: the points to the left and right
    share their horizontal interpolation, and whole rows are compared at once.

    Parameters
    ----------
    grey : ndarray of shape (height, width), uint8
        A grey picture.
    start, stop : int, optional
        The rows that are wanted; all by default.

    Returns
    -------
    ndarray of shape (stop - start, width), uint8
        Codes 0 to 58.
    """
    height, width = grey.shape
    stop = height if stop is None else stop
    above, below = max(start - 2, 0), min(stop + 2, height)
    padded = np.zeros((stop - start + 4, width + 4))  # outside the picture it is black
    padded[above - start + 2 : below - start + 2, 2:-2] = grey[above:below]
    columns, rows = np.arange(width), np.arange(start, stop)[:, None]
    right = _between(padded[:, 3:-1], padded[:, 4:], columns + DIAGONAL)
    left = _between(padded[:, :-4], padded[:, 1:-3], columns - DIAGONAL)
    points = (  # anticlockwise from the right
        padded[2:-2, 4:],
        _between(right[:-4], right[1:-3], rows - DIAGONAL),
        padded[:-4, 2:-2],
        _between(left[:-4], left[1:-3], rows - DIAGONAL),
        padded[2:-2, :-4],
        _between(left[3:-1], left[4:], rows + DIAGONAL),
        padded[4:, 2:-2],
        _between(right[3:-1], right[4:], rows + DIAGONAL),
    )
    centre = padded[2:-2, 2:-2]
    signs = np.zeros(centre.shape, np.uint8)
    for number, point in enumerate(points):
        signs |= (point >= centre).view(np.uint8) << np.uint8(number)
    return UNIFORM_CODES.take(signs)


def _between(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], place: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Interpolate at `place` between two neighbours.

    The weight is the place's fraction as floats have it, which differs in its last bits from
    place to place: on flat ground these bits decide the comparison with the centre.
    """
    weight = place - np.floor(place)
    value: npt.NDArray[np.float64] = (1 - weight) * low
    value += weight * high
    return value


def _uniform_codes() -> npt.NDArray[np.uint8]:
    """Give each of the 256 sign patterns its code, as scikit-image does.

    At most two changes of sign along the 8 points (not around them): 1 + 8 (ones - 1) + turns
    to the right from the pattern whose ones come first; 0 and 57 without and with ones only.
    """
    codes = np.full(256, N_PATTERNS - 1, np.uint8)
    for pattern in range(256):
        signs = [pattern >> point & 1 for point in range(N_POINTS)]
        if sum(a != b for a, b in pairwise(signs)) > 2:
            continue
        ones = sum(signs)
        if ones in (0, N_POINTS):
            codes[pattern] = 0 if ones == 0 else N_PATTERNS - 2
            continue
        turns = ones - signs.index(0) if signs[0] else N_POINTS - signs.index(1)
        codes[pattern] = 1 + N_POINTS * (ones - 1) + turns
    return codes


UNIFORM_CODES = _uniform_codes()
