"""Tables in text files, with commas, semicolons or tabs between columns, read by pandas.

Also pairs and triplets of rows.  Not for saying what the columns mean: that is in `tables`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import unicodedata
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from oasis_bench.data import (
    MISSING,
    NO_FEATURE,
    JudgedTriplets,
    Ratings,
    bare_number,
    kind_of,
    number_pattern,
)
from oasis_bench.datasets.files import FEWER, broken, listed, named_in_errors, reason_of
from oasis_bench.system import UsageError, open_regular, quoted, require_memory, spelled

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

Decimal: TypeAlias = Literal["", ".", ","]

DECIMALS: tuple[Decimal, ...] = (".", ",")

ONE_BYTE = ("cp1252", "latin-1")
"""Encodings of texts that are neither UTF-8 nor begin with a mark."""

Cells: TypeAlias = "dict[int, pd.Series[Any]]"
"""The cells of columns, by the place of each column."""

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
"""Column separators, the usual one first, each with its name in messages."""

SAMPLE_BYTES = 65_536
SAMPLE_RECORDS = 10

BYTE_ORDER_MARKS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

ANSWERS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "same"), True),
    **dict.fromkeys(("0", "0.0", "-1", "-1.0", "false", "no", "n", "different"), False),
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


def encoding_of(path: Path, otherwise: str = "cp1252") -> str:
    """Return the encoding of a text: UTF-16 or -32 by its first bytes, UTF-8, or another one.

    All of the file is read: its last line may be the first that is not UTF-8.
    """
    refuse_too_large(path)
    with _unpacked(path) as file:
        start = file.read(4)
    for name, marks in BYTE_ORDER_MARKS.items():
        if start.startswith(marks):
            return name
    for name in ("utf-8-sig", otherwise):
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


@dataclass(frozen=True)
class Layout:
    """How a text is divided into cells.

    `first` is the number of its first line, from 1: that of the names, if it has some.
    """

    path: Path
    encoding: str
    separator: str
    first: int = 1
    has_names: bool = True

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; their numbers, from 1, if they have none."""
        row = self.read(header=None, nrows=1, dtype=str, na_filter=False).loc[0]
        cells = [unicodedata.normalize("NFC", str(name).strip()) for name in row]
        return cells if self.has_names else [f"{i + 1}" for i in range(len(cells))]

    @property
    def remarks(self) -> list[str]:
        """Say what is unusual, for a sentence that begins with 'read with'."""
        called = {"utf-8-sig": "", "utf-16": "encoding UTF-16", "utf-32": "encoding UTF-32"}
        encoding = called.get(self.encoding, "encoding Latin-1 (it is not UTF-8)")
        separator = f"column separator {SEPARATORS.get(self.separator, repr(self.separator))}"
        return [it for it in (encoding, separator if self.separator != "," else "") if it]

    def read(self, **options: Any) -> pd.DataFrame:
        """Read cells with `pandas.read_csv`; by default cells that `MISSING` lists are NaN."""
        import pandas as pd

        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
            options["float_precision"] = "round_trip"  # exact to the last bit, as newer pandas is
        with (
            broken(
                "CSV",
                "give a line of names, equally many fields in each line, and close each quote",
            ),
            warnings.catch_warnings(action="error", category=pd.errors.ParserWarning),
        ):
            found: pd.DataFrame = pd.read_csv(
                self.path,
                sep=self.separator,
                encoding=self.encoding,
                skiprows=self.first - 1,
                index_col=False,
                skipinitialspace=True,
                keep_default_na=False,
                **{"na_values": MISSING, **options},
            )
            return found

    def read_cells(self, texts: Collection[int], only: Collection[int] | None = None) -> Cells:
        """Read columns, all or `only` some, by their places.

        Those in `texts` have texts as they are, and others numbers if all of their cells are plain
        numbers or missing, and otherwise texts.
        """
        columns = range(len(self.names)) if only is None else sorted(only)
        how: dict[str, Any] = {"header": 0 if self.has_names else None, "low_memory": False}
        how |= {"names": range(len(self.names)), "usecols": [*columns]}
        guessed = [i for i in columns if i not in texts]
        missing = {i: [*NO_FEATURE] for i in guessed}
        kinds = {i: str for i in columns if i in texts}
        found = self.read(**how, dtype=kinds, na_values=missing)
        self._check_lines(len(found))
        cells = _by_place(found)
        for i in kinds:
            cells[i] = cells[i].fillna("")
        if spelt := [i for i in guessed if kind_of(cells[i]) != "number"]:
            how["usecols"] = spelt
            cells |= _by_place(self.read(**how, dtype=str, na_filter=False))
        for i in (*kinds, *spelt):
            cells[i] = cells[i].str.strip()
        return cells

    def _check_lines(self, n_rows: int) -> None:
        """Raise UsageError if a line is short, or a quote that is not closed took in other lines.

        A file without quotes whose lines have as many separators as a row needs has neither.
        """
        n_columns = len(self.names)
        n_lines = n_rows + self.has_names
        if self.encoding not in ("utf-16", "utf-32") and self.first == 1:
            sign, n_whole = self.separator.encode(), 0
            with _unpacked(self.path) as file:
                for line in file:
                    if not line.strip():
                        continue
                    if b'"' in line or line.count(sign) != n_columns - 1:
                        break
                    n_whole += 1
            if n_whole == n_lines:
                return
        for number, lines, fields in self._records():
            if len(fields) != n_columns and fields not in ([], [""]):
                raise UsageError(
                    f"line {number} has {len(fields)} field{'s' * (len(fields) != 1)} and the "
                    f"others have {n_columns}: complete it, or leave it out"
                )
            is_like_rows = all(line.count(self.separator) == n_columns - 1 for line in lines)
            if len(lines) > (1 if n_columns > 2 else 3) and is_like_rows:
                raise UsageError(
                    f"line {number} begins a quoted cell of {len(lines)} lines, and each of them "
                    "is like a row: close the quote in it, or remove it"
                )

    def _records(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Yield the number, the lines and the fields of each record."""
        lines: list[str] = []

        def kept(text: Iterable[str]) -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line

        csv.field_size_limit(sys.maxsize)
        with _unpacked(self.path) as raw, io.TextIOWrapper(raw, self.encoding, newline="") as text:
            records = csv.reader(
                kept(islice(text, self.first - 1, None)),
                delimiter=self.separator,
                skipinitialspace=True,
            )
            with broken("CSV"):
                for fields in records:
                    yield self.first + records.line_num - len(lines), lines, fields
                    lines.clear()


def _by_place(found: pd.DataFrame) -> Cells:
    return {int(place): column for place, column in found.items()}  # type: ignore[call-overload]


def layout_of(path: Path, header: str | None = None, otherwise: str = "cp1252") -> Layout:
    """Find out how a text is divided into cells.

    The separator is the one that divides the first lines into equal columns; if several do, it is
    the one with the most columns; among equal ones, the usual one.

    Parameters
    ----------
    path : Path
    header : str, optional
        The number of the line with the names of columns, from 1, or 'none'.
    otherwise : str
        The encoding of a text that is neither UTF-8 nor UTF-16.
    """
    if header is not None and header != "none" and not re.fullmatch("[1-9][0-9]{0,5}", header):
        raise UsageError(f"{spelled('header', header)}: the number of a line, or none")
    encoding = encoding_of(path, otherwise)
    with _unpacked(path) as file:
        raw = file.read(SAMPLE_BYTES)
    text = raw.decode(encoding, errors="replace").removeprefix("\ufeff")
    if len(raw) == SAMPLE_BYTES:  # the last line is not whole
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    first = int(header) if header not in (None, "none") else 1
    said = re.match("sep=(.)\r?\n", text)  # as Excel writes it
    if said and header is None:
        return Layout(path, encoding, said[1], 2)
    lines = "".join(text.splitlines(keepends=True)[first - 1 :])
    divided = {sign: _divides(_n_fields(lines, sign)) for sign in SEPARATORS}
    separator = max(SEPARATORS, key=divided.__getitem__)
    others = [sign for sign in SEPARATORS if sign != "," and divided[sign][0]]
    if separator == "," and others and not re.search(r"(?<!\d),|,(?!\d)", lines):
        separator = max(others, key=divided.__getitem__)  # all commas are within numbers
    if header is None and not divided[separator][0]:
        _refuse_title(lines)
    return Layout(path, encoding, separator, first, header != "none")


def _n_fields(text: str, separator: str) -> list[int]:
    """Count the fields of the first records; nothing if they cannot be divided so."""
    records = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    csv.field_size_limit(sys.maxsize)
    try:
        return [len(fields) for fields in islice(filter(None, records), SAMPLE_RECORDS)]
    except csv.Error:
        return []


def _divides(n_fields: Sequence[int]) -> tuple[bool, int]:
    """Say whether records are divided alike, and into how many columns."""
    n_columns = n_fields[0] if n_fields else 0
    return n_columns > 1 and all(n == n_columns for n in n_fields), n_columns


def _refuse_title(text: str) -> None:
    """Raise UsageError if lines with fewer fields are above a table."""
    lines = text.splitlines()[:SAMPLE_RECORDS]
    for separator in SEPARATORS:
        n_fields = _n_fields(text, separator)[:1]
        for above in range(1, len(lines) - 1):
            below = _n_fields("\n".join(lines[above:]), separator)
            if lines[above].strip() and _divides(below)[0] and n_fields < below[:1]:
                raise UsageError(
                    f"its table seems to begin in line {above + 1}: give "
                    f"{spelled('header', str(above + 1))}"
                )


def decimal_of(
    columns: Iterable[pd.Series[Any]], decimal: str | None, thousands: str | None
) -> Decimal:
    """Return the decimal sign that all numbers of a column need, '' if no column shows it."""
    patterns = _patterns(decimal, thousands)
    fits = [_fitting(_bare(column), patterns) for column in columns]
    needed = {sign for found in fits if len(found) == 1 for sign in found}
    if len(patterns) == 1:
        needed = {*patterns}
    return next(iter(needed)) if len(needed) == 1 else ""


def _patterns(decimal: str | None, thousands: str | None) -> dict[Decimal, re.Pattern[str]]:
    """Return the patterns of numbers with each decimal sign that is possible."""
    return {
        sign: number_pattern(sign, thousands or "")
        for sign in DECIMALS
        if sign != thousands and decimal in (None, sign)
    }


def _fitting(numbers: list[str], patterns: Mapping[Decimal, re.Pattern[str]]) -> set[Decimal]:
    """Return the decimal signs with which all cells are numbers."""
    return {sign for sign in patterns if all(map(patterns[sign].fullmatch, numbers))}


def find_signs(
    layout: Layout,
    found: Cells,
    texts: Collection[int],
    left_out: Collection[int],
    decimal: str | None,
    thousands: str | None,
) -> tuple[Decimal, list[str], str]:
    """Find the decimal sign of numbers in text; turn columns that need it into texts.

    It is '' if no cell shows it.  Also return remarks on what was found, and a hint on what the
    user can do if it is not known.

    The whole file has one decimal sign: the given one, or the one that all numbers of a column
    need.  Columns that are not `texts` are looked at; those in `left_out` determine the sign only
    if no other column does.
    """
    others = [i for i in found if i not in texts]
    plain = [i for i in others if kind_of(found[i]) == "number"]
    cells_of = {i: found[i] for i in others if i not in plain}
    patterns = _patterns(decimal, thousands)
    held: dict[int, list[str]] = {}
    fits: dict[int, set[Decimal]] = {}
    unsure = [i for i in plain if decimal or thousands or _has_signs(found[i], layout.separator)]
    with_points = [i for i in plain if i not in unsure and found[i].dtype.kind == "f"]
    needed = set(patterns) if len(patterns) == 1 else set()
    for looked_at in ([*cells_of, *unsure], with_points):
        if again := [i for i in looked_at if i in plain]:
            cells_of |= layout.read_cells(again, again)
        for i in looked_at:
            held[i] = _bare(cells_of[i])
            fits[i] = _fitting(held[i], patterns)
        of_one = [i for i in held if len(fits[i]) == 1 < len(patterns)]
        of_features = [i for i in of_one if i not in left_out]
        needed |= {it for i in of_features or of_one for it in fits[i]}
        if "," not in needed:
            break  # plain numbers fit
    sign: Decimal = next(iter(needed)) if len(needed) == 1 else ""
    hint = "use one decimal sign in all columns, " if len(needed) > 1 else ""
    signs: dict[str, None] = {}
    remarks = []
    for i, bare in held.items():
        has_point = any("." in text for text in bare)
        has_comma = any("," in text for text in bare)
        if not needed and has_comma and fits[i]:
            hint = f"use {spelled('decimal')} ',' or {spelled('thousands')} ',', "
        elif (
            (i in unsure or len(fits[i]) > 1)
            and not needed
            and layout.separator != ","
            and has_point
        ):
            remarks = [
                f"{next(text for text in bare if '.' in text)} is read with . as the "
                f"decimal sign: if it is the thousands sign, use {spelled('thousands', '.')}"
            ]
        elif (sign or ".") in fits[i]:
            if sign == "," and has_comma:
                signs[f"decimal sign '{sign}'"] = None
            matches = [patterns[sign or "."].fullmatch(text) for text in bare]
            for mark in dict.fromkeys(match[1] for match in matches if match and match[1]):
                signs[f"thousands sign {'space' if mark.isspace() else repr(mark)}"] = None
        if i in plain and sign == "," and has_point:
            found[i] = cells_of[i]
    if read_with := [*layout.remarks, *signs]:
        remarks.insert(0, f"read with {', '.join(read_with)}")
    return sign, remarks, hint


def _bare(column: pd.Series[Any]) -> list[str]:
    """Return the different cells of a column that are not missing, without a unit of all."""
    held = [text for text in column.unique().tolist() if text not in NO_FEATURE]
    units, numbers = set(), []
    for text in held:
        if (bare := bare_number(text)) is None:
            return held
        units.add(bare[0])
        numbers.append(bare[1])
    return numbers if len(units) == 1 else held


def _has_signs(column: pd.Series[Any], separator: str) -> bool:
    """Tell whether a column of numbers may be written with other signs than in Python.

    If the separator is not a comma, pandas may read 1.234 so.
    """
    if separator == "," or column.dtype.kind != "f":
        return False
    sizes = np.abs(column[column.notna() & (column != 0)].to_numpy())
    return bool(
        ((sizes >= 1) & (sizes < 1000)).all() and np.allclose(sizes * 1000, np.rint(sizes * 1000))
    )


def row_pairs(path: Path, names: Sequence[str]) -> Ratings:
    """Read pairs of rows: two names and whether these rows are the same; each pair counts once."""
    cells = _cells_of_rows(path, "two names of rows, and same or different", names)
    said = cells.iloc[:, 2].str.lower()
    if wrong := [i for i, text in enumerate(said) if text not in ANSWERS]:
        raise UsageError(
            f"{path}: line {wrong[0] + 2}: {quoted(cells.iloc[wrong[0], 2])} is neither same "
            f"nor different: one of {listed([*ANSWERS])} is needed"
        )
    items = np.sort(_numbers_of_rows(path, cells.iloc[:, :2], names), axis=1)
    marks = said.map(ANSWERS).to_numpy(dtype=bool)
    pairs, first, pair_of_line = np.unique(items, axis=0, return_index=True, return_inverse=True)
    if (other := marks != marks[first][pair_of_line]).any():
        one, two = (quoted(names[i]) for i in items[other.argmax()])
        raise UsageError(
            f"{path}: rows {one} and {two} are marked as the same and as different: leave out one "
            "of the two lines"
        )
    return Ratings(pairs[:, 0], pairs[:, 1], marks[first][:, None])


def row_triplets(path: Path, names: Sequence[str]) -> JudgedTriplets:
    """Read triplets of rows: the names of a query, of the nearer and of the farther row."""
    cells = _cells_of_rows(path, "the names of a query, a nearer and a farther row", names)
    items = _numbers_of_rows(path, cells, names)
    return JudgedTriplets(items, None, items[:, 0].copy())


def groups_of_pairs(pairs: Ratings, n_rows: int) -> npt.NDArray[np.int64]:
    """Return the group of each row: rows that pairs of the same join, also over others."""
    return pairs.part(pairs.marks[:, 0]).joined(n_rows)


def contradictions(pairs: Ratings, names: Sequence[str]) -> list[str]:
    """Say which pairs are different although others join their rows."""
    groups = groups_of_pairs(pairs, len(names))
    left, right = pairs.items.T
    wrong = np.flatnonzero((groups[left] == groups[right]) & ~pairs.marks[:, 0])
    if not len(wrong):
        return []
    one, two = (quoted(names[i]) for i in pairs.items[wrong[0]])
    are = "pair is" if len(wrong) == 1 else "pairs are"
    return [
        f"{len(wrong)} {are} marked as different, but pairs of the same join their rows over other "
        f"rows: the first is {one} and {two}"
    ]


def _cells_of_rows(path: Path, needed: str, names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    with named_in_errors(path):
        layout = layout_of(path)
        found = pd.DataFrame(layout.read_cells(range(len(layout.names))))
    header = layout.names
    if len(header) != 3 or found.empty:
        raise UsageError(
            f"{path} has {len(found)} lines below the columns {listed(header)}: three columns with "
            f"a line of their names are needed: {needed}"
        )
    if {*header[:2]} <= {*names}:
        raise UsageError(f"{path}: the first line has names of rows: write column names above it")
    return found


def _numbers_of_rows(
    path: Path, cells: pd.DataFrame, names: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return the row number for each name in the cells; a line cannot name a row twice.

    Other programs may have written whole numbers as 0.0, 1.0 and so on.
    """
    number = {name: i for i, name in enumerate(names)}
    number = {f"{name}.0": i for name, i in number.items() if name.isdecimal()} | number
    for line, row in enumerate(cells.itertuples(index=False), 2):
        if unknown := [name for name in row if name not in number]:
            raise UsageError(
                f"{path}: line {line}: no row is called {quoted(unknown[0])}: "
                f"the names are {listed(names)}: {spelled('name_column')} says "
                "which column has them (default: rows count from 0)"
            )
        if len({number[name] for name in row}) < len(row):
            raise UsageError(f"{path}: line {line} names a row twice: name different rows")
    return np.array([[number[name] for name in row] for row in cells.to_numpy()], dtype=np.int64)
