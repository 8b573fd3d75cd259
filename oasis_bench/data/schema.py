"""The schema of a table: a record that is made once, from a whole table, and kept with each model.

Later rows from any source, such as a file or a DataFrame, must fit the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from scipy import sparse

from oasis_bench.data import cells
from oasis_bench.system import UsageError, did_you_mean, quoted, require_packages, spelled

if TYPE_CHECKING:  # pandas is imported only when used: a trial needs none
    import pandas as pd

Encoding: TypeAlias = tuple[tuple[str, ...], ...]
"""The kind of each column, and for texts, the texts that its codes stand for.

A matrix in this encoding has NaN for missing values, codes for texts, days for dates, and 0 in
columns that are left out."""

MOST_NAMED = 12
"""Most columns that a message names."""

Reader: TypeAlias = "Callable[[Any], float | None]"
"""Returns the number of a cell, NaN if it is missing, and None if it does not fit its column."""


class Column(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The schema of a column.

    Attributes
    ----------
    name : str
    kind : {'number', 'date', 'category', 'constant', 'id'}
        The last two are left out.
    form : str
        For numbers, the unit of each cell, such as '%', or `cells.BOOLEAN`.  For dates, one of
        `cells.DATE_FORMS` or a format of `strptime`.
    texts : tuple of str
        The categories, in the order of their codes.
    is_declared : bool
        Whether the user declared the kind; then cells that do not fit are missing.
    """

    LEFT_OUT = ("constant", "id")
    """Kinds of columns without information on new rows."""

    name: str
    kind: Literal["number", "date", "category", "constant", "id"] = "number"
    form: str = ""
    texts: tuple[str, ...] = ()
    is_declared: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether it is not left out."""
        return self.kind not in Column.LEFT_OUT

    @property
    def is_time_of_day(self) -> bool:
        """Whether its cells are times without a date."""
        return self.form == cells.TIME_OF_DAY

    @property
    def has_form(self) -> bool:
        """Whether its cells have a unit, or a format that is not ISO 8601."""
        return self.form not in ("", cells.ISO, cells.BOOLEAN)

    @property
    def words(self) -> str:
        """The kind of its cells."""
        form = f" ({self.form})" * bool(self.form)
        return {"number": f"a number{form}", "date": f"a date{form}"}.get(self.kind, "a text")


class Schema(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The schema of a table.

    Attributes
    ----------
    columns : tuple of Column, optional
        The features.  None for a svmlight file, and for texts that are rows of numbers.
    missing : tuple of str
        Texts that mean a missing category.
    decimal, thousands : str
        The separators of numbers in text; see `cells.number_pattern`.
    encoding : str
        The encoding of the file; other files in UTF-8 or UTF-16 are recognised.
    is_plain : bool
        Whether all columns are numbers without gaps; then later rows may have no gaps.
    is_single : bool
        Whether numbers are float32.
    n_features, from_zero : int, bool
        The width of a svmlight file or of rows of texts, and whether features count from 0.
    texts, text_column : str
        What made rows of texts, such as a network and the hash of its weights, and their column.
    """

    columns: tuple[Column, ...] | None = None
    missing: tuple[str, ...] = cells.NO_FEATURE
    decimal: Literal["", ".", ","] = ""
    thousands: Literal["", ",", ".", " ", "'"] = ""
    encoding: str = "utf-8-sig"
    is_plain: bool = True
    is_single: bool = False
    n_features: int = 0
    from_zero: bool = False
    texts: str = ""
    text_column: str = ""

    def __post_init__(self) -> None:
        names = self.names or ()
        if len({*names}) < len(names):
            raise ValueError("two columns have one name")
        if any(len({*column.texts}) < len(column.texts) for column in self.columns or ()):
            raise ValueError("a category has two codes")

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, if they have names."""
        return None if self.columns is None else tuple(column.name for column in self.columns)

    @property
    def needed(self) -> list[str]:
        """The names of the features that are not left out."""
        return [column.name for column in self.columns or () if column.is_needed]

    @property
    def coding(self) -> Encoding | None:
        """The `Encoding` of rows that it reads; None if they are complete numbers."""
        if self.columns is None or self.is_plain:
            return None
        return tuple((column.kind, *column.texts) for column in self.columns)

    def refuse_other_texts(self, texts: str) -> None:
        """Raise UsageError unless rows of a table, or of such `texts`, are as the model's were."""
        if texts != self.texts and self != Schema():
            known, given = (it or "the columns of a table" for it in (self.texts, texts))
            raise UsageError(
                f"the model was fitted on {known}, and the rows are {given}: give "
                f"{spelled('features')} as for that fit"
            )

    def rows_of(self, X: Any) -> Any:
        """Return raw rows of any source as a matrix in `coding`.

        Parameters
        ----------
        X : DataFrame, table of polars or Arrow, array or CSR
            Columns of a table are matched by name, and others are ignored.  Columns of an array
            are in the order of `columns`.

        Returns
        -------
        ndarray of shape (n_rows, n_columns) or CSR
            Sparse rows are unchanged: they have no texts and no missing values.

        Raises
        ------
        UsageError
            If a column is missing, or a cell does not fit the schema.
        """
        X = table_of(X)
        if self.texts and np.shape(X)[1:] != (self.n_features,):
            self.refuse_other_texts("")
        is_sparse = sparse.issparse(X)
        if is_sparse and not self.is_plain:
            raise UsageError("sparse rows lack the texts, dates or gaps of the model: give a table")
        if self.columns is None or is_sparse:
            return X
        frame = self._selected(X)
        rows = np.zeros((len(frame), len(self.columns)), np.float32 if self.is_single else None)
        for i, column in enumerate(self.columns):
            if not column.is_needed:
                continue
            of_column = frame[column.name]
            values, wrong = self.values_of(column, of_column)
            is_other = not column.is_declared or (len(frame) > 1 and np.isnan(values).all())
            if len(wrong) and is_other:
                value = of_column.tolist()[wrong[0]]
                raise UsageError(
                    f"column {quoted(column.name)} was {column.words} where the model was "
                    f"fitted, and {quoted(value)} in row {wrong[0] + 1} is something else: "
                    "write it as it was"
                )
            rows[:, i] = values
        if self.is_plain and (missing := np.isnan(rows)).any():
            row, place = np.argwhere(missing)[0]
            raise UsageError(
                f"column {quoted(self.columns[place].name)} has a missing value in row "
                f"{row + 1}, and the model was fitted on complete rows: fill it in"
            )
        return rows

    def _selected(self, X: Any) -> pd.DataFrame:
        """Return the needed columns of a table, or of an array, by name."""
        import pandas as pd

        assert self.columns is not None
        if not hasattr(X, "columns"):
            X = np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(self.columns):
                raise UsageError(
                    f"rows of shape {X.shape}, and the model was fitted on {len(self.columns)} "
                    "columns: give rows of the same columns, or a DataFrame with their names"
                )
            X = pd.DataFrame(X, columns=list(self.names or ())).infer_objects()
        found: pd.DataFrame = X.iloc[:, self.places([str(name) for name in X.columns])]
        return found.set_axis(self.needed, axis=1)

    def places(self, columns: Sequence[str]) -> list[int]:
        """Return the place of each needed column among the names of others.

        Raises
        ------
        UsageError
            If no column has the name, or several have it.
        """
        place: dict[str, int] = {}
        names = [cells.text_of(name) for name in columns]
        for i, name in enumerate(names):
            place[name] = -1 if name in place else i
        if wrong := [name for name in self.needed if place.get(name, -1) < 0]:
            what = "several columns are called" if wrong[0] in place else "the rows lack the column"
            more = f" and {len(wrong) - 1} more" * (len(wrong) > 1)
            hint = "" if wrong[0] in place else did_you_mean(wrong[0], names)
            if all(name.isdecimal() for name in self.needed):
                hint += f"if the file has no line of names, use {spelled('header', 'none')}; "
            few = ", ".join(map(quoted, names[:MOST_NAMED])) + " ..." * (len(names) > MOST_NAMED)
            raise UsageError(
                f"{what} {quoted(wrong[0])}{more}, which the model was fitted on: {hint}the "
                f"columns are {few}: give each column the name that it had"
            )
        return [place[name] for name in self.needed]

    def values_of(
        self, column: Column, given: pd.Series[Any]
    ) -> tuple[npt.NDArray[np.float64], Sequence[int]]:
        """Return the number of each cell of a column, NaN if missing, and the rows of wrong cells.

        Wrong cells are NaN, too.
        """
        import pandas as pd

        if isinstance(given.dtype, pd.CategoricalDtype):
            given = pd.Series(np.asarray(given))
        is_real = pd.api.types.is_numeric_dtype(given.dtype) and given.dtype.kind != "c"
        if (
            column.kind == "date"
            and not column.is_time_of_day
            and pd.api.types.is_datetime64_any_dtype(given)
        ):
            return cells.days_of(cells.dates_of(given)), []
        if column.kind == "number" and is_real and not column.has_form:
            return given.to_numpy(np.float64, na_value=np.nan), []
        if column.kind == "date" and pd.api.types.is_numeric_dtype(given.dtype):
            given = pd.Series(cells.texts_of(given), dtype=object)  # such as 20200131
        places, distinct = cells.distinct_of(given)
        read = self._reader(column)
        found = [read(value) for value in distinct]
        numbers = np.array([np.nan if it is None else it for it in (*found, np.nan)], np.float64)
        is_wrong = np.array([it is None for it in (*found, 0)])
        return numbers[places], np.flatnonzero(is_wrong[places]).tolist()

    def _reader(self, column: Column) -> Reader:
        """Return a function that reads a cell of a column: a text, or a value of Python."""
        if column.kind == "category":
            return partial(_code, _Codes(column.texts), frozenset(self.missing))
        missing = frozenset({*self.missing, *cells.NO_FEATURE})
        if column.kind == "date":
            of_value = _time if column.is_time_of_day else _days
            return partial(_read, missing, cells.date_reader(column.form), of_value)
        of_text = cells.number_reader(column.form, self.decimal, self.thousands)
        of_value = _nothing if column.has_form else _number  # a number alone has no unit
        return partial(_read, missing, of_text, of_value)


class _Codes:
    """The codes of texts, and of numbers that stand for exactly one of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.of_text = {text: float(code) for code, text in enumerate(texts)}
        self.unknown = float(len(texts))
        self.of_value: dict[float, float | None] = {}
        pattern = cells.number_pattern(".", "'")
        for text, code in self.of_text.items():
            is_boolean = text in cells.BOOLEANS
            if is_boolean or pattern.fullmatch(text):
                value = cells.BOOLEANS[text] if is_boolean else cells.number_in(text, ".", "'")
                self.of_value[value] = None if value in self.of_value else code


def _code(codes: _Codes, missing: frozenset[str], value: Any) -> float | None:
    """Return the code of a category; a text that is not known has the first code of none."""
    if isinstance(value, str):
        text = cells.text_of(value)
        return np.nan if text in missing else codes.of_text.get(text, codes.unknown)
    if cells.is_missing(value):
        return np.nan
    number, text = _number(value), cells.text_of(cells.as_text(value))
    if text in codes.of_text or number is None:
        return codes.of_text.get(text, codes.unknown)
    return codes.of_value.get(number, codes.unknown)


def _read(
    missing: frozenset[str], of_text: Callable[[str], float], of_value: Reader, value: Any
) -> float | None:
    if isinstance(value, str):
        text = cells.text_of(value)
        if text in missing:
            return np.nan
        found = of_text(text)
        return None if np.isnan(found) else found
    return np.nan if cells.is_missing(value) else of_value(value)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, bool | int | float | Decimal | np.number | np.bool_)
    return float(value) if is_number else None


def _days(value: Any) -> float | None:
    return cells.days_since_1970(value) if isinstance(value, date) else None


def _time(value: Any) -> float | None:
    return cells.part_of_day(value) if isinstance(value, time) else None


def _nothing(value: Any) -> None:
    """Refuse any value that is no text."""


def table_of(data: Any) -> Any:
    """Return tables of polars, Arrow and others as a DataFrame, tensors as arrays.

    Masked values of NumPy become NaN.  All else is returned as it is.
    """
    if hasattr(data, "iloc"):  # of pandas
        return data
    if hasattr(data, "to_pandas") or hasattr(data, "__arrow_c_stream__"):
        require_packages("a table of polars or Arrow", ["pyarrow"], "parquet")
        if hasattr(data, "to_pandas"):
            return data.to_pandas()
        return import_module("pyarrow").table(data).to_pandas()
    if hasattr(data, "detach"):  # a tensor that may be on a device, with a gradient
        return np.asarray(data.detach().cpu())
    if isinstance(data, np.ma.MaskedArray) and data.dtype.kind in "biuf":
        return np.ma.filled(data.astype(np.result_type(data.dtype, np.float32)), np.nan)
    return data
