"""Pictures as sparse rows of visual terms: each block counts for the nearest visterm.

A block is described by histograms of local binary patterns and colours, at several scales.
Codebooks of colours and of blocks are learned from other pictures and kept in the cache folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from oasis_bench.datasets import picture_files
from oasis_bench.datasets.files import Arrays, cache_key, cached
from oasis_bench.datasets.picture_files import LeftOut, Parts, Picture, PictureRows
from oasis_bench.system import Progress, UsageError, cache_home, check_value, spelled

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

N_POINTS = 8
DIAGONAL = 1.41421
"""sin and cos of 45 degrees times the radius of 2, rounded as scikit-image rounds it."""

N_PATTERNS = 59
"""8 * 7 + 2 uniform patterns, and one code for all the others."""


def lbp_codes(grey: Bytes, start: int = 0, stop: int | None = None) -> Bytes:
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


def _uniform_codes() -> Bytes:
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
class VistermFeatures:
    """The parameters of visual words (JMLR 2010, section 3).

    Parameters
    ----------
    block, stride : int, default 64 and 32
        Width and height of a block in pixels, and the distance between blocks, which divides it.
    scale : float, default 1.25
        Each scale is smaller than the one before by this factor.
    min_blocks : int, default 10
        Scales with fewer blocks are left out.
    n_colours : int, default 20
        Size of the colour codebook, at most 256, or the number of colours if there are fewer.
    n_visterms : int, default 1000
        Visual terms, the features.  The paper uses 10000, and 1000 if learners need dense rows.
    codebook_size : tuple of int, optional
        (width, height) to which codebook images are shrunk first: for a data set of small
        pictures whose codebook comes from larger ones.
    """

    block: int = 64
    stride: int = 32
    scale: float = 1.25
    min_blocks: int = 10
    n_colours: int = 20
    n_visterms: int = 1000
    codebook_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_value("block", self.block, int, least=2)
        check_value("visterms", self.n_visterms, int, least=2)
        if self.block % self.stride:
            raise UsageError(
                f"stride = {self.stride} does not divide block = {self.block}: choose one that does"
            )

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
            raise picture_files.TooSmallError(
                f"visual words need {self.min_blocks} blocks of {self.block} x {self.block} "
                f"pixels, but {width} x {height} pixels have room for "
                f"{self.n_blocks(width, height)} only: use larger pictures, a smaller "
                f"{spelled('block')}, or other {spelled('features')}"
            )
        return sizes


@lru_cache(maxsize=1)
def nearest_colours(colours: bytes) -> Bytes:
    """Return the number of the nearest of at most 256 colours, three bytes each, to every colour.

    Of shape (2**24,), at red + 256 green + 65536 blue.  Squared distances of whole numbers are
    exact; of equally near colours it is the first.  The last table is kept: it takes half a second.
    """
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


def block_descriptors(image: Image, layout: VistermFeatures, colours: Bytes) -> Floats:
    """Describe each block by texture and colours: (n_blocks, 59 + n_colours), scale by scale.

    A row is the histogram of the block's local binary patterns (the 59 codes of `lbp_codes`) joined
    with the histogram of its nearest codebook colours; each of the two sums to 1.  Patterns are
    those of the whole picture: pixels at a block's border are compared with pixels outside. The RGB
    picture is shrunk by bilinear filtering, each scale from the picture itself; patterns come from
    its luma (ITU-R 601-2, Pillow's mode L).
    """
    from PIL import Image

    per_side = layout.block // layout.stride
    n_bins = N_PATTERNS + len(colours)
    descriptors = []
    for size in layout.sizes(*image.size):
        shrunk = image if size == image.size else image.resize(size, Image.Resampling.BILINEAR)
        cells = _cell_histograms(shrunk, layout.stride, colours)
        blocks = np.lib.stride_tricks.sliding_window_view(cells, (per_side, per_side), axis=(0, 1))
        descriptors.append(blocks.sum(axis=(3, 4)).reshape(-1, n_bins))
    return np.concatenate(descriptors, dtype=np.float32) / np.float32(layout.block**2)


def _cell_histograms(image: Image, side: int, colours: Bytes) -> npt.NDArray[np.int32]:
    """Count patterns and colours in cells of `side` x `side` pixels: (rows, columns, bins).

    Blocks overlap, cells do not: each pixel is counted once.
    """
    nearest, n_colours = nearest_colours(colours.tobytes()), len(colours)
    grey = np.asarray(image.convert("L"))
    n_rows, n_columns = grey.shape[0] // side, grey.shape[1] // side
    cells = np.empty((n_rows, n_columns, N_PATTERNS + n_colours), np.int32)
    step = max(1, STRIP_ROWS // side)
    for first in range(0, n_rows, step):
        strip = cells[first : first + step]
        start, stop = first * side, (first + len(strip)) * side
        patterns = lbp_codes(grey, start, stop)
        strip[..., :N_PATTERNS] = histograms(patterns, side, N_PATTERNS)
        pixels = np.asarray(image.crop((0, start, image.width, stop)).convert("RGBX"))
        numbers = nearest.take(pixels.view("<u4")[..., 0] & 0xFFFFFF)
        strip[..., N_PATTERNS:] = histograms(numbers, side, n_colours)
    return cells


def histograms(codes: npt.NDArray[np.integer], side: int, n_bins: int) -> npt.NDArray[np.intp]:
    """Count the codes, below `n_bins`, in each cell of `side` x `side`: (rows, columns, bins).

    Columns that fill no cell are left out.
    """
    n_rows, n_columns = codes.shape[0] // side, codes.shape[1] // side
    rows, columns = (np.arange(n * side) // side for n in (n_rows, n_columns))
    cell = (rows[:, None] * n_columns + columns) * n_bins
    bins = (cell + codes[:, : n_columns * side]).reshape(-1)
    return np.bincount(bins, minlength=n_rows * n_columns * n_bins).reshape(
        n_rows, n_columns, n_bins
    )


SAMPLED_IMAGES = 10_000
SAMPLED_PIXELS = 100_000
SAMPLED_BLOCKS = 200_000
"""What the codebooks are learned from, at most; each image gives equally many pixels and blocks."""

BATCH_SIZE = 4096
"""Of mini-batch k-means.  Measured on 103 000 blocks: its 1000 visterms leave 1.5 %
more squared error than 25 iterations over all blocks, in a quarter of the time."""

CODE = (picture_files.__file__, __file__)
"""The modules that decide a codebook, besides parameters and pictures."""


def _learn(pictures: Sequence[Picture], features: VistermFeatures, progress: Progress) -> Arrays:
    """Learn colours, then visterms, from pixels and blocks that are drawn."""
    drawn = _drawn(pictures)
    n_pixels, n_blocks = (
        math.ceil(total / max(1, len(drawn))) for total in (SAMPLED_PIXELS, SAMPLED_BLOCKS)
    )
    pixels, unreadable = picture_files.in_threads(
        partial(_sample_pixels, features, n_pixels), "sampling colours", drawn, progress
    )
    if not pixels:
        raise _too_few(0, len(drawn), features)
    colours = _learn_colours(np.concatenate(list(pixels.values())), features)
    sample = partial(_sample_blocks, features, n_blocks, colours)
    samples, too_small = picture_files.in_threads(sample, "sampling blocks", pixels, progress)
    if (n_sampled := sum(map(len, samples.values()))) < features.n_visterms:
        raise _too_few(n_sampled, len(drawn), features)
    what = f"learning {features.n_visterms} visual words"
    progress(what, 0, 1)
    visterms = learn_centres(np.concatenate(list(samples.values())), features.n_visterms)
    progress(what, 1, 1)
    return {
        "colours": colours,
        "visterms": visterms,
        **picture_files.arrays_of_faults(unreadable | too_small),
    }


def _too_few(n_blocks: int, n_images: int, features: VistermFeatures) -> UsageError:
    return UsageError(
        f"{n_images} codebook images hold {n_blocks} usable blocks of {features.block} x "
        f"{features.block} for {features.n_visterms} visterms, one each at least: give more or "
        f"larger images, fewer {spelled('visterms')}, a smaller {spelled('block')}, or other "
        f"{spelled('features')}"
    )


def _drawn(pictures: Iterable[Picture]) -> list[Picture]:
    """Draw SAMPLED_IMAGES of the pictures, each content once, whatever their order."""
    unique = {picture.content: picture for picture in pictures}
    drawn = np.random.default_rng(0).permutation(sorted(unique))[:SAMPLED_IMAGES]
    return [unique[content] for content in sorted(drawn.tolist())]


def _sample_pixels(features: VistermFeatures, n_pixels: int, picture: Picture) -> Bytes:
    pixels = np.asarray(_codebook_image(picture, features)).reshape(-1, 3)
    return pixels[_generator(picture).integers(len(pixels), size=n_pixels)]


def _sample_blocks(
    features: VistermFeatures,
    n_blocks: int,
    colours: Bytes,
    picture: Picture,
) -> Floats:
    descriptors = block_descriptors(_codebook_image(picture, features), features, colours)
    return _generator(picture).permutation(descriptors)[:n_blocks]


def _codebook_image(picture: Picture, features: VistermFeatures) -> Image:
    image = picture_files.read_image(picture.path)
    if features.codebook_size:
        image.thumbnail(features.codebook_size)
    return image


def _generator(picture: Picture) -> np.random.Generator:
    """Seed by the content, so that the order of the pictures does not matter."""
    return np.random.default_rng([0, picture_files.number_of(picture.content)])


def _learn_colours(pixels: Bytes, features: VistermFeatures) -> Bytes:
    """Return k-means centres in RGB, rounded, so that distances to pixels are exact."""
    n_colours = min(features.n_colours, len(np.unique(pixels, axis=0)))
    means = KMeans(n_colours, n_init=1, random_state=0).fit(pixels.astype(np.float32))
    return np.asarray(np.rint(means.cluster_centers_), np.uint8)


def learn_centres(rows: Floats, n_centres: int) -> Floats:
    """Return the centres of mini-batch k-means: (n_centres, n_features)."""
    means = MiniBatchKMeans(
        n_centres, batch_size=BATCH_SIZE, n_init=1, compute_labels=False, random_state=0
    ).fit(rows)
    return np.asarray(means.cluster_centers_, np.float32)


BLOCKS_AT_ONCE = 1024
"""Rows of a distance matrix: 40 MB for 10000 visterms."""


def visterm_counts(
    pictures: Sequence[Picture],
    teachers: Sequence[Picture],
    features: VistermFeatures,
    progress: Progress,
) -> tuple[PictureRows, LeftOut]:
    """Count the visterms of each picture in CSR, float32; also say which teachers are left out.

    How many blocks of a picture are nearest to each visterm (JMLR 2010, section 3).  Colours and
    visterms are learned from the `teachers`, whose order does not matter.  What was computed is
    kept in ``visterms`` of the cache folder.
    """
    # The pictures run in parallel, not the products within one; and k-means in several threads
    # would add up in the order in which they finish.
    with threadpool_limits(1):
        key = cache_key(CODE, repr(features), *sorted({one.content for one in teachers}))
        path = cache_home() / "visterms" / f"codebook-{key}.npz"
        codebook = cached(path, partial(_learn, teachers, features, progress))
        count = partial(
            picture_files.in_threads, partial(_count, features, codebook), "counting visual words"
        )
        found, faults = picture_files.described(pictures, count, "visterms", CODE, [key], progress)
    kept = [number for number, one in enumerate(pictures) if one.content in found]
    rows = [found[pictures[number].content] for number in kept]
    counts = sparse.csr_array(
        (
            np.concatenate([n for _, n in rows], dtype=np.float32),
            np.concatenate([visterms for visterms, _ in rows]),
            np.cumsum([0, *(len(n) for _, n in rows)], dtype=np.int32),
        ),
        shape=(len(kept), features.n_visterms),
    )
    return (
        PictureRows(counts, kept, picture_files.named(pictures, faults)),
        picture_files.named(teachers, picture_files.faults_of(codebook)),
    )


def _count(features: VistermFeatures, codebook: Arrays, picture: Picture) -> Parts:
    """Return the visterms of a picture, and how many blocks each has."""
    blocks = block_descriptors(
        picture_files.read_image(picture.path), features, codebook["colours"]
    )
    visterms, counts = np.unique(nearest_centres(blocks, codebook["visterms"]), return_counts=True)
    return visterms.astype(np.int32), counts.astype(np.int32)


def nearest_centres(rows: Floats, centres: Floats) -> npt.NDArray[np.intp]:
    """Return the nearest centre (n_rows,) of each row (n_rows, n_features), both float32.

    It is the centre c of the least |c|^2 / 2 - x'c, in the arithmetic of float32.
    """
    half_norms = np.einsum("ij,ij->i", centres, centres) / 2
    parts = np.split(rows, range(BLOCKS_AT_ONCE, len(rows), BLOCKS_AT_ONCE))
    return np.concatenate([np.argmin(half_norms - part @ centres.T, axis=1) for part in parts])
