"""Tables in files of the usual formats, read by pandas, NumPy, SciPy and scikit-learn.

Not for checking rows and labels: that is in `table_file`.  Nothing is unpickled.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from oasis_bench.data import Encoding, Prepare
from oasis_bench.datasets.delimited import (
    ENDINGS,
    MISSING,
    NUMBERS,
    PERHAPS_NUMBER,
    csv_names,
    is_text,
    numbered_cells,
    separator_of,
)
from oasis_bench.datasets.files import (
    broken,
    first_dozen,
    listed,
    load_array,
    load_npy,
    named_in_errors,
    open_npz,
    refuse_empty,
)
from oasis_bench.system import Text, UsageError, how_to_install, require_packages

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

LABEL_COLUMN = "label"
OTHER_LABEL_COLUMNS = ("class", "target", "y")

NUMERIC = frozenset({"boolean", "integer", "floating", "mixed-integer-float", "decimal"})
"""The kinds of columns, as pandas calls them, that are numbers."""

# Narrower than float(): '1_0' and 'Infinity' are names of classes, not numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

# Labels that are plainly numbers: as 3, -1 and 2.0 are written, or all as NumPy's savetxt does.
PLAIN_NUMBERS = tuple(
    re.compile(spelling, re.ASCII)
    for spelling in (r"-?(0|[1-9]\d*)(\.\d+)?", r"-?\d\.\d+[eE][+-]\d\d+")
)

LIKE_MISSING = frozenset({"none", "<na>", "nat", "?", "-", "--", "."})
"""Names of classes, in lower case, that may mean a missing label."""

DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
"""ISO 8601: dates of other forms do not say which of their numbers is the day."""

LEAST_IDS = 10
LONGEST_DROP = 1000
"""Characters of an option that a message writes out."""

LabelValues: TypeAlias = "npt.NDArray[Any] | list[str]"
"""Numbers, NaN where missing, or strings, one of `MISSING` where missing."""


def row_of(row: int) -> str:
    """Return what messages call a row, which counts from 0."""
    return f"row {row + 1}"


@dataclass(frozen=True)
class Table:
    """The unchecked content of a file: features (dense or CSR), labels and names of features.

    `remarks` say how the file was read, if this was unusual.  `encoding` has the kinds of columns,
    if some are not complete numbers.  `problems` describe the columns that cannot be features.
    """

    X: Any
    labels: LabelValues | None
    columns: Sequence[str] | None = None
    folds: LabelValues | None = None
    remarks: tuple[str, ...] = ()
    encoding: Encoding | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """The user's options for the columns or arrays of a file: labels, folds, columns to drop.

    `decimal` and `thousands` are the signs of numbers in text.  If `only` is given, the features
    are these columns in this order, and other columns except the labels are left out.  Labels may
    be missing if they are not `needed`.  If `prepares`, missing values, texts and dates are
    accepted.
    """

    label: str | None = None
    fold: str | None = None
    drop: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    only: tuple[str, ...] | None = None
    needed: bool = True
    prepares: bool = False
    labels: Path | None = None


def read_table(path: Path, asked: Columns) -> Table:
    """Read a file in the format of its ending, one of `READERS`, in upper or lower case."""
    refuse_empty(path)
    for ending, (reader, options) in READERS.items():
        if path.name.lower().endswith(ending):
            for name in ("label", "fold", "drop", "decimal", "thousands", "labels"):
                if getattr(asked, name) and name not in options:
                    option = "fold-column" if name == "fold" else name
                    raise UsageError(f"--{option} is not for a file of {ending}: leave it out")
            return reader(path, asked)
    raise UsageError(f"unknown kind of file: the ending is one of {', '.join(READERS)}")


class Sheet(NamedTuple):
    """The cells of a table, and the places of its labels, of its folds and of what is left out."""

    cells: pd.DataFrame
    names: Sequence[str]
    at: int | None
    fold_at: int | None
    dropped: list[int]
    remarks: Sequence[str] = ()
    numbers: Sequence[re.Pattern[str]] = NUMBERS
    hint: str = ""


def read_sheet(path: Path, asked: Columns) -> Sheet:
    """Read the cells of a CSV or Parquet file."""
    if not is_text(path):
        cells = _parquet_cells(path)
        names = [str(name) for name in cells.columns]
        return Sheet(cells, names, *_places(names, asked))
    separator = separator_of(path)
    names = csv_names(path, separator)
    at, fold_at, dropped = _places(names, asked)
    texts = [i for i in (at, fold_at) if i is not None]
    cells, remarks, numbers, hint = numbered_cells(
        *(path, len(names), separator, texts, dropped, asked.decimal, asked.thousands)
    )
    others = [i for i in range(len(names)) if i not in (*texts, *dropped)]
    empty = [i for i in others if not names[i] and cells[i].isna().all()]
    remarks += [f"column {i + 1} has neither a name nor a value: it is left out" for i in empty]
    if any(not names[i] for i in others if i not in empty):
        raise UsageError(
            "a column has no name (pandas' index?): name it, or leave it out with "
            f"{drop_option([*asked.drop, ''])}"
        )
    return Sheet(cells, names, at, fold_at, dropped + empty, remarks, numbers, hint)


def _parquet_cells(path: Path) -> pd.DataFrame:
    """Read a Parquet file by pyarrow; its index is left out."""
    import pandas as pd

    require_packages("a .parquet file", ["pyarrow"], "parquet")
    from pyarrow import parquet

    with broken("Parquet"):
        names = parquet.read_schema(path).names
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UsageError(f"several columns are called {shown(twice[0])}: rename all but one")
    try:
        with broken("Parquet"):
            return pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    except ImportError as error:  # it is too old for pandas
        raise UsageError(
            f"a .parquet file needs a newer pyarrow: {how_to_install('parquet')}"
        ) from error


def _read_cells(path: Path, asked: Columns) -> Table:
    """Divide the cells of a table into features, labels and folds."""
    sheet = read_sheet(path, asked)
    names, at, fold_at, dropped = sheet.names, sheet.at, sheet.fold_at, sheet.dropped
    columns = [sheet.cells.iloc[:, i] for i in range(len(names))]
    spelt = is_text(path)
    labels = None if at is None else _names_of(columns[at], "labels", spelt)
    folds = None if fold_at is None else _names_of(columns[fold_at], "folds", spelt)
    n_rows = len(sheet.cells)
    places = [i for i in range(len(names)) if i not in (at, fold_at, *dropped)]
    if not n_rows or not places:
        raise UsageError(
            "needs one row or more, and one column or more besides the label"
            f"{' and the fold' * (fold_at is not None)}: it has {n_rows} and {len(places)}"
        )
    features, feature_names, texts, encoding = [], [], [], []
    for i in places:
        found = encoded(columns[i]) if asked.prepares else None
        values = values_of(columns[i]) if found is None else found[0]
        if not isinstance(values, np.ndarray):
            texts.append(i)
            continue
        encoding.append(("number",) if found is None else found[1])
        features.append(values)
        feature_names.append(names[i])
    problems: tuple[str, ...] = ()
    if texts:
        each = [f"{shown(names[i])}: {_not_number(columns[i], sheet)}" for i in texts]
        without = drop_option([names[i] for i in [*dropped, *texts]])
        problems = (
            f"{len(texts)} column{' is' if len(texts) == 1 else 's are'} not numeric: "
            f"{first_dozen(each, '; ')}: {sheet.hint}leave them out with {without}, write "
            "numbers in all rows, or name the label with --label",
        )
    single = all(values.dtype == np.float32 for values in features)
    X = np.column_stack(features or [np.empty((n_rows, 0))]).astype(
        np.float32 if single else np.float64, copy=False
    )
    is_complete = not np.isnan(X).any() and all(len(column) == 1 for column in encoding)
    is_left_out = [column[0] in Prepare.LEFT_OUT for column in encoding]
    if asked.prepares and asked.needed and not texts and all(is_left_out) and not is_complete:
        problems = ("each column is constant or an id: give another column",)
    is_plain = is_complete and (set(encoding) <= {("number",)} or all(is_left_out))
    kinds = tuple(encoding) if asked.prepares and not is_plain else None
    return Table(X, labels, feature_names, folds, tuple(sheet.remarks), kinds, problems)


def encoded(column: pd.Series[Any]) -> tuple[npt.NDArray[Any], tuple[str, ...]] | None:
    """Return a column as numbers, days or codes, NaN if missing, and its `Encoding`.

    None if it has other values, such as lists, or text that is mostly numbers.
    """
    import pandas as pd

    values = values_of(column)
    if values is None:
        is_dates = pd.api.types.is_datetime64_any_dtype(column.dtype)
        return (Prepare.days_of(column), ("date",)) if is_dates else None
    if isinstance(values, np.ndarray):
        is_counter = is_id(values) and np.ptp(values) < 2 * len(values)
        return values, (_kind_of(values, "id" if is_counter else "number"),)
    texts = np.array([text.strip() for text in values], dtype=object)
    missing = texts == ""
    held = texts[~missing]
    if len(held) and all(map(DATE.fullmatch, held)):
        with suppress(ValueError):
            days = Prepare.days_of(pd.Series(texts).mask(missing, None))
            return days, (_kind_of(days, "date"),)
    if sum(map(bool, map(PERHAPS_NUMBER.fullmatch, held))) >= max(1, len(held) / 2):
        return None  # numbers that are spelt otherwise, or have a slip among them
    names, places = np.unique(held.astype(str), return_inverse=True)
    codes = np.full(len(texts), np.nan)
    codes[~missing] = places
    is_name = len(held) >= LEAST_IDS and len(names) > len(held) / 2
    return codes, (_kind_of(codes, "id" if is_name else "category"), *names.tolist())


def _kind_of(values: npt.NDArray[Any], kind: str) -> str:
    """Return the kind of a column, or that all its values are one."""
    numbers = values.astype(np.float64)
    missing = np.isnan(numbers)
    same = missing.all() or not (missing.any() or (numbers != numbers[0]).any())
    return "constant" if same else kind


def prepared_remarks(X: Any, names: Sequence[str] | None, encoding: Encoding) -> list[str]:
    """Say in a line what becomes of the columns."""
    called = names or [str(i + 1) for i in range(len(encoding))]
    of_kind = defaultdict(list)
    for i, (kind, *_) in enumerate(encoding):
        of_kind[kind].append(called[i])
        if kind in ("number", "date") and np.isnan(X[:, i]).any():
            of_kind["missing"].append(called[i])
    told = {
        "missing": "with missing values imputed by the median",
        "category": "one-hot",
        "date": "as days",
        "constant": "left out as constant",
        "id": "left out as id",
    }
    parts = [
        f"{len(of_kind[kind])} {how} ({first_dozen([*map(shown, of_kind[kind])])})"
        for kind, how in told.items()
        if of_kind[kind]
    ]
    return [f"columns prepared: {', '.join(parts)}; --prepare none takes complete numbers only"]


def _names_of(column: pd.Series[Any], what: str, spelt: bool) -> LabelValues:
    """Return a column of strings or whole numbers that says which row is of which class or fold."""
    values = values_of(column)
    if values is None:
        raise UsageError(
            f"{what} of type {column.dtype}: strings or whole numbers only: name another column"
        )
    if isinstance(values, np.ndarray) and column.dtype == object and column.notna().all():
        values = [str(value) for value in column]  # decimals: float64 has fewer digits
        return _plain_numbers(values)
    return _plain_numbers(values) if spelt and isinstance(values, list) else values


def _plain_numbers(labels: list[str]) -> LabelValues:
    """Make numbers of labels such as '1.0' or '2.5', if none of them is spelt in two ways.

    Names, and whole numbers, stay as they are spelt.
    """
    spelt = set(labels) - set(MISSING)
    if not set("".join(spelt)) & set(".eE") or not any(
        all(spelling.fullmatch(label) for label in spelt) for spelling in PLAIN_NUMBERS
    ):
        return labels
    numbers = np.array(["nan" if label in MISSING else label for label in labels], dtype=np.float64)
    return numbers if len(np.unique(numbers[~np.isnan(numbers)])) == len(spelt) else labels


def values_of(column: pd.Series[Any]) -> LabelValues | None:
    """Return a column's numbers or strings, NaN and '' if missing; None for other types."""
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


def _not_number(column: pd.Series[Any], sheet: Sheet) -> str:
    """Return the first value of a column that is not a number, else its first, and where it is.

    Of several patterns, the one that fits the most values says what a number is.
    """
    held = np.flatnonzero(column.notna()).tolist() or [0]
    values = column.tolist()
    others = [row for row in held if not isinstance(values[row], int | float)]
    misses = [
        [row for row in others if not number.fullmatch(str(values[row]).strip())]
        for number in sheet.numbers
    ]
    row = (min(misses, key=len) or held)[0]
    return f"{Text.printable(shown(values[row]))} in {row_of(row)}"


def drop_option(names: Sequence[str]) -> str:
    """Return the option that leaves columns out, for copying; without names if it is long.

    A name with a comma or a quote is quoted as in CSV.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(dict.fromkeys(names))
    quoted = line.getvalue()
    words = f"--drop{'=' if quoted.startswith('-') else ' '}{shlex.quote(quoted)}"
    return words if len(words) <= LONGEST_DROP and words.isprintable() else "--drop"


def is_id(values: npt.NDArray[Any]) -> bool:
    """Say whether a column may be an id: a different whole number in each of ten rows or more."""
    if values.dtype.kind not in "iuf" or len(values) < LEAST_IDS:
        return False
    return all(  # the first rows rule out most columns
        bool((np.trunc(part) == part).all()) and len(np.unique(part)) == len(part)
        for part in (values[:100], values)
    )


def _places(columns: Sequence[str], asked: Columns) -> tuple[int | None, int | None, list[int]]:
    """Return the places of the labels, of the folds, and of what is left out."""
    if asked.only is not None:
        places_of(asked.only, columns)  # it raises where one is missing
        at = None if asked.label is None else _only(columns, [asked.label], "name", "--name COLUMN")
        return at, None, [i for i, name in enumerate(columns) if name not in asked.only and i != at]
    if unknown := [name for name in asked.drop if name not in map(str.strip, columns)]:
        raise UsageError(
            f"no column {shown(unknown[0])} to leave out: {_columns_are(columns, unknown[0])}"
        )
    at = _label_column(columns, asked)
    fold_at = None
    if asked.fold is not None:
        fold_at = _only(columns, [asked.fold], "folds", "--fold-column")
        if fold_at == at:
            raise UsageError(f"--fold-column {shown(asked.fold)} is the label: name another one")
    dropped = [i for i, name in enumerate(columns) if name.strip() in asked.drop]
    if {at, fold_at} & set(dropped):
        raise UsageError("--drop names the column of the labels or of the folds: do not drop it")
    return at, fold_at, dropped


def places_of(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the place of each name, or refuse those that no column has, or several have."""
    place, times = {name: i for i, name in enumerate(columns)}, Counter(columns)
    if wrong := [name for name in names if times[name] != 1]:
        what = "several columns" if wrong[0] in columns else "no column"
        more = f" and {len(wrong) - 1} more that are needed" * (len(wrong) > 1)
        raise UsageError(
            f"{what} {shown(wrong[0])}{more}: {_columns_are(columns, wrong[0])}: give each column "
            "the name that it had when the model was fitted"
        )
    return [place[name] for name in names]


def _label_column(columns: Sequence[str], asked: Columns) -> int | None:
    """Return the place of the label column; None if there is none, and none is needed."""
    usual = (LABEL_COLUMN, *OTHER_LABEL_COLUMNS)
    names = [asked.label] if asked.label else [name for name in usual if name in columns]
    if not names and not asked.needed:
        return None
    names = names[:1] if LABEL_COLUMN in names else names or [*usual]
    is_row = any(map(NUMBER.fullmatch, columns))
    more = ", and if these are a row, write a line of names above it" * is_row
    return _only(columns, names, "label", "--label COLUMN", more)


def _only(
    columns: Sequence[str], names: Sequence[str], what: str, option: str, more: str = ""
) -> int:
    """Return the place of the one column that has one of these names."""
    found = [i for i, name in enumerate(columns) if name in names]
    if len(found) == 1:
        return found[0]
    asked = names[0] if len(names) == 1 else ""  # nothing is like a name that nobody gave
    raise UsageError(
        f"{'several columns can be' if found else 'there is no column for'} the {what} "
        f"({listed(names)}): {_columns_are(columns, asked)}: name one with {option}"
        f"{'' if found else more}"
    )


def _columns_are(columns: Sequence[str], asked: str) -> str:
    """List the columns; if the requested one does not exist, the nearest name comes first."""
    hint = Text.nearest(asked, columns) if asked not in columns else ""
    return f"{hint}the columns are {listed(columns)}"


def _read_npz(path: Path, asked: Columns) -> Table:
    """Read the array `X`, or a sparse matrix of SciPy, and the arrays of labels and of folds."""
    with open_npz(path) as file:
        y: str | None = asked.label or "y"
        if y not in file.files and not (asked.needed or asked.label):
            y = None
        is_sparse = {"format", "shape", "data"} <= set(file.files)
        needed = [] if is_sparse else ["X"]
        needed += [name for name in (y, asked.fold) if name is not None]
        if missing := [name for name in needed if name not in file.files]:
            raise UsageError(
                f"there is no array {shown(missing[0])}: the arrays are {listed(file.files)}: call "
                "the features X and the labels y, or name labels with --label and folds with "
                f"--fold-column; numpy.savez(path, {missing[0]}=..., **numpy.load(path)) adds one"
            )
        if asked.fold is not None and asked.fold in ("X", y):
            raise UsageError(f"--fold-column {shown(asked.fold)}: name another array than X and y")
        if is_sparse:
            with broken("the sparse matrix"):
                matrix: Any = sparse.load_npz(path)
                if matrix.format in ("csr", "csc", "bsr"):
                    matrix.check_format(full_check=True)  # wrong indices would crash what follows
                X: Any = sparse.csr_array(matrix)
        else:
            X = load_array(file, "X")
        labels, folds = (
            None if name is None else _array_labels(load_array(file, name), name)
            for name in (y, asked.fold)
        )
        columns = None
        if "columns" in file.files and (names := load_array(file, "columns")).dtype.kind == "U":
            columns = names.tolist() if names.shape == X.shape[1:] else None
        return Table(X, labels, columns, folds)


def _read_npy(path: Path, asked: Columns) -> Table:
    """Read features, and the labels from another file."""
    if asked.labels is None and asked.needed:
        raise UsageError("has no labels: give a file of labels with --labels y.npy")
    labels = None
    if asked.labels is not None:
        with named_in_errors(f"labels {asked.labels}"):
            labels = _array_labels(load_npy(asked.labels), asked.labels.name)
    return Table(load_npy(path), labels)


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


def _read_svmlight(path: Path, _: Columns) -> Table:
    with broken("svmlight"):
        X, y = load_svmlight_file(str(path), dtype=np.float64)
    return Table(sparse.csr_array(X), y)


_ARRAYS, _COLUMNS = ("label", "fold"), ("label", "fold", "drop")
SVMLIGHT = ("svmlight", "libsvm", "svm")

READERS: Mapping[str, tuple[Callable[[Path, Columns], Table], tuple[str, ...]]] = {
    ".npz": (_read_npz, _ARRAYS),
    ".parquet": (_read_cells, _COLUMNS),
    **dict.fromkeys(ENDINGS, (_read_cells, (*_COLUMNS, "decimal", "thousands"))),
    ".npy": (_read_npy, ("labels",)),
    **{f".{name}{gz}": (_read_svmlight, ()) for name in SVMLIGHT for gz in ("", ".gz")},
}
"""What reads a file of each ending, and the options of `Columns` that it heeds."""
