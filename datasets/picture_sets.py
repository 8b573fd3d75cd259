"""Data sets of pictures: those that were released, and a folder of the user."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from oasis_bench.datasets.files import Archive, dataset_folder, locate, reason_of
from oasis_bench.datasets.pictures import Found, ImageDataset, Label, Tell, warn
from oasis_bench.datasets.visterms import VistermFeatures
from oasis_bench.plugins import Registry
from oasis_bench.system import Progress, UsageError, no_progress, quoted


def _caltech256() -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """Read the names of the 257 folders of Caltech256, and the papers' subsets of them."""
    read = tomllib.loads(Path(__file__).with_name("caltech256.toml").read_text("utf-8"))
    folders = {name: f"{i:03}.{name}" for i, name in enumerate(read["names"].split(), 1)}
    subsets = {
        key: tuple(folders[name] for name in names.split())
        for key, names in read["subsets"].items()
    }
    every = tuple(folders.values())
    b249 = every[:128] + every[129:250]
    subsets |= {"B249": b249, "Var10": subsets["B10"], "Var20": subsets["B20"]}
    return every, subsets


CALTECH256_FOLDERS, CALTECH256_SUBSETS = _caltech256()


class PictureRelease(ImageDataset):
    """Pictures from an archive with a folder for each class.

    Class attributes
    ----------------
    archive : Archive
        The archive, which is downloaded and unpacked if its folder is missing.
    layout : str
        The pattern of the paths in the folder.  The second part of a path is the class.
    no_classes : tuple of str
        Folders that are not classes.
    """

    archive: ClassVar[Archive]
    layout: ClassVar[str]
    no_classes: ClassVar[tuple[str, ...]] = ()

    def find_images(self, progress: Progress = no_progress, tell: Tell = warn) -> Found:
        """Find the pictures, in the order of their paths, each with the name of its folder."""
        folder = locate(self.folder, self.archive, progress)
        return require_images(self._pictures_in(folder), folder, self.layout)

    def class_sizes(self) -> Mapping[str, int]:
        """Count the pictures of each class on disk; nothing is downloaded."""
        home = self.location()
        return Counter(name for _, name in self._pictures_in(Path(home))) if home else {}

    def _pictures_in(self, folder: Path) -> list[tuple[Path, str]]:
        paths = sorted(folder.glob(self.layout))
        labels = [path.relative_to(folder).parts[1] for path in paths]
        pairs = zip(paths, labels, strict=True)
        return [(path, label) for path, label in pairs if label not in self.no_classes]


def require_images(found: Found, folder: Path, layout: str) -> Found:
    """Return the pictures found in the folder of a data set."""
    if not found:
        raise UsageError(
            f"{folder} has no {layout}: put the official release there, or remove the folder"
        )
    return found


LICENCE = (
    "CC BY 4.0 (CaltechDATA); the pictures were gathered from the web and belong to their owners"
)


class Caltech256(PictureRelease):
    """29780 pictures of 256 classes of objects, 80 or more a class; some 300 x 300 pixels.

    The files are ``256_ObjectCategories/NNN.name/NNN_MMMM.jpg``.  Classes have the names of the
    folders, and a class whose folder is not on disk has no rows.  The folder 257.clutter is left
    out, because it is not a class of objects.
    """

    name = "caltech256"
    summary = "pictures of objects: 29780 images, 256 classes of 80 or more; the papers' subsets"
    citation = (
        "G. Griffin, A. Holub and P. Perona. Caltech-256 Object Category Dataset. "
        "California Institute of Technology, CNS-TR-2007-001, 2007. doi:10.22002/D1.20087"
    )
    licence = LICENCE
    home = (
        "read from $OASIS_BENCH_DATA/caltech256/256_ObjectCategories, or downloaded to the cache "
        "(1.2 GB, data.caltech.edu); its codebooks are learned from caltech101"
    )
    class_subsets = CALTECH256_SUBSETS
    notes: ClassVar[Mapping[str, str]] = {
        "B50": "two of the fifty names are unreadable in the paper's text; rainbow and superman "
        "are our reading"
    }
    folder = "caltech256"
    archive: ClassVar[Archive] = Archive(
        url="https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
        checksum="md5:67b4f42ca05d46448c6bb8ecd2220f6d",
    )
    layout = "256_ObjectCategories/*/[0-9]*_*.jpg"
    no_classes = ("257.clutter",)


class Caltech101(PictureRelease):
    """8677 pictures of 101 classes of objects, 31 to 800 a class; some 300 x 200 pixels.

    The files are ``101_ObjectCategories/name/image_MMMM.jpg``.  The folder BACKGROUND_Google is
    left out, because it is not a class of objects.
    """

    name = "caltech101"
    summary = "pictures of objects: 8677 images, 101 classes of 31 to 800"
    citation = (
        "L. Fei-Fei, R. Fergus and P. Perona. Learning generative visual models from few training "
        "examples. CVPR Workshop on Generative-Model Based Vision, 2004. doi:10.22002/D1.20086"
    )
    licence = LICENCE
    home = (
        "read from $OASIS_BENCH_DATA/caltech101/101_ObjectCategories, or downloaded to the cache "
        "(137 MB, data.caltech.edu); its codebooks are learned from caltech256"
    )
    codebook_source = "caltech256"
    folder = "caltech101"
    archive: ClassVar[Archive] = Archive(
        url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
        checksum="md5:3138e1922a9193bfa496528edbbc45d0",
        inner="caltech-101/101_ObjectCategories.tar.gz",
    )
    layout = "101_ObjectCategories/*/image_*.jpg"
    no_classes = ("BACKGROUND_Google",)


class TinyImageNet(PictureRelease):
    """100000 pictures of 200 classes, 500 a class, 64 x 64 pixels: the training part.

    The test part has no labels, and 50 images a class of the validation part are too few for the
    papers' protocol.  The files are ``train/WNID/images/*.JPEG``, and the name of a class is its
    WordNet number.  Blocks are 16 x 16 pixels, every 8 pixels: a quarter of the papers' size, as
    the pictures are smaller too.  A picture has 90 of them.  The pictures for the codebooks are
    first shrunk to fit 64 x 64 pixels.
    """

    name = "tiny-imagenet"
    summary = "small pictures, 64 x 64 pixels: 100000 images, 200 classes of 500"
    citation = (
        "Y. Le and X. Yang. Tiny ImageNet Visual Recognition Challenge. Stanford CS 231N, 2015; "
        "J. Deng et al. ImageNet: a large-scale hierarchical image database. CVPR, 2009"
    )
    licence = "ImageNet's terms of access: research and teaching without commerce"
    home = (
        "read from $OASIS_BENCH_DATA/tiny-imagenet-200/train, or downloaded to the cache "
        "(248 MB, cs231n.stanford.edu); its codebooks are learned from caltech101"
    )
    folder = "tiny-imagenet-200"
    layout_of_blocks = VistermFeatures(block=16, stride=8, codebook_size=(64, 64))
    archive: ClassVar[Archive] = Archive(
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
        top=folder,
    )
    layout = "train/n[0-9]*/images/*.JPEG"


PARTS = (("training_label", "train_jpeg"), ("test_label", "test_jpeg"))


class Corel5k(ImageDataset):
    """5000 photographs, 192 x 128 pixels, with 1 to 5 of 374 words each.

    The layout is from Duygulu et al.  The words replace the papers' text queries (JMLR 2010,
    5.2.1).

    A line of ``labels/training_label`` is ``image-number word-number ...`` and describes
    ``train_jpeg/image-number.jpeg``.  ``test_label`` and ``test_jpeg`` are similar.  Line i of
    ``labels/words``, from 1, is word i.  Training and test images are joined, training images
    first.  Each word is a query, and its images have relevance 1.  Words without an image are left
    out.  Missing images are left out with a warning.

    Blocks are 32 x 32 pixels, every 16 pixels: half of the papers' size, as the photographs are
    smaller too.  The pictures for the codebooks are first shrunk to fit 192 x 192 pixels.
    """

    name = "corel5k"
    summary = "photographs with several labels: 5000 images, 374 words, 1 to 5 an image"
    citation = (
        "P. Duygulu, K. Barnard, J. F. G. de Freitas and D. A. Forsyth. Object recognition as "
        "machine translation: learning a lexicon for a fixed image vocabulary. ECCV, 2002"
    )
    licence = "not free: the photographs are Corel's, passed on for research"
    home = (
        "put train_jpeg, test_jpeg and labels into $OASIS_BENCH_DATA/corel5k; the official "
        "download has been removed; its codebooks are learned from caltech101"
    )
    folder = "corel5k"
    layout_of_blocks = VistermFeatures(block=32, stride=16, codebook_size=(192, 192))

    def find_images(self, progress: Progress = no_progress, tell: Tell = warn) -> Found:
        """Find the photographs, in the order of the label files, each with its words."""
        folder = dataset_folder(self.folder)
        words = _lines(folder / "labels" / "words")
        found = []
        for labels, images in PARTS:
            for path, label in _read_labels(folder / "labels" / labels, folder / images, words):
                if path.is_file():
                    found.append((path, label))
                else:
                    tell(f"left out: {str(path)!r}: no such file")
        return require_images(found, folder, "train_jpeg/NUMBER.jpeg with a label")


class Corel5kCDs(Corel5k):
    """The photographs of Corel5k, with one label each: the CD on which it was sold.

    Photograph N is from CD N // 1000.  There are 50 CDs, each with 100 photographs of one theme.
    """

    name = "corel5k-cds"
    summary = "the photographs of Corel5k by their CDs: 5000 images, 50 classes of 100"

    def find_images(self, progress: Progress = no_progress, tell: Tell = warn) -> Found:
        """Find the photographs, in the order of the label files, each with its CD."""
        found = super().find_images(progress, tell)
        return [(path, f"CD {int(path.stem) // 1000}") for path, _ in found]


def _read_labels(path: Path, images: Path, words: Sequence[str]) -> Iterator[tuple[Path, Label]]:
    called = dict(enumerate(words, 1))
    for number, line in enumerate(_lines(path), 1):
        try:
            image, *numbers = map(int, line.split())
            label = tuple(called[word] for word in numbers)
        except (ValueError, KeyError):
            label = ()
        if not label:
            raise UsageError(
                f"{path}: line {number}: {line[:60]!r} is not an image number and word numbers "
                f"from 1 to {len(words)}: replace the file with the official one"
            )
        yield images / f"{image}.jpeg", label


def _lines(path: Path) -> list[str]:
    """Read the lines of a label file, without empty ones at its end."""
    try:
        return path.read_text(encoding="utf-8").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {reason_of(error)}: put {Corel5k.home}") from error


ENDINGS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"}
    | {".ppm", ".pgm", ".pbm", ".pnm"}
)
"""Ends of the names of files in `PICTURE_FORMATS`."""

MOST_ENDINGS = 8
"""Endings of files that a remark counts, the most frequent ones."""

SHARE_SET_APART = 5
"""One picture of each class in this number is used for the codebooks."""

NEEDED = (
    f"give a folder with a folder of pictures for each of 2 or more classes "
    f"({', '.join(sorted(ENDINGS))})"
)


class ImageFolder(ImageDataset):
    """Pictures of the user: each folder directly in `path` is a class.

    The pictures of a class may be in subfolders of its folder.  Pictures are the files that end in
    one of `ENDINGS`, in upper or lower case; a remark counts the others.  Hidden files, hidden
    folders and links to folders are ignored.

    Parameters
    ----------
    path : Path
        The folder of class folders.
    visterms : int, default 1000
        The number of visual words, which is the number of features.
    block : int, optional
        Width and height of a block in pixels.  A block begins every ``block // 2`` pixels (JMLR
        2010, section 3).  Default: the block of `layout_of_blocks`.  Pictures with fewer than 10
        blocks are left out, so choose a smaller block for small pictures.
    pixels : int, optional
        Also decode each picture to this width and height in pixels.
    patches : str, optional
        Kinds of patches, joined by +, as for `ImageDataset`.
    n_points : int, default 400
        Largest number of patches of each kind per picture.
    features : str, default 'visterms'
        The features of a row, as for `ImageDataset`.
    max_classes : int, optional
        Use only the first classes by name.
    """

    name = "images"
    summary = "your own pictures, a folder for each class"
    citation = "none"
    licence = "not known: the pictures are yours"
    home = "--dataset FOLDER, which has a folder of pictures for each class"

    path: Path

    @property
    def title(self) -> str:
        """The name; reports then show the name of the folder instead."""
        return self.name

    def location(self) -> str | None:
        """Return the folder, or None if it does not exist."""
        return str(self.path) if self.path.is_dir() else None

    def visterm_features(self) -> VistermFeatures:
        """Return the parameters of the features for blocks of the requested size.

        Pictures of caltech101 are about 5 blocks of 64 pixels wide.  For smaller blocks they are
        shrunk to 5 blocks too, so that a block shows an equal part of the picture.
        """
        features = super().visterm_features()
        side = 5 * features.block
        return features if side >= 320 else replace(features, codebook_size=(side, side))

    def set_apart(self, contents: Sequence[str], labels: Sequence[Label], tell: Tell) -> set[int]:
        """Choose a fifth of each class, if the usual source of the codebooks is missing.

        It goes by the pictures' contents, whatever their names and order are.
        """
        source = Registry.load().datasets[self.codebook_source]
        if source().location() is not None:
            return set()
        chosen: set[int] = set()
        for label in sorted(set(labels)):
            own = [i for i in range(len(labels)) if labels[i] == label]
            own.sort(key=lambda i: contents[i])
            chosen.update(own[: len(own) // SHARE_SET_APART])
        if not chosen:
            raise UsageError(
                f"{self.path} has fewer than {SHARE_SET_APART} pictures of each class: too few to "
                f"learn the features from, and {source.name} is not on this machine: "
                f"'data prepare {source.name}' gets it"
            )
        tell(
            f"set apart: {len(chosen)} of {len(labels)} pictures, to learn the codebooks from, "
            f"because {source.name} is not on this machine ('data prepare {source.name}' gets it)"
        )
        return chosen

    def find_images(self, progress: Progress = no_progress, tell: Tell = warn) -> Found:
        """Find the pictures, in the order of their paths, each with the name of its class."""
        found: list[tuple[Path, Label]] = []
        loose: list[str] = []
        others: Counter[str] = Counter()
        try:
            root = self.path.resolve(strict=True)
            os.listdir(root)
        except OSError as error:
            raise UsageError(f"{self.path}: {reason_of(error)}: {NEEDED}") from error
        for parent, folders, files in os.walk(
            root, onerror=lambda error: tell(f"left out: {error.filename!r}: {reason_of(error)}")
        ):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            for name in folders:
                if os.path.islink(linked := os.path.join(parent, name)):
                    tell(f"left out: {linked!r} is a link to a folder: put the folder in its place")
            for path in (Path(parent, name) for name in sorted(files) if name[0] != "."):
                if path.suffix.lower() not in ENDINGS:
                    others[quoted(_text(path.suffix.lower()))[1:-1] or "no ending"] += 1
                elif path.parent == root:
                    loose.append(str(path))
                else:
                    found.append((path, _text(path.relative_to(root).parts[0])))
        classes = {label for _, label in found}
        if len(classes) < 2:
            held = f"{len(loose)} pictures, none of them in a folder" if loose else "no pictures"
            held = f"only 1 folder of pictures, {classes.pop()!r}" if classes else held
            raise UsageError(f"{self.path} has {held}: {NEEDED}")
        if loose:
            tell(f"left out: {len(loose)} not in a folder of a class: such as {loose[0]!r}")
        if others:
            counts = ", ".join(f"{ending} {n}" for ending, n in others.most_common(MOST_ENDINGS))
            more = ", ..." * (len(others) > MOST_ENDINGS)
            tell(f"left out: {others.total()} files of other kinds: {counts}{more}")
        return sorted(found)


def _text(name: str) -> str:
    """Return a folder's name as text that can be written, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
