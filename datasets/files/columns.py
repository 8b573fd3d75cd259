"""What the columns of a table hold, for `data describe`: also of one that cannot be used yet."""

from __future__ import annotations

import shlex
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
    drop_option,
    is_id,
    parquet_cells,
    refuse_empty,
)
from oasis_bench.system import printable

if TYPE_CHECKING:
    import pandas as pd

SHOWN_COLUMNS = 40
SHOWN_CLASSES = 12


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
        f"  {name:<{width}}  "
        + _summary(names[i], cells.iloc[:, i], roles.get(names[i]), label is None)
        for i, name in enumerate(shown_names)
    ]
    more = len(names) - len(lines)
    how = "" if remark is None else f", {remark}"
    return [f"columns: {len(names)}{how}", *lines, *([f"  ... and {more} more"] if more else [])]


def _summary(name: str, column: pd.Series[Any], role: str | None, asks_label: bool) -> str:
    """Say what a column is for, what it holds and how much of it is missing."""
    import pandas as pd

    n_distinct, n_missing = column.nunique(), int(column.isna().sum())
    if role == "left out":
        parts = [role]
    elif role is not None:
        parts = [role, f"{n_distinct} different"]
        if role == "labels" and 0 < n_distinct <= SHOWN_CLASSES:
            counts = column.value_counts()
            parts[-1] += (
                f" ({', '.join(f'{printable(str(name))}: {n}' for name, n in counts.items())})"
            )
        elif role == "labels" and n_distinct:
            counts = column.value_counts()
            parts[-1] += f", of {counts.min()} to {counts.max()} rows"
    elif pd.api.types.is_numeric_dtype(column) and n_distinct:
        low, high = float(column.min()), float(column.max())
        what = f"{low:.4g} to {high:.4g}" if high > low else f"always {low:.4g}: tells nothing"
        parts = [f"number, {what}"]
        if is_id(column.to_numpy()):
            parts.append(f"all different: an id? {drop_option([name])}")
    else:
        first = column.dropna().iloc[0] if n_distinct else ""
        kind = f"text, {n_distinct} different, such as {shown(first)}"
        parts = [f"{kind}: --drop it, or make numbers of it"]
        if asks_label and 1 < n_distinct <= len(column) // 2:
            parts[-1] += f"; perhaps the label: --label {shlex.quote(name)}"
    return ", ".join([*parts, *([f"{n_missing} missing"] if n_missing else [])])
