"""Hand-made features of pictures as rows: which there are, their codebooks and their cache.

Not for how one is computed: `picture_descriptors`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.datasets.features import (
    decoding,
    local_binary_patterns,
    picture_descriptors as of_picture,
)
from oasis_bench.datasets.features.decoding import read_image
from oasis_bench.datasets.features.picture_descriptors import SIDE, Descriptors, Vector
from oasis_bench.datasets.features.picture_files import (
    Picture,
    PictureRows,
    Workers,
    arrays_of_faults,
    rows_in_parts,
)
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import UsageError, cache_home

if TYPE_CHECKING:
    from PIL.Image import Image

EXTRA = {"skimage": "scikit-image", "cv2": "opencv-python-headless"}
"""The modules and packages of the extra `handmade`, which decide the features."""

TEACHING, SAMPLED = 1000, 200_000
"""Pictures that teach a codebook, at most, and the descriptors of them that are drawn."""

MODULES = (decoding, local_binary_patterns, of_picture)
CODE = (*(str(module.__file__) for module in MODULES), __file__)

Teachers = Callable[[], Sequence[Picture]]
"""Finds the pictures that codebooks are learned from; asked only where one is needed."""


class Words(NamedTuple):
    """How a picture is described by words: its descriptors, a codebook, and a vector of both."""

    describe: Callable[[Image], Descriptors]
    learn: Callable[[Descriptors], Arrays]
    encode: Callable[[Descriptors, Arrays], Vector]


WHOLE: dict[str, Callable[[Image], Vector]] = {
    "lab": of_picture.lab_histogram,
    "hog": of_picture.oriented_gradients,
    "lbp": of_picture.pattern_histograms,
    "wavelet": of_picture.wavelet_signature,
}
WORDS = {
    "sift-bow": Words(of_picture.dense_sift, of_picture.learn_words, of_picture.bag_of_words),
    "fisher": Words(of_picture.dense_sift, of_picture.learn_gaussians, of_picture.fisher_vector),
    "texton": Words(
        of_picture.texton_responses, of_picture.learn_textons, of_picture.texton_pyramid
    ),
}
HAND_MADE = (*WHOLE, *WORDS)
"""The hand-made features by name (Wang et al., CVPR 2014, section 6.4)."""


@dataclass(frozen=True)
class HandMade:
    """Hand-made features of one kind, `option`.

    'lab' (colour histogram), 'hog' (oriented gradients), 'lbp' (local binary patterns), 'wavelet'
    (signature), 'sift-bow' (bag of words), 'fisher' (Fisher vector of SIFT) or 'texton' (textons
    with a spatial pyramid).
    """

    option: str

    def __post_init__(self) -> None:
        for module, package in EXTRA.items():
            if find_spec(module) is None:
                raise UsageError(
                    f"features = {self.option}: the package {package} is missing: "
                    'pip install "oasis-bench[handmade]"'
                )

    def rows_of(
        self, pictures: Sequence[Picture], workers: Workers, teachers: Teachers
    ) -> PictureRows:
        """Describe each picture, resized to 128 x 128 pixels.

        Rows and codebooks are kept in ``features`` of the cache folder.  A codebook is learned from
        at most 1000 of the pictures that `teachers` finds.
        """
        key, codebook = "", Arrays()
        with threadpool_limits(1):  # pictures run in parallel; sums keep one order
            if self.option in WORDS:
                key, codebook = self._codebook(teachers(), workers)
            n_pictures = len({picture.content for picture in pictures})

            def compute(some: Sequence[Picture], before: int) -> Arrays:
                def progress(what: str, done: int, _: int | None) -> None:
                    workers.progress(what, before + done, n_pictures)

                here = replace(workers, progress=progress)
                rows, faults = here.map(
                    lambda picture: self._describe(picture, codebook),
                    some,
                    f"describing pictures ({self.option})",
                )
                return {
                    "rows": np.array(list(rows.values()), np.float32),
                    **arrays_of_faults(faults),
                }

            decided_by = (*self._versions(), self.option, key)
            found, _ = rows_in_parts(pictures, "features", CODE, decided_by, compute)
        remark = f"features: {self.option}: {found.X.shape[-1]} numbers an image"
        return found._replace(remarks=(remark,))

    def _describe(self, picture: Picture, codebook: Arrays) -> Vector:
        if self.option in WHOLE:
            return WHOLE[self.option](_resized(picture))
        words = WORDS[self.option]
        return words.encode(words.describe(_resized(picture)), codebook)

    def _codebook(self, teachers: Sequence[Picture], workers: Workers) -> tuple[str, Arrays]:
        """Learn a codebook, or read it from the cache; return its key too."""
        contents = {picture.content: picture for picture in teachers}
        drawn = np.random.default_rng(0).permutation(sorted(contents))[:TEACHING].tolist()
        key = cache_key(CODE, *self._versions(), self.option, *drawn)

        def learn() -> Arrays:
            n_each = SAMPLED // max(1, len(drawn)) + 1

            def sample(content: str) -> Descriptors:
                found = WORDS[self.option].describe(_resized(contents[content]))
                seed = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8])
                return np.random.default_rng(seed).permutation(found)[:n_each]

            samples, _ = workers.map(sample, drawn, f"sampling codebook pictures ({self.option})")
            nothing = np.empty((0, 1), np.float32)
            descriptors = np.concatenate(list(samples.values())) if samples else nothing
            if len(descriptors) < of_picture.N_WORDS:
                raise UsageError(
                    f"features = {self.option}: {len(drawn)} codebook images hold "
                    f"{len(descriptors)} descriptors, and {of_picture.N_WORDS} are needed: "
                    "give more images"
                )
            workers.progress(f"learning a codebook ({self.option})", 0, 1)
            codebook = WORDS[self.option].learn(descriptors[:SAMPLED])
            workers.progress(f"learning a codebook ({self.option})", 1, 1)
            return codebook

        return key, cached(cache_home() / "features" / f"codebook-{key}.npz", learn)

    def _versions(self) -> tuple[str, ...]:
        return tuple(f"{name} {import_module(name).__version__}" for name in EXTRA)


def _resized(picture: Picture) -> Any:
    from PIL import Image  # where it is used: a trial does without

    image = read_image(Path(picture.path), enough=2 * SIDE)
    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
