"""What the terminal and a notebook show: the summary of a run, and the comparison of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from oasis_bench.reports.figures import task_figures
from oasis_bench.reports.measures import measure_tables
from oasis_bench.reports.report_files import render
from oasis_bench.reports.table import (
    aligned,
    clip,
    p_text,
    plural,
    seconds_text,
    series,
    table_lines,
    wrapped,
)
from oasis_bench.reports.trials import cost_tables
from oasis_bench.reports.verdict import answers, next_steps
from oasis_bench.reports.view import DAGGER, RunView, view_of
from oasis_bench.reports.words import WORDS, notes_where
from oasis_bench.runs import StoredRun
from oasis_bench.system import printable

MOST_LINES = 9
"""Of the answer on the terminal, which the path of the report follows."""

LABEL_WIDTH, REASON_WIDTH, LOST_WIDTH = 24, 100, 240

HEADER = [
    *("classes", "learner", "task", "measure", "n", "OLD", "NEW"),
    *("change", "95 % interval", "p, Holm", "verdict"),
]


def answer_text(run: StoredRun) -> str:
    """Say in nine lines at most who is best on each task, what it costs and what to try next.

    The report, and `summary_text`, also have differences with their intervals, and tables.
    """
    view = view_of(run)
    gaps = [line for gap in dict.fromkeys(_gaps(view)) for line in wrapped(gap)]
    more = [f"  (first of {len(gaps)} lines on failures; all are in the report)"]
    *first, last = [wrapped(line) for line in answers(view, brief=True)] or [[]]
    last += gaps if len(gaps) < 3 else [gaps[0], *more]
    steps = [(f"{it.why}:", f"  {printable(it.command)}") for it in next_steps(view)[:1]]
    if sum(map(len, first)) + len(last) + 2 <= MOST_LINES:
        last += [line for step in steps for line in step]
    room, n_all = MOST_LINES - len(last), len(first)
    while len(first) > 1 and sum(map(len, first)) > room:
        first.pop()
    lines = [line for own in first for line in own]
    is_cut = len(lines) > room  # one answer, with many or long names
    if is_cut or (len(first) < n_all and len(lines) < room):
        lines = [*lines[: room - 1], "  (the rest is in the report)"]
    return "\n".join([*lines, *last])


def summary_text(run: StoredRun, in_python: bool = False) -> str:
    """Summarise a run as plain text of at most 110 columns: the answer, each task, the costs.

    The next step is a command or, in Python, an argument of `oasis_bench.run`.
    """
    view = view_of(run)
    text = [part for line in answers(view) for part in (*wrapped(line), "")]
    tables = [it for task in view.tasks for it in measure_tables(view, task, "is_compared")]
    notes = []
    for table in (*tables, *cost_tables(view)):
        text += [*wrapped(table.title), *table_lines(table, bold="*"), ""]
        notes += [note.replace("Bold:", "*") for note in table.notes]
    if count := int(view.finished["noisy"].sum()):
        notes.append(
            f"{plural(count, 'noisy fit time')}: the fit waited for a core (marked in the report)"
        )
    text += [line for note in dict.fromkeys([*notes, *_gaps(view)]) for line in wrapped(note)]
    for step in next_steps(view)[:1]:
        what = step.argument if in_python else step.command
        text += [f"{step.why}:", f"  {printable(what)}"]
    return "\n".join(text)


def _gaps(view: RunView) -> Iterator[str]:
    """Report trials without a result, or without one of a task, in one line for each reason.

    Reasons that differ only in numbers, such as sizes of items, are one: the first is shown.
    """
    n_planned = {
        split: view.experiment.n_partitions * len(view.subsets_of(split)) for split in view.splits
    }
    same: dict[tuple[str, str], list[str]] = {}
    lost = view.lost.fillna({"reason": ""})
    kinds = lost["reason"].str.replace(r"\d+", "0", regex=True)
    by = [lost["learner"], lost["task"], lost["status"], kinds]
    for key, rows in lost.groupby(by, sort=False):
        learner, task, status, _ = map(str, key)
        n = n_planned[view.split_of(task)] if task else sum(n_planned.values())
        what = f"{WORDS['verbs'].get(status, status)} in {len(rows)} of {plural(n, 'trial')}"
        what += f" of {task}" if task else ""
        subsets = rows["subset"].unique()
        if len(subsets) < len(view.subsets):
            what += f" ({series([view.subset_title(subset) for subset in subsets])})"
        same.setdefault((what, rows["reason"].iloc[0]), []).append(view.marked(learner))
    for (what, reason), names in same.items():
        who = "all learners" if len(names) == len(view.learners) > 2 else series(names)
        yield f"{who} {what}: {clip(reason, LOST_WIDTH)}."
    n_trials = view.stored.trials["learner"].value_counts()
    for learner in view.learners:
        if not_run := sum(n_planned.values()) - int(n_trials.get(learner, 0)):
            yield f"{view.marked(learner)}: {plural(not_run, 'trial')} not run."


def comparison_text(
    lines: pd.DataFrame, notes: Sequence[str], runs: Mapping[str, StoredRun], tolerance: float
) -> str:
    """Write a comparison by `compare_runs`: the runs, its lines, its notes, and the result.

    `runs` maps the name of each of the two runs in the text to the run.
    """
    transductive = {name for run in runs.values() for name in view_of(run).transductive}
    text = [printable(line) for line in map(_origin, runs, runs.values())]
    notes = list(notes)
    if len(lines):
        rows = [HEADER, *(_comparison_row(line, transductive) for line in lines.itertuples())]
        text += ["", *aligned(rows, left=(1, 2, 3, len(HEADER) - 1)), ""]
        marked = lines["learner"].isin(transductive).any()
        needed = {"transductive": marked, "runs": True, "verdicts": True}
        notes += notes_where(needed, items="items", factor=1 + tolerance)
    for note in notes:
        text += wrapped(note)
    return "\n".join([*text, _result(lines["verdict"].value_counts())])


def _comparison_row(line: Any, transductive: Collection[str]) -> list[str]:
    """Write a line of a comparison."""
    learner = line.learner + DAGGER * (line.learner in transductive)
    labels = [line.subset, learner, line.task, WORDS["costs"].get(line.measure, line.measure)]
    ways: dict[str, tuple[Callable[[float], str], str, str]] = {
        "results": ("{:.0f}".format, "{:+.0f}", ""),
        "measure": ("{:.4f}".format, "{:+.4f}", "{:+.4f}"),
        "cost": (partial(_cost, line.measure), "x{:.2f}", "{:.2f}"),
    }
    value, change, end = ways[line.kind]
    interval = "" if math.isnan(line.low) else f"[{end}, {end}]".format(line.low, line.high)
    p_value = "" if math.isnan(line.p_value) else p_text(line.p_value)
    reason = f": {clip(printable(line.reason), REASON_WIDTH)}" if line.reason else ""
    return [
        *(clip(printable(label), LABEL_WIDTH) for label in labels),
        *(str(line.n), value(line.old), value(line.new), change.format(line.change)),
        *(interval, p_value, f"{line.verdict}{reason}"),
    ]


def _origin(name: str, run: StoredRun) -> str:
    """Say where and when a run was made."""
    processors = ", ".join(sorted(run.trials["processor"].dropna().unique())) or "unknown"
    return (
        f"{name}, {plural(len(run.trials), 'trial')}, started {run.info.started}, "
        f"commit {run.info.provenance.get('commit') or 'unknown'}, processor {processors}"
    )


def _cost(measure: str, value: float) -> str:
    if measure.endswith("_bytes"):
        return f"{value / (2**20 if measure == 'fit_peak_bytes' else 2**10):,.1f}"
    return seconds_text(1000 * value if measure == "seconds_per_query" else value)


def _result(counts: pd.Series[int]) -> str:
    """Write the result in one line, by the number of lines of each verdict."""
    n_lines = int(counts.sum())
    if not n_lines:
        return "nothing could be compared"
    better, not_judged, worse = (counts.get(it, 0) for it in ("better", "not judged", "worse"))
    of_all = f"{plural(n_lines, 'line')}, {better} better, {not_judged} not judged"
    if not_judged == n_lines:
        return f"nothing could be judged: {of_all}: use more partitions"
    if worse:
        return f"{worse} worse beyond noise, of {of_all}"
    return f"nothing got worse beyond noise: {of_all}"


def summary_html(run: StoredRun) -> str:
    """Return the summary of a run, with figures, as HTML that needs no other file.

    It begins with the text of the terminal.  It has no script, and every value is escaped.
    """
    view = view_of(run)
    return render(
        "summary.html.j2",
        title=view.experiment.title,
        text=summary_text(run, in_python=True),
        figures=[
            drawing
            for task in view.tasks
            for own in task_figures(view, task).values()
            for drawing in own
        ],
    )
