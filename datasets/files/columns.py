"""What the columns of a table hold, for `data describe`: also of one that cannot be used yet."""

from __future__ import annotations

from pathlib import Path
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

from oasis_bench.datasets.files.delimited import (
    ENDINGS,
    csv_names,
    numbered_cells,
    separator_of,
)
from oasis_bench.datasets.files.tables import (
    LABEL_COLUMN,
    OTHER_LABEL_COLUMNS,
    Columns,
    parquet_cells,
    refuse_empty,
)

if TYPE_CHECKING:
    import pandas as pd

SHOWN_COLUMNS = 40


def column_lines(path: Path, asked: Columns) -> list[str]:
    """Describe the columns of a CSV or Parquet file, a line each; of other files nothing.

    Raises
    ------
    UsageError
        Where the file is damaged.
    OSError
        Where it cannot be read.
    """
    refuse_empty(path)
    remark = None
    if path.suffix.lower() in ENDINGS:
        separator = separator_of(path)
        names = csv_names(path, separator)
        cells, remark = numbered_cells(path, len(names), separator)
    elif path.suffix.lower() == ".parquet":
        cells = parquet_cells(path)
        names = [str(name) for name in cells.columns]
    else:
        return []
    label = asked.label or next(
        (name for name in (LABEL_COLUMN, *OTHER_LABEL_COLUMNS) if name in names), None
    )
    roles: dict[str | None, str] = {
        **dict.fromkeys(asked.drop, "left out"),
        asked.fold: "folds",
        label: "labels",
    }
    shown_names = [shown(name) for name in names[:SHOWN_COLUMNS]]
    width = max(map(len, shown_names))
    lines = [
        f"  {name:<{width}}  {_summary(cells.iloc[:, i], roles.get(names[i]))}"
        for i, name in enumerate(shown_names)
    ]
    more = len(names) - len(lines)
    how = "" if remark is None else f", {remark}"
    return [f"columns: {len(names)}{how}", *lines, *([f"  ... and {more} more"] if more else [])]


def _summary(column: pd.Series[Any], role: str | None) -> str:
    """Say what a column is for, what it holds and how much of it is missing."""
    import pandas as pd

    n_distinct, n_missing = column.nunique(), int(column.isna().sum())
    if role == "left out":
        parts = [role]
    elif role is not None:
        parts = [role, f"{n_distinct} different"]
    elif pd.api.types.is_numeric_dtype(column) and n_distinct:
        low, high = float(column.min()), float(column.max())
        what = f"{low:.4g} to {high:.4g}" if high > low else f"always {low:.4g}: tells nothing"
        parts = [f"number, {what}"]
    else:
        first = column.dropna().iloc[0] if n_distinct else ""
        kind = f"text, {n_distinct} different, such as {shown(first)}"
        parts = [f"{kind}: --drop it, or make numbers of it"]
    return ", ".join([*parts, *([f"{n_missing} missing"] if n_missing else [])])
