"""Tables of rows and class labels: the user's own npz, CSV, Parquet or svmlight; and KEEL's."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import field, replace
from decimal import Context, Decimal
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import (
    MISSING,
    Encoding,
    Found,
    JudgedTriplets,
    LabelledRows,
    Prepare,
    Ratings,
    Rows,
    Scaling,
    Schema,
    is_id,
    kind_of,
    number_reader,
)
from oasis_bench.datasets import delimited, files, tables
from oasis_bench.datasets.texts import TextFeatures
from oasis_bench.plugins import Dataset, DescribedColumn, Description, Fields
from oasis_bench.system import Progress, UsageError, no_progress, printable, spelled, unknown_name

if TYPE_CHECKING:
    import pandas as pd

Places = npt.NDArray[np.intp]
Numbered: TypeAlias = "tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]"
"""The number of each row's class, or fold, and their names."""

DECLARED = ("date", "category", "number", "text", "drop")
"""What the user may declare a column to be; a date also by its format."""

MOST_BINS = 100
SHOWN_COLUMNS = 40
SHOWN_CLASSES = 12


class TableFile(Fields, Dataset):
    """A file of the user with a row for each example and, usually, a class label.

    ``.npz`` files have arrays `X` (n, d) and `y` (n,); or what `scipy.sparse.save_npz` writes, and
    the array `y`.  ``.csv`` and ``.tsv`` files, also with ``.gz``, are UTF-8 or UTF-16, and
    otherwise Latin-1.  Their first line has the names of the columns, and commas, semicolons or
    tabs separate the columns.  ``.parquet`` files need pyarrow; the index of pandas is not a
    feature.  ``.svmlight``, ``.libsvm`` and ``.svm`` files, also with ``.gz``, have sparse rows
    that begin with the label.  ``.npy`` files have features only.

    Features are float64, or float32 if the file has float32.  Sparse features stay sparse (CSR).
    True and false become 1 and 0.  In text, all columns have the same decimal sign.  If a number
    such as 1.234,5 shows that the decimal sign is the comma, points separate thousands, and vice
    versa.

    Labels are strings or whole numbers.  Classes are in numerical order if all of them are numbers,
    and otherwise in the order of texts.  Labels in text files are not converted, except that spaces
    around them are removed: 1E2 and 10E1 are different classes, and so are 07 and 7.  Labels with a
    point are converted if all labels are such numbers and each is always written in the same way:
    1.0 is then the class 1.

    Parameters
    ----------
    path : Path
        The file.
    label : str, optional
        The column (CSV, Parquet) or array (npz) of the labels.  Default: the column 'label', or
        otherwise the column 'class', 'target' or 'y'; the array `y`.
    fold_column : str, optional
        The column (CSV, Parquet) or array (npz) with the fold in which each row is a test row:
        strings or whole numbers, in the same order as classes.  Default: partitions are random.
    group : str, optional
        The column (CSV, Parquet) or array (npz) with the group of each row, such as the person or
        the recording that it is from: strings or whole numbers.  A group trains or tests as a
        whole, and a query's own group is not ranked.  Default: there are no groups.
    drop : str, optional
        Names of columns (CSV, Parquet) to leave out, separated by commas.  A name with a comma
        needs double quotes, as in CSV.
    column : str, optional
        What columns are, as NAME=KIND, separated by commas.  A kind is date, category, number, text
        or drop, or the format of a date, such as %d/%m/%Y.  Cells that are not of the kind are
        missing then.  Default: found from each column.
    header : str, optional
        The number of the line with the names of columns (CSV), or 'none'; then columns are called
        1, 2 and so on.  Default: the first line.
    decimal : {'.', ','}, optional
        The decimal sign of numbers in text.  Default: detected from the columns.
    thousands : {',', '.', ' ', "'"}, optional
        The thousands separator of numbers in text.  Default: detected from the columns.
    prepare : {'auto', 'none'}, default 'auto'
        Whether missing values, texts and dates become numbers, and constant columns and ids are
        left out (see `oasis_bench.data.Prepare`).  With 'none', only complete numbers are accepted.
    bins : int, optional
        Divide a numeric target into this number of classes of about equal size, from 2 to 100.
    pairs : str, optional
        A CSV file with a line of names and three columns: the names of two rows, and whether they
        are the same (1, true, yes, same) or not (0, -1, false, no, different).  Then labels are
        optional: without them, rows that are connected by pairs are a class.
    features : str, optional
        Make rows of the texts in the only column besides those of labels, folds and names: 'words'
        (counts), 'all-minilm-l6-v2' (embeddings of a sentence network), or
        'sentence-transformers:FOLDER' (embeddings of a network in a folder of the user's).
    triplets : str, optional
        A CSV file with a line of names and three columns: the names of a query, of a nearer row and
        of a farther row.  Then labels are optional: without them, each row is a class.
    name_column : str, optional
        The column with the names of rows.  Default: row numbers from 0.
    labels : str, optional
        The ``.npy`` file with the labels, for a ``.npy`` file of features.
    """

    name = "file"
    summary = "rows and labels of your own file"
    citation = "none"
    licence = "not known: the file is yours"
    home = (
        "--dataset PATH, a file .npz, .npy, .csv, .parquet or .svmlight [--label COLUMN] [--drop "
        "A,B] [--group COLUMN] [--fold-column COLUMN] [--column NAME=KIND] [--header N|none] "
        "[--decimal SIGN] [--thousands SIGN] [--prepare none] [--features NAME] "
        "[--bins N] [--pairs FILE|--triplets FILE] [--name-column COLUMN] [--labels FILE.npy]"
    )
    scaling = Scaling.OF_COLUMNS

    path: Path
    label: str | None = None
    fold_column: str | None = None
    drop: str | None = None
    column: str | None = None
    header: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    prepare: str = "auto"
    bins: int | None = None
    pairs: str | None = None
    triplets: str | None = None
    name_column: str | None = None
    labels: str | None = None
    features: str | None = None
    group: str | None = None

    _schema: Schema | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._texts = None if self.features is None else TextFeatures(self.features)

    def read_as(self, schema: Schema | None) -> TableFile:
        """Return this file, read by the schema of a model."""
        read = copy(self)
        read._schema = schema
        return read

    def _asked(self, progress: Progress = no_progress) -> tables.Columns:
        choices = {"decimal": ".,", "thousands": ",. '", "prepare": ("auto", "none")}
        for name, known in choices.items():
            if (value := getattr(self, name)) not in (None, *known):
                possible = " ".join(map(repr, known))
                raise UsageError(f"{spelled(name)} {shown(value)}: one of {possible}")
        if self._schema is not None:
            self._schema.refuse_other_texts("" if self._texts is None else self._texts.how)
        if self._schema is not None and self._schema.columns is not None:
            for name in ("decimal", "thousands", "column"):
                if getattr(self, name) is not None:
                    what = "is not for a model, which knows how its table was read"
                    raise UsageError(f"{spelled(name)} {what}")
        if self.decimal is not None and self.decimal == self.thousands:
            both = f"{spelled('decimal')} and {spelled('thousands')}"
            raise UsageError(f"{both} are both {self.decimal!r}: one sign each")
        kinds = _kinds_of(self.column)
        names = (*_names_in(self.drop), *(name for name, kind in kinds.items() if kind == "drop"))
        is_judged = self.pairs is not None or self.triplets is not None
        aside = self.fold_column or self.name_column
        if (is_judged and self.group) or (self.fold_column and (is_judged or self.name_column)):
            out = spelled("fold_column" if self.fold_column else "group")
            raise UsageError(f"pairs and triplets already divide the rows: leave out {out}")
        return tables.Columns(
            self.label,
            fold=aside,
            fold_option="fold_column" if self.fold_column else "name_column",
            group=self.group,
            drop=names,
            decimal=self.decimal,
            thousands=self.thousands,
            header=self.header,
            kinds=kinds,
            schema=self._schema,
            needed=not is_judged,
            number_label=self.bins is not None,
            prepares=self.prepare == "auto",
            labels=None if self.labels is None else Path(self.labels),
            texts=None if self._texts is None else partial(self._texts.rows, progress=progress),
        )

    def description(self) -> Description:
        """Describe the columns of a CSV or Parquet file."""
        with files.named_in_errors(self.path):
            if not tables.has_cells(self.path):
                return Description()
            files.refuse_empty(self.path)
            asked = replace(self._asked(), needed=False)
            sheet = tables.read_sheet(self.path, asked)
            roles = {sheet.fold_at: "names of rows" if self.name_column else "folds"}
            roles |= dict.fromkeys(sheet.places if self._texts else (), "texts")
            roles |= {sheet.group_at: "groups", sheet.at: "labels"}
            roles |= dict.fromkeys(sheet.dropped, "left out")
            spelt = delimited.is_text(self.path)
            columns = [
                DescribedColumn(shown(name), *_described(sheet, i, roles.get(i), asked, spelt))
                for i, name in enumerate(sheet.names[:SHOWN_COLUMNS])
            ]
            return Description(columns, len(sheet.names), sheet.remarks)

    def location(self) -> str | None:
        """Return the path of the file."""
        return str(self.path)

    def default_scaling(self, rows: LabelledRows) -> str | tuple[str, ...]:
        """Return 'l2' for sparse rows, which centring makes dense, else all scalings of columns.

        Rows of texts have their own: 'tfidf' for counts of words, 'l2' for embeddings.
        """
        own = self.scaling if self._texts is None else self._texts.scaling
        return "l2" if sparse.issparse(rows.X) and own == self.scaling else own

    def load_items(
        self,
        kind: str = "rows",
        schema: Schema | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> tuple[Any, list[str] | None]:
        """Return rows, read by the schema of a model, and the names of the rows."""
        with files.named_in_errors(self.path):
            asked = replace(
                self.read_as(schema)._asked(progress),
                label=None if schema is not None and schema.columns is not None else self.label,
                needed=False,
                fold=name,
                fold_option="name",
                group=None,
            )
            table = tables.read_table(self.path, asked)
            _refuse(table.problems)
            X, _ = _as_features(table, asked)
            if schema is not None and table.schema is None:  # an array has no names
                X = schema.rows_of(X)
            names = None if name is None or table.folds is None else [f"{it}" for it in table.folds]
            return X, names

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read and check the file.

        Raises
        ------
        UsageError
            If the file cannot be read, or does not have labelled rows of finite numbers in two
            classes or more.  Messages count rows and columns from 1, without the header.
        """
        with files.named_in_errors(self.path):
            asked = self._asked(progress)
            table = tables.read_table(self.path, asked)
            folds = table.folds if self.fold_column else None
            problems = [*table.problems]
            found: list[Any] = []
            for part in (
                lambda: _as_features(table, asked),
                lambda: _classes(table.labels, self.bins, table.schema),
                lambda: _numbered(folds, "folds", "fold_column"),
                lambda: _numbered(table.groups, "groups", "group"),
                lambda: self._judgements(table),
            ):
                try:
                    found.append(part())
                except UsageError as error:
                    problems.append(str(error))
            _refuse(problems)
            (X, encoding), (y, class_names), (folds, _), (groups, _), judgements = found
            names, pairs, triplets = judgements
            if y is None:  # without labels
                n = X.shape[0]
                y = np.arange(n) if pairs is None else delimited.groups_of_pairs(pairs, n)
                class_names = tuple(names[i] for i in np.unique(y, return_index=True)[1])
            remarks = (*table.remarks, *_doubtful(class_names), *_ids(table, asked))
            if pairs is not None:
                remarks = (*remarks, *delimited.contradictions(pairs, names))
            if self._schema is None:
                remarks = (*remarks, *tables.prepared_remarks(X, table.schema, encoding))
            return LabelledRows(
                *(X, y, class_names),
                folds=folds,
                groups=groups,
                remarks=remarks,
                encoding=encoding,
                schema=table.schema,
                ratings=pairs,
                judged=triplets,
            )

    def _judgements(
        self, table: tables.Table
    ) -> tuple[Sequence[str], Ratings | None, JudgedTriplets | None]:
        """Return the names of the rows, and their pairs and triplets if there are any."""
        names = [f"{i}" for i in range(table.X.shape[0] if table.X.ndim else 0)]
        if self.name_column and table.folds is not None:
            numbers, called = _numbered(table.folds, "names", "name_column")
            assert numbers is not None  # there are names
            names = [called[i] for i in numbers]
            if len(called) < len(names):
                twice = called[int(np.bincount(numbers).argmax())]
                raise UsageError(f"several rows are called {shown(twice)}: give each another name")
        pairs, triplets = self.pairs, self.triplets
        return (
            names,
            None if pairs is None else delimited.row_pairs(Path(pairs), names),
            None if triplets is None else delimited.row_triplets(Path(triplets), names),
        )


def _refuse(problems: Sequence[str]) -> None:
    """Raise what is wrong with a file, all at once."""
    if problems:
        raise UsageError("; and: ".join(problems))


def _ids(table: tables.Table, asked: tables.Columns) -> list[str]:
    """Say of each column that may be an id how to leave it out."""
    if sparse.issparse(table.X) or table.schema is None or asked.schema is not None:
        return []
    ids = [
        column.name
        for i, column in enumerate(table.schema.columns or ())
        if column.kind == "number" and is_id(table.X[:, i])
    ]
    if not ids:
        return []
    what = " and ".join(map(shown, ids[:3])) + f" and {len(ids) - 3} more" * (len(ids) > 3)
    option = tables.drop_option([*asked.drop, *ids])
    return [f"a different whole number in each row of column {what}: if it is an id, use {option}"]


def _doubtful(class_names: Sequence[str]) -> list[str]:
    """Say which classes may be one, spelt in several ways, and which may be no class."""
    alike = defaultdict(list)
    numbers = Context(traps=[])
    for name in class_names:
        text = unicodedata.normalize("NFC", name.strip())
        is_number = tables.NUMBER.fullmatch(text) is not None
        key: str | Decimal = numbers.create_decimal(text) if is_number else text.casefold()
        alike[key].append(name)
    remarks = [
        f"classes {files.listed(names)} are different because of their spelling: if they are one "
        "class, spell them alike"
        for names in alike.values()
        if len(names) > 1
    ]
    missing = [name for name in class_names if name.strip().casefold() in tables.LIKE_MISSING]
    if missing:
        remarks.append(
            f"{files.listed(missing)} is taken as the name of a class: if it means a missing "
            "label, leave those rows out"
        )
    return remarks


def _as_features(table: tables.Table, asked: tables.Columns) -> tuple[Rows, Encoding | None]:
    """Convert to float rows, CSR in canonical form or C order, and check that all are finite.

    Dense rows that are to be prepared may have missing values; what their columns are comes second.
    """
    X, encoding = table.X, table.encoding
    if asked.schema is not None and table.schema is asked.schema and not sparse.issparse(X):
        X = asked.schema.rows_of(X)
    if table.problems and not X.shape[1]:
        return X, None  # what is wrong with all columns is told
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
    if asked.prepares and not is_sparse and encoding is None and np.isnan(X).any():
        encoding = (("number",),) * X.shape[1]
    lost = ~np.isfinite(values) if encoding is None else np.isinf(values)
    if lost.any():
        rows, places = (part[lost] for part in X.tocoo().coords) if is_sparse else np.nonzero(lost)
        raise _not_finite(rows, places, table, asked)
    return X, encoding


def _not_finite(
    rows: Places,
    places: Places,
    table: tables.Table,
    asked: tables.Columns,
) -> UsageError:
    """Return the error of values that are missing or infinite: how many, in which columns."""
    columns = (table.schema and table.schema.names) or ()
    names = [*map(shown, columns)] or [f"{i + 1}" for i in range(table.X.shape[1])]
    held, counts = np.unique(places, return_counts=True)
    each = [f"{names[i]} ({n})" for i, n in zip(held, counts, strict=True)]
    out = ""
    if columns and len(held) < len(names) and asked.schema is None:
        without = tables.drop_option([*asked.drop, *(columns[i] for i in held)])
        out = f"leave these columns out with {without}, "
    return UsageError(
        f"{len(rows)} value{' is' if len(rows) == 1 else 's are'} NaN or missing, infinite or "
        f"beyond float64, the first in row {rows[0] + 1}, column {names[places[0]]}; "
        f"by columns: {files.first_dozen(each)}: {out}fill them in or leave those rows out"
    )


def _classes(
    values: tables.LabelValues | None, bins: int | None, signs: Schema | None = None
) -> Numbered:
    """Return each row's class number, and the class names; with `bins` classes are quantiles.

    Numbers have the `signs` of the file.
    """
    if bins is None or values is None:
        return _numbered(values, "labels", "label")
    if not 2 <= bins <= MOST_BINS:
        raise UsageError(f"{spelled('bins', bins)}: a number from 2 to {MOST_BINS} is needed")
    try:
        if isinstance(values, list):
            missing = np.array([text in MISSING for text in values])
            numbers = _numbers_of([text for text in values if text not in MISSING], signs)
        else:
            missing = np.isnan(values)
            numbers = np.asarray(values)[~missing].astype(np.float64)
    except ValueError as error:
        text = next(
            (it for it in values if it not in MISSING and not tables.NUMBER.fullmatch(it)),
            values[0],
        )
        raise UsageError(
            f"{spelled('bins')} makes classes of numbers, but the label {shown(text)} is text: "
            f"leave out {spelled('bins')}, or name another column with {spelled('label')}"
        ) from error
    _refuse_missing(missing, "labels")
    edges = np.unique(np.quantile(numbers, np.arange(1, bins) / bins))
    held, y = np.unique(np.searchsorted(edges, numbers), return_inverse=True)
    digits = next(n for n in range(6, 18) if len({f"{it:.{n}g}" for it in edges}) == len(edges))
    ends = ["-inf", *(f"{edge:.{digits}g}" for edge in edges), "inf"]
    names = [f"({ends[i]}, {ends[i + 1]}]" for i in held]
    return y.astype(np.int64), tuple(names)


def _numbers_of(texts: list[str], signs: Schema | None) -> npt.NDArray[np.float64]:
    """Read numbers by the signs of their file, or their own; raise ValueError for other texts."""
    import pandas as pd

    thousands = "" if signs is None else signs.thousands
    own = delimited.decimal_of([pd.Series(texts, dtype=object)], None, thousands or None)
    decimal = own if signs is None else signs.decimal or own
    if decimal != "," and not thousands:
        return np.array(texts, dtype=np.float64)
    read = number_reader("", decimal, thousands)
    numbers = np.array([read(text) for text in texts])
    if np.isnan(numbers).any():
        raise ValueError("a text is no number")
    return numbers


def _numbered(values: tables.LabelValues | None, what: str, option: str) -> Numbered:
    """Return the number of each row's class, or fold, and the names of these in their order."""
    if values is None:
        return None, ()
    if isinstance(values, list):
        missing = np.array([value.strip() in MISSING for value in values], dtype=bool)
        _refuse_missing(missing, what)
        names = sorted(set(values))
        if all(tables.NUMBER.fullmatch(name) for name in names):
            names.sort(key=float)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[value] for value in values], dtype=np.int64), tuple(names)
    _refuse_missing(np.isnan(values), what)
    fractions = values[np.isinf(values) | (np.trunc(values) != values)]
    if fractions.size:
        raise UsageError(
            f"the {what} are numbers with fractions, such as {fractions[0]} ({fractions.size} of "
            f"them): a name is a text or a whole number: name another column with {spelled(option)}"
            + f", or make classes of a target, such as five with {spelled('bins', 5)}"
            * (what == "labels")
        )
    numbers, places = np.unique(values, return_inverse=True)
    return places.astype(np.int64), tuple(str(int(number)) for number in numbers)


def _refuse_missing(missing: npt.NDArray[np.bool_], what: str) -> None:
    if n := np.count_nonzero(missing):
        are = f"{what.removesuffix('s')} is" if n == 1 else f"{what} are"
        raise UsageError(
            f"{n} {are} missing, the first in row {int(missing.argmax()) + 1}: fill them in or "
            "leave those rows out; if NA is a name and does not mean a missing one, spell it out"
        )


def _described(
    sheet: tables.Sheet, place: int, role: str | None, asked: tables.Columns, is_text_file: bool
) -> tuple[str, pd.Series[Any]]:
    """Describe the use of a column, its values, and how many are missing; return them, too."""
    import pandas as pd

    name, given = sheet.names[place], sheet.cells[place]
    found = None if role else tables.found_in(sheet, place, asked, is_text_file)
    column = None if found is None or found.problem else found.column
    how = "" if found is None or column is None or not asked.prepares else _prepared_as(found)
    is_text = kind_of(given) in ("text", "category")
    is_number = not (role or is_text) or (column and column.kind in ("number", "date"))
    if found is not None and found.values is not None and is_number:
        values = pd.Series(found.values)
    else:
        values = given.map(str, na_action="ignore")  # lists have no hash
        values = values.mask(values.isin(MISSING if role else sheet.signs.missing))
    n_distinct, n_missing = values.nunique(), int(values.isna().sum())
    if role == "left out":
        what = role
    elif role:
        what = f"{role}, {n_distinct} different"
        if role == "labels" and n_distinct:
            counts = values.value_counts()
            each = ", ".join(f"{printable(str(label))}: {n}" for label, n in counts.items())
            rest = f", of {counts.min()} to {counts.max()} rows"
            what += f" ({each})" if n_distinct <= SHOWN_CLASSES else rest
    elif not n_distinct:
        what = f"no value{'' if how else f': {tables.drop_option([name])}'}"
    elif pd.api.types.is_numeric_dtype(values):
        low, high = float(values.min()), float(values.max())
        is_date = column is not None and column.kind == "date" and not column.is_time_of_day
        ends = [
            f"{np.datetime64(math.floor(it), 'D')}" if is_date else f"{it:.4g}"
            for it in (low, high)
        ]
        form = f" ({column.form})" if column is not None and column.has_form else ""
        what = f"{column.kind if column and column.kind != 'constant' else 'number'}{form}, "
        what += " to ".join(ends) if high > low else f"always {ends[0]}"
        if is_id(values.to_numpy()) and not how:
            what += f", all different: an id? {tables.drop_option([name])}"
    else:
        what = f"text, {n_distinct} different, such as {shown(values.dropna().iloc[0])}"
        if not how:
            problem = f"{found.problem}; or " if found and found.problem else ""
            what += f": {sheet.hint}{problem}{spelled('drop')} it"
    what += f", {n_missing} missing" * bool(n_missing) + (f": {how}" if how else "")
    if what.startswith("text") and sheet.at is None and 1 < n_distinct <= len(given) // 2:
        what += f". Perhaps the label: {spelled('label', name)}"
    return what, values


def _prepared_as(found: Found) -> str:
    """Say how a column is changed, or '' if it is not."""
    column, values = found.column, found.values
    assert values is not None  # it is no problem
    n_missing = np.count_nonzero(np.isnan(values))
    if column.kind == "constant":
        return "left out, as it is constant"
    if column.kind == "id":
        return "left out, as an id"
    if column.kind == "category":
        return f"one-hot; texts in under {Prepare.RARE:.0%} of the training rows share a column"
    parts = ["days since 1970"] if column.kind == "date" and not column.is_time_of_day else []
    parts += ["in days"] if column.is_time_of_day else []
    if n_missing:
        parts.append("missing ones get the median of the training rows")
        if n_missing >= Prepare.MUCH_MISSING * len(values):
            parts[-1] += " and an indicator"
    return ", ".join(parts)


def _names_in(text: str | None) -> tuple[str, ...]:
    """Return the names of an option, separated as in CSV."""
    lines = csv.reader(io.StringIO(text or "", newline=None), skipinitialspace=True)
    return tuple(name.strip() for line in lines for name in line)


def _kinds_of(text: str | None) -> dict[str, str]:
    """Return the kind of each column that an option declares."""
    kinds = {}
    for declared in _names_in(text):
        name, sign, kind = declared.rpartition("=")
        if not sign or (kind not in DECLARED and "%" not in kind):
            raise UsageError(
                f"{spelled('column')} {shown(declared)}: NAME=KIND is needed, a kind of "
                f"{', '.join(DECLARED)} or the format of a date, such as %d/%m/%Y"
            )
        kinds[name.strip()] = kind
    return kinds


TABLES = (
    *("iris", "wine", "glass", "sonar", "bupa", "ionosphere", "wdbc", "pima", "vowel"),
    *("winequality-red", "led7digit", "segment", "banana", "phoneme", "page-blocks", "texture"),
    *("optdigits", "spambase", "thyroid", "ring", "twonorm", "magic", "letter"),
)
"""The ten of which accuracies on the same folds are published (Suárez et al. 2021) first."""


class NamedTable(Dataset):
    """A data set of several tables, of which `table` names one, in a file that the user gets."""

    table: str
    _path: Path

    @property
    def title(self) -> str:
        """The data set and the table."""
        return f"{self.name} {self.table}"

    def location(self) -> str | None:
        """Return the path of the table, or None if the user must get it first."""
        return str(self._path) if self._path.is_file() else None

    def _refuse_unknown(self, tables: Iterable[str]) -> None:
        if self.table not in tables:
            raise UsageError(f"data set {self.name}: {unknown_name('table', self.table, tables)}")

    def _refuse_missing(self) -> None:
        if not self._path.is_file():
            raise UsageError(f"there is no {self._path}: {self.home}")


class Keel(Fields, NamedTable):
    """A table of the KEEL repository: 150 to 20 000 rows of 2 to 64 numbers, of 2 to 26 classes.

    The file ``keel/TABLE.csv`` has numbers, the label `class`, and `fold`, 1 to 10: the fold of
    KEEL's ten-fold cross-validation in which the row is a test row.  It joins the files of KEEL's
    archive ``TABLE-10-fold.zip``, where ``TABLE-10-Ntst.dat`` has the rows of fold N.

    Parameters
    ----------
    table : str
        The name of the table, one of `TABLES`.
    folds : bool, default True
        Whether partitions are KEEL's folds.  If False, they are random, as for other data sets.
    """

    name = "keel"
    summary = "23 tables of KEEL (iris, wine, ...) with its ten folds: --data-option table=NAME"
    citation = (
        "J. Alcalá-Fdez, A. Fernández, J. Luengo, J. Derrac, S. García, L. Sánchez and F. Herrera. "
        "KEEL data-mining software tool: data set repository, integration of algorithms and "
        "experimental analysis framework. Journal of Multiple-Valued Logic and Soft Computing 17, "
        "2011"
    )
    licence = "not stated: the tables are their donors', most of them of the UCI repository"
    home = (
        "put the rows of the ten files TABLE-10-1tst.dat, ..., TABLE-10-10tst.dat (from "
        "TABLE-10-fold.zip of https://sci2s.ugr.es/keel) into $OASIS_BENCH_DATA/keel/TABLE.csv, "
        "with the label in the column class and the number of the file in the column fold"
    )
    scaling = Scaling.OF_COLUMNS

    table: str
    folds: bool = True

    def __post_init__(self) -> None:
        self._refuse_unknown(TABLES)
        self._path = files.dataset_folder("keel") / f"{self.table}.csv"

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the table, float64; `progress` is not called.

        Raises
        ------
        UsageError
            If the file is missing or damaged.
        """
        self._refuse_missing()
        if self.folds:
            return TableFile(self._path, "class", "fold").load()
        return TableFile(self._path, "class", drop="fold").load()
