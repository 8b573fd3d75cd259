"""Caltech256 and Caltech101: pictures of objects, read from the official releases.

Not for their features, and not for fetching archives.  The codebooks of each are learned from the
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from oasis_bench.datasets.caltech_subsets import CALTECH256_FOLDERS, CALTECH256_SUBSETS
from oasis_bench.datasets.files.archives import Archive, locate
from oasis_bench.datasets.picture_labels import Label
from oasis_bench.datasets.pictures import ImageDataset, require_images, warn
from oasis_bench.system import Progress, no_progress

LICENCE = "CC BY 4.0 (CaltechDATA); the pictures were gathered from the web and are their owners'"


class Caltech256(ImageDataset):
    """29780 pictures of 256 classes of objects, 80 or more a class; some 300 x 300 pixels.

    Read from ``256_ObjectCategories/NNN.name/NNN_MMMM.jpg``; the classes are named as the folders
    are, and a class whose folder is not on disk has no rows.  The folder 257.clutter is left out:
    it is no class of objects.
    """

    name = "caltech256"
    summary = "pictures of objects: 29780 images, 256 classes of 80 or more; the papers' subsets"
    citation = (
        "G. Griffin, A. Holub and P. Perona. Caltech-256 Object Category Dataset. "
        "California Institute of Technology, CNS-TR-2007-001, 2007. doi:10.22002/D1.20087"
    )
    licence = LICENCE
    home = (
        "$OASIS_BENCH_DATA/caltech256/256_ObjectCategories, else downloaded: 1.2 GB from "
        "data.caltech.edu, kept and unpacked in the cache; codebooks from caltech101"
    )
    class_subsets = CALTECH256_SUBSETS
    notes: ClassVar[Mapping[str, str]] = {
        "B50": "two of the fifty names are unreadable in the paper's text; rainbow and superman "
        "are our reading"
    }
    codebook_source = "caltech101"
    folder = "caltech256"
    archive: ClassVar[Archive] = Archive(
        url="https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
        checksum="md5:67b4f42ca05d46448c6bb8ecd2220f6d",
        folder=folder,
        max_members=50_000,
        max_bytes=2 * 10**9,
    )

    def find_images(
        self, progress: Progress = no_progress, tell: Callable[[str], None] = warn
    ) -> Sequence[tuple[Path, Label]]:
        """Find the pictures, in the order of their names, each with the name of its folder."""
        folder = locate(self.archive, progress) / "256_ObjectCategories"
        return require_images(_pictures_of_256(folder), folder, "NNN.name/NNN_MMMM.jpg")

    def class_sizes(self) -> Mapping[str, int]:
        """Count the pictures of each class on disk; nothing is downloaded."""
        home = self.location()
        folder = Path(home) / "256_ObjectCategories" if home else None
        return Counter(name for _, name in _pictures_of_256(folder)) if folder else {}


def _pictures_of_256(folder: Path) -> list[tuple[Path, str]]:
    """List the pictures of objects in the folder of categories, each with the name of its class."""
    classes = [folder / name for name in CALTECH256_FOLDERS[:256]]
    return [(path, home.name) for home in classes for path in sorted(home.glob("[0-9]*_*.jpg"))]


class Caltech101(ImageDataset):
    """8677 pictures of 101 classes of objects, 31 to 800 a class; some 300 x 200 pixels.

    Read from ``101_ObjectCategories/name/image_MMMM.jpg``.  The folder BACKGROUND_Google is left
    out: it is no class of objects.
    """

    name = "caltech101"
    summary = "pictures of objects: 8677 images, 101 classes of 31 to 800"
    citation = (
        "L. Fei-Fei, R. Fergus and P. Perona. Learning generative visual models from few training "
        "examples. CVPR Workshop on Generative-Model Based Vision, 2004. doi:10.22002/D1.20086"
    )
    licence = LICENCE
    home = (
        "$OASIS_BENCH_DATA/caltech101/101_ObjectCategories, else downloaded: 137 MB from "
        "data.caltech.edu, kept and unpacked in the cache; codebooks from caltech256"
    )
    codebook_source = "caltech256"
    folder = "caltech101"
    archive: ClassVar[Archive] = Archive(
        url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
        checksum="md5:3138e1922a9193bfa496528edbbc45d0",
        folder=folder,
        max_members=20_000,
        max_bytes=10**9,
        inner="caltech-101/101_ObjectCategories.tar.gz",
    )

    def find_images(
        self, progress: Progress = no_progress, tell: Callable[[str], None] = warn
    ) -> Sequence[tuple[Path, Label]]:
        """Find the pictures, in the order of their names, each with the name of its folder."""
        folder = locate(self.archive, progress) / "101_ObjectCategories"
        found = [
            (path, path.parent.name)
            for path in sorted(folder.glob("*/image_*.jpg"))
            if path.parent.name != "BACKGROUND_Google"
        ]
        return require_images(found, folder, "name/image_MMMM.jpg")
