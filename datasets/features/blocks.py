"""Blocks of a picture, at several scales: histograms of their patterns and colours.

Patterns are uniform local binary patterns of greys.  Not for what is learned from blocks: that is
in `visterms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray
from oasis_bench.datasets.features import picture_files
from oasis_bench.datasets.features.picture_files import Picture, TooSmallError, Workers, read_image
from oasis_bench.datasets.files import Arrays, cache_key, cached
from oasis_bench.system import UsageError, cache_home, check_value

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image

N_POINTS = 8
DIAGONAL = 1.41421
"""sin and cos of 45 degrees times the radius of 2, rounded as scikit-image rounds it."""

N_PATTERNS = 59
"""8 * 7 + 2 uniform patterns, and one code for all the others."""


def lbp_codes(
    grey: npt.NDArray[np.uint8], start: int = 0, stop: int | None = None
) -> npt.NDArray[np.uint8]:
    """Compute the codes, 0 to 58, of the rows from `start` to before `stop`: 8 points, radius 2.

    Equal to scikit-image's ``local_binary_pattern(grey, 8, 2, 'nri_uniform')`` (Ahonen, Hadid &
    Pietikainen 2004), bit for bit, and some six times as fast: the points to the left and right
    share their horizontal interpolation, and whole rows are compared at once.  With scikit-image
    the whole preparation of Caltech256's ten classes takes 2.2 times the processor time.
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


STRIP_ROWS = 64
"""Rows that are worked on at once: a large picture takes little more memory than a small one."""


@dataclass(frozen=True)
class BlockLayout:
    """Where the blocks of a picture lie (JMLR 2010, section 3).

    They have `block` pixels in width and height and are `stride` apart, which divides `block`.
    Each scale is smaller than the one before by the factor `scale`; scales of fewer than
    `min_blocks` blocks are left out.
    """

    block: int = 64
    stride: int = 32
    scale: float = 1.25
    min_blocks: int = 10

    def __post_init__(self) -> None:
        for name in ("block", "stride", "min_blocks"):
            check_value(name, getattr(self, name), int, least=1)
        if self.block % self.stride:
            raise UsageError(
                f"stride = {self.stride} does not divide block = {self.block}: choose one that does"
            )
        if not self.scale > 1:
            raise UsageError(f"scale = {self.scale}: a factor above 1 is needed, such as 1.25")

    def n_blocks(self, width: int, height: int) -> int:
        """Count the blocks that fit into a picture of that size, at that size alone."""
        columns, rows = ((side - self.block) // self.stride + 1 for side in (width, height))
        return max(columns, 0) * max(rows, 0)

    def sizes(self, width: int, height: int) -> list[tuple[int, int]]:
        """List width and height at each scale, the picture's own first."""
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
    """At most 256 colours (n_colours, 3), uint8, and a table of the nearest for every colour."""

    colours: npt.NDArray[np.uint8]

    @cached_property
    def nearest(self) -> npt.NDArray[np.uint8]:
        """The nearest colour of each red + 256 green + 65536 blue, shape (2**24,).

        Squared distances of whole numbers are exact; of equally near colours it is the first.
        """
        return _nearest_colours(self.colours.tobytes())


@lru_cache(maxsize=1)
def _nearest_colours(colours: bytes) -> npt.NDArray[np.uint8]:
    """Make the table of `ColourCodebook.nearest`, and keep the last one: it takes half a second."""
    rgb = np.frombuffer(colours, np.uint8).reshape(-1, 3).astype(np.int32)
    levels = np.arange(256, dtype=np.int32)
    # The colour's number in the low byte: the least value is the nearest, then the first.
    red, green, blue = ((levels - rgb[:, [channel]]) ** 2 << 8 for channel in range(3))
    green_red = green[:, :, None] + red[:, None, :]
    green_red += np.arange(len(rgb), dtype=np.int32)[:, None, None]
    table = np.empty((256, 256, 256), np.uint8)
    for level in range(256):
        best = green_red[0] + blue[0, level]
        for distances, further in zip(green_red[1:], blue[1:, level], strict=True):
            np.minimum(best, distances + further, out=best)
        table[level] = best & 0xFF
    return table.reshape(-1)


def block_descriptors(
    image: Image, layout: BlockLayout, codebook: ColourCodebook
) -> npt.NDArray[np.float32]:
    """Describe each block by texture and colours: (n_blocks, 59 + n_colours), scale by scale.

    A row is the histogram of the block's local binary patterns (the 59 codes of `lbp_codes`) joined
    with the histogram of its nearest codebook colours; each of the two sums to 1.  Patterns are
    those of the whole picture: pixels at a block's border are compared with pixels outside. The RGB
    picture is shrunk by bilinear filtering, each scale from the picture itself; patterns come from
    its luma (ITU-R 601-2, Pillow's mode L).
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


def _cell_histograms(image: Image, side: int, codebook: ColourCodebook) -> npt.NDArray[np.int32]:
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


WHOLE_SIDE = 128
"""Width and height to which a picture is resized first."""

QUARTERS = BlockLayout(block=WHOLE_SIDE // 2, stride=WHOLE_SIDE // 2, min_blocks=4)
"""The four quarters of a picture, at one scale."""

LEVELS = np.arange(32, 256, 64, dtype=np.uint8)
COLOURS = np.stack(np.meshgrid(LEVELS, LEVELS, LEVELS, indexing="ij"), axis=-1).reshape(-1, 3)
"""A grid of 4 levels of red, green and blue: 64 colours."""

CODE = (picture_files.__file__, __file__)


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

        image = read_image(picture.path).resize((WHOLE_SIDE, WHOLE_SIDE), Image.Resampling.BILINEAR)
        return block_descriptors(image, QUARTERS, codebook).ravel()

    rows, faults = workers.map(describe, pictures, "describing pictures")
    for picture, fault in faults.items():
        raise UsageError(f"{picture.path} cannot be used: {fault.reason}")
    return {"rows": np.stack(list(rows.values()))}
