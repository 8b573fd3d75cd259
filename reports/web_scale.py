"""The report of the web-scale experiment: what its page says beside its tables and figures.

Not for the trainings, which `oasis_bench.web_scale.training` makes and keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oasis_bench.reports.page import render, write_files
from oasis_bench.reports.web_scale_figures import draw_all
from oasis_bench.reports.web_scale_reading import batch_costs, checkpoints_of, ends_of, growths
from oasis_bench.reports.web_scale_tables import (
    batch_table,
    growth_table,
    precision_table,
    time_table,
)
from oasis_bench.system.errors import UsageError
from oasis_bench.web_scale.training import TrainingRecord, read_records, refuse_other_data

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
    refuse_other_data(records[0].data, folder)
    checkpoints = checkpoints_of(records)
    ends = ends_of(checkpoints)
    grown, costs = growths(ends), batch_costs(ends)
    tables = {"precision": [precision_table(ends)], "time": [time_table(ends)]}
    tables["growth"] = [growth_table(grown)] if grown else []
    tables["batches"] = [batch_table(costs)] if costs else []
    figures = draw_all(checkpoints, grown, costs)
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
    every = [table for group in tables.values() for table in group]
    return write_files(folder, PAGE, page, every, figures.values())


def _machines(records: Sequence[TrainingRecord]) -> list[dict[str, Any]]:
    """Return the provenance of the records: the first whole, of others what differs from it."""
    first, found = records[0].provenance, [records[0].provenance]
    for record in records:
        if record.provenance not in found:
            found.append(record.provenance)
    return [
        first,
        *(
            {key: each.get(key) for key in {**first, **each} if each.get(key) != first.get(key)}
            for each in found[1:]
        ),
    ]
