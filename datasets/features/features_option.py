"""The option `features` of data sets of pictures: what a picture's row is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile
from sklearn.preprocessing import normalize

from oasis_bench.data import FloatArray, Patches
from oasis_bench.datasets.features.hand_made import (
    HAND_MADE,
    Teachers,
    check_packages,
    hand_made_rows,
)
from oasis_bench.datasets.features.networks import TIMM, network_rows, network_versions
from oasis_bench.datasets.features.picture_files import Picture, PictureRows
from oasis_bench.datasets.files import listed, load_array, open_npz, reason_of, refuse_empty
from oasis_bench.system import Progress, Text, UsageError, Value

VISTERMS, LITE0, NO_ROWS = "visterms", "efficientnet-lite0", "none"

Kinds: TypeAlias = "dict[str, Callable[[Sequence[Picture], Progress, Teachers], PictureRows]]"
"""What makes the rows of each kind of features, by the name of the kind."""


def asked_features(option: str, own: str | None = None) -> Kinds:
    """Read the option `features`; no kind where it is what the data set makes of its `own`."""
    Value.check("features", option, str)
    if option == own:
        return {}
    if option.lower().endswith(".npz"):
        path = Path(option)
        return {path.name: partial(file_rows, path)}
    if option == NO_ROWS:
        return {NO_ROWS: no_rows}
    kinds: Kinds = {}
    for name in option.split("+"):
        if name in kinds:
            raise UsageError(f"features = {option}: name each kind once")
        if name == LITE0 or name.startswith(TIMM):
            network_versions(name)
            kinds[name] = partial(network_rows, name)
        elif name in HAND_MADE:
            check_packages(name)
            kinds[name] = partial(hand_made_rows, name)
        else:
            known = (*filter(None, [own]), NO_ROWS, *HAND_MADE, LITE0, f"{TIMM}NAME", "FILE.npz")
            raise UsageError(f"{Text.unknown_name('features', name, known)}; + joins several")
    return kinds


def feature_rows(
    kinds: Kinds, pictures: Sequence[Picture], progress: Progress, teachers: Teachers
) -> PictureRows:
    """Describe each picture; of several kinds, each is of unit length and they are joined.

    Then `patches` of one kind are the row of that kind.  `teachers` finds the pictures that
    codebooks are learned from, where one is needed.
    """
    several = [rows_of(pictures, progress, teachers) for rows_of in kinds.values()]
    if len(several) == 1:
        return several[0]
    kept = sorted(set.intersection(*(set(rows.kept) for rows in several)))
    left_out = {path: fault for rows in several for path, fault in rows.left_out}
    groups = {
        re.sub(r"\W", "_", name): normalize(rows.X[np.isin(rows.kept, kept)])
        for name, rows in zip(kinds, several, strict=True)
    }
    return PictureRows(
        np.concatenate(list(groups.values()), axis=1),
        kept,
        list(left_out.items()),
        tuple(remark for rows in several for remark in rows.remarks),
        Patches.one_each(groups) if kept else None,
    )


def no_rows(pictures: Sequence[Picture], _: Progress, __: object = None) -> PictureRows:
    """Return rows of no number: for learners that take pixels or patches alone."""
    return PictureRows(np.empty((len(pictures), 0), np.float32), list(range(len(pictures))), [])


def file_rows(
    path: Path, pictures: Sequence[Picture], _: Progress, __: object = None
) -> PictureRows:
    """Read the row of each picture, float32, from an npz file of the user's.

    It holds an array `X` (n, d) of numbers, or just one array of 2 dimensions.  Without an array
    `names`, there is a row for each picture, in the order in which the data set finds them.  With
    `names` (n,), a row belongs to the picture whose path ends with its name, such as
    ``accordion/image_0001.jpg``; names of no picture are ignored.
    """
    try:
        refuse_empty(path)
        with open_npz(path) as file:
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
        raise UsageError(f"features {path}: {error}") from error
    except OSError as error:
        raise UsageError(
            f"features {path}: {reason_of(error)}: give an npz file to read"
        ) from error
    remark = f"features: {rows.shape[1]} numbers an image, read from {path.name}"
    return PictureRows(rows, list(range(len(paths))), [], (remark,))


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
            raise UsageError(f"two rows have the name {Text.shown(name)}: give each image one row")
    found = [_place(path, places) for path in paths]
    if missing := [path for path, place in zip(paths, found, strict=True) if place is None]:
        raise UsageError(
            f"no name of a row for {len(missing)} of {len(paths)} images, such as "
            f"{str(missing[0])!r}: give each its path, or the end of it"
        )
    taken, counts = np.unique(np.array(found, np.intp), return_counts=True)
    if (counts > 1).any():
        raise UsageError(
            f"the name {Text.shown(str(names[taken[counts.argmax()]]))} fits {counts.max()} "
            "images: write more of their paths"
        )
    return np.array(found, np.intp)


def _place(path: Path, places: dict[tuple[str, ...], int]) -> int | None:
    ends = (path.parts[start:] for start in range(len(path.parts)))
    return next((places[end] for end in ends if end in places), None)
