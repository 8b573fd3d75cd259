"""Pictures as sparse rows of visual terms: codebooks, counts and their cache.

Not for decoding or describing blocks (`blocks`), and not for weights: a row holds raw counts.
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

from oasis_bench.datasets.features.array_cache import Arrays, cache_key, cached
from oasis_bench.datasets.features.blocks import (
    N_PATTERNS,
    BlockLayout,
    ColourCodebook,
    block_descriptors,
    read_image,
)
from oasis_bench.datasets.features.picture_files import Fault, Picture, Workers, hashed_pictures
from oasis_bench.system.errors import UsageError
from oasis_bench.system.files import cache_home
from oasis_bench.system.progress import Progress, no_progress

if TYPE_CHECKING:
    from PIL.Image import Image

SAMPLED_IMAGES = 10_000
SAMPLED_PIXELS = 100_000
SAMPLED_BLOCKS = 200_000
"""What the codebooks are learned from, at most; as many pixels and blocks of each image."""

BATCH_SIZE = 4096
"""Of the mini-batch k-means of blocks.  Measured on 103 000 blocks: its 1000 visterms leave 1.5 %
more squared error than 25 iterations over all blocks, in a quarter of the time."""

BLOCKS_AT_ONCE = 1024
"""Rows of a distance matrix: 40 MB for 10000 visterms."""

MAX_COLOURS = 256
"""Their numbers are bytes."""

CODE = ("blocks.py", "visterms.py")
"""What decides the features beside parameters and files: cached under a hash of these too."""


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
        Of the samples and of both k-means.

    Raises
    ------
    UsageError
        Where a parameter is out of bounds.
    """

    n_colours: int = 20
    n_visterms: int = 1000
    codebook_size: tuple[int, int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n_colours <= MAX_COLOURS:
            raise UsageError(f"n_colours={self.n_colours}: choose 1 to {MAX_COLOURS}")
        if self.n_visterms < 2:
            raise UsageError(f"visterms={self.n_visterms}: at least 2 are needed")
        if self.seed < 0:
            raise UsageError(f"seed={self.seed}: at least 0 is needed")


@dataclass(frozen=True, eq=False)
class VistermCounts:
    """The visterms of a set of pictures.

    Attributes
    ----------
    counts : csr_array of shape (n_kept, n_visterms), float32
        How many blocks of each picture are nearest to each visterm.
    kept : ndarray of shape (n_kept,), intp
        Which of the pictures the rows are, in ascending order.
    left_out : list of (Path, Fault)
        The other pictures, each with the reason.
    codebook_left_out : list of (Path, Fault)
        Codebook images that could not be used, each with the reason.
    """

    counts: sparse.csr_array
    kept: npt.NDArray[np.intp]
    left_out: list[tuple[Path, Fault]]
    codebook_left_out: list[tuple[Path, Fault]]


@dataclass(frozen=True, eq=False)
class _Codebook:
    """Colours, visterms (n_visterms, 59 + n_colours) and the reasons of the images left out."""

    colours: npt.NDArray[np.uint8]
    visterms: npt.NDArray[np.float32]
    faults: dict[str, Fault]


def visterm_counts(
    images: Sequence[Path],
    codebook_images: Sequence[Path],
    features: VistermFeatures,
    progress: Progress = no_progress,
    n_workers: int | None = None,
) -> VistermCounts:
    """Count the visterms of each picture (JMLR 2010, section 3).

    Colours and visterms are learned from `codebook_images` alone.  The codebook and the counts
    are each kept in ``visterms`` of the cache folder, under a hash of the contents of all files
    concerned, of the parameters and of the code that computes them.

    Parameters
    ----------
    images : sequence of Path
        The pictures.
    codebook_images : sequence of Path
        Pictures apart from those that are evaluated; their order does not matter.
    features : VistermFeatures
        The parameters.
    progress : callable, default no_progress
        Told of the images done, stage by stage.
    n_workers : int, optional
        Threads; by default one for each core that the process may use.  The result does not
        depend on it.

    Returns
    -------
    VistermCounts

    Raises
    ------
    UsageError
        Where the codebook images give too little to learn from, or the cache cannot be written.
    """
    workers = Workers(n_workers, progress)
    folder = cache_home() / "visterms"
    every = hashed_pictures([*images, *codebook_images], workers)
    pictures, teachers = every[: len(images)], every[len(images) :]
    codebook_key = cache_key(
        CODE, repr(features), *sorted({picture.content for picture in teachers})
    )
    counts_key = cache_key(CODE, codebook_key, *(picture.content for picture in pictures))
    # The pictures run in parallel, not the products within one; and k-means in several threads
    # would add up in the order in which they finish.
    with threadpool_limits(1):
        codebook = cached(
            folder / f"codebook-{codebook_key}.npz",
            partial(_learn_codebook, teachers, features, workers),
            partial(_parse_codebook, features),
        )
        counts, faults = cached(
            folder / f"counts-{counts_key}.npz",
            partial(_count, pictures, codebook, features, workers),
            partial(_parse_counts, pictures, features),
        )
    kept = [number for number, picture in enumerate(pictures) if picture.content not in faults]
    return VistermCounts(
        counts, np.array(kept, np.intp), _named(pictures, faults), _named(teachers, codebook.faults)
    )


def _named(pictures: Iterable[Picture], faults: Mapping[str, Fault]) -> list[tuple[Path, Fault]]:
    return [(item.path, faults[item.content]) for item in pictures if item.content in faults]


def _learn_codebook(
    teachers: Sequence[Picture], features: VistermFeatures, workers: Workers
) -> Arrays:
    """Learn colours, then visterms, from what contents and seed draw."""
    drawn = _drawn(teachers, features.seed)
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
    faults = {picture.content: fault for picture, fault in (unreadable | too_small).items()}
    return {"colours": colours, "visterms": visterms, **_fault_arrays(faults)}


def _too_few(n_blocks: int, n_images: int, features: VistermFeatures) -> UsageError:
    return UsageError(
        f"{n_images} codebook images hold {n_blocks} usable blocks of {features.block} x "
        f"{features.block} for {features.n_visterms} visterms, one each at least: "
        "give more or larger images, or ask for fewer visterms"
    )


def _drawn(teachers: Iterable[Picture], seed: int) -> list[Picture]:
    """Draw SAMPLED_IMAGES of the pictures, each content once, whatever their order."""
    unique = {picture.content: picture for picture in teachers}
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


def _count(
    pictures: Sequence[Picture], codebook: _Codebook, features: VistermFeatures, workers: Workers
) -> Arrays:
    """Count the visterms of each picture: the parts of a CSR array, and the faults."""
    unique = {picture.content: picture for picture in pictures}
    colours = ColourCodebook(codebook.colours)

    def count(picture: Picture) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        descriptors = block_descriptors(read_image(picture.path), features, colours)
        return np.unique(nearest_centres(descriptors, codebook.visterms), return_counts=True)

    found, unusable = workers.map(count, unique.values(), "counting visterms")
    rows = {picture.content: row for picture, row in found.items()}
    kept = [rows[picture.content] for picture in pictures if picture.content in rows]
    none = np.empty(0, np.intp)
    return {
        "data": np.concatenate([none, *(counts for _, counts in kept)]).astype(np.float32),
        "indices": np.concatenate([none, *(visterms for visterms, _ in kept)]).astype(np.int32),
        "indptr": np.cumsum([0, *(len(counts) for _, counts in kept)], dtype=np.int32),
        **_fault_arrays({picture.content: fault for picture, fault in unusable.items()}),
    }


def nearest_centres(
    rows: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]
) -> npt.NDArray[np.intp]:
    """Find the nearest centre of each row.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features), float32
    centres : ndarray of shape (n_centres, n_features), float32

    Returns
    -------
    ndarray of shape (n_rows,), intp
        The centre c of the least |c|^2 / 2 - x'c, in the arithmetic of float32.
    """
    half_norms = np.einsum("ij,ij->i", centres, centres) / 2
    parts = np.split(rows, range(BLOCKS_AT_ONCE, len(rows), BLOCKS_AT_ONCE))
    return np.concatenate([np.argmin(half_norms - part @ centres.T, axis=1) for part in parts])


def _fault_arrays(faults: Mapping[str, Fault]) -> Arrays:
    return {
        "faulty": np.array(list(faults), str),
        "reasons": np.array([fault.reason for fault in faults.values()], str),
        "too_small": np.array([fault.too_small for fault in faults.values()], bool),
    }


def _parse_faults(arrays: Arrays) -> dict[str, Fault]:
    names = ("faulty", "reasons", "too_small")
    parts = zip(*(arrays[name].tolist() for name in names), strict=True)
    return {content: Fault(reason, too_small) for content, reason, too_small in parts}


def _parse_codebook(features: VistermFeatures, arrays: Arrays) -> _Codebook:
    colours, visterms = arrays["colours"], arrays["visterms"]
    n_colours = len(colours)
    if (
        colours.dtype != np.uint8
        or colours.shape != (n_colours, 3)
        or visterms.dtype != np.float32
        or visterms.shape != (features.n_visterms, N_PATTERNS + n_colours)
        or not np.isfinite(visterms).all()
    ):
        raise ValueError(f"colours {colours.shape} and visterms {visterms.shape}")
    return _Codebook(colours, visterms, _parse_faults(arrays))


def _parse_counts(
    pictures: Sequence[Picture], features: VistermFeatures, arrays: Arrays
) -> tuple[sparse.csr_array, dict[str, Fault]]:
    faults = _parse_faults(arrays)
    n_kept = sum(picture.content not in faults for picture in pictures)
    parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
    counts = sparse.csr_array(parts, shape=(n_kept, features.n_visterms))
    counts.check_format(full_check=True)
    return counts, faults
