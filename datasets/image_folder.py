"""The user's own pictures: a folder that holds a folder for each class.

Not for the data sets that have a name: each of those has a module of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from oasis_bench.datasets.features import VISTERMS, VistermFeatures
from oasis_bench.datasets.files import reason_of
from oasis_bench.datasets.pictures import ImageDataset, Label, warn
from oasis_bench.plugins import Registry
from oasis_bench.system import Progress, UsageError, no_progress

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"})

SHARE_SET_APART = 5
"""One picture in so many of each class teaches the codebooks."""
MOST_OTHER_FILES = 100_000
"""Files and folders below a folder of pictures that are no pictures, at most."""

NEEDED = (
    f"give a folder that holds, for each of 2 classes or more, a folder of pictures "
    f"({', '.join(sorted(ENDINGS))})"
)


class ImageFolder(ImageDataset):
    """Pictures of the user's: each folder directly in `path` is a class, and has its name.

    A class's pictures may lie in folders within its folder.  Pictures are the files that end in
    jpg, jpeg, png, gif, bmp, webp, tif or tiff, in capitals or not.  Hidden files and folders are
    ignored; links to folders, and links out of `path`, are left out with a warning.

    Parameters
    ----------
    path : Path
        The folder of class folders.
    visterms : int, default 1000
        The number of features.
    block : int, default 64
        Width and height of a block in pixels; a block begins every ``block // 2`` (JMLR 2010,
        section 3).
        Pictures with fewer than 10 blocks are left out: choose a smaller one for small pictures.
    pixels : int, optional
        Decode each picture to so many pixels in width and height too.
    patches : str, optional
        Kinds of patches, joined by +, as `ImageDataset` has them.
    n_points : int, default 400
        Patches of each kind a picture, at most.
    features : str, default 'visterms'
        What a row is, as `ImageDataset` has it.
    max_classes : int, optional
        Take the first so many classes by name.
    """

    name = "images"
    summary = "pictures of yours, a folder for each class: --dataset FOLDER"
    citation = "none"
    licence = "not known: the pictures are yours"
    home = "the folder that you name, with a folder of pictures for each class"
    codebook_source = "caltech101"

    def __init__(
        self,
        path: Path,
        visterms: int = 1000,
        block: int | None = None,
        pixels: int | None = None,
        patches: str | None = None,
        n_points: int = 400,
        features: str = VISTERMS,
        max_classes: int | None = None,
    ) -> None:
        super().__init__(visterms, block, pixels, patches, n_points, features, max_classes)
        self.path = path

    @property
    def title(self) -> str:
        """The name, by which reports know that the folder's own name is to be shown."""
        return self.name

    def location(self) -> str | None:
        """Return the folder, or None where there is none."""
        return str(self.path) if self.path.is_dir() else None

    def visterm_features(self) -> VistermFeatures:
        """Return the parameters of the features for blocks of the size asked for.

        Pictures of caltech101 are about 5 blocks of 64 pixels wide.  For smaller blocks they are
        shrunk to 5 blocks too, so that a block shows an equal part of the picture.
        """
        features = super().visterm_features()
        side = 5 * features.block
        return features if side >= 320 else replace(features, codebook_size=(side, side))

    def set_apart(
        self, contents: Sequence[str], labels: Sequence[Label], tell: Callable[[str], None]
    ) -> set[int]:
        """Choose a fifth of each class, where the data set that usually teaches is not here.

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
            f"set apart: {len(chosen)} of {len(labels)} pictures, from which the codebooks are "
            f"learned, as {source.name} is not on this machine ('data prepare {source.name}' gets "
            "it)"
        )
        return chosen

    def find_images(
        self, progress: Progress = no_progress, tell: Callable[[str], None] = warn
    ) -> Sequence[tuple[Path, Label]]:
        """Find the pictures, in the order of their paths, each with the name of its class."""
        found: list[tuple[Path, Label]] = []
        left_out: list[tuple[Path, str]] = []
        n_others = 0

        def unreadable(error: OSError) -> None:
            left_out.append((Path(error.filename), reason_of(error)))

        try:
            root = self.path.resolve(strict=True)
            os.listdir(root)
        except OSError as error:
            raise UsageError(f"{self.path}: {reason_of(error)}: {NEEDED}") from error
        for parent, folders, files in os.walk(root, onerror=unreadable):
            paths = [Path(parent, name) for name in sorted(files) if name[0] != "."]
            paths = [path for path in paths if path.suffix.lower() in ENDINGS]
            n_others += len(folders) + len(files) - len(paths)
            if n_others > MOST_OTHER_FILES:
                raise UsageError(
                    f"{self.path} holds more than {MOST_OTHER_FILES} files and folders that are no "
                    f"pictures: {NEEDED}"
                )
            folders[:] = sorted(name for name in folders if name[0] != ".")
            linked = [path for name in folders if (path := Path(parent, name)).is_symlink()]
            left_out += [(path, "it is a link to a folder") for path in linked]
            for path in paths:
                if path.parent == root:
                    left_out.append((path, "it lies in no folder of a class"))
                elif not Path(os.path.realpath(path)).is_relative_to(root):
                    left_out.append((path, f"it is a link out of {str(root)!r}"))
                else:
                    found.append((path, _text(path.relative_to(root).parts[0])))
        for path, reason in left_out:
            tell(f"left out: {str(path)!r}: {reason}")
        classes = {label for _, label in found}
        if len(classes) < 2:
            held = f"only 1 folder of pictures, {classes.pop()!r}" if classes else "no pictures"
            raise UsageError(f"{self.path} holds {held}: {NEEDED}")
        return found


def _text(name: str) -> str:
    """Return a folder's name as text that can be written, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
