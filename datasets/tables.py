"""Tables in files of the usual formats, read by pandas, NumPy, SciPy and scikit-learn.

Not for checking rows and labels: that is in `table_file`.  Nothing is unpickled.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from oasis_bench.data import (
    MISSING,
    Column,
    Encoding,
    Found,
    Rows,
    Schema,
    cell_in_row,
    find_column,
    kind_of,
    read_frame,
    text_of,
)
from oasis_bench.datasets import delimited, files
from oasis_bench.system import (
    UsageError,
    did_you_mean,
    how_to_install,
    require_memory,
    require_packages,
    spelled,
)

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

LABEL_COLUMN = "label"
OTHER_LABEL_COLUMNS = ("class", "target", "y")

# Narrower than float(): '1_0' and 'Infinity' are names of classes, not numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

# Labels that are plainly numbers: as 3, -1 and 2.0 are written, or all as NumPy's savetxt does.
PLAIN_NUMBERS = tuple(
    re.compile(spelling, re.ASCII)
    for spelling in (r"-?(0|[1-9]\d*)(\.\d+)?", r"-?\d\.\d+[eE][+-]\d\d+")
)

LIKE_MISSING = frozenset({"none", "<na>", "nat", "?", "-", "--", "."})
"""Names of classes, in lower case, that may mean a missing label."""

LONGEST_DROP = 1000
"""Characters of an option that a message writes out."""

LabelValues: TypeAlias = "npt.NDArray[Any] | list[str]"
"""Numbers, NaN where missing, or strings, one of `MISSING` where missing."""


@dataclass(frozen=True)
class Table:
    """The unchecked content of a file: features (dense or CSR) and labels.

    `schema` is how it was read, if its features have names or a width to be kept.  `encoding` has
    the kinds of columns, if some are not complete numbers.  `remarks` say how the file was read, if
    this was unusual.  `problems` describe the columns that cannot be features.
    """

    X: Any
    labels: LabelValues | None
    folds: LabelValues | None = None
    groups: LabelValues | None = None
    remarks: tuple[str, ...] = ()
    schema: Schema | None = None
    encoding: Encoding | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """The user's options for the columns or arrays of a file: labels, folds, columns to drop.

    `fold` is a column of folds or of names of rows, which `fold_option` named; `group` is one of
    groups.  `decimal` and `thousands` are the signs of numbers in text, `header` is the line of the
    names, and `kinds` are those of some columns.  With a `schema` the file is read as that says.
    Labels may be missing if they are not `needed`.  With a `number_label`, they are numbers as they
    are written.  If `prepares`, missing values, texts and dates
    are accepted.  `texts` makes the rows of texts, in the column of this name.
    """

    label: str | None = None
    fold: str | None = None
    fold_option: str = "fold_column"
    group: str | None = None
    drop: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    header: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None
    needed: bool = True
    number_label: bool = False
    prepares: bool = False
    labels: Path | None = None
    texts: Callable[[Sequence[str], str], tuple[Rows, Schema]] | None = None


def has_cells(path: Path) -> bool:
    """Tell whether a file is a table whose columns have names and types, or texts."""
    return delimited.is_text(path) or path.name.lower().endswith((FRAME, ".parquet"))


def read_table(path: Path, asked: Columns) -> Table:
    """Read a file in the format of its ending, one of `READERS`, in upper or lower case.

    For a model that was fitted on rows without names, cells are complete numbers.
    """
    files.refuse_empty(path)
    if asked.schema is not None and asked.schema.text_column:
        column = Column(asked.schema.text_column, "category")
        asked = replace(asked, schema=msgspec.structs.replace(asked.schema, columns=(column,)))
    if asked.schema is not None and (asked.schema.columns is None) == has_cells(path):
        asked = replace(asked, schema=None, prepares=False)
    for ending, (reader, options) in READERS.items():
        if path.name.lower().endswith(ending):
            for name in (*_ARRAYS, *_CELLS, "labels"):
                if getattr(asked, name) and name not in options:
                    names = {"fold": asked.fold_option, "kinds": "column", "texts": "features"}
                    option = spelled(names.get(name, name))
                    raise UsageError(f"{option} is not for a file of {ending}: leave it out")
            return reader(path, asked)
    raise UsageError(f"unknown kind of file: the ending is one of {', '.join(READERS)}")


class Sheet(NamedTuple):
    """The cells of a table, and the places of its labels, folds, groups and of what is left out.

    `signs` is a schema without columns, which says how cells of text are read; or that of a model.
    """

    cells: delimited.Cells
    names: Sequence[str]
    at: int | None
    fold_at: int | None
    group_at: int | None
    dropped: list[int]
    signs: Schema
    remarks: Sequence[str] = ()
    hint: str = ""

    @property
    def places(self) -> list[int]:
        """The places of the features; a feature of a model may name rows, too."""
        if self.signs.columns is not None:
            return self.signs.places(self.names)
        others = {self.at, self.fold_at, self.group_at, *self.dropped}
        return [i for i in range(len(self.names)) if i not in others]


def read_sheet(path: Path, asked: Columns) -> Sheet:
    """Read the cells of a CSV or Parquet file, or of a file of a DataFrame."""
    if not delimited.is_text(path):
        typed = _typed_cells(path)
        names = [text_of(str(name)) for name in typed.columns]
        found = {i: typed.iloc[:, i] for i in range(len(names))}
        where = _places(names, asked)
        own = asked.schema or _typed_signs(found, names, asked)
        return Sheet(found, names, *where, own)
    of_model = asked.schema
    known = "cp1252" if of_model is None else of_model.encoding
    layout = delimited.layout_of(
        path, asked.header, known if known in delimited.ONE_BYTE else "cp1252"
    )
    names = layout.names
    at, fold_at, group_at, dropped = _places(names, asked)
    texts = {i for i in (at, fold_at, group_at) if i is not None}
    others = [i for i in range(len(names)) if i not in texts | {*dropped}]
    if of_model is not None:
        plain = {
            column.name
            for column in of_model.columns or ()
            if column.kind == "number" and not column.form and of_model.decimal != ","
        }
        texts |= {i for i in others if names[i] not in plain}
        found = layout.read_cells(texts, {*texts, *others})
        return Sheet(found, names, at, fold_at, group_at, dropped, signs=of_model)
    texts |= {i for i in others if asked.kinds.get(names[i], "number") != "number"}
    found = layout.read_cells(texts)
    _refuse_a_row_of_names(names, found, at, asked.header)
    decimal, remarks, hint = delimited.find_signs(
        layout, found, texts, dropped, asked.decimal, asked.thousands
    )
    schema = Schema(
        decimal=decimal,
        thousands=asked.thousands or "",  # type: ignore[arg-type]
        encoding=layout.encoding,
    )
    empty = [i for i in others if not names[i] and found[i].isna().all()]
    remarks += [f"column {i + 1} has neither a name nor a value: it is left out" for i in empty]
    if any(not names[i] for i in others if i not in empty):
        raise UsageError(
            "a column has no name (pandas' index?): name it, or leave it out with "
            f"{drop_option([*asked.drop, ''])}"
        )
    of_rows = at, fold_at, group_at, dropped + empty
    return Sheet(found, names, *of_rows, schema, remarks, hint=hint)


def _typed_signs(found: delimited.Cells, names: Sequence[str], asked: Columns) -> Schema:
    """Return the signs of numbers in texts of a typed table: of columns declared as numbers."""
    texts = [
        found[i].dropna().map(str)
        for i, name in enumerate(names)
        if asked.kinds.get(name) == "number" and kind_of(found[i]) in ("text", "category")
    ]
    decimal = delimited.decimal_of(texts, asked.decimal, asked.thousands)
    return Schema(missing=("",), decimal=decimal, thousands=asked.thousands or "")  # type: ignore[arg-type]


def _refuse_a_row_of_names(
    names: Sequence[str], found: delimited.Cells, at: int | None, header: str | None
) -> None:
    """Raise UsageError if the names of columns are like a row: numbers, and a label that occurs."""
    if header is not None or at is None:
        return
    others = [name for i, name in enumerate(names) if i != at]
    n_numbers = sum(NUMBER.fullmatch(name) is not None for name in others)
    if n_numbers > len(others) / 2 and names[at] in {*found[at]}:
        raise UsageError(
            f"its first line is like a row, not like names: {files.listed(names)}: if it is a row, "
            f"give {spelled('header', 'none')} {spelled('label', str(at + 1))}; otherwise "
            f"{spelled('header', '1')}"
        )


def _typed_cells(path: Path) -> pd.DataFrame:
    """Read a Parquet file by pyarrow, whose index is left out; or a file of a DataFrame."""
    import pandas as pd

    if path.name.lower().endswith(FRAME):
        with files.broken("the table"):
            return read_frame(path)
    require_packages("a .parquet file", ["pyarrow"], "parquet")
    from pyarrow import parquet

    with files.broken("Parquet"):
        held = parquet.read_metadata(path)
        names = held.schema.to_arrow_schema().names
    require_memory(8 * held.num_rows * held.num_columns, "it", files.FEWER)
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UsageError(f"several columns are called {shown(twice[0])}: rename all but one")
    try:
        with files.broken("Parquet"):
            return pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    except ImportError as error:  # it is too old for pandas
        raise UsageError(
            f"a .parquet file needs a newer pyarrow: {how_to_install('parquet')}"
        ) from error


def _read_cells(path: Path, asked: Columns) -> Table:
    """Divide the cells of a table into features, labels and folds."""
    import pandas as pd

    sheet = read_sheet(path, asked)
    names, spelt = sheet.names, delimited.is_text(path)
    as_written = {"labels"} if asked.number_label else set()
    if asked.fold_option == "name":
        as_written.add("folds")
    held = ("labels", sheet.at), ("folds", sheet.fold_at), ("groups", sheet.group_at)
    labels, folds, groups = (
        None if i is None else _names_of(sheet.cells[i], what, spelt and what not in as_written)
        for what, i in held
    )
    n_rows, places = len(next(iter(sheet.cells.values()), ())), sheet.places
    if not n_rows or not places:
        raise UsageError(
            "needs one row or more, and one column or more besides the label"
            f"{' and the fold' * (sheet.fold_at is not None)}: it has {n_rows} and {len(places)}"
        )
    if asked.texts is not None:
        X, schema = asked.texts(_texts_of(sheet), names[places[0]])
        read = (*sheet.remarks, f"features: {schema.texts}")
        return Table(X, labels, folds, groups, read, schema)
    if (own := asked.schema) is not None:
        frame = pd.DataFrame({names[i]: sheet.cells[i] for i in places})
        return Table(frame, labels, folds, groups, schema=own, encoding=own.coding)
    if twice := [name for name, n in Counter(names[i] for i in places).items() if n > 1]:
        raise UsageError(
            f"several columns are called {shown(twice[0])}: rename all but one, or leave them out "
            f"with {drop_option([*asked.drop, twice[0]])}"
        )
    found = [found_in(sheet, i, asked, spelt) for i in places]
    remarks = [*sheet.remarks, *(one.remark for one in found if one.remark)]
    problems: tuple[str, ...] = ()
    if wrong := [i for i, one in zip(places, found, strict=True) if one.problem]:
        each = [f"{shown(one.column.name)}: {one.problem}" for one in found if one.problem]
        without = drop_option([names[i] for i in [*sheet.dropped, *wrong]])
        problems = (
            f"{len(wrong)} column{' is' if len(wrong) == 1 else 's are'} not numeric: "
            f"{files.first_dozen(each, '; ')}; {sheet.hint}or leave out with {without}, "
            f"or name the label with {spelled('label')}",
        )
    values = [one.values for one in found if one.values is not None]
    columns = [one.column for one in found if one.values is not None]
    single = all(part.dtype == np.float32 for part in values)
    X = np.column_stack(values or [np.empty((n_rows, 0))]).astype(
        np.float32 if single else np.float64, copy=False
    )
    is_complete = not np.isnan(X).any()
    are_left_out = not any(column.is_needed for column in columns)
    if are_left_out and not is_complete and asked.prepares and asked.needed and not wrong:
        problems = (f"each column is constant or an id: for texts, {spelled('features', 'words')}",)
    if not asked.prepares or (are_left_out and is_complete):
        columns = [Column(column.name, form=column.form) for column in columns]
    is_plain = is_complete and all(column.kind == "number" for column in columns)
    schema = msgspec.structs.replace(
        sheet.signs,
        columns=tuple(columns),
        is_plain=is_plain or not asked.prepares,
        is_single=single,
    )
    for i, column in enumerate(columns):
        if not column.is_needed:
            X[:, i] = 0
    of_rows = labels, folds, groups
    return Table(X, *of_rows, tuple(remarks), schema, schema.coding, problems=problems)


def _texts_of(sheet: Sheet) -> list[str]:
    """Return the cells of the only feature as texts."""
    place, *others = sheet.places
    if others:
        drop = drop_option([sheet.names[i] for i in (*sheet.dropped, *others)])
        raise UsageError(f"{spelled('features')} takes one column of texts: use {drop}")
    texts = [f"{it}" if isinstance(it, str) else "" for it in sheet.cells[place]]
    if empty := [row for row, text in enumerate(texts, start=1) if not text.strip()]:
        what = f"column {shown(sheet.names[place])} has no text in {len(empty)} rows"
        raise UsageError(f"{what}, such as row {empty[0]}: write one or leave those rows out")
    return texts


def found_in(sheet: Sheet, place: int, asked: Columns, is_text_file: bool) -> Found:
    """Return what a column of a table is."""
    name, given = sheet.names[place], sheet.cells[place]
    found = find_column(name, given, sheet.signs, asked.kinds.get(name.strip()), is_text_file)
    is_number = found.column.kind == "number" or kind_of(given) in ("number", "boolean")
    if asked.prepares or found.problem or is_number:
        return found
    held = given.replace("", None).notna() if kind_of(given) == "text" else given.notna()
    return Found(found.column, problem=cell_in_row(given, int(held.to_numpy().argmax())))


def prepared_remarks(X: Any, schema: Schema | None, encoding: Encoding | None) -> list[str]:
    """Say in a line each how columns are written, and what becomes of them."""
    columns = (schema and schema.columns) or tuple(
        Column(f"{i + 1}") for i in range(len(encoding or ()))
    )
    of_kind: dict[str, list[str]] = defaultdict(list)
    forms = []
    for i, column in enumerate(columns):
        of_kind[column.kind].append(column.name)
        if column.kind in ("number", "date") and np.isnan(X[:, i]).any():
            of_kind["missing"].append(column.name)
        if column.has_form:
            forms.append(f"{shown(column.name)} as {column.words}")
    told = {
        "missing": "with missing values imputed by the median",
        "category": "one-hot",
        "date": "as days",
        "constant": "left out as constant",
        "id": "left out as id",
    }
    parts = [
        f"{len(of_kind[kind])} {how} ({files.first_dozen([*map(shown, of_kind[kind])])})"
        for kind, how in told.items()
        if of_kind[kind]
    ]
    remarks = [f"columns read: {files.first_dozen(forms)}"] if forms else []
    if encoding is not None:
        remarks.append(
            f"columns prepared: {', '.join(parts)}; {spelled('prepare', 'none')} takes complete "
            "numbers only"
        )
    return remarks


def _names_of(column: pd.Series[Any], what: str, spelt: bool) -> LabelValues:
    """Return a column of strings or whole numbers that says which row is of which class or fold."""
    import pandas as pd

    values = pd.Series(np.asarray(column))  # the values behind categories too
    missing, kind = values.isna(), kind_of(values)
    if kind == "text":
        texts = values.astype(object).mask(missing, "").tolist()
        return _plain_numbers(texts) if spelt else texts
    if kind not in ("number", "boolean"):
        raise UsageError(
            f"{what} of type {column.dtype}: strings or whole numbers only: name another column"
        )
    if column.dtype == object and not missing.any():
        return _plain_numbers([str(value) for value in column])  # float64 has fewer digits
    if missing.any() or values.dtype == object:
        return values.to_numpy(np.float64, na_value=np.nan)
    return values.to_numpy()


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


def drop_option(names: Sequence[str]) -> str:
    """Return the option that leaves columns out, for copying; without names if it is long.

    A name with a comma or a quote is quoted as in CSV.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(dict.fromkeys(names))
    words = spelled("drop", line.getvalue())
    return words if len(words) <= LONGEST_DROP and words.isprintable() else spelled("drop")


def _places(
    columns: Sequence[str], asked: Columns
) -> tuple[int | None, int | None, int | None, list[int]]:
    """Return the places of the labels, of the folds, of the groups, and of what is left out."""
    for option, names in ((spelled("drop"), asked.drop), (spelled("column"), tuple(asked.kinds))):
        if unknown := [name for name in names if name not in map(str.strip, columns)]:
            raise UsageError(
                f"{option}: no column {shown(unknown[0])}: {_columns_are(columns, unknown[0])}"
            )
    at = _label_column(columns, asked)
    fold_at = None
    if asked.fold is not None:
        what = "folds" if asked.fold_option == "fold_column" else "name"
        fold_at = _only(columns, [asked.fold], what, spelled(asked.fold_option))
        if fold_at == at and asked.label is None:
            at = None  # it only has the name of a label
        elif fold_at == at:
            raise UsageError(
                f"{spelled(asked.fold_option)} {shown(asked.fold)} is the label: name another one"
            )
    group_at = None
    if asked.group is not None:
        group_at = _only(columns, [asked.group], "groups", spelled("group"))
        if group_at in (at, fold_at):
            what = "label" if group_at == at else "fold or the name of a row"
            raise UsageError(
                f"{spelled('group')} {shown(asked.group)} is the {what}: name another column"
            )
    if asked.schema is not None:
        features = asked.schema.places(columns)
        others = [*{*range(len(columns))}.difference((*features, at, fold_at, group_at))]
        return at, fold_at, group_at, others
    dropped = [i for i, name in enumerate(columns) if name.strip() in asked.drop]
    if {at, fold_at, group_at} & set(dropped):
        what = "names the column of the labels, of the folds or of the groups: do not drop it"
        raise UsageError(f"{spelled('drop')} {what}")
    return at, fold_at, group_at, dropped


def _label_column(columns: Sequence[str], asked: Columns) -> int | None:
    """Return the place of the label column; None if there is none, and none is needed."""
    features = [] if asked.schema is None else asked.schema.needed
    usual = [name for name in (LABEL_COLUMN, *OTHER_LABEL_COLUMNS) if name not in features]
    names = [asked.label] if asked.label else [name for name in usual if name in columns]
    if not asked.needed and ((asked.schema is not None and asked.label is None) or not names):
        return None
    names = names[:1] if LABEL_COLUMN in names else names or [*usual]
    is_row = any(map(NUMBER.fullmatch, columns))
    more = ", and if these are a row, write a line of names above it" * is_row
    return _only(columns, names, "label", spelled("label", metavar="COLUMN"), more)


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
        f"({files.listed(names)}): {_columns_are(columns, asked)}: name one with {option}"
        f"{'' if found else more}"
    )


def _columns_are(columns: Sequence[str], asked: str) -> str:
    """List the columns; if the requested one does not exist, the nearest name comes first."""
    hint = did_you_mean(asked, columns) if asked not in columns else ""
    return f"{hint}the columns are {files.listed(columns)}"


def _read_npz(path: Path, asked: Columns) -> Table:
    """Read the array `X`, or a sparse matrix of SciPy, and the arrays of labels and of folds."""
    with files.open_npz(path) as file:
        y: str | None = asked.label or "y"
        if y not in file.files and not (asked.needed or asked.label):
            y = None
        is_sparse = {"format", "shape", "data"} <= set(file.files)
        needed = [] if is_sparse else ["X"]
        needed += [name for name in (y, asked.fold, asked.group) if name is not None]
        if missing := [name for name in needed if name not in file.files]:
            raise UsageError(
                f"there is no array {shown(missing[0])}: the arrays are "
                f"{files.listed(file.files)}: call the features X and the labels y, or name labels "
                f"with {spelled('label')}, folds with {spelled('fold_column')} and groups with "
                f"{spelled('group')}; "
                f"numpy.savez(path, {missing[0]}=..., **numpy.load(path)) adds one"
            )
        if asked.fold is not None and asked.fold == y:
            option = spelled(asked.fold_option)
            raise UsageError(f"{option} {shown(y)} is the label: name another one")
        X: Any = files.load_sparse(path, file) if is_sparse else files.load_array(file, "X")
        labels, folds, groups = (
            None if name is None else _array_labels(files.load_array(file, name), name)
            for name in (y, asked.fold, asked.group)
        )
        return Table(X, labels, folds, groups)


def _read_npy(path: Path, asked: Columns) -> Table:
    """Read features, and the labels from another file."""
    if asked.labels is None and asked.needed:
        raise UsageError(f"has no labels: give a file of labels with {spelled('labels', 'y.npy')}")
    labels = None
    if asked.labels is not None:
        with files.named_in_errors(f"labels {asked.labels}"):
            labels = _array_labels(files.load_npy(asked.labels), asked.labels.name)
    return Table(files.load_npy(path), labels)


def _array_labels(labels: npt.NDArray[Any], name: str) -> LabelValues:
    if labels.ndim == 1 and labels.dtype.kind in "US":
        with files.broken(f"array {shown(name)}"):
            return [str(label) for label in labels.astype(np.str_).tolist()]
    if labels.ndim == 1 and labels.dtype.kind in "biuf":
        return labels
    raise UsageError(
        f"array {name!r} has shape {labels.shape} and type {labels.dtype}: "
        "one string or whole number for each row is needed"
    )


def _read_svmlight(path: Path, asked: Columns) -> Table:
    """Read sparse rows; the first feature is 0 if one has this number, else 1."""
    delimited.refuse_too_large(path)
    schema, of_model = asked.schema, {}
    if is_known := schema is not None and schema.n_features > 0:
        of_model = {"zero_based": schema.from_zero, "n_features": schema.n_features}
    with files.broken("svmlight"):
        X, y = load_svmlight_file(str(path), **{"zero_based": True, **of_model})
    if not is_known:
        from_zero = bool((X.indices == 0).any())
        X = X if from_zero else X[:, 1:]
        schema = Schema(n_features=X.shape[1], from_zero=from_zero)
    return Table(sparse.csr_array(X), y, schema=schema)


_CELLS = ("drop", "kinds", "decimal", "thousands", "header", "texts")
_ARRAYS = "label", "fold", "group"
_COLUMNS = (*_ARRAYS, "drop", "kinds", "decimal", "thousands", "texts")
FRAME = ".table.npz"
"""The ending of a file of a DataFrame."""

SVMLIGHT = ("svmlight", "libsvm", "svm")

READERS: Mapping[str, tuple[Callable[[Path, Columns], Table], tuple[str, ...]]] = {
    FRAME: (_read_cells, _COLUMNS),
    ".npz": (_read_npz, _ARRAYS),
    ".parquet": (_read_cells, _COLUMNS),
    **dict.fromkeys(delimited.ENDINGS, (_read_cells, (*_ARRAYS, *_CELLS))),
    ".npy": (_read_npy, ("labels",)),
    **{f".{name}{gz}": (_read_svmlight, ()) for name in SVMLIGHT for gz in ("", ".gz")},
}
"""What reads a file of each ending, and the options of `Columns` that it heeds."""
