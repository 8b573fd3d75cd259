"""The page of a run, its tables and figures, and what a notebook shows of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oasis_bench.analysis import detectable_difference
from oasis_bench.reports.costs import cost_tables, scaling_tables
from oasis_bench.reports.figure_style import Drawing
from oasis_bench.reports.figures import (
    along_seconds,
    cost_figures,
    quality_against_time,
    step_figures,
)
from oasis_bench.reports.formatting import plural, series
from oasis_bench.reports.human_ratings import rating_figures, rating_tables
from oasis_bench.reports.measures import (
    difference_tables,
    measure_tables,
    seen_and_unseen_tables,
)
from oasis_bench.reports.protocol import measure_words, protocol_text, scaling_text
from oasis_bench.reports.ratings import read_ratings
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.retrieved import all_pictures, retrieved
from oasis_bench.reports.side_by_side import published_beside
from oasis_bench.reports.space import space_figures
from oasis_bench.reports.table import Table
from oasis_bench.reports.tasks import confusion_tables, partition_figures, task_figures
from oasis_bench.reports.trials import (
    candidates_tables,
    selection_table,
    symmetry_tables,
    trials_table,
    unanswered_table,
    unfinished_table,
)
from oasis_bench.reports.verdict import answers, next_steps, summary_text, what_is_missing
from oasis_bench.reports.view import RunView, task_title, view_of
from oasis_bench.runs import StoredRun, TaskSource, read_run
from oasis_bench.system import open_below, printable
from oasis_bench.trial import CLOCK_IN_WORDS, OUTPUT_LOG

PAGE = "report.html"
OPEN_QUERIES = 2
"""Queries of a subset that are shown at once; the others are folded up."""

LOG_WIDTH = 20_000
"""Bytes of the log that the page shows, the last ones."""

MANY_PARTITIONS = 20
"""The page says what difference this number of partitions would show."""


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
    figures = {
        "steps": step_figures(view),
        "seconds": along_seconds(view),
        "costs": cost_figures(view),
        "space": space_figures(view),
        "ratings": [] if ratings is None else rating_figures(view, ratings),
    }
    shows_symmetry = any(it.name.startswith("symmetry") and it.files for it in figures["steps"])
    parts: dict[str, Any] = {
        "shows_symmetry": shows_symmetry,
        "chapters": chapters,
        "baseline": None if baseline is None else view.marked(baseline),
        "tables": tables,
        "figures": figures,
    }
    page = render("report.html.j2", **parts, **_context(view), log=_log(folder))
    drawings = [it for one in chapters for it in (one.against_time, *one.figures)]
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


@dataclass(frozen=True)
class Chapter:
    """What the page shows of one task."""

    task: str
    title: str
    source: TaskSource
    words: Mapping[str, str]
    headlines: Sequence[Table]
    every: Sequence[Table]
    differences: Sequence[Table]
    confusion: Sequence[Table]
    unanswered: Table
    against_time: Drawing
    figures: Sequence[Drawing]

    @property
    def tables(self) -> list[Table]:
        """All of its tables."""
        unanswered = [self.unanswered] if self.unanswered.cells else []
        return [*self.headlines, *self.every, *self.differences, *self.confusion, *unanswered]


def _chapter(view: RunView, task: str, baseline: str | None = None) -> Chapter:
    source = view.info.sources.tasks[task]
    words = {
        name: measure_words(view, task, name) for name in view.measures[task]["measure"].unique()
    }
    of_headlines, of_every = measure_tables(view, task)
    return Chapter(
        task=task,
        title=task_title(task),
        source=source,
        words={name: text for name, text in words.items() if text},
        headlines=of_headlines,
        every=of_every,
        differences=difference_tables(view, task, baseline),
        confusion=confusion_tables(view, task),
        unanswered=unanswered_table(view, task),
        against_time=quality_against_time(view, task),
        figures=[*task_figures(view, task), *partition_figures(view, task, baseline)],
    )


def _tables(view: RunView) -> dict[str, list[Table]]:
    """Make the tables that are not of one task, by the sections of the page."""
    return {
        "seen_and_unseen": seen_and_unseen_tables(view),
        "published": published_beside(view),
        "costs": cost_tables(view),
        "scaling": scaling_tables(view),
        "selection": [selection_table(view)],
        "symmetry": symmetry_tables(view),
        "unfinished": [unfinished_table(view)],
        "candidates": candidates_tables(view),
        "trials": [trials_table(view)],
    }


def _every_table(chapters: Sequence[Chapter], tables: Mapping[str, Sequence[Table]]) -> list[Table]:
    of_tasks = [table for chapter in chapters for table in chapter.tables]
    return [*of_tasks, *(table for group in tables.values() for table in group)]


def _context(view: RunView) -> dict[str, Any]:
    """Return the values of the page that are not in its tables and figures."""
    e, trials = view.experiment, view.stored.trials
    pictures = all_pictures(view)
    images = {split: _sizes(view, split) for split in view.splits}
    return {
        "e": e,
        "run": view.stored,
        "learners": [view.marked(name) for name in view.learners],
        "learner_sources": {
            view.marked(name): about for name, about in view.info.sources.learners.items()
        },
        "notes": view.dagger_notes(view.learners),
        "subsets": {it: (view.subset_title(it), view.info.classes[it]) for it in view.subsets},
        "multi_label": view.info.multi_label,
        "items": view.info.items,
        "scope": _scope(view),
        "images": images,
        "split_words": {name: about.summary for name, about in view.info.sources.splits.items()},
        "per_class": any(split.per_class for split in view.info.sources.splits.values()),
        "missing": what_is_missing(view),
        "answers": answers(view),
        "next_steps": next_steps(view),
        "power": _power(view),
        "protocol": protocol_text(view),
        "scaling": scaling_text(view),
        "lost": trials[trials["status"] != "ok"].to_dict("records"),
        "retrieved": retrieved(view, pictures),
        "clock": CLOCK_IN_WORDS,
        "pictures": pictures.values(),
        "open_queries": OPEN_QUERIES,
        "dataset_name": view.dataset_name,
        "dataset_source": view.info.sources.dataset,
        "provenance": _provenance(view),
        "command": view.info.command,
    }


def _sizes(view: RunView, split: str) -> tuple[int, int] | None:
    """Return the training and test items of the smallest subset that has a trial."""
    return next((found for it in view.subsets if (found := view.sizes.get((it, split)))), None)


def _power(view: RunView) -> dict[str, Any] | None:
    """Return what differences can be seen, in standard deviations of the paired differences.

    They are those of the smallest subset that has a trial, on the first split.
    """
    found = [rho for it in view.subsets if (rho := view.rho.get((it, view.splits[0]))) is not None]
    partitions = view.experiment.n_partitions
    if not found or partitions < 2:
        return None
    rho = found[0]
    return {
        "rho": rho,
        "seen": detectable_difference(partitions, rho),
        "many": MANY_PARTITIONS if partitions < MANY_PARTITIONS else None,
        "seen_by_many": detectable_difference(MANY_PARTITIONS, rho),
        "limit": detectable_difference(math.inf, rho),
    }


def _scope(view: RunView) -> str:
    """Say which class subsets the run is of."""
    if view.info.multi_label:
        return series([plural(size, "word") for size in view.subsets.values()])
    return f"{series([view.subset_label(subset) for subset in view.subsets])} {view.class_noun}"


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
            for drawings in (*(task_figures(view, task) for task in view.tasks), cost_figures(view))
            for drawing in drawings
            if drawing.files
        ],
        tables={
            **{task_title(task): measure_tables(view, task)[0] for task in view.tasks},
            "Costs": cost_tables(view),
        },
    )
