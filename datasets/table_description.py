"""What each column of a table holds and is taken for, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Prepare
from oasis_bench.datasets.delimited import MISSING, csv_names, is_text, separator_of
from oasis_bench.datasets.files import refuse_empty
from oasis_bench.datasets.tables import (
    LABEL_COLUMN,
    OTHER_LABEL_COLUMNS,
    Columns,
    drop_option,
    encoded,
    header_doubt,
    is_id,
    parquet_cells,
    text_cells,
    values_of,
)
from oasis_bench.system import Text

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

SHOWN_COLUMNS = 40

SHOWN_CLASSES = 12


def column_lines(path: Path, asked: Columns, aside: str) -> list[str]:
    """Describe the columns of a CSV or Parquet file, a line each; of other files nothing.

    `aside` is what the column ``asked.fold`` is for.
    """
    refuse_empty(path)
    remarks: tuple[str, ...] = ()
    hint = ""
    if is_text(path):
        separator = separator_of(path)
        names = csv_names(path, separator)
        label = _label(names, asked)
        texts = [i for i, name in enumerate(names) if name in (label, asked.fold)]
        dropped = [i for i, name in enumerate(names) if name in asked.drop]
        read, _ = text_cells(path, asked, names, separator, texts, dropped)
        cells, remarks, hint = read.frame, read.remarks, read.hint
        if label in names:
            features = [name for i, name in enumerate(names) if i not in (*texts, *dropped)]
            labels = cells[at := names.index(label)].tolist()
            doubt = header_doubt(names, at, features, labels, read.numbers)
            remarks = (*remarks, doubt) if doubt else remarks
    elif path.suffix.lower() == ".parquet":
        cells = parquet_cells(path)
        names = [str(name) for name in cells.columns]
    else:
        return []
    label = _label(names, asked)
    roles: dict[str | None, str] = {
        **dict.fromkeys(asked.drop, "left out"),
        asked.fold: aside,
        label: "labels",
    }
    shown_names = [shown(name) for name in names[:SHOWN_COLUMNS]]
    width = max(map(len, shown_names))
    lines = [
        f"  {name:<{width}}  "
        + _summary(
            names[i], cells.iloc[:, i], roles.get(names[i].strip()), label is None, hint, asked
        )
        for i, name in enumerate(shown_names)
    ]
    more = len(names) - len(lines)
    how = "".join(f", {remark}" for remark in remarks)
    return [f"columns: {len(names)}{how}", *lines, *([f"  ... and {more} more"] if more else [])]


def _label(names: Sequence[str], asked: Columns) -> str | None:
    """Return the name of the column of labels, where one is asked for or has a usual name."""
    usual = (name for name in (LABEL_COLUMN, *OTHER_LABEL_COLUMNS) if name in names)
    return asked.label or next(usual, None)


def _summary(
    name: str,
    column: pd.Series[Any],
    role: str | None,
    asks_label: bool,
    hint: str,
    asked: Columns,
) -> str:
    """Say what a column is for, what it holds and how much of it is missing."""
    import pandas as pd

    found = None if role else encoded(column)
    how = prepared_as(*found) if found and asked.prepares else ""
    if found and found[1][0] in ("number", "date"):
        column = pd.Series(found[0])
    elif column.dtype == object:
        numbers = None if role else values_of(column)
        column = (
            pd.Series(numbers)
            if isinstance(numbers, np.ndarray)
            else column.map(str, na_action="ignore")  # lists have no hash
        )
    if role not in (None, "left out"):
        column = column.mask(column.isin(MISSING))
    n_distinct, n_missing = column.nunique(), int(column.isna().sum())
    if role == "left out":
        parts = [role]
    elif role is not None:
        parts = [role, f"{n_distinct} different"]
        if role == "labels" and 0 < n_distinct <= SHOWN_CLASSES:
            counts = column.value_counts()
            parts[-1] += (
                f" ({', '.join(f'{Text.printable(str(name))}: {n}' for name, n in counts.items())})"
            )
        elif role == "labels" and n_distinct:
            counts = column.value_counts()
            parts[-1] += f", of {counts.min()} to {counts.max()} rows"
    elif pd.api.types.is_numeric_dtype(column) and n_distinct:
        low, high = float(column.min()), float(column.max())
        is_date = found is not None and found[1][0] == "date"
        ends = [f"{np.datetime64(int(it), 'D')}" if is_date else f"{it:.4g}" for it in (low, high)]
        what = " to ".join(ends) if high > low else f"always {ends[0]}: tells nothing"
        parts = [f"{found[1][0] if found else 'number'}, {what}"]
        if is_id(column.to_numpy()) and not how:
            parts.append(f"all different: an id? {drop_option([name])}")
    elif not n_distinct:
        parts = [f"no value{'' if how else f': {drop_option([name])}'}"]
    else:
        parts = [f"text, {n_distinct} different, such as {shown(column.dropna().iloc[0])}"]
        if not how:
            parts[-1] += f": {hint}--drop it, or make numbers of it"
        if asks_label and 1 < n_distinct <= len(column) // 2:
            parts[-1] += f"; perhaps the label: --label {shlex.quote(name)}"
    missing = [f"{n_missing} missing"] if n_missing else []
    return ", ".join([*parts, *missing]) + (f": {how}" if how else "")


def prepared_as(values: npt.NDArray[Any], column: tuple[str, ...]) -> str:
    """Say what becomes of a column, '' where it stays as it is."""
    kind, n_missing = column[0], np.count_nonzero(np.isnan(values))
    if kind == "constant":
        return "left out, as it is constant"
    if kind == "id":
        return "left out, as an id"
    if kind == "category":
        return f"one-hot, those in fewer than {Prepare.RARE:.0%} of the training rows joined"
    parts = ["days since 1970"] if kind == "date" else []
    if n_missing:
        parts.append("missing ones get the median of the training rows")
        if n_missing >= Prepare.MUCH_MISSING * len(values):
            parts[-1] += " and an indicator"
    return ", ".join(parts)
