"""The option `features` of data sets of pictures: what a picture's row is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile
from sklearn.preprocessing import normalize

from oasis_bench.data import FloatArray, Patches
from oasis_bench.datasets.features.embeddings import TIMM, Network
from oasis_bench.datasets.features.hand_made import HAND_MADE, HandMade, Teachers
from oasis_bench.datasets.features.picture_files import Picture, PictureRows, Workers
from oasis_bench.datasets.files import listed, load_array, open_npz, reason_of, refuse_empty
from oasis_bench.system import UsageError, check_value, shown, unknown_name

VISTERMS, HISTOGRAMS, LITE0 = "visterms", "histograms", "efficientnet-lite0"

SCALING = "l2"
"""How such rows are scaled, where an experiment does not say."""


@dataclass(frozen=True)
class AskedFeatures:
    """Features of one kind, or of several kinds side by side."""

    parts: tuple[Network | FeatureFile | HandMade, ...]

    @property
    def option(self) -> str:
        """The names of the kinds, joined by +."""
        return "+".join(part.option for part in self.parts)

    def rows_of(
        self, pictures: Sequence[Picture], workers: Workers, teachers: Teachers
    ) -> PictureRows:
        """Describe each picture; of several kinds, each is of unit length and they are joined.

        Then `patches` of one kind are the row of that kind.  `teachers` finds the pictures that
        codebooks are learned from, where one is needed.
        """
        several = [
            part.rows_of(pictures, workers, teachers)
            if isinstance(part, HandMade)
            else part.rows_of(pictures, workers)
            for part in self.parts
        ]
        if len(several) == 1:
            return several[0]
        kept = sorted(set.intersection(*(set(rows.kept) for rows in several)))
        left_out = {path: fault for rows in several for path, fault in rows.left_out}
        groups = {
            re.sub(r"\W", "_", part.option): normalize(rows.X[np.isin(rows.kept, kept)])
            for part, rows in zip(self.parts, several, strict=True)
        }
        return PictureRows(
            np.concatenate(list(groups.values()), axis=1),
            kept,
            list(left_out.items()),
            tuple(remark for rows in several for remark in rows.remarks),
            Patches.one_each(groups) if kept else None,
        )


def asked_features(option: str, own: str) -> AskedFeatures | None:
    """Read the option `features`; None for the features that the data set makes of its `own`."""
    check_value("features", option, str)
    if option == own:
        return None
    if option.lower().endswith(".npz"):
        return AskedFeatures((FeatureFile(Path(option)),))
    names = option.split("+")
    if len(set(names)) < len(names):
        raise UsageError(f"features = {option}: name each kind once")
    return AskedFeatures(tuple(_of_kind(name, own) for name in names))


def _of_kind(name: str, own: str) -> Network | HandMade:
    if name == LITE0 or name.startswith(TIMM):
        return Network(name)
    if name in HAND_MADE:
        return HandMade(name)
    known = (own, *HAND_MADE, LITE0, f"{TIMM}NAME", "FILE.npz")
    raise UsageError(f"{unknown_name('features', name, known)}; + joins several")


@dataclass(frozen=True)
class FeatureFile:
    """Features that the user has computed, in an npz file.

    It holds an array `X` (n, d) of numbers, or just one array of 2 dimensions.  Without an array
    `names`, there is a row for each picture, in the order in which the data set finds them.  With
    `names` (n,), a row belongs to the picture whose path ends with its name, such as
    ``accordion/image_0001.jpg``; names of no picture are ignored.
    """

    path: Path

    @property
    def option(self) -> str:
        """The name of the file."""
        return self.path.name

    def rows_of(self, pictures: Sequence[Picture], workers: Workers) -> PictureRows:
        """Read the row of each picture, float32; `workers` have nothing to do."""
        try:
            refuse_empty(self.path)
            with open_npz(self.path) as file:
                X, names = _features(file), _names(file)
            paths = [picture.path for picture in pictures]
            places = _in_order(paths, len(X)) if names is None else _by_name(paths, names, len(X))
            with np.errstate(over="ignore"):  # infinite then, which is told
                rows = X[places].astype(np.float32)
            if unusable := np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
                raise UsageError(
                    f"the features of {len(unusable)} images are not finite in float32, such as "
                    f"those of {str(paths[unusable[0]])!r}: compute them again"
                )
        except (UsageError, MemoryError) as error:
            raise UsageError(f"features {self.path}: {error}") from error
        except OSError as error:
            raise UsageError(
                f"features {self.path}: {reason_of(error)}: give an npz file to read"
            ) from error
        remark = f"features: {rows.shape[1]} numbers an image, read from {self.option}"
        return PictureRows(rows, range(len(paths)), (), (remark,))


def _features(file: NpzFile) -> FloatArray:
    name = "X"
    if name not in file.files:
        shapes = {name: load_array(file, name).shape for name in file.files}
        tables = [name for name, shape in shapes.items() if len(shape) == 2]
        if len(tables) != 1:
            held = listed([f"{name} {shape}" for name, shape in shapes.items()])
            raise UsageError(f"holds {held}: call the features X (n_images, n_features)")
        (name,) = tables
    X = load_array(file, name)
    if X.ndim != 2 or not X.shape[1] or X.dtype.kind not in "fiu":
        raise UsageError(
            f"array {name!r} has shape {X.shape} and type {X.dtype}: numbers of shape (n_images, "
            "n_features) are needed"
        )
    return X


def _names(file: NpzFile) -> npt.NDArray[Any] | None:
    if "names" not in file.files:
        return None
    names = load_array(file, "names")
    if names.ndim != 1 or names.dtype.kind != "U":
        raise UsageError(
            f"array 'names' has shape {names.shape} and type {names.dtype}: a file name for each "
            "row is needed, as numpy.array(names, dtype=str)"
        )
    return names


def _in_order(paths: Sequence[Path], n_rows: int) -> slice:
    if n_rows != len(paths):
        raise UsageError(
            f"{n_rows} rows for {len(paths)} images: give one each, in the order of the images "
            f"(the first is {str(paths[0])!r}, the last {str(paths[-1])!r}), or add an array "
            "'names' of their file names"
        )
    return slice(None)


def _by_name(paths: Sequence[Path], names: npt.NDArray[Any], n_rows: int) -> npt.NDArray[np.intp]:
    """Find the row of each picture: that of the longest name which its path ends with."""
    if len(names) != n_rows:
        raise UsageError(f"{len(names)} names for {n_rows} rows: one each is needed")
    places: dict[tuple[str, ...], int] = {}
    for place, name in enumerate(names.tolist()):
        if places.setdefault(PurePath(name).parts, place) != place:
            raise UsageError(f"two rows have the name {shown(name)}: give each image one row")
    found = [_place(path, places) for path in paths]
    if missing := [path for path, place in zip(paths, found, strict=True) if place is None]:
        raise UsageError(
            f"no name of a row for {len(missing)} of {len(paths)} images, such as "
            f"{str(missing[0])!r}: give each its path, or the end of it"
        )
    taken, counts = np.unique(np.array(found, np.intp), return_counts=True)
    if (counts > 1).any():
        raise UsageError(
            f"the name {shown(str(names[taken[counts.argmax()]]))} fits {counts.max()} images: "
            "write more of their paths"
        )
    return np.array(found, np.intp)


def _place(path: Path, places: dict[tuple[str, ...], int]) -> int | None:
    ends = (path.parts[start:] for start in range(len(path.parts)))
    return next((places[end] for end in ends if end in places), None)
