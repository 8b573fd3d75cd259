"""The report of a run: its tables and figures, and the further values of its page."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oasis_bench.analysis import detectable_difference, measures_of
from oasis_bench.reports.figure_style import Drawing
from oasis_bench.reports.formatting import plural, series
from oasis_bench.reports.rating_files import read_ratings
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.baselines import seen_and_unseen_tables, what_is_missing
from oasis_bench.reports.run.confusion import confusion_tables
from oasis_bench.reports.run.cost_figures import cost_figures
from oasis_bench.reports.run.cost_tables import cost_tables, scaling_tables
from oasis_bench.reports.run.difference_tables import difference_tables
from oasis_bench.reports.run.every_trial import candidates_tables, trials_table
from oasis_bench.reports.run.facts import (
    class_noun,
    dagger_notes,
    dataset_name,
    learners,
    marked,
    sizes,
    splits,
    subset_label,
    subset_title,
    subsets,
    task_title,
    tasks,
)
from oasis_bench.reports.run.human_rating_figures import rating_figures
from oasis_bench.reports.run.human_ratings import rating_tables
from oasis_bench.reports.run.measure_tables import measure_tables
from oasis_bench.reports.run.partition_figures import find_baseline, partition_figures
from oasis_bench.reports.run.protocol import protocol_text, scaling_text
from oasis_bench.reports.run.retrieved_images import all_pictures, retrieved
from oasis_bench.reports.run.space_figure import space_figures
from oasis_bench.reports.run.step_figures import step_figures
from oasis_bench.reports.run.task_figures import task_figures
from oasis_bench.reports.run.time_figures import along_seconds, quality_against_time
from oasis_bench.reports.run.trial_tables import (
    selection_table,
    symmetry_tables,
    unanswered_table,
    unfinished_table,
)
from oasis_bench.reports.run.verdict import answers, next_steps
from oasis_bench.reports.run.words import measure_words
from oasis_bench.reports.side_by_side import published_beside
from oasis_bench.reports.table import Table
from oasis_bench.runs import StoredRun, TaskSource, read_run
from oasis_bench.system import open_below, printable
from oasis_bench.trial import OUTPUT_LOG

PAGE = "report.html"
OPEN_QUERIES = 2
"""Queries of a subset that are shown at once; the others are folded up."""

LOG_WIDTH = 20_000
"""Bytes of the log that the page shows, the last ones."""

MANY_PARTITIONS = 20
"""The page says what difference this number of partitions would show."""


def write_report(folder: Path, baseline: str | None = None, run: StoredRun | None = None) -> Path:
    """Make tables, figures and the page of a run from its store alone.

    Parameters
    ----------
    folder : Path
        The run's; 'tables/', 'figures/' and 'report.html' in it are written, each file whole.  What
        raters said is read from its 'ratings.csv', where it has one.
    baseline : str, optional
        The label of the learner that differences are taken from; the best in tables, and Euclidean
        or the first learner in figures, if not given.
    run : StoredRun, optional
        What the folder holds, where it was read already.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    UsageError
        Where the folder holds no run, or damaged ratings, or cannot be written, or there is no such
        learner.
    """
    run = read_run(folder) if run is None else run
    find_baseline(run, baseline)  # raises
    chapters = [_chapter(run, task, baseline) for task in tasks(run)]
    ratings = read_ratings(folder)
    tables = _tables(run)
    tables["ratings"] = [] if ratings is None else rating_tables(run, ratings)
    figures = {
        "steps": step_figures(run),
        "seconds": along_seconds(run),
        "costs": cost_figures(run),
        "space": space_figures(run),
        "ratings": [] if ratings is None else rating_figures(run, ratings),
    }
    shows_symmetry = any(it.name.startswith("symmetry") and it.files for it in figures["steps"])
    parts: dict[str, Any] = {
        "shows_symmetry": shows_symmetry,
        "chapters": chapters,
        "baseline": None if baseline is None else marked(run, baseline),
        "tables": tables,
        "figures": figures,
    }
    page = render("report.html.j2", **parts, **_context(run), log=_log(folder))
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


def report_tables(run: StoredRun) -> list[Table]:
    """Make all tables of the report."""
    return _every_table([_chapter(run, task) for task in tasks(run)], _tables(run))


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
        unanswered = [self.unanswered] if self.unanswered.rows else []
        return [*self.headlines, *self.every, *self.differences, *self.confusion, *unanswered]


def _chapter(run: StoredRun, task: str, baseline: str | None = None) -> Chapter:
    source = run.info.sources.tasks[task]
    words = {
        name: measure_words(run, task, name) for name in measures_of(run, task)["measure"].unique()
    }
    of_headlines, of_every = measure_tables(run, task)
    return Chapter(
        task=task,
        title=task_title(task),
        source=source,
        words={name: text for name, text in words.items() if text},
        headlines=of_headlines,
        every=of_every,
        differences=difference_tables(run, task, baseline),
        confusion=confusion_tables(run, task),
        unanswered=unanswered_table(run, task),
        against_time=quality_against_time(run, task),
        figures=[*task_figures(run, task), *partition_figures(run, task, baseline)],
    )


def _tables(run: StoredRun) -> dict[str, list[Table]]:
    """Make the tables that are not of one task, by the sections of the page."""
    return {
        "seen_and_unseen": seen_and_unseen_tables(run),
        "published": published_beside(run),
        "costs": cost_tables(run),
        "scaling": scaling_tables(run),
        "selection": [selection_table(run)],
        "symmetry": symmetry_tables(run),
        "unfinished": [unfinished_table(run)],
        "candidates": candidates_tables(run),
        "trials": [trials_table(run)],
    }


def _every_table(chapters: Sequence[Chapter], tables: Mapping[str, Sequence[Table]]) -> list[Table]:
    of_tasks = [table for chapter in chapters for table in chapter.tables]
    return [*of_tasks, *(table for group in tables.values() for table in group)]


def _context(run: StoredRun) -> dict[str, Any]:
    """Return the values of the page that are not in its tables and figures."""
    e = run.info.experiment
    pictures = all_pictures(run)
    images = {split: _sizes(run, split) for split in splits(run)}
    return {
        "e": e,
        "run": run,
        "learners": [marked(run, name) for name in learners(run)],
        "learner_sources": {
            marked(run, name): about for name, about in run.info.sources.learners.items()
        },
        "notes": dagger_notes(run, learners(run)),
        "subsets": {
            subset: (subset_title(run, subset), run.info.classes[subset]) for subset in subsets(run)
        },
        "multi_label": run.info.multi_label,
        "items": run.info.items,
        "scope": _scope(run),
        "images": images,
        "split_words": {name: about.summary for name, about in run.info.sources.splits.items()},
        "per_class": any(split.per_class for split in run.info.sources.splits.values()),
        "missing": what_is_missing(run),
        "answers": answers(run),
        "next_steps": next_steps(run),
        "power": _power(e.n_partitions, images[splits(run)[0]]),
        "protocol": protocol_text(run),
        "scaling": scaling_text(run),
        "lost": run.trials[run.trials["status"] != "ok"].to_dict("records"),
        "retrieved": retrieved(run, pictures),
        "pictures": pictures.values(),
        "open_queries": OPEN_QUERIES,
        "dataset_name": dataset_name(run),
        "dataset_source": run.info.sources.dataset,
        "provenance": _provenance(run),
        "command": run.info.command,
    }


def _sizes(run: StoredRun, split: str) -> tuple[int, int] | None:
    """Return the training and test items of the smallest subset that has a trial."""
    return next((found for it in subsets(run) if (found := sizes(run, it, split))), None)


def _power(partitions: int, images: tuple[int, int] | None) -> dict[str, Any] | None:
    """Return what differences can be seen, in standard deviations of the paired differences.

    It is the same for all subsets: training and test items both grow with the number of classes.
    """
    if images is None or partitions < 2:
        return None
    return {
        "seen": detectable_difference(partitions, *images),
        "many": MANY_PARTITIONS if partitions < MANY_PARTITIONS else None,
        "seen_by_many": detectable_difference(MANY_PARTITIONS, *images),
        "limit": detectable_difference(math.inf, *images),
    }


def _scope(run: StoredRun) -> str:
    """Say which class subsets the run is of."""
    if run.info.multi_label:
        return series([plural(size, "word") for size in subsets(run).values()])
    return f"{series([subset_label(run, subset) for subset in subsets(run)])} {class_noun(run)}"


def _provenance(run: StoredRun) -> list[dict[str, Any]]:
    """Return what is known of the machine and its load, in groups."""
    info = run.info
    loads = {"load at start": info.load_at_start, "load at end": info.load_at_end}
    known = [{name: load} for name, load in loads.items() if load is not None]
    return [dict(info.provenance), *known]
