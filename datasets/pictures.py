"""What all data sets of pictures share: files with labels become rows, by default visterms.

Not for where the files are (each data set knows that), nor for features (`features`).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from oasis_bench.data import LabelledRows, Labels, Patches
from oasis_bench.datasets import picture_files
from oasis_bench.datasets.features import VISTERMS, asked_features, feature_rows
from oasis_bench.datasets.files import dataset_folder
from oasis_bench.datasets.patches import patch_options, patches_of
from oasis_bench.datasets.picture_files import Picture, PictureRows
from oasis_bench.datasets.visterms import VistermFeatures, visterm_counts
from oasis_bench.plugins import Dataset, Fields, Registry
from oasis_bench.system import Progress, UsageError, no_progress, quoted

Label: TypeAlias = "str | tuple[str, ...]"
"""The class of a picture, or its words if the data set has several labels."""

Found: TypeAlias = Sequence[tuple[Path, Label]]
"""The pictures of a data set, each with its label."""

Tell: TypeAlias = Callable[[str], None]
"""Called with a line for each picture that is left out."""


def warn(line: str) -> None:
    """Show a line on a picture that is left out as a warning."""
    warnings.warn(line, stacklevel=3)


class ImageDataset(Fields, Dataset, kw_only=True):
    """Pictures as bags of visual words (JMLR 2010, section 3): raw counts of visterms, CSR.

    The codebooks of colours and of blocks are learned from the pictures of another data set (the
    papers used pictures from the web).  Copies of evaluated pictures are not used for this, if
    `near_duplicates` finds them; it does not find mirrored or cropped copies.  The harness learns
    the idf weights from the training images of each partition.

    Pictures that cannot be used are left out, and a warning gives the reason.

    Class attributes
    ----------------
    layout_of_blocks : VistermFeatures
        The parameters of visterms, such as the block size.
    codebook_source : str, default 'caltech101'
        The name of the data set for the codebooks, also an `ImageDataset`.
    folder : str
        The name of the folder, in `OASIS_BENCH_DATA` or in the cache folder.

    Parameters
    ----------
    visterms : int, default 1000
        Visual words in the codebook: the number of features (JMLR 2010, 5.3: 1000 if dense methods
        are compared, otherwise 10000).
    block : int, optional
        Width and height of a block in pixels.  A block begins every ``block // 2`` pixels.
        Default: the block of `layout_of_blocks`.
    pixels : int, optional
        Also decode each picture to this width and height in pixels, for learners of pixels.
    patches : str, optional
        Also describe patches of each picture, for learners of patches.  One or more kinds, joined
        by +: gb70 and gb42 (geometric blur of 70 and 42 pixels), hsv (colours) and sift (needs
        OpenCV).  Pictures without edges are left out.
    n_points : int, default 400
        Largest number of patches of each kind per picture.
    features : str, default 'visterms'
        The features of a row.  Besides visterms there are hand-made features ('histograms', 'lab',
        'hog', 'lbp', 'wavelet', 'sift-bow', 'fisher', 'texton'), the pooled features of a
        pretrained network ('efficientnet-lite0', or 'timm:NAME' for a network of timm), its layers
        ('efficientnet-lite0-layers', a kind for each), and the user's features in 'FILE.npz'.
        Names joined by + give several kinds, each of unit length.
        All of these are scaled by l2 by default.  'none' makes no rows, for learners that take only
        pixels or patches.
    max_classes : int, optional
        Use only the first `max_classes` classes, sorted by name, for a quick try of slow features.
        Not for data sets with several labels per picture.
    """

    scaling = "tfidf"
    items = "images"
    gives = ("rows", "pixels", "patches")
    layout_of_blocks: ClassVar[VistermFeatures] = VistermFeatures()
    codebook_source: ClassVar[str] = "caltech101"
    folder: ClassVar[str] = ""

    visterms: int = 1000
    block: int | None = None
    pixels: int | None = None
    patches: str | None = None
    n_points: int = 400
    features: str = VISTERMS
    max_classes: int | None = None

    def __post_init__(self) -> None:
        self.kinds_of_patches = patch_options(self.patches, self.n_points)
        self.asked_features = asked_features(self.features, VISTERMS)
        if self.asked_features and (self.block is not None or self.visterms != 1000):
            named = quoted(self.features)
            raise UsageError(f"features = {named}: visterms and block do not apply")
        picture_files.check_count("max_classes", self.max_classes, least=2)
        picture_files.check_count("pixels", self.pixels)
        self.visterm_features()  # refuses numbers out of bounds, before a download

    @property
    def title(self) -> str:
        """The data set, its features if they are not visterms, and the part that is used."""
        features = f" {'+'.join(self.asked_features)}" if self.asked_features else ""
        part = f", first {self.max_classes} classes" if self.max_classes else ""
        return f"{self.name}{features}{part}"

    def default_scaling(self, rows: LabelledRows) -> str:
        """Return 'tfidf' for visterms, and 'l2' for other features."""
        return "l2" if self.asked_features else self.scaling

    def location(self) -> str | None:
        """Return the folder of the release, or None if it is not on this machine."""
        folder = dataset_folder(self.folder)
        return str(folder) if self.folder and folder.is_dir() else None

    @abstractmethod
    def find_images(self, progress: Progress = no_progress, tell: Tell = warn) -> Found:
        """Find each picture with its class or its words; download the pictures first if needed.

        `tell` is called with a line for each picture that is left out.
        """

    def visterm_features(self) -> VistermFeatures:
        """Return the parameters of the features, with the requested visterms and block."""
        features = replace(self.layout_of_blocks, n_visterms=self.visterms)
        if self.block is None:
            return features
        return replace(features, block=self.block, stride=self.block // 2)

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Make the row of each picture; the visterms or embeddings of earlier calls are on disk.

        Of files with equal contents one is kept, or none if their labels differ.
        """
        lines: list[str] = []

        def tell(line: str) -> None:
            lines.append(line)
            warnings.warn(line, stacklevel=3)

        found = self._of_first_classes(self.find_images(progress, tell))
        pictures = picture_files.hashed_pictures([path for path, _ in found], progress)
        if self.asked_features:
            source = self.codebook_source
            teachers = partial(teachers_of, source, self.name, pictures, progress, tell)
            result = feature_rows(self.asked_features, pictures, progress, teachers)
        else:
            found, pictures, result = self._visterms(found, pictures, progress, tell)
        for line in picture_files.fault_lines(result.left_out):
            tell(line)
        if not len(result.kept):
            path, fault = result.left_out[0]
            raise self._none_usable(len(found), path, fault.reason)
        usable = [found[i] for i in result.kept]
        rows = distinct([pictures[i].content for i in result.kept], [label for _, label in usable])
        if dropped := sorted(set(range(len(usable))) - set(rows)):
            example, _ = usable[dropped[0]]
            tell(
                f"left out: {len(dropped)} copies, such as {str(example)!r}: of equal files one is "
                "kept, or none if their labels differ"
            )
        patches = None if result.patches is None else result.patches[rows]
        if self.kinds_of_patches:
            asked = [pictures[result.kept[row]] for row in rows]
            local, with_edges, left_out = patches_of(
                asked, self.kinds_of_patches, self.n_points, progress
            )
            for line in picture_files.fault_lines(left_out):
                tell(line)
            if local is None:
                raise UsageError(f"no image of {self.name} has edges: patches are centred at edges")
            rows = [rows[number] for number in with_edges]
            more = patches[with_edges].kinds if patches else {}
            patches = Patches({**local.kinds, **more})
        pixels = None
        if self.pixels is not None:
            asked = [pictures[result.kept[row]] for row in rows]
            pixels, decoded, left_out = picture_files.pixels_of(asked, self.pixels, progress)
            if left_out:
                for line in picture_files.fault_lines(left_out):
                    tell(line)
                if not decoded:
                    path, fault = left_out[0]
                    raise self._none_usable(len(asked), path, fault.reason)
                rows = [rows[number] for number in decoded]
                patches = None if patches is None else patches[decoded]
        y, names = as_labels([usable[row][1] for row in rows])
        images = tuple(usable[row][0] for row in rows)
        return LabelledRows(
            *(result.X[rows], y, names, images),
            left_out=tuple(lines),
            remarks=result.remarks,
            pixels=pixels,
            patches=patches,
        )

    def outline(self, progress: Progress = no_progress) -> LabelledRows:
        """Return the labels of the pictures and random counts; only pixels and patches are read."""
        if self.pixels is not None or self.patches is not None:
            return self.load(progress)
        found = self._of_first_classes(self.find_images(progress))
        y, names = as_labels([label for _, label in found])
        rng = np.random.default_rng(0)
        counts: Any = sparse.random(len(found), self.visterms, 0.05, "csr", np.float32, rng)
        X = sparse.csr_array(counts.ceil())
        return LabelledRows(X.toarray() if self.asked_features else X, y, names)

    def set_apart(self, contents: Sequence[str], labels: Sequence[Label], tell: Tell) -> set[int]:
        """Choose own pictures that are used only for the codebooks: by default none.

        `contents` has a hash of each picture; `tell` is called with a line on these pictures.
        """
        return set()

    def _of_first_classes(self, found: Found) -> Found:
        if self.max_classes is None:
            return found
        labels = {label for _, label in found}
        if not all(isinstance(label, str) for label in labels):
            raise UsageError(
                f"max_classes = {self.max_classes}: leave it out: pictures have several labels here"
            )
        chosen = sorted(labels)[: self.max_classes]
        return [one for one in found if one[1] in chosen]

    def _visterms(
        self,
        found: Found,
        pictures: list[Picture],
        progress: Progress,
        tell: Tell,
    ) -> tuple[Found, list[Picture], PictureRows]:
        """Count visterms; return the pictures that are not set apart, and their rows."""
        labels = [label for _, label in found]
        apart = self.set_apart([picture.content for picture in pictures], labels, tell)
        own = [pictures[i] for i in sorted(apart)]
        found = [one for i, one in enumerate(found) if i not in apart]
        pictures = [one for i, one in enumerate(pictures) if i not in apart]
        features = self.visterm_features()
        self._check_some_usable(pictures, features)
        teachers = teachers_of(self.codebook_source, self.name, pictures, progress, tell, own)
        result, left_out = visterm_counts(pictures, teachers, features, progress)
        for line in picture_files.fault_lines(left_out, "left out of the codebooks"):
            tell(line)
        return found, pictures, result

    def _check_some_usable(self, pictures: Sequence[Picture], features: VistermFeatures) -> None:
        """Raise UsageError if no picture has enough blocks: learning codebooks takes minutes."""
        reason = ""
        for picture in pictures:
            try:
                features.sizes(*picture_files.read_image(picture.path).size)
                return
            except picture_files.UnusableImageError as error:
                reason = reason or str(error)
        raise self._none_usable(len(pictures), pictures[0].path, reason)

    def _none_usable(self, n_images: int, path: Path, reason: str) -> UsageError:
        return UsageError(
            f"none of the {n_images} images of {self.name} can be used; the first is "
            f"{str(path)!r}: {reason}"
        )


def teachers_of(
    source_name: str,
    name: str,
    evaluated: Sequence[Picture],
    progress: Progress,
    tell: Tell,
    own: Sequence[Picture] = (),
) -> list[Picture]:
    """Find the pictures that the codebooks of data set `name` are learned from.

    They are its `own`, or those of the source without copies of the evaluated pictures:
    Caltech256's classes that end in -101 have pictures of Caltech101.
    """
    if not own:
        source: Any = Registry.load().datasets[source_name]()
        try:
            found = source.find_images(progress, tell)
        except UsageError as error:
            raise UsageError(
                f"the codebooks of {name} are learned from {source_name}: {error}"
            ) from error
        own = picture_files.hashed_pictures([path for path, _ in found], progress)
    copies = picture_files.near_duplicates(own, evaluated, progress)
    others = [picture for picture in own if picture.content not in copies]
    if not others:
        raise UsageError(
            f"the pictures for the codebooks of {name} are all among the evaluated pictures: if "
            f"these are {source_name}, use this name as the data set"
        )
    return others


def distinct(contents: Sequence[str], labels: Sequence[Label]) -> list[int]:
    """Choose the pictures to keep: the first of each content, if all of that have its label."""
    first: dict[str, int] = {}
    disputed: set[str] = set()
    for number, content in enumerate(contents):
        one = first.setdefault(content, number)
        if _words(labels[one]) != _words(labels[number]):
            disputed.add(content)
    return [number for content, number in first.items() if content not in disputed]


def _words(label: Label) -> set[str]:
    return {label} if isinstance(label, str) else set(label)


def as_labels(labels: Sequence[Label]) -> tuple[Labels, tuple[str, ...]]:
    """Return class numbers or, for words, a relevance of 1 (images x words); and the names."""
    if all(isinstance(label, str) for label in labels):
        classes, numbers = np.unique(np.array(labels), return_inverse=True)
        return numbers.astype(np.int64), tuple(classes.tolist())
    binarizer = MultiLabelBinarizer(sparse_output=True)
    relevance = sparse.csr_array(binarizer.fit_transform(labels), dtype=np.float32)
    return relevance, tuple(binarizer.classes_.tolist())
