"""The user's own file of rows and class labels: npz, CSV, Parquet or svmlight.

Not for the data sets that have a name: each of those has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import LabelledRows, Rows
from oasis_bench.datasets.files.columns import column_lines
from oasis_bench.datasets.files.errors import first_dozen, reason_of
from oasis_bench.datasets.files.tables import (
    NUMBER,
    Columns,
    LabelValues,
    Table,
    drop_option,
    is_id,
    read_table,
)
from oasis_bench.plugins import Dataset
from oasis_bench.system import LONGEST_PATH, Progress, UsageError, cut, no_progress


class TableFile(Dataset):
    """A file of the user's: a row for each example, with a class label.

    ``.npz`` holds arrays `X` (n, d) and `y` (n,), or just one array of 2 dimensions and one of 1,
    or what `scipy.sparse.save_npz` writes, joined by `y`.  ``.csv`` and ``.tsv`` are UTF-8, their
    first line names the columns; commas, semicolons or tabs stand between these, and beside the
    last two a decimal comma is known.  ``.parquet`` needs pyarrow; pandas' index is no feature.
    ``.svmlight``, ``.libsvm`` and ``.svm``, also with ``.gz``, hold sparse rows, the label first.

    Features are float64, or float32 where the file has float32; sparse ones stay sparse (CSR).
    True and false are 1 and 0.
    Labels are strings or whole numbers; the classes are in numerical order where all of them are
    numbers, else in the order of their characters.

    Parameters
    ----------
    path : Path
        The file.
    label : str, optional
        The column of the labels (CSV, Parquet) or their array (npz).  Default: the column
        'label', else the one of 'class', 'target' and 'y' that is there; the array `y`.
    fold_column : str, optional
        A column (CSV, Parquet) or array (npz) that says which fold each row tests in: strings or
        whole numbers, in the order in which classes would be.  Default: there is none, and
        partitions are drawn at random.
    drop : str, optional
        Columns (CSV, Parquet) to leave out, their names joined by commas.
    """

    name = "file"
    summary = (
        "rows and labels of a file of yours: --dataset PATH [--label COLUMN] [--drop A,B] "
        "[--fold-column COLUMN]"
    )
    citation = "none"
    licence = "not known: the file is yours"
    home = "the file that you name: .npz, .csv, .parquet or .svmlight"
    scaling = "standard+l2"

    def __init__(
        self,
        path: Path,
        label: str | None = None,
        fold_column: str | None = None,
        drop: str | None = None,
    ) -> None:
        self.path = path
        self.label = label
        self.fold_column = fold_column
        self.drop = drop
        self._called = cut(str(path), LONGEST_PATH)

    def _asked(self) -> Columns:
        names = [name.strip() for name in (self.drop or "").split(",") if name.strip()]
        return Columns(self.label, self.fold_column, tuple(names))

    def description(self) -> list[str]:
        """Return what each column of a CSV or Parquet file holds, a line each."""
        try:
            return column_lines(self.path, self._asked())
        except UsageError as error:
            raise UsageError(f"{self._called}: {error}") from error
        except OSError as error:
            raise UsageError(f"{self._called}: {reason_of(error)}: give a file to read") from error

    def location(self) -> str | None:
        """Return the path of the file."""
        return str(self.path)

    def default_scaling(self, rows: LabelledRows) -> str:
        """Return 'standard+l2', or 'l2' for sparse rows, which a mean would fill."""
        return "l2" if sparse.issparse(rows.X) else self.scaling

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read and check the file.

        Raises
        ------
        UsageError
            Where the file cannot be read or does not hold rows of finite numbers, each with a
            label, of two classes or more.  Its rows and columns count from 1, without the header.
        """
        try:
            asked = self._asked()
            table = read_table(self.path, asked)
            X = _as_features(table.X, table.columns, asked.drop)
            y, class_names = _numbered(table.labels, "labels", "--label")
            folds = None
            if table.folds is not None:
                folds, _ = _numbered(table.folds, "folds", "--fold-column")
            return LabelledRows(
                X, y, class_names, folds=folds, remarks=(*table.remarks, *_ids(table, asked))
            )
        except UsageError as error:
            raise UsageError(f"{self._called}: {error}") from error
        except MemoryError as error:
            raise UsageError(f"{self._called}: does not fit into memory: {error}") from error
        except OSError as error:
            raise UsageError(f"{self._called}: {reason_of(error)}: give a file to read") from error


def _ids(table: Table, asked: Columns) -> list[str]:
    """Say of each column that may be an id how to leave it out."""
    ids = [name for i, name in enumerate(table.columns or ()) if is_id(table.X[:, i])]
    if not ids:
        return []
    what = " and ".join(map(shown, ids[:3])) + f" and {len(ids) - 3} more" * (len(ids) > 3)
    option = drop_option([*asked.drop, *ids])
    return [f"a different whole number in each row of column {what}: if it is an id, {option}"]


def _as_features(X: Any, columns: Sequence[str] | None, dropped: Sequence[str]) -> Rows:
    """Convert to float rows, CSR in canonical form or C order, and check that all are finite."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise UsageError(
            f"features of shape {X.shape} and type {X.dtype}: numbers of shape "
            "(n_rows, n_features) are needed, at least one of each"
        )
    dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64
    if isinstance(X, sparse.csr_array):
        X = X.astype(dtype)
        X.sum_duplicates()
        X.eliminate_zeros()
    else:
        X = np.ascontiguousarray(X, dtype=dtype)
    is_sparse = isinstance(X, sparse.csr_array)
    values = X.data if is_sparse else X
    if not np.isfinite(values).all():
        rows, places = (
            (part[~np.isfinite(X.data)] for part in X.tocoo().coords)
            if is_sparse
            else (np.nonzero(~np.isfinite(X)))
        )
        missing = np.isnan(values[~np.isfinite(values)])
        raise _not_finite(rows, places, missing, X.shape[1], columns, dropped)
    return X  # type: ignore[no-any-return]


def _not_finite(
    rows: npt.NDArray[np.intp],
    places: npt.NDArray[np.intp],
    missing: npt.NDArray[np.bool_],
    n_columns: int,
    columns: Sequence[str] | None,
    dropped: Sequence[str],
) -> UsageError:
    """Return the error of values that are missing, or infinite: how many, in which columns."""

    def name(place: int) -> str:
        return shown(columns[place]) if columns else str(place + 1)

    found = []
    for which, what in ((missing, "NaN or missing"), (~missing, "infinite or beyond float64")):
        if which.any():
            held, counts = np.unique(places[which], return_counts=True)
            each = [f"{name(i)} ({n})" for i, n in zip(held, counts, strict=True)]
            first, n = int(which.argmax()), np.count_nonzero(which)
            found.append(
                f"{n} value{' is' if n == 1 else 's are'} {what}, the first in row "
                f"{rows[first] + 1}, column {name(places[first])}; by columns: {first_dozen(each)}"
            )
    bad = np.unique(places)
    out = ""
    if columns and len(bad) < n_columns:
        out = (
            f"leave these columns out with {drop_option([*dropped, *(columns[i] for i in bad)])}, "
        )
    return UsageError(f"{'; '.join(found)}: {out}fill them in or leave those rows out")


def _numbered(
    values: LabelValues, what: str, option: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each row's class, or fold, and the names of these in their order."""
    if isinstance(values, list):
        _refuse_missing(np.array([not value for value in values], dtype=bool), what)
        names = sorted(set(values))
        if all(NUMBER.fullmatch(name) for name in names):
            names.sort(key=float)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[value] for value in values], dtype=np.int64), tuple(names)
    _refuse_missing(np.isnan(values), what)
    fractions = values[np.isinf(values) | (np.trunc(values) != values)]
    if fractions.size:
        raise UsageError(
            f"the {what} are numbers with fractions, such as {fractions[0]} ({fractions.size} of "
            f"them): a name is a text or a whole number: name another column with {option}, or bin "
            "them"
        )
    numbers, places = np.unique(values, return_inverse=True)
    return places.astype(np.int64), tuple(str(int(number)) for number in numbers)


def _refuse_missing(missing: npt.NDArray[np.bool_], what: str) -> None:
    if n := np.count_nonzero(missing):
        what = f"{what.removesuffix('s')} is" if n == 1 else f"{what} are"
        raise UsageError(
            f"{n} {what} missing, the first in row "
            f"{int(missing.argmax()) + 1}: fill them in or leave those rows out"
        )
