"""The summary of a run as a notebook shows it: headline tables and first figures, as HTML."""

from __future__ import annotations

from oasis_bench.reports.report_files import render
from oasis_bench.reports.run.cost_figures import cost_figures
from oasis_bench.reports.run.cost_tables import cost_tables
from oasis_bench.reports.run.facts import task_title, tasks
from oasis_bench.reports.run.measure_tables import measure_tables
from oasis_bench.reports.run.summary import summary_text
from oasis_bench.reports.run.task_figures import task_figures
from oasis_bench.runs import StoredRun


def summary_html(run: StoredRun) -> str:
    """Return the summary of a run as a piece of HTML, with its figures, that needs no other file.

    It holds no script, and every value is escaped.  The text of the terminal stands first; a
    task's tables of headlines and the costs are folded up below the figures.
    """
    return render(
        "summary.html.j2",
        title=run.info.experiment.title,
        text=summary_text(run, in_python=True),
        figures=[
            drawing
            for drawings in (*(task_figures(run, task) for task in tasks(run)), cost_figures(run))
            for drawing in drawings
            if drawing.files
        ],
        tables={
            **{task_title(task): measure_tables(run, task)[0] for task in tasks(run)},
            "Costs": cost_tables(run),
        },
    )
