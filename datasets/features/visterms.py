"""Pictures as sparse rows of visual terms: each block counts for the nearest visterm.

Codebooks of colours and of blocks are learned from other pictures and kept in the cache folder.
Not for weights: a row holds counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from oasis_bench.datasets.features import blocks, picture_files
from oasis_bench.datasets.features.blocks import BlockLayout, ColourCodebook, block_descriptors
from oasis_bench.datasets.features.picture_files import (
    Fault,
    Picture,
    Workers,
    arrays_of_faults,
    faults_of_arrays,
    read_image,
)
from oasis_bench.datasets.files import Arrays, cache_key, cached
from oasis_bench.system import UsageError, cache_home, check_value

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image

SAMPLED_IMAGES = 10_000
SAMPLED_PIXELS = 100_000
SAMPLED_BLOCKS = 200_000
"""What the codebooks are learned from, at most; each image gives equally many pixels and blocks."""

BATCH_SIZE = 4096
"""Of the mini-batch k-means of blocks.  Measured on 103 000 blocks: its 1000 visterms leave 1.5 %
more squared error than 25 iterations over all blocks, in a quarter of the time."""

MAX_COLOURS = 256
"""A colour's number is a byte."""

CODE = (blocks.__file__, picture_files.__file__, __file__)
"""The modules that decide a codebook, beside parameters and pictures."""


@dataclass(frozen=True)
class VistermFeatures(BlockLayout):
    """What decides the features of a set of pictures (JMLR 2010, section 3).

    Parameters
    ----------
    block, stride, scale, min_blocks
        As in `BlockLayout`.
    n_colours : int, default 20
        Colours of the colour codebook; pictures of fewer colours give fewer.
    n_visterms : int, default 1000
        Visual terms, the features; the paper has 10000, and 1000 where learners need dense rows.
    codebook_size : tuple of int, optional
        (width, height) that codebook images are shrunk to fit before all else: for a set of
        small pictures whose codebook comes from larger ones.
    seed : int, default 0
        Of the drawn samples and of both k-means.
    """

    n_colours: int = 20
    n_visterms: int = 1000
    codebook_size: tuple[int, int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_value("block", self.block, int, least=2)
        super().__post_init__()
        if not 1 <= self.n_colours <= MAX_COLOURS:
            raise UsageError(f"n_colours = {self.n_colours}: choose 1 to {MAX_COLOURS}")
        check_value("visterms", self.n_visterms, int, least=2)
        check_value("seed", self.seed, int, least=0)


@dataclass(frozen=True, eq=False)
class Codebook:
    """What visterms are counted by: colours, and visterms (n_visterms, 59 + n_colours), float32.

    `faults` has the contents of the pictures that could not be used, each with the reason; `key` is
    a hash of everything that decides the codebook.
    """

    colours: ColourCodebook
    visterms: npt.NDArray[np.float32]
    faults: dict[str, Fault]
    key: str


def codebook_of(
    pictures: Sequence[Picture], features: VistermFeatures, workers: Workers
) -> Codebook:
    """Learn the codebook of some pictures in any order, or read it from the cache folder."""
    key = cache_key(CODE, repr(features), *sorted({picture.content for picture in pictures}))
    arrays = cached(
        cache_home() / "visterms" / f"codebook-{key}.npz",
        partial(_learn, pictures, features, workers),
    )
    colours = ColourCodebook(arrays["colours"])
    return Codebook(colours, arrays["visterms"], faults_of_arrays(arrays), key)


def _learn(pictures: Sequence[Picture], features: VistermFeatures, workers: Workers) -> Arrays:
    """Learn colours, then visterms, from pixels and blocks that the seed draws."""
    drawn = _drawn(pictures, features.seed)
    n_pixels, n_blocks = (
        math.ceil(total / max(1, len(drawn))) for total in (SAMPLED_PIXELS, SAMPLED_BLOCKS)
    )
    pixels, unreadable = workers.map(
        partial(_sample_pixels, features, n_pixels), drawn, "sampling colours"
    )
    if not pixels:
        raise _too_few(0, len(drawn), features)
    colours = _learn_colours(np.concatenate(list(pixels.values())), features)
    samples, too_small = workers.map(
        partial(_sample_blocks, features, n_blocks, ColourCodebook(colours)),
        pixels,
        "sampling blocks",
    )
    if (n_sampled := sum(map(len, samples.values()))) < features.n_visterms:
        raise _too_few(n_sampled, len(drawn), features)
    what = f"learning {features.n_visterms} visterms"
    workers.progress(what, 0, 1)
    visterms = _learn_visterms(np.concatenate(list(samples.values())), features)
    workers.progress(what, 1, 1)
    return {
        "colours": colours,
        "visterms": visterms,
        **arrays_of_faults(unreadable | too_small),
    }


def _too_few(n_blocks: int, n_images: int, features: VistermFeatures) -> UsageError:
    return UsageError(
        f"{n_images} codebook images hold {n_blocks} usable blocks of {features.block} x "
        f"{features.block} for {features.n_visterms} visterms, one each at least: "
        "give more or larger images, or ask for fewer visterms"
    )


def _drawn(pictures: Iterable[Picture], seed: int) -> list[Picture]:
    """Draw SAMPLED_IMAGES of the pictures, each content once, whatever their order."""
    unique = {picture.content: picture for picture in pictures}
    contents = sorted(unique)
    if len(contents) > SAMPLED_IMAGES:
        contents = sorted(np.random.default_rng(seed).permutation(contents)[:SAMPLED_IMAGES])
    return [unique[content] for content in contents]


def _sample_pixels(
    features: VistermFeatures, n_pixels: int, picture: Picture
) -> npt.NDArray[np.uint8]:
    pixels = np.asarray(_codebook_image(picture, features)).reshape(-1, 3)
    return pixels[_generator(picture, features).integers(len(pixels), size=n_pixels)]


def _sample_blocks(
    features: VistermFeatures, n_blocks: int, colours: ColourCodebook, picture: Picture
) -> npt.NDArray[np.float32]:
    descriptors = block_descriptors(_codebook_image(picture, features), features, colours)
    return _generator(picture, features).permutation(descriptors)[:n_blocks]


def _codebook_image(picture: Picture, features: VistermFeatures) -> Image:
    image = read_image(picture.path)
    if features.codebook_size:
        image.thumbnail(features.codebook_size)
    return image


def _generator(picture: Picture, features: VistermFeatures) -> np.random.Generator:
    """Seed by the content, so that the order of the pictures does not matter."""
    content = hashlib.sha256(picture.content.encode()).digest()
    return np.random.default_rng([features.seed, int.from_bytes(content[:8])])


def _learn_colours(
    pixels: npt.NDArray[np.uint8], features: VistermFeatures
) -> npt.NDArray[np.uint8]:
    """Return k-means centres in RGB, rounded, so that distances to pixels are exact."""
    n_colours = min(features.n_colours, len(np.unique(pixels, axis=0)))
    means = KMeans(n_colours, n_init=1, random_state=features.seed).fit(pixels.astype(np.float32))
    return np.asarray(np.rint(means.cluster_centers_), np.uint8)


def _learn_visterms(
    descriptors: npt.NDArray[np.float32], features: VistermFeatures
) -> npt.NDArray[np.float32]:
    means = MiniBatchKMeans(
        features.n_visterms,
        batch_size=BATCH_SIZE,
        n_init=1,
        compute_labels=False,
        random_state=features.seed,
    ).fit(descriptors)
    return np.asarray(means.cluster_centers_, np.float32)


BLOCKS_AT_ONCE = 1024
"""Rows of a distance matrix: 40 MB for 10000 visterms."""


@dataclass(frozen=True, eq=False)
class VistermCounts:
    """The visterms of the pictures `kept`: how many blocks of each are nearest to each visterm.

    `counts` is a csr_array (n_kept, n_visterms), float32.  Pictures, and codebook images, that are
    left out have each a reason.
    """

    counts: sparse.csr_array
    kept: npt.NDArray[np.intp]
    left_out: list[tuple[Path, Fault]]
    codebook_left_out: list[tuple[Path, Fault]]


def visterm_counts(
    pictures: Sequence[Picture],
    codebook_pictures: Sequence[Picture],
    features: VistermFeatures,
    workers: Workers,
) -> VistermCounts:
    """Count the visterms of each picture (JMLR 2010, section 3).

    Colours and visterms are learned from `codebook_pictures`, whose order does not matter.  What
    was computed is kept in ``visterms`` of the cache folder, under a hash of the contents of all
    its pictures, of the parameters and of the code that computes it.
    """
    # The pictures run in parallel, not the products within one; and k-means in several threads
    # would add up in the order in which they finish.
    with threadpool_limits(1):
        codebook = codebook_of(codebook_pictures, features, workers)
        key = cache_key(CODE, codebook.key, *(picture.content for picture in pictures))
        arrays = cached(
            cache_home() / "visterms" / f"counts-{key}.npz",
            partial(_count, pictures, codebook, features, workers),
        )
    faults = faults_of_arrays(arrays)
    kept = [number for number, picture in enumerate(pictures) if picture.content not in faults]
    counts = sparse.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]),
        shape=(len(kept), features.n_visterms),
    )
    return VistermCounts(
        counts,
        np.array(kept, np.intp),
        _named(pictures, faults),
        _named(codebook_pictures, codebook.faults),
    )


def _named(pictures: Iterable[Picture], faults: Mapping[str, Fault]) -> list[tuple[Path, Fault]]:
    return [(item.path, faults[item.content]) for item in pictures if item.content in faults]


def _count(
    pictures: Sequence[Picture], codebook: Codebook, features: VistermFeatures, workers: Workers
) -> Arrays:
    """Count the visterms of each picture: the parts of a CSR array, and the faults."""
    unique = {picture.content: picture for picture in pictures}

    def count(picture: Picture) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        descriptors = block_descriptors(read_image(picture.path), features, codebook.colours)
        return np.unique(nearest_centres(descriptors, codebook.visterms), return_counts=True)

    found, unusable = workers.map(count, unique.values(), "counting visterms")
    rows = {picture.content: row for picture, row in found.items()}
    kept = [rows[picture.content] for picture in pictures if picture.content in rows]
    none = np.empty(0, np.intp)
    return {
        "data": np.concatenate([none, *(counts for _, counts in kept)]).astype(np.float32),
        "indices": np.concatenate([none, *(visterms for visterms, _ in kept)]).astype(np.int32),
        "indptr": np.cumsum([0, *(len(counts) for _, counts in kept)], dtype=np.int32),
        **arrays_of_faults(unusable),
    }


def nearest_centres(
    rows: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]
) -> npt.NDArray[np.intp]:
    """Return the nearest centre (n_rows,) of each row (n_rows, n_features), both float32.

    It is the centre c of the least |c|^2 / 2 - x'c, in the arithmetic of float32.
    """
    half_norms = np.einsum("ij,ij->i", centres, centres) / 2
    parts = np.split(rows, range(BLOCKS_AT_ONCE, len(rows), BLOCKS_AT_ONCE))
    return np.concatenate([np.argmin(half_norms - part @ centres.T, axis=1) for part in parts])
