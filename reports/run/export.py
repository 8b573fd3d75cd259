"""A run's numbers for other programs: the store as CSV or Parquet, the report's tables as LaTeX."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from oasis_bench.reports.run.report import report_tables
from oasis_bench.reports.run.result_rows import result_rows
from oasis_bench.reports.table import to_csv, to_latex
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import EXPORT, UsageError, encodable, exporting_to, path_below, write_whole


def export_run(folder: Path, kind: str, output: Path | None = None) -> list[Path]:
    """Write a run's numbers as files, each whole; those of an earlier export are replaced.

    Parameters
    ----------
    folder : Path
        The run's.
    kind : {'csv', 'parquet', 'latex', 'summary'}
        CSV and Parquet: a file for each table of the store.  Tables with rows of each trial also
        have the columns learner, subset, partition and split.  The values of the table `run` are
        JSON.  Pictures are JPEG, in CSV as base64.  LaTeX: a file for each table of the report;
        those whose name ends in _every hold every measure.  Summary: one CSV file, named
        after the run's folder, of `run.result_rows`, whose numbers have six digits.
    output : Path, optional
        The folder of the files; 'export' in the run's if not given.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    UsageError
        Where there is no run, pyarrow is missing, or the folder cannot be written.
    """
    output = path_below(folder, EXPORT) if output is None else output
    run = read_run(folder)
    if kind == "summary":
        content = to_csv(result_rows(run), float_format="%.6g")
        files = {f"{folder.resolve().name}.csv": content}
    else:
        files = KINDS[kind](run)
    with exporting_to(output):
        for name, content in files.items():
            write_whole(output, name, content)
    return [output / name for name in files]


def _tables(run: StoredRun) -> dict[str, pd.DataFrame]:
    """Return every table of the store, by its name, with the types that it is stored in."""
    info = [(key, json.dumps(value)) for key, value in run.info.to_json().items()]
    return {
        "run": pd.DataFrame(info, columns=["key", "value"], dtype="string"),
        **run.typed_tables(),
    }


def _csv(run: StoredRun) -> dict[str, bytes]:
    tables = _tables(run)
    thumbnails = tables["pictures"]["thumbnail"]
    tables["pictures"]["thumbnail"] = [
        None if jpeg is None else base64.b64encode(jpeg).decode() for jpeg in thumbnails
    ]
    return {f"{name}.csv": to_csv(table) for name, table in tables.items()}


def _parquet(run: StoredRun) -> dict[str, bytes]:
    files = {}
    for name, table in _tables(run).items():
        content = io.BytesIO()
        try:
            table.to_parquet(content, engine="pyarrow", index=False)
        except ImportError as error:
            raise UsageError(
                'pyarrow, which writes Parquet, is missing: pip install "oasis-bench[parquet]"'
            ) from error
        files[f"{name}.parquet"] = content.getvalue()
    return files


def _latex(run: StoredRun) -> dict[str, bytes]:
    return {f"{it.name}.tex": encodable(to_latex(it)).encode() for it in report_tables(run)}


KINDS: dict[str, Callable[[StoredRun], dict[str, bytes]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "latex": _latex,
}
