"""A table is a list of columns over a frame of numbers: its cells, its notes, its CSV and LaTeX.

How reports write numbers and lists: seconds, hyper-parameters, shortened texts.

The template `macros.html.j2` makes its HTML.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from oasis_bench.system import encodable, printable

# Besides LaTeX's special characters: brackets and the star, which LaTeX would read as an option of
# the end of the row before, and characters that the fonts of plain LaTeX lack.
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "–": "--",
        "†": r"\dag{}",
        "…": r"\ldots{}",
        **{char: f"\\{char}" for char in "%_&#${}"},
        **{char: f"{{{char}}}" for char in "[]*"},
    }
)

CONTROLS = {*range(0x20), *range(0x7F, 0xA0), 0xFFFE, 0xFFFF} - {*map(ord, "\n\t\r")}
DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F}
REPLACED = dict.fromkeys(CONTROLS | DIRECTIONS, "\ufffd")
"""What XML may not have or a terminal obeys, and marks that order or turn the text after them."""

LONE_RETURN = re.compile(r"\r(?!\n)")

FORMULA = frozenset("=+-@\t\r")
"""What a formula of a spreadsheet begins with."""

WIDE = 24
"""Characters of a cell from which it may be broken into lines."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


SUMMARY_WIDTH = 110
"""Characters of a line in a terminal."""


@dataclass(frozen=True)
class Cell:
    """A cell that is more than its text: it is bold, or has footnotes or a link."""

    text: str
    bold: bool = False
    notes: tuple[str, ...] = ()
    link: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its header, the values of its rows, and how each is written.

    A value that is a `Cell` already stays as it is; `align` is 'l' or 'r'.
    """

    header: str
    values: Iterable[Any]
    text: Callable[[Any], str] = str
    align: str = "r"

    @cached_property
    def cells(self) -> list[Cell]:
        """Its cells, from the first row to the last."""
        return [it if isinstance(it, Cell) else Cell(self.text(it)) for it in self.values]


@dataclass(frozen=True)
class Table:
    """A table as a report shows it, with its numbers.

    Attributes
    ----------
    name : str
        The stem of its files.
    title : str
    columns : sequence of Column
    numbers : DataFrame
        Raw and tidy, for the CSV file.
    notes : sequence of str
        Notes on the whole table; they are below the footnotes of the cells.
    of : mapping of str to str
        What the whole table is about, such as its task.  A page can be filtered by it.
    """

    name: str
    title: str
    columns: Sequence[Column]
    numbers: pd.DataFrame
    notes: Sequence[str] = ()
    of: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The headers of the columns."""
        return tuple(column.header for column in self.columns)

    @cached_property
    def align(self) -> str:
        """'l' or 'r' for each column."""
        return "".join(column.align for column in self.columns)

    @property
    def row_header(self) -> int:
        """The column that names a row: that of the learners, else the first."""
        return self.header.index("Learner") if "Learner" in self.header else 0

    @cached_property
    def cells(self) -> list[tuple[Cell, ...]]:
        """The rows."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @cached_property
    def footnotes(self) -> dict[str, str]:
        """The mark of each footnote by its text, in the order of the cells: a, b, ... z, aa, bb."""
        texts = dict.fromkeys(note for row in self.cells for cell in row for note in cell.notes)
        return {
            text: chr(ord("a") + number % 26) * (number // 26 + 1)
            for number, text in enumerate(texts)
        }

    @property
    def marked_notes(self) -> list[tuple[str, str]]:
        """Every note with its mark, which is '' for a note on the whole table."""
        footnotes = [(mark, text) for text, mark in self.footnotes.items()]
        return [*footnotes, *(("", text) for text in self.notes)]

    def css_class(self, column: int, cell: Cell) -> str:
        """Return the classes of a cell, short or none: a page may have many thousand cells.

        They are 'r' if it is aligned to the right, 'w' for a wide one, 'b' for bold.
        """
        names = {"r": self.align[column] == "r", "w": len(cell.text) > WIDE, "b": cell.bold}
        return " ".join(name for name, has in names.items() if has)

    def marks(self, cell: Cell) -> str:
        """Return the marks of a cell's footnotes, such as 'a,c'."""
        return ",".join(self.footnotes[note] for note in cell.notes)


def to_latex(table: Table) -> str:
    """Write a table as a plain LaTeX tabular, which needs no package, with its notes below.

    Whatever is in the cells is text, never a command.
    """
    lines = [
        f"% {_one_line(table.title)}",
        f"\\begin{{tabular}}{{{table.align}}}",
        r"\hline",
        _latex_row(table, [Cell(text, bold=True) for text in table.header]),
        r"\hline",
        *(_latex_row(table, row) for row in table.cells),
        r"\hline",
        r"\end{tabular}",
    ]
    for mark, text in table.marked_notes:
        sign = f"\\textsuperscript{{{mark}}} " if mark else ""
        lines.append(f"\\par\\noindent{{\\footnotesize {sign}{latex_text(text)}\\par}}")
    return "\n".join(lines) + "\n"


def to_csv(table: pd.DataFrame, **how: Any) -> bytes:
    """Write a data frame as CSV, `for_spreadsheets`."""
    text: str = for_spreadsheets(table).to_csv(index=False, **how)
    return text.encode()


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame whose texts a spreadsheet shows as they are, for a CSV file.

    A text that a spreadsheet would take for a formula begins with an apostrophe, as OWASP advises.
    """
    guarded = table.copy(deep=False)
    for name, column in table.items():
        if not is_numeric_dtype(column):
            guarded[name] = pd.Series(map(_guarded, column), index=table.index, dtype=object)
    guarded.columns = pd.Index(map(_guarded, table.columns))
    return guarded


def _guarded(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = page_text(value)
    is_formula = text[:1] in FORMULA and len(text) > 1 and not NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def page_text(text: str) -> str:
    """Return a text that is harmless in a page, a figure or a CSV file, whatever is in it.

    A return that no new line follows would end a row of CSV: pandas does not quote it.
    """
    return encodable(LONE_RETURN.sub("\ufffd", text.translate(REPLACED)))


def _one_line(text: str) -> str:
    """Return a text with spaces for control characters, which would end a line or a comment."""
    return "".join(char if char.isprintable() else " " for char in text)


def latex_text(text: str) -> str:
    """Return a text as LaTeX that shows it, whatever is in it."""
    return _one_line(text).translate(LATEX)


def _latex_row(table: Table, row: Sequence[Cell]) -> str:
    texts = []
    for cell in row:
        text = latex_text(cell.text)
        text = f"\\textbf{{{text}}}" if cell.bold and text else text
        texts.append(text + (f"\\textsuperscript{{{table.marks(cell)}}}" if cell.notes else ""))
    return " & ".join(texts) + r" \\"


def clip(text: str, width: int) -> str:
    """Shorten `text` to `width` characters; the last one is an ellipsis if it is shortened."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Write a number of things: '1 trial', '2 trials'."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def series(items: Sequence[str]) -> str:
    """Write a list of things: 'a, b and c'."""
    return " and ".join([part for part in (", ".join(items[:-1]), *items[-1:]) if part])


def some(items: Sequence[str]) -> str:
    """Write a list of things as `series` does, but of more than four only the first three."""
    return series(items if len(items) <= 4 else [*items[:3], f"{len(items) - 3} more"])


def number_text(value: float, pattern: str, missing: str = "n/a") -> str:
    """Write a number by a pattern of `str.format`, or `missing` for NaN."""
    return missing if pd.isna(value) else pattern.format(value)


def numbers_as(pattern: str, missing: str = "n/a") -> Callable[[float], str]:
    """Return what writes the numbers of a column, as `number_text` does."""
    return lambda value: number_text(value, pattern, missing)


def interval_text(low: float, high: float) -> str:
    """Write an interval, or '-' if the ends are NaN."""
    return "-" if pd.isna(low) else f"{low:z.3f} to {high:z.3f}"


def seconds_text(seconds: float) -> str:
    """Write seconds with two or three digits."""
    if 0 < seconds < 0.01:
        return f"{seconds:.2g}"
    digits = next((n for bound, n in ((1, 3), (10, 2), (100, 1)) if seconds < bound), 0)
    return number_text(seconds, f"{{:,.{digits}f}}") if seconds else "0"


def p_text(p_value: float) -> str:
    """Write a p-value with two digits; '< 0.0001' below that, '-' for NaN."""
    if math.isnan(p_value):
        return "-"
    if p_value < 1e-4:
        return "< 0.0001"
    return f"{p_value:#.2g}" if p_value < 0.1 else f"{p_value:.2f}"


def params_text(params: str) -> str:
    """Write hyper-parameters, given as JSON, as 'name=value, ...'."""
    return ", ".join(f"{name}={value}" for name, value in json.loads(params).items()) or "none"


def counted(texts: Iterable[str]) -> str:
    """Write each different text once, with its count if there are several."""
    numbers = Counter(texts).most_common()
    return "; ".join(f"{text} ({number})" if numbers[1:] else text for text, number in numbers)


def wrapped(text: str) -> list[str]:
    """Cut a text into lines of at most 110 characters; paths with hyphens stay whole."""
    return textwrap.wrap(
        printable(text, keep="\u00a0"),
        SUMMARY_WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def aligned(lines: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """Pad the cells of each column to one width; the columns `left` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def table_lines(table: Table, bold: str = "", least: int = 8) -> list[str]:
    """Write a table without its notes as text of at most 110 columns; labels are cut for that.

    At least this number of characters of a label is left.  `bold` follows a bold cell.
    """
    at, width = table.row_header, SUMMARY_WIDTH
    rows = [list(table.header)]
    rows += [
        [printable(it.text, keep="\u00a0") + bold * it.bold for it in row] for row in table.cells
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(least, width - sum(widths) + widths[at] - 2 * (len(widths) - 1))
    for row in rows:
        row[at] = clip(row[at], room)
    left = {number for number, side in enumerate(table.align) if side == "l"}
    return aligned(rows, left)
