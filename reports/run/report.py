"""The report of a run: its tables and figures, and the further values of its page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from oasis_bench.analysis.statistics import detectable_difference
from oasis_bench.reports.formatting import plural, series
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.difference_tables import difference_tables
from oasis_bench.reports.run.facts import (
    class_noun,
    learners,
    sizes,
    subset_label,
    subset_title,
    subsets,
)
from oasis_bench.reports.run.figures import draw_all
from oasis_bench.reports.run.precision_tables import precision_tables
from oasis_bench.reports.run.protocol import protocol_text
from oasis_bench.reports.run.retrieved_images import all_pictures, retrieved
from oasis_bench.reports.run.time_tables import runtime_table, scaling_tables
from oasis_bench.reports.run.trial_tables import (
    selection_table,
    symmetry_tables,
    unfinished_table,
)
from oasis_bench.reports.table import Table
from oasis_bench.store.run_file import RunRecord, read_run

PAGE = "report.html"
OPEN_QUERIES = 2
"""Queries of a subset that are shown at once; the others are folded up."""

MANY_PARTITIONS = 20
"""The page says what difference this number of partitions would show."""


def write_report(folder: Path) -> Path:
    """Make tables, figures and the page of a run from its store alone.

    Parameters
    ----------
    folder : Path
        The run's; 'tables/', 'figures/' and 'report.html' in it are written, each file whole.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    UsageError
        Where the folder holds no run, or cannot be written.
    """
    run = read_run(folder)
    tables = report_tables(run)
    figures = draw_all(run)
    page = render("report.html.j2", tables=tables, figures=figures, **_context(run))
    every = [table for group in tables.values() for table in group]
    return write_files(folder, PAGE, page, every, figures.values())


def report_tables(run: RunRecord) -> dict[str, list[Table]]:
    """Make the tables of the page, by its sections."""
    return {
        "precision": precision_tables(run),
        "differences": difference_tables(run),
        "runtime": [runtime_table(run)],
        "scaling": scaling_tables(run),
        "selection": [selection_table(run)],
        "symmetry": symmetry_tables(run),
        "unfinished": [unfinished_table(run)],
    }


def _context(run: RunRecord) -> dict[str, Any]:
    """Return the values of the page that are not in its tables and figures."""
    e = run.info.experiment
    pictures = all_pictures(run)
    images = next((found for subset in subsets(run) if (found := sizes(run, subset))), None)
    return {
        "e": e,
        "run": run,
        "learners": learners(run),
        "subsets": {
            subset: (subset_title(run, subset), run.info.classes[subset]) for subset in subsets(run)
        },
        "multi_label": run.info.multi_label,
        "scope": _scope(run),
        "images": images,
        "power": _power(e.partitions, images),
        "protocol": protocol_text(run),
        "features": f"{run.trials['n_features'].iloc[0]:,} " if len(run.trials) else "",
        "normalize": run.info.normalize,
        "lost": run.trials[run.trials["status"] != "ok"].to_dict("records"),
        "retrieved": retrieved(run, pictures),
        "pictures": pictures.values(),
        "open_queries": OPEN_QUERIES,
        "sources": run.info.sources,
        "provenance": _provenance(run),
        "command": run.info.command,
    }


def _power(partitions: int, images: tuple[int, int] | None) -> dict[str, Any] | None:
    """Return what differences can be seen, in standard deviations of the paired differences.

    It is the same for all subsets: training and test images both grow with the number of classes.
    """
    if images is None or partitions < 2:
        return None
    return {
        "seen": detectable_difference(partitions, *images),
        "many": MANY_PARTITIONS if partitions < MANY_PARTITIONS else None,
        "seen_by_many": detectable_difference(MANY_PARTITIONS, *images),
        "limit": detectable_difference(math.inf, *images),
    }


def _scope(run: RunRecord) -> str:
    """Say which class subsets the run is of."""
    if run.info.multi_label:
        return series([plural(size, "word") for size in subsets(run).values()])
    return f"{series([subset_label(run, subset) for subset in subsets(run)])} {class_noun(run)}"


def _provenance(run: RunRecord) -> list[dict[str, Any]]:
    """Return what is known of the machine and its load, in groups."""
    info = run.info
    loads = {"load at start": info.load_at_start, "load at end": info.load_at_end}
    known = [{name: load} for name, load in loads.items() if load is not None]
    return [dict(info.provenance), *known]
