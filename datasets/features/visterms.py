"""Pictures as sparse rows of visual terms: each block counts for the nearest visterm.

Not for learning visterms (`codebooks`), and not for weights: a row holds counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse
from threadpoolctl import threadpool_limits

from oasis_bench.datasets.features import codebooks
from oasis_bench.datasets.features.blocks import block_descriptors
from oasis_bench.datasets.features.codebooks import Codebook, VistermFeatures, codebook_of
from oasis_bench.datasets.features.decoding import read_image
from oasis_bench.datasets.features.picture_files import (
    Fault,
    Picture,
    Workers,
    arrays_of_faults,
    faults_of_arrays,
)
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import cache_home

BLOCKS_AT_ONCE = 1024
"""Rows of a distance matrix: 40 MB for 10000 visterms."""

CODE = (*codebooks.CODE, __file__)
"""The modules that decide the counts, beside parameters and pictures."""


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
