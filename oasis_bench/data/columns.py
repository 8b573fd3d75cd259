"""Finds the kind of each column of a table from all its cells, unless the user declares it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import structs

from oasis_bench.data import cells
from oasis_bench.data.schema import Column, Schema
from oasis_bench.system import UsageError, printable, spelled

if TYPE_CHECKING:  # pandas is imported only when used: a trial needs none
    import pandas as pd

Cells: TypeAlias = "pd.Series[Any]"
"""The cells of a column."""

LEAST_IDS = 10

MOSTLY, MOSTLY_ONE_UNIT = 0.5, 0.8
"""With this share of numbers or dates, or of numbers of one unit, other cells are mistakes."""

PERHAPS_NUMBER = re.compile(r"[+-]?[\d.,\s'\u2019]+([eE][+-]?\d+)?")

SAMPLE = 50
"""Number of different cells in which units of numbers and forms of dates are searched."""


class Found(NamedTuple):
    """A column with its numbers, or the reason why it cannot be a feature.

    `problem` is that reason, with a cell; `remark` is a note for the user.
    """

    column: Column
    values: npt.NDArray[Any] | None = None
    problem: str = ""
    remark: str = ""


def find_column(
    name: str, given: Cells, signs: Schema, declared: str | None, is_text_file: bool
) -> Found:
    """Decide the kind of a column.

    `given` has texts and plain numbers, from a text file, or typed values, where texts are not read
    as numbers.  `signs` has the separators of numbers in text, and the words for missing values.
    `declared` is the user's choice: date, category, number, text, or the format of a date.
    """
    import pandas as pd

    kind = cells.kind_of(given)
    is_date = declared is not None and (declared == "date" or "%" in declared)
    if kind == "other":
        types = sorted({type(value).__name__ for value in given[given.notna()]})
        return Found(Column(name), problem=f"values of type {', '.join(types)}: convert them")
    if declared in ("category", "text") or (kind == "category" and declared is None):
        counts = _counts(given, signs)
        return _texts(name, given, signs, counts, is_category=declared != "text")
    if is_date and kind != "date":
        texts = pd.Series(cells.texts_of(given), dtype=object)
        return _declared_date(name, texts, signs, str(declared))
    if declared == "number" and kind in ("text", "category", "mixed"):
        unit = _unit_of(_counts(given, signs))[0]
        return _with_mistakes(Column(name, form=unit, is_declared=True), given, signs)
    if kind == "text":
        texts = pd.Series(cells.texts_of(given), dtype=object)  # of times, too
        return _undeclared_text(name, texts, signs, is_text_file)
    form = cells.ISO if kind == "date" else cells.BOOLEAN * (kind == "boolean")
    column = Column(name, "date" if kind == "date" else "number", form)
    values, wrong = signs.values_of(column, given)
    if kind == "mixed" and wrong:  # a text that is not for a missing value
        return Found(column, problem=_no_number(name, cell_in_row(given, wrong[0])))
    if given.dtype == np.float32:
        values = values.astype(np.float32)
    return _kept(column, values, declared)


def _kept(column: Column, values: npt.NDArray[Any], declared: object = None) -> Found:
    """Return a column with its values; it is left out if it is constant, or counts rows."""
    is_counter = column.kind == "number" and is_id(values) and np.ptp(values) < 2 * len(values)
    kind = "id" if is_counter and declared is None else column.kind
    missing = np.isnan(values)
    if missing.all() or not (missing.any() or (values != values[0]).any()):
        kind = "constant"
    return Found(structs.replace(column, kind=kind), values)


def is_id(values: npt.NDArray[Any]) -> bool:
    """Tell whether a column may be an id: different whole numbers in at least ten rows."""
    if values.dtype.kind not in "iuf" or len(values) < LEAST_IDS:
        return False
    return all(  # the first rows rule out most columns
        bool((np.trunc(part) == part).all()) and len(np.unique(part)) == len(part)
        for part in (values[:100], values)
    )


def _counts(given: Cells, signs: Schema) -> Counter[str]:
    """Count the texts of a column that are not missing."""
    places, distinct = cells.distinct_of(given)
    times = np.bincount(places[places >= 0], minlength=len(distinct)).tolist()
    counts: Counter[str] = Counter()
    for value, n in zip(distinct, times, strict=True):
        text = "" if cells.is_missing(value) else cells.text_of(cells.as_text(value))
        if text not in signs.missing:
            counts[text] += n
    return counts


def _undeclared_text(name: str, given: Cells, signs: Schema, is_text_file: bool) -> Found:
    import pandas as pd

    counts = _counts(given, signs)
    n_cells = counts.total()
    if not n_cells:
        return Found(Column(name, "constant"), np.full(len(given), np.nan))
    unit, share_of_unit = _unit_of(counts)
    forms = [] if unit and share_of_unit >= MOSTLY else _forms_of(counts)
    candidates = [Column(name, "date", form) for form in forms]
    if is_text_file:
        candidates.append(Column(name, form=unit if share_of_unit else cells.BOOLEAN))
    sample = pd.Series([*counts][:SAMPLE], dtype=object)
    wrong_rows: dict[str, int] = {}
    for column in candidates:
        if len(signs.values_of(column, sample)[1]) == len(sample):
            continue
        values, wrong = signs.values_of(column, given)
        if not wrong:
            rivals = forms[forms.index(column.form) + 1 :] if column.kind == "date" else []
            return _ambiguous(column, rivals, values, given, signs) or _kept(column, values)
        if len(wrong) <= (1 - MOSTLY) * n_cells:
            wrong_rows.setdefault(column.kind, wrong[0])
    like_numbers = sum(n for text, n in counts.items() if PERHAPS_NUMBER.fullmatch(text))
    if "date" in wrong_rows and like_numbers < MOSTLY * n_cells:
        cell = cell_in_row(given, wrong_rows["date"])
        return Found(
            Column(name),
            problem=f"{cell} is no date, as others are: {_option(name, 'date')} counts it as "
            f"missing, and {_option(name, 'text')} keeps texts",
        )
    if like_numbers >= MOSTLY * n_cells or (unit and share_of_unit >= MOSTLY_ONE_UNIT):
        if is_text_file:
            cell = _first_no_number(given, counts, unit, signs)
            return Found(Column(name), problem=_no_number(name, cell))
        remark = (
            f"column {shown(name)} has texts, such as {shown(next(iter(counts)))}: if they are "
        )
        remark += f"numbers, use {_option(name, 'number')}"
        return _texts(name, given, signs, counts)._replace(remark=remark)
    return _texts(name, given, signs, counts)


def _texts(
    name: str, given: Cells, signs: Schema, counts: Counter[str], is_category: bool = False
) -> Found:
    """Return a column of texts, which are categories, or ids if most of them are different."""
    n_cells = counts.total()
    is_name = not is_category and n_cells >= LEAST_IDS and len(counts) > n_cells / 2
    if len(counts) < 2 and n_cells in (0, len(given)):
        return Found(Column(name, "constant"), np.full(len(given), np.nan))
    if is_name:
        return Found(Column(name, "id"), np.full(len(given), np.nan))
    column = Column(name, "category", texts=tuple(sorted(counts)))
    return Found(column, signs.values_of(column, given)[0])


def _unit_of(counts: Mapping[str, int]) -> tuple[str, float]:
    """Return the most frequent unit of numbers in a sample, '' for none, and its share."""
    sample, units = [*counts.items()][:SAMPLE], Counter[str]()
    for text, n in sample:
        if (bare := cells.bare_number(text)) is not None:
            units[bare[0]] += n
    if not units:
        return "", 0.0
    ((unit, n_cells),) = units.most_common(1)
    return unit, n_cells / sum(n for _, n in sample)


def _forms_of(counts: Mapping[str, int]) -> list[str]:
    """Return the forms of dates that fit most of a sample of texts, the best first."""
    sample = [*counts][:SAMPLE]
    fits: dict[str, int] = {}
    for form in cells.DATE_FORMS:
        read = cells.date_reader(form)
        wrong = islice((text for text in sample if np.isnan(read(text))), len(sample) // 2 + 1)
        fits[form] = len(sample) - sum(1 for _ in wrong)
    likely = [form for form, n in fits.items() if n >= MOSTLY * len(sample)]
    return sorted(likely, key=lambda form: -fits[form])


def _ambiguous(
    column: Column,
    rivals: list[str],
    values: npt.NDArray[Any],
    given: Cells,
    signs: Schema,
    wrong: Sequence[int] = (),
) -> Found | None:
    """Return a problem if no cell shows whether the day or the month of dates is first.

    `wrong` are the cells that are no date of `column`.
    """
    for form in rivals:
        rival = Column(column.name, "date", form)
        if not wrong and signs.values_of(rival, given.iloc[:SAMPLE])[1]:
            continue
        others, wrong_too = signs.values_of(rival, given)
        unlike = np.abs(values - others) > 0  # not where both are missing
        if [*wrong_too] == [*wrong] and unlike.any():
            row = int(np.argmax(unlike))
            return Found(
                column,
                problem=f"{cell_in_row(given, row)} is {column.form} or {form}: say which with "
                f"{_option(column.name, column.form)}, or keep texts with "
                f"{_option(column.name, 'text')}",
            )
    return None


def _declared_date(name: str, given: Cells, signs: Schema, declared: str) -> Found:
    forms = [declared] if "%" in declared else _forms_of(_counts(given, signs))
    columns = [Column(name, "date", form, is_declared=True) for form in forms]
    if not columns:
        row = int(given.notna().to_numpy().argmax())
        raise UsageError(
            f"{_option(name, 'date')}: {cell_in_row(given, row)} has none of the known forms: give "
            f"the format, such as {_option(name, '%d/%m/%Y')}"
        )
    best = min(columns, key=lambda column: len(signs.values_of(column, given)[1]))
    values, wrong = signs.values_of(best, given)
    rivals = forms[forms.index(best.form) + 1 :]
    found = _ambiguous(best, rivals, values, given, signs, wrong)
    return found or _with_mistakes(best, given, signs)


def _with_mistakes(column: Column, given: Cells, signs: Schema) -> Found:
    """Return a declared column; cells that do not fit are missing, with a remark."""
    values, wrong = signs.values_of(column, given)
    found = _kept(column, values, declared=column.kind)
    if not wrong:
        return found
    if np.isnan(values).all():
        raise UsageError(
            f"{_option(column.name, column.kind)}: no cell is {column.words}: the first is "
            f"{cell_in_row(given, wrong[0])}: declare another kind, or another format"
        )
    are = "cell is" if len(wrong) == 1 else "cells are"
    remark = f"column {shown(column.name)}: {len(wrong)} {are} not {column.words} and count as "
    return found._replace(remark=f"{remark}missing, the first is {cell_in_row(given, wrong[0])}")


def _no_number(name: str, cell: str) -> str:
    """Return the message on a cell that is not a number, with what the user can do."""
    return (
        f"{cell} is no number, as others are: {_option(name, 'number')} counts it as missing, and "
        f"{_option(name, 'text')} makes texts of all"
    )


def _first_no_number(given: Cells, counts: Mapping[str, int], unit: str, signs: Schema) -> str:
    """Name the first cell that is not a number, with the separators that fit most cells."""
    decimals = [signs.decimal] if signs.decimal else [".", ","]
    misses = []
    for decimal in decimals:
        read = cells.number_reader(unit, decimal, signs.thousands)
        misses.append({text for text in counts if np.isnan(read(text))})
    fewest = min(misses, key=len) or {*counts}
    texts = [None if cell is None else cells.text_of(cell) for cell in cells.texts_of(given)]
    return cell_in_row(given, next(row for row, text in enumerate(texts) if text in fewest))


def _option(name: str, kind: str) -> str:
    line = io.StringIO()  # a name with a comma is quoted as in CSV
    csv.writer(line, lineterminator="").writerow([f"{name}={kind}"])
    return spelled("column", line.getvalue())


def cell_in_row(given: Cells, row: int) -> str:
    """Return the name of a cell in messages."""
    return f"{printable(shown(given.iloc[row]))} in row {row + 1}"
