"""Tables in text files, with commas, semicolons or tabs between columns, read by pandas.

Not for saying what the columns mean: that is in `tables`.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from oasis_bench.datasets.files.errors import reason_of
from oasis_bench.system import UsageError, open_regular

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

MISSING = ("", *("na", "n/a", "nan", "null"), *("NA", "N/A", "NaN", "NAN", "NULL", "Null"))
"""Cells that stand for no value."""

SEPARATORS = {",": ",", ";": ";", "\t": "tab"}
"""What may stand between columns, the usual one first, and what messages call it."""

SAMPLE_BYTES = 65_536
SAMPLE_RECORDS = 10

DECIMAL_COMMA = r"[+-]?\d*(,\d+)?([eE][+-]?\d+)?"
THOUSANDS = r"[+-]?\d+(,\d{3})?"

ENDINGS = (".csv", ".tsv")


def separator_of(path: Path) -> str:
    """Return what stands between columns: that which divides the first lines alike.

    Of several, it is the one that makes the most columns; of equal ones, the usual one.
    """
    with open_regular(path) as file:
        raw = file.read(SAMPLE_BYTES)
    text = raw.decode("utf-8-sig", errors="replace")
    if len(raw) == SAMPLE_BYTES:  # the last line is not whole
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    return max(SEPARATORS, key=lambda separator: _divides(text, separator))


def _divides(text: str, separator: str) -> tuple[bool, int]:
    """Say whether a separator divides the first lines alike, and into how many columns."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    counts: list[int] = []
    try:
        for fields in lines:
            if fields:
                counts.append(len(fields))
            if len(counts) == SAMPLE_RECORDS:
                break
    except csv.Error:
        return False, 0
    n_columns = counts[0] if counts else 0
    return n_columns > 1 and all(n == n_columns for n in counts), n_columns


def csv_names(path: Path, separator: str) -> list[str]:
    """Return the names of the columns."""
    header = csv_cells(path, sep=separator, header=None, nrows=1, dtype=str, na_filter=False)
    return [str(name).strip() for name in header.loc[0]]


def numbered_cells(
    path: Path, n_columns: int, separator: str, texts: dict[int, type] | None = None
) -> tuple[pd.DataFrame, str | None]:
    """Read all cells below the names of the columns, whose numbers stand for their names.

    Parameters
    ----------
    path : Path
    n_columns : int
    separator : str
    texts : dict of int to type, optional
        Columns of text: numbers in these stay as they are spelt.

    Returns
    -------
    DataFrame
    str or None
        How the cells were read, where that is not the usual way.
    """
    cells = csv_cells(
        *(path,), sep=separator, header=0, names=range(n_columns), dtype=texts, low_memory=False
    )
    has_decimal_comma = False
    if separator != ",":
        for column in set(cells.columns) - set(texts or {}):
            numbers = _with_decimal_comma(cells[column], separator)
            if numbers is not None:
                cells[column] = numbers
                has_decimal_comma = True
    if separator == ",":
        return cells, None
    decimal = " and , as decimal sign" if has_decimal_comma else ""
    return cells, f"read with {SEPARATORS[separator]} between columns{decimal}"


def _with_decimal_comma(column: pd.Series[Any], separator: str) -> pd.Series[Any] | None:
    """Return the numbers of a column of text where all are such as '1,5', else None.

    Beside tabs, one where each comma may be that of thousands stays text.
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return None
    held = column.dropna().astype(str).str.strip()
    if held.empty or not re.fullmatch(DECIMAL_COMMA, held.iloc[0]):
        return None
    if not held.str.fullmatch(DECIMAL_COMMA).all():
        return None
    if separator == "\t" and held.str.fullmatch(THOUSANDS).all():
        return None
    try:
        numbers = [float(text.replace(",", ".")) for text in held]
    except ValueError:  # such as 'e5'
        return None
    return pd.Series(numbers, held.index, dtype=np.float64).reindex(column.index)


def csv_cells(path: Path | BinaryIO, **options: Any) -> pd.DataFrame:
    """Read cells with `pandas.read_csv`; cells that `MISSING` lists are NaN."""
    import pandas as pd

    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # exact to the last bit, as newer pandas is
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            cells: pd.DataFrame = pd.read_csv(
                path,
                encoding="utf-8-sig",
                index_col=False,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=MISSING,
                **options,
            )
            return cells
    except UnicodeDecodeError as error:
        where = f" (line {line})" if (line := _line_not_utf8(path)) else ""
        raise UsageError(f"is not UTF-8 text{where}: save it as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise UsageError("has no line of column names: write one") from error
    except MemoryError:
        raise
    except Exception as error:  # mostly ParserError
        reason = reason_of(error).rpartition("C error: ")[2]
        raise UsageError(
            f"CSV cannot be read ({reason}): give each line as many fields, and close each quote"
        ) from error


def _line_not_utf8(path: Path | BinaryIO) -> int | None:
    """Return the number of the first line that is not UTF-8, from 1; None where it is not known."""
    if not isinstance(path, Path):
        return None
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None
