"""The content of a data set: rows, their labels and the names of the classes.

Not for reading files: each data set does that in its own module.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data.csr import canonical_csr
from oasis_bench.data.judgements import JudgedTriplets, Ratings, check_item_numbers
from oasis_bench.data.patches import Patches, check_pixels
from oasis_bench.system import UsageError

Rows: TypeAlias = "npt.NDArray[np.floating] | sparse.csr_array"
Labels: TypeAlias = "npt.NDArray[np.int64] | sparse.csr_array"
FloatArray: TypeAlias = "npt.NDArray[np.floating]"
Pixels: TypeAlias = "npt.NDArray[np.uint8]"

PATCHES_AND_PIXELS = "patches+pixels"

KINDS = ("rows", "pixels", "patches", PATCHES_AND_PIXELS)
"""What an item is to a learner: a row of X, a picture, a set of local descriptors, or the two."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The content of a data set.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        float32 or float64, finite.
    y : ndarray of shape (n_rows,), int64, or csr_array of shape (n_rows, n_queries)
        The number of each row's class, an index into `class_names`; or, with several labels,
        how relevant each row is to each query (JMLR 2010, 5.2.1: R_QI, here items x queries).
    class_names : tuple of str
        The names of the classes, or of the queries; at least two, each with at least one row.
    images : tuple of Path, optional
        The picture behind each row.
    left_out : tuple of str, default ()
        Lines on what was left out of the data set, and why.
    remarks : tuple of str, default ()
        Lines on what the user should know of the data before a run; they decide nothing.
    judged : JudgedTriplets, optional
        Triplets of rows that people judged.
    ratings : Ratings, optional
        What people marked as relevant to a row.
    pixels : ndarray of shape (n_rows, height, width, 3), uint8, optional
        The picture of each row in red, green and blue.
    patches : Patches, optional
        The local descriptors of the picture of each row.
    folds : ndarray of shape (n_rows,), int64, optional
        The fold of each row, from 0 without a gap, of two folds or more: the partitions that the
        data set is published with.  Each fold tests once, and the other rows train.

    Raises
    ------
    UsageError
        Where the rows break one of these rules.
    """

    X: Rows
    y: Labels
    class_names: tuple[str, ...]
    images: tuple[Path, ...] | None = None
    left_out: tuple[str, ...] = ()
    judged: JudgedTriplets | None = None
    ratings: Ratings | None = None
    pixels: Pixels | None = None
    patches: Patches | None = None
    folds: npt.NDArray[np.int64] | None = None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n_classes = len(self.class_names)
        if self.X.dtype not in (np.float32, np.float64):
            raise UsageError(f"rows of type {self.X.dtype}: float32 or float64 is needed")
        if self.X.shape[0] != self.y.shape[0]:
            raise UsageError(f"{self.X.shape[0]} rows but {self.y.shape[0]} labels: one each")
        if n_classes < 2:
            raise UsageError(
                f"only {n_classes} class ({', '.join(map(repr, self.class_names)) or 'none'}): "
                "metric learning compares classes, so at least 2 are needed"
            )
        if isinstance(self.y, sparse.csr_array):
            if self.y.shape[1] != n_classes or self.y.data.min(initial=0) < 0:
                raise UsageError(
                    f"relevance of shape {self.y.shape} for {n_classes} queries, least value "
                    f"{self.y.data.min(initial=0)}: one column a query, none negative, is needed"
                )
        elif self.y.min() < 0 or self.y.max() >= n_classes:
            raise UsageError(
                f"class numbers from {self.y.min()} to {self.y.max()}: "
                f"0 to {n_classes - 1} for {n_classes} class names"
            )
        if self.images is not None and len(self.images) != self.X.shape[0]:
            raise UsageError(f"{len(self.images)} images for {self.X.shape[0]} rows: one each")
        if not (counts := self.class_counts()).all():
            raise UsageError(
                f"class {self.class_names[int(counts.argmin())]!r} has no row: leave its name out"
            )
        if isinstance(self.X, sparse.csr_array):
            object.__setattr__(self, "X", canonical_csr(self.X))
        values = self.X.data if sparse.issparse(self.X) else self.X
        if not np.isfinite(values).all():
            raise UsageError(
                f"{np.count_nonzero(~np.isfinite(values))} values are NaN or infinite: "
                "fill them in or leave those rows out"
            )
        for judgements in (self.judged, self.ratings):
            if judgements is not None:
                check_item_numbers(judgements, self.X.shape[0])
        if self.folds is not None:
            _check_folds(self.folds, self.X.shape[0])
        for kind in ("pixels", "patches"):
            if (items := getattr(self, kind)) is not None:
                check_items(kind, items)
                if items.shape[0] != self.X.shape[0]:
                    raise UsageError(
                        f"{kind} of {items.shape[0]} pictures for {self.X.shape[0]} rows: one each"
                    )

    @property
    def multi_label(self) -> bool:
        """Whether rows are relevant to queries instead of being of one class each."""
        return isinstance(self.y, sparse.csr_array)

    def items(self, kind: str, features: str | None = None) -> Any:
        """Return the items as a learner takes them.

        Parameters
        ----------
        kind : {'rows', 'pixels', 'patches', 'patches+pixels'}
            The last gives `Patches` that hold the pixels too.
        features : str, optional
            Kinds of features joined by +, where rows are made of several: rows, or patches, of
            these alone.

        Raises
        ------
        UsageError
            Where the data set does not give them.
        """
        given = {"rows": self.X, "pixels": self.pixels, "patches": self.patches}
        given = {name: items for name, items in given.items() if items is not None}
        if self.patches is not None and self.pixels is not None:
            given[PATCHES_AND_PIXELS] = Patches(self.patches.kinds, self.pixels)
        if kind not in given:
            raise UsageError(f"the data set gives {' and '.join(given)}, not {kind}")
        if features is None:
            return given[kind]
        if self.patches is None or kind == "pixels":
            raise UsageError(
                f"features = {features}: the data set has no kinds of features to choose from, or "
                "the learner takes pixels: ask for them, such as --features lab+hog"
            )
        chosen = self.patches.of_kinds(features)
        if kind == "rows":
            return chosen.as_rows()
        return Patches(chosen.kinds, self.pixels if kind == PATCHES_AND_PIXELS else None)

    @property
    def n_folds(self) -> int:
        """The number of folds; 0 where the data set has none."""
        return 0 if self.folds is None else int(self.folds.max()) + 1

    def class_counts(self) -> npt.NDArray[np.int64]:
        """Count the rows of each class or query, in the order of `class_names`."""
        if isinstance(self.y, sparse.csr_array):
            return np.asarray((self.y > 0).sum(axis=0)).astype(np.int64)
        return np.bincount(self.y, minlength=len(self.class_names)).astype(np.int64)

    def content_hash(self) -> str:
        """Hash all but paths of images and remarks (SHA-256): a trial's identity holds its data."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        arrays = [*_parts(self.X), *_parts(self.y)]
        for part in (self.judged, self.ratings, self.patches):
            arrays += [] if part is None else part.arrays()
        arrays += [part for part in (self.pixels, self.folds) if part is not None]
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def _check_folds(folds: npt.NDArray[np.int64], n_rows: int) -> None:
    if folds.shape != (n_rows,) or folds.dtype != np.int64:
        raise UsageError(
            f"folds of shape {folds.shape} and type {folds.dtype}: int64 of shape ({n_rows},), "
            "one for each row, is needed"
        )
    numbers = np.unique(folds)
    if len(numbers) < 2 or not np.array_equal(numbers, np.arange(len(numbers))):
        raise UsageError(
            f"folds {numbers[:8].tolist()}: numbers from 0 without a gap, of at least 2 folds, "
            "are needed"
        )


def check_items(kind: str, items: Any) -> None:
    """Raise UsageError where items are not pixels, or not patches, as `LabelledRows` holds them."""
    if kind == "pixels":
        check_pixels(items)
    elif not isinstance(items, Patches):
        raise UsageError(f"patches are a {type(items).__name__}: a Patches is needed")
    elif kind == PATCHES_AND_PIXELS and items.pixels is None:
        raise UsageError("these patches are without pixels: give Patches(kinds, pixels)")
    elif kind == "patches" and items.pixels is not None:
        raise UsageError("these patches hold pixels: give Patches(kinds)")


def _parts(array: npt.NDArray[Any] | sparse.csr_array) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays that hold the content; indices as int64, whatever width they have."""
    if isinstance(array, sparse.csr_array):
        indices, indptr = (part.astype(np.int64) for part in (array.indices, array.indptr))
        return array.data, indices, indptr, np.array(array.shape)
    return (array,)
