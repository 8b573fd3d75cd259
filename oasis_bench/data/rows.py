"""The content of a data set: rows, their labels and the names of the classes.

Not for reading files: each data set does that in its own module.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data.judgements import JudgedTriplets, Ratings, check_item_numbers
from oasis_bench.data.matrices import FloatArray, canonical
from oasis_bench.data.patches import Patches, check_pixels
from oasis_bench.data.preparing import Encoding
from oasis_bench.system import UsageError

Rows: TypeAlias = "npt.NDArray[np.floating] | sparse.csr_array"
Labels: TypeAlias = "npt.NDArray[np.int64] | sparse.csr_array"

Pixels: TypeAlias = "npt.NDArray[np.uint8]"

HASHED = 1000
"""Rows that `row_hashes` takes at a time."""

PATCHES_AND_PIXELS = "patches+pixels"

KINDS = ("rows", "pixels", "patches", PATCHES_AND_PIXELS)
"""What an item is to a learner: a row of X, a picture, a set of local descriptors, or the two."""

LARGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e30}
"""Sizes of values up to which sums of their squares and the matrices learned from them stay finite;
below the inverse, where no value is larger, these become 0."""

FAR = 10.0
"""Columns are far from zero whose middle is more than so many of their ranges away from it."""

DIGITS_LOST = {np.dtype(np.float32): 1e4, np.dtype(np.float64): 1e9}
"""So many ranges away from zero, the values themselves have too few digits left."""


def checked_labels(y: Any, n_items: int | None = None) -> Any:
    """Return class labels as `class_labels` does, or relevance (n_items, n_labels) as CSR."""
    several = sparse.issparse(y)  # apart: the type checker would take y for less than it is
    if not several:
        return class_labels(y, n_items, "; where items have several labels, sparse.csr_array(y)")
    return _one_for_each(sparse.csr_array(canonical(y)), n_items)


def class_labels(y: Any, n_items: int | None = None, hint: str = "") -> Any:
    """Return class labels (n_items,) as an array; raise UsageError as `checked_labels` does."""
    from sklearn.utils import assert_all_finite, column_or_1d  # here: it is slow to import

    several = sparse.issparse(y)
    if several:
        raise UsageError("y has several labels an item (it is sparse): one class each is needed")
    # A list of texts and NaN as an array of texts would hold the text 'nan'.
    given = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.shape[1] != 1):
        raise UsageError(
            f"y of shape {given.shape}: one label for each item, (n_items,), is needed{hint}"
        )
    if missing := int(_is_missing(given).sum()):
        raise UsageError(
            f"Input y contains NaN: {missing} {'label is' if missing == 1 else 'labels are'} "
            "missing (NaN, None, NA or NaT): fill them in or leave those rows out"
        )
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    return _one_for_each(np.asarray(labels), n_items)


def _one_for_each(labels: Any, n_items: int | None) -> Any:
    if n_items is not None and labels.shape[0] != n_items:
        raise UsageError(f"{n_items} rows but {labels.shape[0]} labels: one each is needed")
    return labels


def _is_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = np.ma.getmaskarray(values).copy()
    if values.dtype.kind in "fc":
        missing |= np.isnan(values)
    elif values.dtype.kind in "mM":
        missing |= np.isnat(values)
    elif values.dtype.kind == "O":
        known = sys.modules.get("pandas")  # without it there is no pandas.NA
        NA = None if known is None else known.NA
        found = [one is None or one is NA or bool(one != one) for one in values.ravel()]
        missing |= np.array(found, dtype=bool).reshape(values.shape)
    return missing


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The content of a data set.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        float32 or float64, finite; NaN where a value is missing if there is an `encoding`.
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
    columns : tuple of str, optional
        The name of each feature; they decide nothing but what a saved model takes for which.
    folds : ndarray of shape (n_rows,), int64, optional
        The fold of each row, from 0 without a gap, of two folds or more: the partitions that the
        data set is published with.  Each fold tests once, and the other rows train.
    encoding : tuple of tuples of str, optional
        What each column of a table is, and what its codes stand for: such rows are prepared with
        what is learned from training rows.

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
    columns: tuple[str, ...] | None = None
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            object.__setattr__(self, name, canonical(getattr(self, name)))
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
        elif self.y.dtype.kind not in "iu":
            raise UsageError(f"labels of type {self.y.dtype}: int64 class numbers are needed")
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
        values = self.X.data if sparse.issparse(self.X) else self.X
        lost = np.isinf(values) if self.encoding is not None else ~np.isfinite(values)
        if lost.any():
            raise UsageError(
                f"{np.count_nonzero(lost)} values are NaN or infinite: "
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

    @cached_property
    def secret(self) -> str:
        """Hash the content in another way: for what no file of a run may tell a learner."""
        return self.content_hash("secret")

    def content_hash(self, salt: str = "") -> str:
        """Hash all but paths, remarks and columns (SHA-256): a trial's identity holds its data."""
        coded = "" if self.encoding is None else repr(self.encoding)
        digest = hashlib.sha256(f"{salt}{self.class_names!r}{coded}".encode())
        arrays = [*_parts(self.X), *_parts(self.y)]
        for part in (self.judged, self.ratings, self.patches):
            arrays += [] if part is None else part.arrays()
        arrays += [part for part in (self.pixels, self.folds) if part is not None]
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def row_hashes(rows: Any) -> npt.NDArray[np.uint64]:
    """Hash each row, dense or sparse, or picture; equal values have one hash, of whatever type."""
    is_sparse = sparse.issparse(rows)  # apart: the type checker would take rows for less
    flat: Any = rows if is_sparse else rows.reshape(len(rows), -1)
    found = []
    for part in (flat[start : start + HASHED] for start in range(0, flat.shape[0], HASHED)):
        csr = canonical(sparse.csr_array(part, dtype=np.float64, copy=True))
        csr.eliminate_zeros()
        values, places = csr.data, csr.indices.astype(np.int64)
        for start, end in pairwise(csr.indptr.tolist()):
            content = values[start:end].tobytes() + places[start:end].tobytes()
            found.append(hashlib.blake2b(content, digest_size=8).digest())
    return np.frombuffer(b"".join(found), dtype=np.uint64)


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


def check_magnitude(X: Any, training: bool = False) -> None:
    """Raise UsageError where numbers are too large to learn from, or in training all too small.

    What is no array or CSR of finite numbers passes: validation names what is wrong with it.
    """
    is_sparse = sparse.issparse(X)  # apart: the type checker would take X for less than it is
    values = _numbers((X if X.format in ("csr", "csc") else X.tocoo()).data if is_sparse else X)
    if values is None or not values.size:
        return
    largest = max(float(values.max()), -float(values.min()))
    most = LARGEST[values.dtype]
    if most < largest < np.inf:
        raise UsageError(
            f"a value of size {largest:.3g}: products of {values.dtype} rows overflow above "
            f"{most:g}: scale the rows (run --scaling standard, or StandardScaler) or divide them"
        )
    if training and 0 < largest < 1 / most:
        raise UsageError(
            f"no value is larger than {largest:.3g}: products of {values.dtype} rows vanish below "
            f"{1 / most:g}: scale the rows (run --scaling standard, or StandardScaler) or multiply "
            "them"
        )


def far_middle(X: Any) -> FloatArray | None:
    """Return the middle of each column that is far from zero, 0 of others; None where none is.

    Differences of the rows to it are exact, for a far column lies within a factor of 2.
    """
    rows = None if sparse.issparse(X) else _numbers(X)
    if rows is None or rows.ndim != 2 or not rows.size:
        return None
    least, most = rows.min(axis=0), rows.max(axis=0)
    middle = least / 2 + most / 2
    is_far = np.abs(middle / FAR) > most - least
    if not is_far.any() or not np.isfinite(middle).all():
        return None
    return np.where(is_far, middle, 0).astype(rows.dtype)


def warn_of_lost_digits(X: Any, middle: FloatArray, stacklevel: int) -> None:
    """Warn where the values of a column are so far from zero that they have lost their digits."""
    rows = _numbers(X)
    assert rows is not None
    ranges = np.ptp(rows, axis=0)
    lost = (ranges > 0) & (np.abs(middle) / DIGITS_LOST[rows.dtype] > ranges)
    if lost.any():
        column = int(np.flatnonzero(lost)[0])
        warnings.warn(
            f"column {column} varies by {ranges[column]:.3g} around {middle[column]:.6g}, so that "
            f"{rows.dtype} has rounded off what tells its values apart: subtract a constant from "
            "it before it is rounded, or give float64",
            stacklevel=stacklevel + 1,
        )


def without_offset(X: Any, middle: FloatArray | None = None) -> Any:
    """Return dense rows less their `far_middle`: the rows themselves where there is none.

    No distance changes by it, but the rounding of what is computed from the rows does.
    """
    middle = far_middle(X) if middle is None else middle
    if middle is None:
        return X
    is_sparse = sparse.issparse(X)
    rows = X.toarray() if is_sparse else X
    return np.subtract(rows, middle, out=np.empty_like(rows), casting="same_kind")


def _numbers(X: Any) -> FloatArray | None:
    """Return numbers as learners see them, float32 or float64; None where they are none."""
    try:
        values = np.asarray(X)
        if values.dtype.kind not in "fiubO":
            return None
        return values if values.dtype == np.float32 else values.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        return None


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
