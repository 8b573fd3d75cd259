"""A picture's blocks at several scales, and each block's histograms of patterns and colours.

Not for what is learned from blocks: that is in `codebooks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.decoding import TooSmallError
from oasis_bench.datasets.features.local_binary_patterns import N_PATTERNS, lbp_codes
from oasis_bench.system import UsageError, check_value

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image as Picture

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
    image: Picture, layout: BlockLayout, codebook: ColourCodebook
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
