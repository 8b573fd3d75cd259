"""Tiny ImageNet: 64 x 64 pictures of 200 classes, read from the official release.

Only its training part: the test part has no labels, and 50 images a class of the validation part
are too few for the papers' protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from oasis_bench.datasets.features import VistermFeatures
from oasis_bench.datasets.files import Archive, locate
from oasis_bench.datasets.pictures import ImageDataset, Label, require_images, warn
from oasis_bench.system import Progress, no_progress


class TinyImageNet(ImageDataset):
    """100000 pictures of 200 classes, 500 a class, 64 x 64 pixels.

    Read from ``train/WNID/images/*.JPEG``; a class is named by its WordNet number.  Blocks are
    16 x 16 pixels every 8, a quarter of the papers' as the pictures are, which makes 90 of them;
    the pictures that the codebooks are learned from are shrunk to fit 64 x 64 first.
    """

    name = "tiny-imagenet"
    summary = "small pictures, 64 x 64 pixels: 100000 images, 200 classes of 500"
    citation = (
        "Y. Le and X. Yang. Tiny ImageNet Visual Recognition Challenge. Stanford CS 231N, 2015; "
        "J. Deng et al. ImageNet: a large-scale hierarchical image database. CVPR, 2009"
    )
    licence = "ImageNet's terms of access: research and teaching without commerce"
    home = (
        "$OASIS_BENCH_DATA/tiny-imagenet-200/train, else downloaded: 248 MB from "
        "cs231n.stanford.edu, kept and unpacked in the cache; codebooks from caltech101"
    )
    codebook_source = "caltech101"
    folder = "tiny-imagenet-200"
    features = VistermFeatures(block=16, stride=8, codebook_size=(64, 64))
    archive: ClassVar[Archive] = Archive(
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
        folder=folder,
        max_members=200_000,
        max_bytes=10**9,
        top=folder,
    )

    def find_images(
        self, progress: Progress = no_progress, tell: Callable[[str], None] = warn
    ) -> Sequence[tuple[Path, Label]]:
        """Find the training pictures, in the order of their names, each with its WordNet number."""
        folder = locate(self.archive, progress) / "train"
        paths = sorted(folder.glob("n[0-9]*/images/*.JPEG"))
        found = [(path, path.parent.parent.name) for path in paths]
        return require_images(found, folder, "WNID/images/*.JPEG")
