"""Compare two runs of one experiment, number by number: python tests/same_results.py BEFORE AFTER

For a change of the harness that must change no result.  Times, memory, hashes and dates are left
out, and columns that were renamed are matched by `RENAMED`.  Prints a line for each difference; the
exit status is 1 where there is one.  The two runs are of one machine: another may round otherwise.
"""

import sqlite3
import sys
from pathlib import Path

import pandas as pd

RENAMED = {"n_answered": "n_timed_queries"}
"""Columns of the first run by the names that they have in the second."""

NOT_COMPARED = ("trial_id", "run", "finished", "traceback", "processor", "model_bytes")
NOT_COMPARED_ENDINGS = ("_seconds", "_peak_bytes")
TRIAL = ["split", "subset", "partition", "learner"]
"""What names a trial in place of its hash."""


def tables_of(run: Path) -> dict[str, pd.DataFrame]:
    """Read the tables of trials of a run, each row with the names of its trial."""
    store = sqlite3.connect(f"file:{run / 'results.sqlite'}?mode=ro", uri=True)
    names = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name: pd.read_sql(f'SELECT * FROM "{name}"', store) for (name,) in names}
    trials = tables["trials"].set_index("trial_id")[TRIAL]
    found = {}
    for name, table in tables.items():
        if "trial_id" not in table:
            continue
        rows = table if name == "trials" else table.join(trials, on="trial_id")
        left_out = [
            column
            for column in rows
            if column in NOT_COMPARED or column.endswith(NOT_COMPARED_ENDINGS)
        ]
        found[name] = rows.drop(columns=left_out).rename(columns=RENAMED)
    return found


def differences(before: Path, after: Path) -> list[str]:
    """Return a line for each table that is not the same."""
    first, second = tables_of(before), tables_of(after)
    lines = [f"table {name}: in one run alone" for name in sorted(set(first) ^ set(second))]
    for name in sorted(set(first) & set(second)):
        a, b = (
            table.reindex(sorted(table), axis=1).sort_values(sorted(table), ignore_index=True)
            for table in (first[name], second[name])
        )
        if list(a) != list(b):
            lines.append(f"table {name}: columns {sorted(set(a) ^ set(b))} in one run alone")
        elif len(a) != len(b):
            lines.append(f"table {name}: {len(a)} and {len(b)} rows")
        elif not a.equals(b):
            other = (a != b) & ~(a.isna() & b.isna())
            columns = other.any()
            lines.append(
                f"table {name}: {int(other.any(axis=1).sum())} of {len(a)} rows differ in "
                f"{', '.join(columns[columns].index)}"
            )
    return lines


if __name__ == "__main__":
    found = differences(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(found) or "the same")
    sys.exit(bool(found))
