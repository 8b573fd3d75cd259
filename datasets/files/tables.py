"""Tables in files of the usual formats, read by pandas, NumPy, SciPy and scikit-learn.

Not for checking rows and labels: that is in `table_file`.  Nothing is unpickled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from oasis_bench.datasets.files.delimited import csv_names, numbered_cells, separator_of
from oasis_bench.datasets.files.errors import first_dozen
from oasis_bench.datasets.files.npz_arrays import (
    broken,
    listed,
    load_array,
    open_npz,
    require_bytes,
)
from oasis_bench.system import UsageError, nearest, open_regular

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

LABEL_COLUMN = "label"
OTHER_LABEL_COLUMNS = ("class", "target", "y")

NUMERIC = frozenset({"boolean", "integer", "floating", "mixed-integer-float", "decimal"})
"""The kinds of columns, as pandas calls them, that are numbers."""

# Narrower than float(): '1_0' and 'Infinity' are names of classes, not numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

LEAST_IDS = 10
LONGEST_DROP = 1000
"""Characters of an option that a message writes out."""

LabelValues: TypeAlias = "npt.NDArray[Any] | list[str]"
"""Numbers, NaN where missing, or strings, empty where missing."""


@dataclass(frozen=True)
class Table:
    """What a file holds, not yet checked: features, dense or CSR, labels, names of features.

    `remarks` say how it was read, where that is not the usual way.
    """

    X: Any
    labels: LabelValues
    columns: Sequence[str] | None = None
    folds: LabelValues | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """What the user says of the columns of a file, or of its arrays.

    Attributes
    ----------
    label, fold : str or None
        That of the labels, and that of the folds, if there is one.
    drop : tuple of str
        Those to leave out.
    """

    label: str | None = None
    fold: str | None = None
    drop: tuple[str, ...] = ()


def read_table(path: Path, asked: Columns) -> Table:
    """Read a file in the format that its ending says: one of `READERS`, in capitals or not.

    Raises
    ------
    UsageError
        Where the file is damaged or of another format, or where its labels are not found; the
        message does not name the file.
    OSError
        Where the file cannot be read.
    """
    refuse_empty(path)
    for ending, reader in READERS.items():
        if path.name.lower().endswith(ending):
            return reader(path, asked)
    raise UsageError(f"unknown kind of file: the ending is one of {', '.join(READERS)}")


def refuse_empty(path: Path) -> None:
    """Raise UsageError where a file is empty, and OSError where it is no file to read."""
    with open_regular(path) as file:
        if not file.read(1):
            raise UsageError("is empty")


def _read_csv(path: Path, asked: Columns) -> Table:
    separator = separator_of(path)
    names = csv_names(path, separator)
    at, fold_at, dropped = _places(names, asked)
    if any(not name and i not in (at, *dropped) for i, name in enumerate(names)):
        raise UsageError(
            "a column has no name (pandas' index?): name it, or write the file without it"
        )
    # Names may be equal: numbers stand for them.
    texts = [at] if fold_at is None else [at, fold_at]
    cells, remark = numbered_cells(path, len(names), separator, dict.fromkeys(texts, str))
    for column in texts:
        cells[column] = cells[column].str.strip()
    table = _table_of(cells, names, at, fold_at, dropped)
    folds = None if table.folds is None else _csv_labels(table.folds)
    remarks = () if remark is None else (remark,)
    return replace(table, labels=_csv_labels(table.labels), folds=folds, remarks=remarks)


def _csv_labels(labels: LabelValues) -> LabelValues:
    """Make numbers of labels such as '1.0' or '2.5'; names and integers stay as they are spelt."""
    spelt = set(labels) - {""}
    if all(NUMBER.fullmatch(label) for label in spelt) and set("".join(spelt)) & set(".eE"):
        return np.array([label or "nan" for label in labels], dtype=np.float64)
    return labels


def _read_parquet(path: Path, asked: Columns) -> Table:
    cells = parquet_cells(path)
    names = [str(name) for name in cells.columns]
    return _table_of(cells, names, *_places(names, asked))


def parquet_cells(path: Path) -> pd.DataFrame:
    """Read a Parquet file by pyarrow; its index is left out."""
    import pandas as pd

    try:
        with broken("Parquet"):
            return pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    except ImportError as error:
        raise UsageError(
            'pyarrow, which reads Parquet, is missing: pip install "oasis-bench[parquet]"'
        ) from error


def _table_of(
    cells: pd.DataFrame,
    names: Sequence[str],
    at: int,
    fold_at: int | None,
    dropped: Sequence[int],
) -> Table:
    """Divide a data frame, whose index counts from 0, into features, labels and folds."""
    columns = [cells.iloc[:, i] for i in range(len(names))]
    labels = _names_of(columns[at], "labels")
    folds = None if fold_at is None else _names_of(columns[fold_at], "folds")
    n_features = len(names) - 1 - (fold_at is not None) - len(dropped)
    if len(cells) == 0 or n_features == 0:
        raise UsageError(
            f"holds {len(cells)} rows and {n_features} columns beside the label"
            f"{' and the fold' * (fold_at is not None)}: at least one of each is needed"
        )
    features, feature_names, texts = [], [], []
    for i, name in enumerate(names):
        if i not in (at, fold_at, *dropped):
            values = _values(columns[i])
            if not isinstance(values, np.ndarray):
                texts.append(i)
                continue
            features.append(values)
            feature_names.append(name)
    if texts:
        without = [names[i] for i in [*dropped, *texts]]
        raise _not_numeric({names[i]: columns[i] for i in texts}, without)
    single = all(values.dtype == np.float32 for values in features)
    X = np.column_stack(features).astype(np.float32 if single else np.float64, copy=False)
    return Table(X, labels, feature_names, folds)


def _names_of(column: pd.Series[Any], what: str) -> LabelValues:
    """Return a column of strings or whole numbers that says which row is of which class or fold."""
    values = _values(column)
    if values is None:
        raise UsageError(f"{what} of type {column.dtype}: strings or whole numbers only")
    return values


def _values(column: pd.Series[Any]) -> LabelValues | None:
    """Return a column's numbers or strings, NaN and '' where missing; None for other types."""
    import pandas as pd

    values = pd.Series(np.asarray(column))  # the values behind categories too
    missing = values.isna().to_numpy()
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in ("string", "empty"):
        return values.astype(object).mask(missing, "").tolist()
    if kind not in NUMERIC:
        return None
    if missing.any() or values.dtype == object:
        return values.to_numpy(np.float64, na_value=np.nan)
    return values.to_numpy()


def _not_numeric(columns: Mapping[str, pd.Series[Any]], without: Sequence[str]) -> UsageError:
    """Return the error of columns that are not numeric, each with its first value that is not."""
    each = [(shown(name), _not_number(column)) for name, column in columns.items()]
    if len(each) == 1:
        [(name, value)] = each
        what, them, one = f"column {name} is not numeric: {value}", "it", "it"
    else:
        found = first_dozen([f"{name}: {value}" for name, value in each], "; ")
        what, them, one = f"{len(each)} columns are not numeric: {found}", "them", "one"
    return UsageError(
        f"{what}: leave {them} out with "
        f"{drop_option(without)}, write {them} as numbers, or name {one} with --label if it is the "
        "label"
    )


def _not_number(column: pd.Series[Any]) -> str:
    """Return the first value of a column that is not a number, and its row."""
    for row in np.flatnonzero(column.notna()).tolist():
        try:
            float(column[row])
        except (TypeError, ValueError):
            break
    else:  # numbers as text
        row = 0
    return f"{shown(column[row])} in row {row + 1}"


def drop_option(names: Sequence[str]) -> str:
    """Return the option that leaves columns out, to copy; without the names where it is long."""
    words = f"--drop {shlex.quote(','.join(dict.fromkeys(names)))}"
    return words if len(words) <= LONGEST_DROP and words.isprintable() else "--drop"


def is_id(values: npt.NDArray[Any]) -> bool:
    """Say whether a column may be an id: a different whole number in each of ten rows or more."""
    if values.dtype.kind not in "iuf" or len(values) < LEAST_IDS:
        return False
    return all(  # the first rows rule out most columns
        bool((np.trunc(part) == part).all()) and len(np.unique(part)) == len(part)
        for part in (values[:100], values)
    )


def _places(columns: Sequence[str], asked: Columns) -> tuple[int, int | None, list[int]]:
    """Return the places of the labels, of the folds, and of what is left out."""
    if unknown := [name for name in asked.drop if name not in columns]:
        raise UsageError(
            f"no column {shown(unknown[0])} to leave out: {_columns_are(columns, unknown[0])}"
        )
    at = _label_column(columns, asked.label)
    fold_at = _fold_column(columns, asked.fold, at)
    dropped = [i for i, name in enumerate(columns) if name in asked.drop]
    if {at, fold_at} & set(dropped):
        raise UsageError("--drop names the column of the labels or of the folds: leave it there")
    return at, fold_at, dropped


def _label_column(columns: Sequence[str], label: str | None) -> int:
    """Return the place of the label column."""
    others = [name for name in OTHER_LABEL_COLUMNS if name in columns]
    names = [label] if label is not None else [LABEL_COLUMN] if LABEL_COLUMN in columns else others
    found = [i for i, name in enumerate(columns) if name in names]
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{'several columns' if found else 'no column'} to take the label from "
        f"({listed(names or [LABEL_COLUMN, *OTHER_LABEL_COLUMNS])}): "
        f"{_columns_are(columns, label)}: name one with --label COLUMN"
    )


def _columns_are(columns: Sequence[str], asked: str | None) -> str:
    """List the columns; where one was asked for that is not there, the nearest before them."""
    hint = nearest(asked, columns) if asked is not None and asked not in columns else ""
    return f"{hint}the columns are {listed(columns)}"


def _fold_column(columns: Sequence[str], fold: str | None, label_at: int) -> int | None:
    """Return the place of the column of folds; None where none is named."""
    if fold is None:
        return None
    found = [i for i, name in enumerate(columns) if name == fold]
    if found == [label_at]:
        raise UsageError(f"column {shown(fold)} is the label: name another one with --fold-column")
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{'several columns' if found else 'no column'} {shown(fold)} to take the folds from: "
        f"{_columns_are(columns, fold)}: name one with --fold-column"
    )


def _read_npz(path: Path, asked: Columns) -> Table:
    label, fold = asked.label, asked.fold
    _refuse_drop(asked)
    with open_npz(path) as file:
        if {"format", "shape", "data"} <= set(file.files):
            y = label or "y"
            if y not in file.files:
                raise UsageError(
                    f"holds a sparse matrix and no array {y!r} of labels: "
                    f"numpy.savez(path, {y}=labels, **numpy.load(path)) adds it"
                )
            with broken("the sparse matrix"):
                require_bytes(file, file.files)
                matrix: Any = sparse.load_npz(path)
                if matrix.format in ("csr", "csc", "bsr"):
                    matrix.check_format(full_check=True)  # wrong indices would crash what follows
                X: Any = sparse.csr_array(matrix)
        else:
            x, y = _array_names(file, label, fold)
            X = load_array(file, x)
        folds = None
        if fold is not None:
            if fold not in file.files or fold == y:
                raise UsageError(
                    f"no array {shown(fold)} to take the folds from: the arrays are "
                    f"{listed(file.files)}: name one beside the labels with --fold-column"
                )
            folds = _array_labels(load_array(file, fold), fold)
        return Table(X, _array_labels(load_array(file, y), y), folds=folds)


def _array_names(file: NpzFile, label: str | None, fold: str | None = None) -> tuple[str, str]:
    """Choose the arrays of features and of labels; that of folds is neither."""
    if "X" in file and (label or "y") in file:
        return "X", label or "y"
    shapes = {name: np.shape(load_array(file, name)) for name in file if name != fold}
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    lists = [name for name, shape in shapes.items() if len(shape) == 1 and label in (None, name)]
    if len(tables) == len(lists) == 1:
        return tables[0], lists[0]
    held = listed([f"{name} {shape}" for name, shape in shapes.items()])
    raise UsageError(
        f"which arrays are meant is not clear in {held}: call the features X (n_rows, n_features) "
        "and the labels y (n_rows,), or name the labels with --label"
    )


def _array_labels(labels: npt.NDArray[Any], name: str) -> LabelValues:
    if labels.ndim == 1 and labels.dtype.kind in "US":
        with broken(f"array {shown(name)}"):
            return [str(label) for label in labels.astype(np.str_).tolist()]
    if labels.ndim == 1 and labels.dtype.kind in "biuf":
        return labels
    raise UsageError(
        f"array {name!r} has shape {labels.shape} and type {labels.dtype}: "
        "one string or whole number for each row is needed"
    )


def _read_svmlight(path: Path, asked: Columns) -> Table:
    _refuse_drop(asked)
    if asked.label is not None:
        raise UsageError("the label is the first of each line: leave --label out")
    if asked.fold is not None:
        raise UsageError("svmlight has no column of folds: use CSV, Parquet or npz")
    with broken("svmlight"):
        X, y = load_svmlight_file(str(path), dtype=np.float64)
    return Table(sparse.csr_array(X), y)


def _refuse_drop(asked: Columns) -> None:
    if asked.drop:
        raise UsageError("has no names of columns to leave out: --drop is for CSV and Parquet")


READERS: Mapping[str, Callable[[Path, Columns], Table]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".tsv": _read_csv,
    **dict.fromkeys((".svmlight", ".libsvm", ".svm"), _read_svmlight),
    **dict.fromkeys((".svmlight.gz", ".libsvm.gz", ".svm.gz"), _read_svmlight),
}
