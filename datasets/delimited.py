"""Tables in text files, with commas, semicolons or tabs between columns, read by pandas.

Also pairs and triplets of rows.  Not for saying what the columns mean: that is in `tables`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from oasis_bench.data import JudgedTriplets, Ratings
from oasis_bench.datasets.files import FEWER, broken, listed, named_in_errors, reason_of
from oasis_bench.system import Text, UsageError, open_regular, require_memory

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

MISSING = ("", *("na", "n/a", "nan", "null"), *("NA", "N/A", "NaN", "NAN", "NULL", "Null"))
"""Cells that mean a missing value."""

NO_FEATURE = (*MISSING, "?", "-", "--", ".", "none", "None", "<NA>", "NaT")
"""Cells of features that do; a label may have such a name."""

SEPARATORS = {",": "','", ";": "';'", "\t": "tab"}
"""Column separators, the usual one first, each with its name in messages."""

SAMPLE_BYTES = 65_536
SAMPLE_RECORDS = 10

PERHAPS_NUMBER = re.compile(r"[+-]?[\d.,\s'\u2019]+([eE][+-]?\d+)?")

GROUPING = {",": ",", ".": ".", " ": " \xa0\u2009\u202f", "'": "'\u2019"}
"""Signs of thousands, and what each may be written as."""

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

ANSWERS = {
    **dict.fromkeys(("1", "true", "yes", "same"), True),
    **dict.fromkeys(("0", "-1", "false", "no", "different"), False),
}
"""What the third column of pairs may say, in small letters: whether their rows are the same."""


def is_text(path: Path) -> bool:
    """Tell whether a file is a table in text, by its name."""
    return path.name.lower().endswith(ENDINGS)


@contextmanager
def _unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, also one that gzip packed."""
    with open_regular(path) as file:
        is_packed = path.name.lower().endswith(".gz")
        try:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file) if is_packed else file)
        except (EOFError, zlib.error) as error:
            raise UsageError(f"gzip cannot be read ({reason_of(error)}): make it again") from error


def refuse_too_large(path: Path) -> None:
    """Raise MemoryError for a text that is larger than the free memory, also where gzip packed it.

    A gzip file becomes up to a thousand times as large.
    """
    with _unpacked(path) as file:
        n_bytes = path.stat().st_size
        if path.name.lower().endswith(".gz"):
            n_bytes = sum(map(len, iter(partial(file.read, 2**20), b"")))
    require_memory(n_bytes, "it", FEWER)


def encoding_of(path: Path) -> str:
    """Return the encoding of a text: UTF-16 by its first bytes, UTF-8, or else Windows' Latin-1."""
    status = path.stat()
    return _encoding(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _encoding(path: Path, n_bytes: int, changed: int) -> str:
    """Read all of the file: its last line may be the first that is not UTF-8."""
    refuse_too_large(path)
    with _unpacked(path) as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    for name in ("utf-8-sig", "cp1252"):
        with (
            suppress(UnicodeDecodeError),
            _unpacked(path) as raw,
            io.TextIOWrapper(raw, name, newline="") as text,
        ):
            while part := text.read(2**20):
                if "\0" in part:
                    raise UsageError("has NUL characters, so it is not text: save it as CSV")
            return name
    return "latin-1"


def separator_of(path: Path) -> str:
    """Return the column separator: the one that divides the first lines into equal columns.

    If several do, it is the one with the most columns; among equal ones, the usual one.
    """
    with _unpacked(path) as file:
        raw = file.read(SAMPLE_BYTES)
    text = raw.decode(encoding_of(path), errors="replace")
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


def number_pattern(decimal: str, thousands: str | None = None) -> re.Pattern[str]:
    """Return the pattern of a number with these signs; by default thousands may have any other."""
    groups = GROUPING[thousands] if thousands else "".join(GROUPING.values()).replace(decimal, "")
    digits, power = rf"\d+{re.escape(decimal)}?\d*|{re.escape(decimal)}\d+", r"(?:[eE][+-]?\d+)?"
    grouped = rf"[1-9]\d{{0,2}}([{groups}])\d{{3}}(?:\1\d{{3}})*"
    fraction = rf"(?:{re.escape(decimal)}\d+{power})?"
    return re.compile(rf"[+-]?(?:(?:{digits}){power}|{grouped}{fraction})", re.ASCII)


NUMBERS = [number_pattern(sign) for sign in ".,"]


def numbered_cells(
    path: Path,
    n_columns: int,
    separator: str,
    texts: Collection[int] = (),
    left_out: Collection[int] = (),
    decimal: str | None = None,
    thousands: str | None = None,
) -> tuple[pd.DataFrame, list[str], Sequence[re.Pattern[str]], str]:
    """Read all cells below the names of the columns; the columns get numbers as names.

    Also return remarks on how they were read, the patterns of numbers in this file (each column
    fits one of them), and what to do about the signs of numbers in columns that stay text.

    The whole file has one decimal sign: the given one, or the one that all numbers of a column
    need.  Columns that it does not fit stay text; so do all columns if the sign is unknown.  Cells
    of the columns `texts` are not converted, and are '' if they are empty.  The columns `left_out`
    determine the decimal sign only if no other column does.
    """
    import pandas as pd

    others = [i for i in range(n_columns) if i not in texts]
    how: dict[str, Any] = {"sep": separator, "header": 0, "names": range(n_columns)}
    how |= {"low_memory": False, "na_values": {i: list(NO_FEATURE) for i in others}}
    cells = csv_cells(path, dtype=dict.fromkeys(texts, str), **how)
    for i in texts:
        cells[i] = cells[i].fillna("").str.strip()
    between = [f"column separator {SEPARATORS[separator]}"] if separator != "," else []
    if (encoding := encoding_of(path)) != "utf-8-sig":
        called = "encoding UTF-16" if encoding == "utf-16" else "encoding Latin-1 (it is not UTF-8)"
        between.insert(0, called)
    if not (decimal or thousands or any(_has_signs(cells[i], separator) for i in others)):
        return cells, _read_with(between), NUMBERS, ""
    patterns = {
        sign: number_pattern(sign, thousands)
        for sign in ".,"
        if sign != thousands and decimal in (None, sign)
    }
    spelt = csv_cells(path, dtype=str, **how).astype(object)
    held = {i: spelt[i].dropna().str.strip() for i in others}
    fits = {
        i: {sign for sign in patterns if all(map(patterns[sign].fullmatch, held[i]))}
        for i in others
    }
    needed = set(patterns) if len(patterns) == 1 else set()
    for group in ([i for i in others if i not in left_out], [i for i in others if i in left_out]):
        needed = needed or {sign for i in group if len(fits[i]) == 1 for sign in fits[i]}
    sign = next(iter(needed)) if len(needed) == 1 else "."
    hint = "use one decimal sign in all columns, " if len(needed) > 1 else ""
    known = [patterns[sign]] if len(needed) == 1 else list(patterns.values())
    signs: dict[str, None] = {}
    remarks = []
    for i in others:
        is_number, has_point = _is_number(cells[i]), any("." in text for text in held[i])
        has_comma = any("," in text for text in held[i])
        if not needed and has_comma and fits[i]:
            hint = "use --decimal ',' or --thousands ',', "
        elif is_number and (sign == "." or not has_point):
            if not needed and separator != "," and has_point:
                remarks = [
                    f"{next(text for text in held[i] if '.' in text)} is read with . as the "
                    "decimal sign: if it is the thousands sign, use --thousands ."
                ]
        elif sign in fits[i]:
            if sign == "," and has_comma:
                signs[f"decimal sign '{sign}'"] = None
            matches = [patterns[sign].fullmatch(text) for text in held[i]]
            marks = dict.fromkeys(match[1] for match in matches if match and match[1])
            for mark in marks:
                signs[f"thousands sign {'space' if mark.isspace() else repr(mark)}"] = None
            kept = str.maketrans(sign, ".", "".join(marks))
            numbers = [float(text.translate(kept)) for text in held[i]]
            cells[i] = pd.Series(numbers, held[i].index, dtype=np.float64).reindex(cells.index)
        elif is_number:
            cells[i] = spelt[i]
    return cells, [*_read_with([*between, *signs]), *remarks], known, hint


def _read_with(signs: Sequence[str]) -> list[str]:
    return [f"read with {', '.join(signs)}"] if signs else []


def _is_number(column: pd.Series[Any]) -> bool:
    import pandas as pd

    beyond_64_bits = column.dtype == object and pd.api.types.infer_dtype(column) == "integer"
    return beyond_64_bits or pd.api.types.is_numeric_dtype(column)


def _has_signs(column: pd.Series[Any], separator: str) -> bool:
    """Tell whether a column may have numbers with other signs than in Python.

    If the separator is not a comma, pandas may read these as numbers, such as 1.234.
    """
    held = column.dropna()
    if not _is_number(column):
        return len(held) > 0 and PERHAPS_NUMBER.fullmatch(str(held.iloc[0]).strip()) is not None
    if separator == "," or held.dtype.kind != "f":
        return False
    sizes = np.abs(held[held != 0].to_numpy())
    return bool(
        ((sizes >= 1) & (sizes < 1000)).all() and np.allclose(sizes * 1000, np.rint(sizes * 1000))
    )


def csv_cells(path: Path, **options: Any) -> pd.DataFrame:
    """Read cells with `pandas.read_csv`; by default cells that `MISSING` lists are NaN."""
    import pandas as pd

    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # exact to the last bit, as newer pandas is
    with (
        broken(
            "CSV", "give a line of names, equally many fields in each line, and close each quote"
        ),
        warnings.catch_warnings(action="error", category=pd.errors.ParserWarning),
    ):
        cells: pd.DataFrame = pd.read_csv(
            path,
            encoding=encoding_of(path),
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            **{"na_values": MISSING, **options},
        )
        return cells


def row_pairs(path: Path, names: Sequence[str]) -> Ratings:
    """Read pairs of rows: two names and whether these rows are the same; each pair counts once."""
    cells = _cells_of_rows(path, "two names of rows, and same or different", names)
    said = cells.iloc[:, 2].str.lower()
    if wrong := [i for i, text in enumerate(said) if text not in ANSWERS]:
        raise UsageError(
            f"{path}: line {wrong[0] + 2}: {Text.shown(cells.iloc[wrong[0], 2])} is neither same "
            f"nor different: one of {listed([*ANSWERS])} is needed"
        )
    items = np.sort(_numbers_of_rows(path, cells.iloc[:, :2], names), axis=1)
    marks = said.map(ANSWERS).to_numpy(dtype=bool)
    pairs, first, pair_of_line = np.unique(items, axis=0, return_index=True, return_inverse=True)
    if (other := marks != marks[first][pair_of_line]).any():
        one, two = (Text.shown(names[i]) for i in items[other.argmax()])
        raise UsageError(f"{path}: rows {one} and {two} are marked as the same and as different")
    return Ratings(pairs[:, 0], pairs[:, 1], marks[first][:, None])


def row_triplets(path: Path, names: Sequence[str]) -> JudgedTriplets:
    """Read triplets of rows: the names of a query, of the nearer and of the farther row."""
    cells = _cells_of_rows(path, "the names of a query, a nearer and a farther row", names)
    items = _numbers_of_rows(path, cells, names)
    return JudgedTriplets(items, None, items[:, 0].copy())


def groups_of_pairs(pairs: Ratings, n_rows: int) -> npt.NDArray[np.int64]:
    """Return the group of each row: rows that pairs of the same join, also over others."""
    left, right = pairs.items[pairs.marks[:, 0]].T
    graph = sparse.coo_array((np.ones(len(left)), (left, right)), shape=(n_rows, n_rows))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _cells_of_rows(path: Path, needed: str, names: Sequence[str]) -> pd.DataFrame:
    with named_in_errors(path):
        cells = csv_cells(path, sep=separator_of(path), dtype=str, na_filter=False)
    header = [str(name).strip() for name in cells.columns]
    if len(header) != 3 or cells.empty:
        raise UsageError(
            f"{path} has {len(cells)} lines below the columns {listed(header)}: three columns with "
            f"a line of their names are needed: {needed}"
        )
    if {*header[:2]} <= {*names}:
        raise UsageError(f"{path}: the first line has names of rows: write column names above it")
    return cells.map(str.strip)


def _numbers_of_rows(
    path: Path, cells: pd.DataFrame, names: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return the row number for each name in the cells; a line cannot name a row twice."""
    number = {name: i for i, name in enumerate(names)}
    for line, row in enumerate(cells.itertuples(index=False), 2):
        if unknown := [name for name in row if name not in number]:
            raise UsageError(
                f"{path}: line {line}: no row is called {Text.shown(unknown[0])}: "
                f"the names are {listed(names)}: --name-column says "
                "which column has them (default: rows count from 0)"
            )
        if len({*row}) < len(row):
            raise UsageError(f"{path}: line {line} names a row twice: name different rows")
    return np.array([[number[name] for name in row] for row in cells.to_numpy()], dtype=np.int64)
