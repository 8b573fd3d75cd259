"""The report of the web-scale experiment, made from the records of its trainings alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.web_scale.figures import draw_all
from oasis_bench.reports.web_scale.measurements import (
    batch_costs,
    checkpoints_of,
    ends_of,
    growths,
    learning_times,
)
from oasis_bench.reports.web_scale.tables import (
    batch_table,
    growth_table,
    precision_table,
    published_table,
    time_table,
)
from oasis_bench.system import UsageError
from oasis_bench.web_scale import TrainingRecord, read_records

PAGE = "web-scale.html"


def write_web_scale_report(folder: Path) -> Path:
    """Make tables, figures and the page of web-scale trainings from their records alone.

    Parameters
    ----------
    folder : Path
        Holds the records; 'tables/', 'figures/' and 'web-scale.html' in it are written, each file
        whole.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    UsageError
        Where the folder holds no record, one that cannot be read or records of data that cannot
        be compared, or where it cannot be written.
    """
    records = [record for record in read_records(folder) if record.checkpoints]
    if not records:
        raise UsageError(
            f"{folder} holds no record of a training: 'web-scale --output {folder}' makes them"
        )
    checkpoints = checkpoints_of(records)
    ends = ends_of(checkpoints)
    times, costs = learning_times(ends), batch_costs(ends)
    grown = growths(times)
    tables = {
        "precision": precision_table(ends),
        "time": time_table(ends),
        "published": published_table(ends, records[0].data),
    }
    if not grown.empty:
        tables["growth"] = growth_table(grown)
    if not costs.empty:
        tables["batches"] = batch_table(costs)
    figures = draw_all(checkpoints, times, grown, costs)
    page = render(
        "web_scale.html.j2",
        tables=tables,
        figures=figures,
        data=records[0].data,
        n_images=int(ends["images"].max()),
        n_queries=sorted(checkpoints["n_queries"].unique()),
        unfinished=int((~ends["complete"]).sum()),
        n_trainings=len(ends),
        machines=_machines(records),
        threads=sorted(checkpoints["threads"].unique()),
        loads=checkpoints["load"].dropna().agg(["min", "max"]).tolist(),
    )
    return write_files(folder, PAGE, page, tables.values(), figures.values())


def _machines(records: Sequence[TrainingRecord]) -> list[dict[str, Any]]:
    """Return the provenance of the first record, and of others the values that differ from it."""
    first = records[0].provenance
    machines = [first]
    for record in records[1:]:
        other = record.provenance
        differing = {
            key: other.get(key) for key in {**first, **other} if other.get(key) != first.get(key)
        }
        if differing and differing not in machines:
            machines.append(differing)
    return machines
