"""The user's own file of rows and class labels: npz, CSV, Parquet or svmlight.

Not for the data sets that have a name: each of those has a module of its own.
"""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from oasis_bench.data.rows import LabelledRows, Rows
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.system.errors import UsageError
from oasis_bench.system.progress import Progress, no_progress

LABEL_COLUMN = "label"
OTHER_LABEL_COLUMNS = ("class", "target", "y")

MISSING = frozenset({"", "na", "n/a", "nan", "null"})
"""Cells of a CSV file, in lower case, that stand for no value."""

# Narrower than float(): '1_0' and 'Infinity' are names of classes, not numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

SHOWN_NAMES = 12

Labels: TypeAlias = "npt.NDArray[Any] | list[str]"
"""Numbers, NaN where missing, or strings, empty where missing."""


@dataclass(frozen=True)
class _Table:
    """What a reader finds in a file, not yet checked.  `columns` name the features, if named."""

    X: Any
    labels: Labels
    columns: Sequence[str] | None = None


class TableFile(Dataset):
    """A file of the user's: a row for each example, with a class label.

    ``.npz`` holds arrays `X` (n, d) and `y` (n,), or just one array of 2 dimensions and one of 1,
    or what `scipy.sparse.save_npz` writes, joined by `y`.  ``.csv`` is UTF-8 with commas, its
    first line names the columns.  ``.parquet`` needs pyarrow; pandas' index is no feature.
    ``.svmlight``, ``.libsvm`` and ``.svm``, also with ``.gz``, hold sparse rows, the label first.

    Features are float64, or float32 where the file has float32; sparse ones stay sparse (CSR).
    Labels are strings or whole numbers; the classes are in numerical order where all of them are
    numbers, else in the order of their characters.

    Parameters
    ----------
    path : Path
        The file.
    label : str, optional
        The column of the labels (CSV, Parquet) or their array (npz).  Default: the column
        'label', else the one of 'class', 'target' and 'y' that is there; the array `y`.
    """

    name = "file"
    summary = "rows and labels of a file of yours: --dataset PATH [--label COLUMN]"
    citation = "none"
    licence = "not known: the file is yours"
    home = "the file that you name: .npz, .csv, .parquet or .svmlight"

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path = path
        self.label = label

    def location(self) -> str | None:
        """Say where the data lies on this machine."""
        return str(self.path)

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read and check the file.

        Raises
        ------
        UsageError
            Where the file cannot be read or does not hold rows of finite numbers, each with a
            label, of two classes or more.  Its rows and columns count from 1, without the header.
        """
        try:
            table = self._read()
            X = _as_features(table.X, table.columns)
            y, class_names = _as_classes(table.labels)
            return LabelledRows(X, y, class_names)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from error
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}: give a file to read") from error

    def _read(self) -> _Table:
        ending = _ending(self.path)
        if self.path.is_dir():
            raise UsageError("is a folder: give a file")
        with self.path.open("rb") as file:
            if not file.read(1):
                raise UsageError("is empty")
        if ending is None:
            raise UsageError(f"unknown kind of file: the ending is one of {', '.join(READERS)}")
        return READERS[ending](self.path, self.label)


def _ending(path: Path) -> str | None:
    return next((ending for ending in READERS if path.name.lower().endswith(ending)), None)


def _read_csv(path: Path, label: str | None) -> _Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True, skipinitialspace=True)
        try:
            return _parse_csv(lines, label)
        except UnicodeDecodeError as error:
            raise UsageError("is not UTF-8 text: save it as UTF-8") from error
        except csv.Error as error:
            raise UsageError(f"line {lines.line_num}: {error}: is a quote not closed?") from error


def _parse_csv(lines: Any, label: str | None) -> _Table:
    """Read the lines of a `csv.reader`; features go to a flat array, 8 bytes for each."""
    columns = [name.strip() for name in next((line for line in lines if line), [])]
    at = _label_column(columns, label)
    n_fields = len(columns)
    del columns[at]
    if "" in columns:
        raise UsageError(
            "a column has no name (pandas' index?): name it, or write the file without it"
        )
    values, labels = array("d"), list[str]()
    for line in lines:
        if not line:
            continue
        if len(line) != n_fields:
            raise UsageError(
                f"line {lines.line_num} has {len(line)} fields and the first line has {n_fields}: "
                "give each line as many"
            )
        name = line.pop(at).strip()
        labels.append("" if name.lower() in MISSING else name)
        try:
            values.extend(map(float, line))
        except ValueError:
            del values[(len(labels) - 1) * len(columns) :]
            values.extend(_parse_cells(line, columns, lines.line_num))
    X = np.frombuffer(values, dtype=np.float64).reshape(len(labels), len(columns))
    return _Table(X, _csv_labels(labels), columns)


def _parse_cells(line: list[str], columns: Sequence[str], line_number: int) -> Iterator[float]:
    for cell, column in zip(line, columns, strict=True):
        try:
            yield float(cell)
        except ValueError:
            if cell.strip().lower() not in MISSING:
                raise _not_numeric(column, cell, f" in line {line_number}") from None
            yield np.nan


def _csv_labels(labels: list[str]) -> Labels:
    """Make numbers of labels such as '1.0' or '2.5'; names and integers stay as they are spelt."""
    spelt = set(labels) - {""}
    if all(NUMBER.fullmatch(label) for label in spelt) and set("".join(spelt)) & set(".eE"):
        return np.array([label or "nan" for label in labels], dtype=np.float64)
    return labels


def _read_parquet(path: Path, label: str | None) -> _Table:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            'pyarrow, which reads Parquet, is missing: pip install "oasis-bench[parquet]"'
        ) from error
    with _broken("Parquet"), parquet.ParquetFile(path) as file:
        table = file.read()
        pandas = table.schema.pandas_metadata or {}
        index = {name for name in pandas.get("index_columns", []) if isinstance(name, str)}
    at = _label_column(table.column_names, label)
    labels = _arrow_values(table.column(at))
    if labels is None:
        raise UsageError(f"labels of type {table.schema.types[at]}: strings or whole numbers only")
    columns, features = [], []
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if i == at or name in index:
            continue
        values = _arrow_values(column)
        if not isinstance(values, np.ndarray):
            first = next((value for value in column.to_pylist() if value is not None), None)
            raise _not_numeric(name, first, f" ({column.type})")
        columns.append(name)
        features.append(values)
    if not features:
        raise UsageError("holds no column but the label: features are needed")
    single = all(values.dtype == np.float32 for values in features)
    X = np.column_stack(features).astype(np.float32 if single else np.float64, copy=False)
    return _Table(X, labels, columns)


def _arrow_values(column: Any) -> Labels | None:
    """Return a column's numbers or strings, NaN and empty for null; None for other types."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return ["" if value is None else value for value in column.to_pylist()]
    if types.is_boolean(column.type):
        column = column.cast("int8")
    elif types.is_decimal(column.type):
        column = column.cast("float64")
    if types.is_integer(column.type) or types.is_floating(column.type):
        return np.asarray(column.to_numpy())
    return None


def _read_npz(path: Path, label: str | None) -> _Table:
    if not zipfile.is_zipfile(path):
        raise UsageError("is not an npz file, or a truncated one: make it with numpy.savez")
    with _broken("npz"):
        file = np.load(path, allow_pickle=False)
    with file:
        if {"format", "shape", "data"} <= set(file.files):
            y = label or "y"
            if y not in file.files:
                raise UsageError(
                    f"holds a sparse matrix and no array {y!r} of labels: "
                    f"numpy.savez(path, {y}=labels, **numpy.load(path)) adds it"
                )
            X = _load_sparse(path)
        else:
            x, y = _array_names(file, label)
            X = _load_array(file, x)
        return _Table(X, _array_labels(_load_array(file, y), y))


def _array_names(file: Mapping[str, Any], label: str | None) -> tuple[str, str]:
    """Choose the arrays of features and of labels."""
    if "X" in file and (label or "y") in file:
        return "X", label or "y"
    shapes = {name: np.shape(_load_array(file, name)) for name in file}
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    lists = [name for name, shape in shapes.items() if len(shape) == 1 and label in (None, name)]
    if len(tables) == len(lists) == 1:
        return tables[0], lists[0]
    held = _listed([f"{name} {shape}" for name, shape in shapes.items()])
    raise UsageError(
        f"which arrays are meant is not clear in {held}: call the features X (n_rows, n_features) "
        "and the labels y (n_rows,), or name the labels with --label"
    )


def _load_array(file: Mapping[str, Any], name: str) -> npt.NDArray[Any]:
    hint = "corrupt, or Python objects, which are refused: save numbers or astype(str)"
    with _broken(f"array {shown(name)}", hint):
        return np.asarray(file[name])


def _load_sparse(path: Path) -> Any:
    with _broken("the sparse matrix"):
        matrix: Any = sparse.load_npz(path)
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # indices out of bounds would crash what follows
        return sparse.csr_array(matrix)


def _array_labels(labels: npt.NDArray[Any], name: str) -> Labels:
    if labels.ndim == 1 and labels.dtype.kind in "US":
        with _broken(f"array {shown(name)}"):
            return [str(label) for label in labels.astype(np.str_).tolist()]
    if labels.ndim == 1 and labels.dtype.kind in "biuf":
        return labels
    raise UsageError(
        f"array {name!r} has shape {labels.shape} and type {labels.dtype}: "
        "one string or whole number for each row is needed"
    )


def _read_svmlight(path: Path, label: str | None) -> _Table:
    if label is not None:
        raise UsageError("the label is the first of each line: leave --label out")
    with _broken("svmlight"):
        X, y = load_svmlight_file(str(path), dtype=np.float64)
    return _Table(sparse.csr_array(X), y)


READERS: Mapping[str, Callable[[Path, str | None], _Table]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    **dict.fromkeys((".svmlight", ".libsvm", ".svm"), _read_svmlight),
    **dict.fromkeys((".svmlight.gz", ".libsvm.gz", ".svm.gz"), _read_svmlight),
}


@contextmanager
def _broken(what: str, hint: str = "it is truncated, corrupt or of another kind") -> Iterator[None]:
    """Tell what a library says of a file's content as an error of the file."""
    faults = (ValueError, OSError, EOFError, KeyError, RuntimeError, ArithmeticError)
    try:
        yield
    except (*faults, zlib.error, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{what} cannot be read ({reason}): {hint}") from error


def _label_column(columns: Sequence[str], label: str | None) -> int:
    """Return the place of the label column."""
    others = [name for name in OTHER_LABEL_COLUMNS if name in columns]
    names = [label] if label is not None else [LABEL_COLUMN] if LABEL_COLUMN in columns else others
    found = [i for i, name in enumerate(columns) if name in names]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{'several columns' if found else 'no column'} to take the label from "
        f"({_listed(names or [LABEL_COLUMN, *OTHER_LABEL_COLUMNS])}): "
        f"the columns are {_listed(columns)}: name one with --label COLUMN"
    )


def _not_numeric(column: str, value: object, where: str) -> UsageError:
    return UsageError(
        f"column {shown(column)} is not numeric: {shown(value)}{where}: leave it out, write it "
        "as numbers, or name it with --label if it is the label"
    )


def _as_features(X: Any, columns: Sequence[str] | None) -> Rows:
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
    bad = np.flatnonzero(~np.isfinite(X.data if is_sparse else X))
    if bad.size:
        row, column = (
            [place[bad[0]] for place in X.tocoo().coords]
            if is_sparse
            else divmod(bad[0], X.shape[1])
        )
        name = shown(columns[column]) if columns else column + 1
        raise UsageError(
            f"{bad.size} values are NaN, missing or infinite, the first in row {row + 1}, "
            f"column {name}: fill them in or leave those rows out"
        )
    return X  # type: ignore[no-any-return]


def _as_classes(labels: Labels) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each row's class, and the names of the classes."""
    if isinstance(labels, list):
        _refuse_missing(np.array([not label for label in labels], dtype=bool))
        names = sorted(set(labels))
        if all(NUMBER.fullmatch(name) for name in names):
            names.sort(key=float)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[label] for label in labels], dtype=np.int64), tuple(names)
    _refuse_missing(np.isnan(labels))
    fractions = labels[np.isinf(labels) | (np.trunc(labels) != labels)]
    if fractions.size:
        raise UsageError(
            f"the labels are not classes: {fractions[0]} is not a whole number "
            f"({fractions.size} such labels): choose another column with --label, or bin them"
        )
    values, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), tuple(str(int(value)) for value in values)


def _refuse_missing(missing: npt.NDArray[np.bool_]) -> None:
    if missing.any():
        raise UsageError(
            f"{np.count_nonzero(missing)} labels are missing, the first in row "
            f"{int(missing.argmax()) + 1}: fill them in or leave those rows out"
        )


def _listed(names: Sequence[str]) -> str:
    """List names, the first dozen of many."""
    rest = f" ... ({len(names)} in all)" if len(names) > SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in names[:SHOWN_NAMES]) + rest or "none"
