"""The page of a run, its tables and figures, and what a notebook shows of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from oasis_bench.reports.figures import (
    partition_figures,
    quality_against_time,
    space_figures,
    step_figures,
    task_figures,
)
from oasis_bench.reports.measures import (
    confusion_tables,
    difference_tables,
    measure_tables,
    published_beside,
)
from oasis_bench.reports.protocol import measure_words, methods
from oasis_bench.reports.ratings import rating_tables, read_ratings
from oasis_bench.reports.report_files import data_uri, render, write_files
from oasis_bench.reports.table import Table
from oasis_bench.reports.terminal import summary_text
from oasis_bench.reports.trials import (
    cost_tables,
    selection_table,
    trials_table,
    unanswered_table,
    unfinished_table,
)
from oasis_bench.reports.verdict import answers, next_steps
from oasis_bench.reports.view import RunView, task_title, view_of
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import open_below, printable
from oasis_bench.trial import CLOCK_IN_WORDS, OUTPUT_LOG

PAGE = "report.html"
SHOWN_RANKS = 5
"""Of what an example query retrieves a report shows so many, best first; the store has more."""

OPEN_QUERIES = 2
"""Queries of a subset that are shown at once; the others are folded up."""

LOG_WIDTH = 20_000
"""Bytes of the log that the page shows, the last ones."""


def write_report(folder: Path, baseline: str | None = None, run: StoredRun | None = None) -> Path:
    """Make tables, figures and the page of a run from its store alone, which `run` holds if read.

    'tables/', 'figures/' and 'report.html' are written into its folder, each file whole; what
    raters said is read from 'ratings.csv' there.  Differences are taken from the learner
    `baseline`; from the best in tables, and Euclidean or the first in figures, if not given.
    """
    view = view_of(read_run(folder) if run is None else run)
    view.find_baseline(baseline)  # raises
    chapters = [_chapter(view, task, baseline) for task in view.tasks]
    ratings = read_ratings(folder)
    tables = _tables(view)
    tables["ratings"] = [] if ratings is None else rating_tables(view, ratings)
    makers = {"steps": step_figures, "space": space_figures}
    figures = {name: make(view) for name, make in makers.items()}
    named = None if baseline is None else view.marked(baseline)
    parts: dict[str, Any] = {
        "chapters": chapters,
        "tables": tables,
        "figures": figures,
        "baseline": named,
    }
    page = render("report.html.j2", **parts, **_context(view), log=_log(folder))
    drawings = [it for one in chapters for it in (*one["against_time"], *one["figures"])]
    drawings += [it for group in figures.values() for it in group]
    return write_files(folder, PAGE, page, _every_table(chapters, tables), drawings)


def _log(folder: Path) -> str:
    """Return the end of what learners printed during a run; '' where they printed nothing."""
    try:
        with open_below(folder, OUTPUT_LOG) as file:
            file.seek(-min(LOG_WIDTH, file.seek(0, os.SEEK_END)), os.SEEK_END)
            text = file.read(LOG_WIDTH).decode("utf-8", errors="replace")
    except OSError:
        return ""
    return printable(text.strip(), keep="\n")


def report_tables(view: RunView) -> list[Table]:
    """Make all tables of the report."""
    return _every_table([_chapter(view, task) for task in view.tasks], _tables(view))


def _chapter(view: RunView, task: str, baseline: str | None = None) -> dict[str, Any]:
    """Return what the page shows of one task."""
    source = view.info.sources.tasks[task]
    names = view.measures[task]["measure"].unique()
    words = {name: text for name in names if (text := measure_words(view, task, name))}
    of_headlines, of_every = measure_tables(view, task)
    unanswered = unanswered_table(view, task)
    return {
        "task": task,
        "title": task_title(task),
        "source": source,
        "words": words,
        "headlines": of_headlines,
        "every": of_every,
        "differences": difference_tables(view, task, baseline),
        "confusion": confusion_tables(view, task),
        "unanswered": [unanswered] if unanswered.cells else [],
        "against_time": quality_against_time(view, task),
        "figures": [*task_figures(view, task), *partition_figures(view, task, baseline)],
    }


def _tables(view: RunView) -> dict[str, list[Table]]:
    """Make the tables that are not of one task, by the sections of the page."""
    return {
        "published": published_beside(view),
        "costs": cost_tables(view),
        "selection": [selection_table(view)],
        "unfinished": [unfinished_table(view)],
        "trials": [trials_table(view)],
    }


def _every_table(
    chapters: Sequence[Mapping[str, Any]], tables: Mapping[str, Sequence[Table]]
) -> list[Table]:
    groups = ("headlines", "every", "differences", "confusion", "unanswered")
    of_tasks = [table for chapter in chapters for name in groups for table in chapter[name]]
    return [*of_tasks, *(table for group in tables.values() for table in group)]


def _context(view: RunView) -> dict[str, Any]:
    """Return the values of the page that are not in its tables and figures."""
    e, trials = view.experiment, view.stored.trials
    queries = retrieved(view)
    text, latex, bibtex = methods(view)
    return {
        "e": e,
        "run": view.stored,
        "learner_sources": {
            view.marked(name): about for name, about in view.info.sources.learners.items()
        },
        "notes": view.dagger_notes,
        "subsets": {it: (view.subset_title(it), view.info.classes[it]) for it in view.subsets},
        "multi_label": view.info.multi_label,
        "items": view.info.items,
        "answers": answers(view),
        "next_steps": next_steps(view),
        "methods": text,
        "latex": latex,
        "bibtex": bibtex,
        "lost": trials[trials["status"] != "ok"].to_dict("records"),
        "retrieved": queries,
        "clock": CLOCK_IN_WORDS,
        "pictures": dict.fromkeys(
            it
            for own in queries.values()
            for query in own
            for it in (query.picture, *(one for line in query.found.values() for one, _ in line))
        ),
        "open_queries": OPEN_QUERIES,
        "dataset_source": view.info.sources.dataset,
        "provenance": _provenance(view),
        "command": view.info.command,
    }


def _provenance(view: RunView) -> list[dict[str, Any]]:
    """Return what is known of the machine and its load, in groups."""
    info = view.info
    loads = {"load at start": info.load_at_start, "load at end": info.load_at_end}
    known = [{name: load} for name, load in loads.items() if load is not None]
    return [dict(info.provenance), *known]


def summary_html(run: StoredRun) -> str:
    """Return the summary of a run as a piece of HTML, with its figures, that needs no other file.

    It holds no script, and every value is escaped.  The text of the terminal stands first; a
    task's tables of headlines and the costs are folded up below the figures.
    """
    view = view_of(run)
    return render(
        "summary.html.j2",
        title=view.experiment.title,
        text=summary_text(run, in_python=True),
        figures=[
            drawing
            for task in view.tasks
            for drawing in (*quality_against_time(view, task), *task_figures(view, task))
        ],
        tables={
            **{task_title(task): measure_tables(view, task)[0] for task in view.tasks},
            "Costs": cost_tables(view),
        },
    )


class Picture(NamedTuple):
    """An image of the data set: its key in the page's style sheet, its row, its class or words.

    `uri` is its thumbnail as a data URI; None where there is none.
    """

    key: str
    row: int
    caption: str
    uri: str | None


@dataclass(frozen=True)
class Query:
    """A test image, what each learner retrieves, best first, with its hits, and whose end it is."""

    picture: Picture
    found: Mapping[str, Sequence[tuple[Picture, bool]]]
    note: str = ""

    @property
    def hits(self) -> int:
        """The relevant pictures among what is shown, of all learners together."""
        return sum(hit for own in self.found.values() for _, hit in own)


def retrieved(view: RunView) -> dict[str, list[Query]]:
    """Return the example queries of each subset that has any (JMLR 2010, tables 2 and 3).

    The first query of each class comes before any second one; before all, that with the most hits
    and that with the fewest, where these differ.
    """
    rows = view.retrievals
    rows = rows[rows["rank"] <= SHOWN_RANKS].sort_values("rank")
    kept = view.stored.pictures.set_index("row")
    shown = {int(row): _picture(kept, int(row)) for row in {*rows["query"], *rows["retrieved"]}}
    queries = {}
    for subset in view.subsets:
        own, of_class = [], Counter[str]()
        for number, of_query in rows[rows["subset"] == subset].groupby("query"):
            found = {
                learner: [
                    (shown[row], bool(hit))
                    for row, hit in zip(lines["retrieved"], lines["relevant"], strict=True)
                ]
                for learner in view.learners
                if len(lines := of_query[of_query["learner"] == learner])
            }
            picture = shown[int(str(number))]
            own.append((of_class[picture.caption], Query(picture, found)))
            of_class[picture.caption] += 1
        if own:
            queries[subset] = _ends_first([it for _, it in sorted(own, key=itemgetter(0))])
    return queries


def _picture(kept: pd.DataFrame, row: int) -> Picture:
    if row not in kept.index:  # some data sets have no pictures
        return Picture(f"p{row}", row, f"row {row}", None)
    own: Any = kept.loc[row]
    uri = None if own["thumbnail"] is None else data_uri(own["thumbnail"], "image/jpeg")
    return Picture(f"p{row}", row, own["caption"], uri)


def _ends_first(queries: list[Query]) -> list[Query]:
    """Put the queries with the most and with the fewest hits first, where these differ."""
    best, worst = (end(queries, key=lambda query: query.hits) for end in (max, min))
    if best.hits == worst.hits:
        return queries
    others = [query for query in queries if query not in (best, worst)]
    return [replace(best, note="most hits"), replace(worst, note="fewest hits"), *others]
