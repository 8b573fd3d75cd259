"""Reads cells of a table as numbers and days, in one way, as a person would.

A cell that does not fit is NaN here; the caller knows which cells are missing and which are wrong.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # pandas is imported only when used: a trial needs none
    import pandas as pd

MISSING = ("", *("na", "n/a", "nan", "null"), *("NA", "N/A", "NaN", "NAN", "NULL", "Null"))
"""Cells that mean a missing value."""

NO_FEATURE = (*MISSING, "?", "-", "--", ".", "none", "None", "<NA>", "NaT")
"""Cells that mean a missing feature; a label may have such a name."""

GROUPING = {",": ",", ".": ".", " ": " \xa0\u2009\u202f", "'": "'\u2019"}
"""Thousands separators, and the characters for each."""

BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), 1.0),
    **dict.fromkeys(("false", "False", "FALSE"), 0.0),
}

BOOLEAN = "true/false"
"""The form of a column whose numbers are written as `BOOLEANS`."""

AMOUNT = re.compile(
    r"(?P<sign>[+-]?)(?P<before>[$€£¥₹]?)\s*(?P<inner>[+-]?)"
    r"(?P<number>\d[\d.,'\u2019\s]*(?:[eE][+-]?\d+)?|[.,]\d+(?:[eE][+-]?\d+)?)"
    r"(?P<after>(?:[^\W\d_]|[%‰°$€£¥₹])\D{0,15})?"
)
"""A number with a currency sign before it, or a unit after it."""

ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
ISO, TIME_OF_DAY = "ISO 8601", "time of day"
"""Forms of dates that `strptime` does not have."""

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?", re.ASCII)

_NUMBERED = [
    form.replace("/", sign)
    for sign in "/.-"
    for form in ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
    if form.replace("/", sign) not in ("%m.%d.%Y", "%Y-%m-%d")
]
_NAMED = ["%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y"]
DATE_FORMS = (
    ISO,
    TIME_OF_DAY,
    *(f"{form}{time}" for form in (*_NUMBERED, *_NAMED) for time in ("", " %H:%M", " %H:%M:%S")),
)
"""Recognised forms of dates; with points between numbers the day is always first."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(cell: str) -> str:
    """Return a text without spaces around it; letters with accents are one character (NFC)."""
    return unicodedata.normalize("NFC", cell.strip())


@lru_cache(maxsize=64)
def number_pattern(decimal: str, thousands: str = "") -> re.Pattern[str]:
    """Return the pattern of a number in text; its first group is the thousands separator.

    `decimal` is '.' or ',', or '' if no cell of the table shows which it is.  With '' a comma is
    never a part of a number, and a point never separates thousands.  Thousands are separated by
    `thousands`, or if it is not given, by any sign except the decimal one.
    """
    others = " '" if not decimal else "".join(GROUPING).replace(decimal, "")
    groups = "".join(GROUPING[sign] for sign in thousands or others)
    point = re.escape(decimal or ".")
    digits, power = rf"\d+{point}?\d*|{point}\d+", r"(?:[eE][+-]?\d+)?"
    grouped = rf"[1-9]\d{{0,2}}([{groups}])\d{{3}}(?:\1\d{{3}})*"
    fraction = rf"(?:{point}\d+{power})?"
    return re.compile(rf"[+-]?(?:(?:{digits}){power}|{grouped}{fraction})", re.ASCII)


def bare_number(cell: str) -> tuple[str, str] | None:
    """Divide a cell such as '-$3.30', '12.5%', '0.37 kg' or '(0.37)' into its unit and its number.

    The number is still text, with its separators; parentheses mean that it is negative.  None if
    the cell does not look like a number.
    """
    text = cell.replace("\u2212", "-")
    if is_negative := text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    found = AMOUNT.fullmatch(text)
    if found is None or (found["before"] and found["after"]):
        return None
    sign = found["sign"] or found["inner"]
    if (found["sign"] and found["inner"]) or (sign and is_negative):
        return None
    unit = found["before"] or (found["after"] or "").strip()
    return unit, ("-" if is_negative else sign) + found["number"].strip()


def number_in(text: str, decimal: str, thousands: str) -> float:
    """Return the number in a text, with these separators; NaN if it is not a number."""
    found = number_pattern(decimal, thousands).fullmatch(text)
    if found is None:
        return np.nan
    if found[1]:
        text = text.replace(found[1], "")
    return float(text.replace(decimal, ".") if decimal else text)


def number_reader(unit: str, decimal: str, thousands: str) -> Callable[[str], float]:
    """Return a function that reads cells of numbers with this unit, '' for none."""
    if unit == BOOLEAN:
        return lambda cell: BOOLEANS.get(cell, np.nan)

    def read(cell: str) -> float:
        found = bare_number(cell)
        if found is None or found[0] != unit:
            return np.nan
        return number_in(found[1], decimal, thousands)

    return read


def date_reader(form: str) -> Callable[[str], float]:
    """Return a function that reads a cell as days since 1970; a time of day as part of a day."""

    def read(cell: str) -> float:
        try:
            if form == TIME_OF_DAY:
                found = CLOCK.fullmatch(cell)
                hours, minutes, seconds = found.groups("0") if found else ("nan", "0", "0")
                return (float(hours) + (float(minutes) + float(seconds) / 60) / 60) / 24
            if form == ISO:
                is_date = ISO_DATE.fullmatch(cell) is not None
                return days_since_1970(datetime.fromisoformat(cell)) if is_date else np.nan
            return days_since_1970(datetime.strptime(cell, form))
        except (ValueError, re.error):  # such as the 31st of April, or a form with %m twice
            return np.nan

    return read


def days_since_1970(when: date) -> float:
    """Return the days from 1970 to a date, or a time; without a zone it is in UTC."""
    if not isinstance(when, datetime):
        when = datetime(when.year, when.month, when.day)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - EPOCH) / timedelta(days=1)


def part_of_day(when: time) -> float:
    """Return a time of day as a part of a day."""
    return (datetime.combine(EPOCH, when, tzinfo=UTC) - EPOCH) / timedelta(days=1)


def days_of(dates: npt.NDArray[np.datetime64]) -> npt.NDArray[np.float64]:
    """Return dates of NumPy, of any unit, as days since 1970, NaN for NaT."""
    return (dates - np.datetime64(0, "s")) / np.timedelta64(1, "D")


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True


Kind: TypeAlias = Literal["number", "boolean", "date", "text", "category", "mixed", "other"]

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime64", "datetime", "date"), "date"),
    **dict.fromkeys(("string", "empty", "time", "period", "interval"), "text"),
    "boolean": "boolean",
    "categorical": "category",
}
"""The kind of a column by pandas' name of its values."""


def kind_of(column: pd.Series[Any]) -> Kind:
    """Return the kind of a column by its type; nothing is guessed from texts."""
    import pandas as pd

    if (kind := KINDS.get(pd.api.types.infer_dtype(column, skipna=True))) is not None:
        return kind
    types = {type(value) for value in column[column.notna()]}
    if all(issubclass(one, str | int | float | Decimal | np.number) for one in types):
        return "mixed"
    return "text" if types <= {UUID} else "other"


def distinct_of(column: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Return the place of each value among the different values, -1 if missing, and these."""
    import pandas as pd

    if pd.api.types.infer_dtype(column, skipna=True) != "string":  # 1 and True are equal
        return np.arange(len(column)), column.tolist()
    places, distinct = pd.factorize(column)
    return places, distinct.tolist()


def texts_of(column: pd.Series[Any]) -> list[str | None]:
    """Return the texts of a column, None if missing; whole numbers have no point."""
    return [None if is_missing(value) else as_text(value) for value in column.tolist()]


def as_text(value: Any) -> str:
    """Return a value as text; a whole number has no point."""
    if isinstance(value, str):
        return value
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if is_whole else value)


def dates_of(column: pd.Series[Any]) -> npt.NDArray[np.datetime64]:
    """Return dates, and times in UTC, as NumPy's, to the microsecond."""
    import pandas as pd

    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.astype(object)
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):  # dates of Python, or None
        dates: list[Any] = [None if pd.isna(one) else one for one in column]
        utc = [
            one.astimezone(UTC).replace(tzinfo=None) if getattr(one, "tzinfo", None) else one
            for one in dates
        ]
        return np.array(utc, "datetime64[us]")
    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(column.to_numpy(), "datetime64[us]")
