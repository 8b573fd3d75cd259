"""What the terminal shows: the summary of a run, and the comparison of two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from oasis_bench.analysis import RunComparison
from oasis_bench.reports.measures import tables_of
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
from oasis_bench.reports.view import (
    DAGGER,
    RunView,
    transductive_note,
    view_of,
)
from oasis_bench.runs import StoredRun
from oasis_bench.system import Text

MOST_LINES = 9
"""Of the answer on the terminal, which the path of the report follows."""

LABEL_WIDTH, REASON_WIDTH = 24, 100
HEADER = [
    *("classes", "learner", "task", "measure", "n", "OLD", "NEW"),
    *("change", "95 % interval", "p, Holm", "verdict"),
]
NAMES = {
    "tuning_seconds": "tuning, s",
    "fit_seconds": "fit, s",
    "fit_cpu_seconds": "fit, CPU s",
    "seconds_per_query": "query, ms",
    "fit_peak_bytes": "peak, MiB",
    "model_bytes": "model, KiB",
}
LEGEND = (
    "n partitions. Measures of tasks: means, NEW - OLD, interval corrected for partitions that "
    "share items (Nadeau & Bengio 2003); of judgements n groups, and a bootstrap over them. Costs: "
    "geometric means, NEW / OLD, paired t-interval of the logarithm; less than 1 ms (of a query "
    "10 µs) or 1 MiB (of a model 1 KiB) counts as that; seconds leave out fits that waited for a "
    "core.",
    "same: no change, one that chance may explain, or one of a cost of up to {tolerance:g} %. The "
    "interval says how large a change may be. It is of its line alone; the verdict depends on p, "
    "Holm, corrected for the number of lines that have it, at level 0.05.",
)


def answer_text(run: StoredRun) -> str:
    """Say in nine lines at most who is best on each task, what it costs and what to try next.

    The report, and `summary_text`, also have differences with their intervals, and tables.
    """
    view = view_of(run)
    gaps = [line for gap in dict.fromkeys(_gaps(view)) for line in wrapped(gap)]
    more = [f"  (of {len(gaps)} lines on what failed; all are in the report)"]
    *first, last = [wrapped(line) for line in answers(view, brief=True)] or [[]]
    lines = [line for own in first for line in own]
    last += gaps if len(gaps) < 3 else [gaps[0], *more]
    steps = [(f"{it.why}:", f"  {Text.printable(it.command)}") for it in next_steps(view)[:1]]
    if len(lines) + len(last) + 2 <= MOST_LINES:
        last += [line for step in steps for line in step]
    if len(lines) > (room := MOST_LINES - len(last)):
        lines = [*lines[: room - 1], "  (the other tasks are in the report)"]
    return "\n".join([*lines, *last])


def summary_text(run: StoredRun, in_python: bool = False) -> str:
    """Summarise a run as plain text of at most 110 columns: the answer, each task, the costs.

    What to do next is a command, or in Python an argument of `oasis_bench.run`.
    """
    view = view_of(run)
    text = [part for line in answers(view) for part in (*wrapped(line), "")]
    tables = [it for task in view.tasks for it in tables_of(view, task, "is_compared")]
    notes = []
    for table in (*tables, *cost_tables(view)):
        text += [*wrapped(table.title), *table_lines(table, bold="*"), ""]
        notes += [note.replace("Bold:", "*") for note in table.notes]
    if count := int(view.finished["noisy"].sum()):
        notes.append(
            f"{plural(count, 'fit time')} noisy: the fit waited for a core (marked in the report)"
        )
    text += [line for note in dict.fromkeys([*notes, *_gaps(view)]) for line in wrapped(note)]
    for step in next_steps(view)[:1]:
        what = step.argument if in_python else step.command
        text += [f"{step.why}:", f"  {Text.printable(what)}"]
    return "\n".join(text)


def _gaps(view: RunView) -> Iterator[str]:
    """Say where learners have fewer results than planned, once for all with the same reason."""
    same: dict[tuple[str, str], list[str]] = {}
    for task in view.tasks:
        for subset, learner, _ in view.by_subset_and_learner(view.trials):
            for text in view.shortfall(subset, learner, view.split_of(task), task):
                where = f"{task}, " if len(view.tasks) > 1 else ""
                name, reason = view.marked(learner), text.removeprefix(f"{view.marked(learner)}: ")
                same.setdefault((f"{where}{view.subset_title(subset)}", reason), []).append(name)
    for (where, reason), names in same.items():
        who = "all learners" if len(names) == len(view.learners) > 2 else series(names)
        yield f"{where}, {who}: {reason}"


def comparison_text(comparison: RunComparison, runs: Mapping[str, StoredRun]) -> str:
    """Write a comparison: the runs, a line for each measure, notes, and the result.

    Parameters
    ----------
    comparison : RunComparison
    runs : dict of str to StoredRun
        The two runs, by the names that the text has for them.
    """
    transductive = {name for run in runs.values() for name in view_of(run).transductive}
    text = [Text.printable(line) for line in map(_origin, runs, runs.values())]
    notes = list(comparison.notes)
    if comparison.lines:
        rows = [HEADER]
        for line in comparison.lines:
            learner = line.learner + DAGGER * (line.learner in transductive)
            labels = [line.subset, learner, line.task, NAMES.get(line.measure, line.measure)]
            of_line = [_cost(line.measure, value) for value in (line.old, line.new)]
            pattern, one = "[{:.2f}, {:.2f}]", f"x{line.change:.2f}"
            if line.counts_results:
                of_line, one = [f"{line.old:.0f}", f"{line.new:.0f}"], f"{line.change:+.0f}"
            elif not line.is_cost:
                of_line, one = [f"{line.old:.4f}", f"{line.new:.4f}"], f"{line.change:+.4f}"
                pattern = "[{:+.4f}, {:+.4f}]"
            interval = "" if math.isnan(line.low) else pattern.format(line.low, line.high)
            p_value = "" if math.isnan(line.p_value) else p_text(line.p_value)
            reason = f": {clip(Text.printable(line.reason), REASON_WIDTH)}" if line.reason else ""
            rows.append(
                [
                    *(clip(Text.printable(label), LABEL_WIDTH) for label in labels),
                    *(str(line.n), *of_line, one, interval, p_value, f"{line.verdict}{reason}"),
                ]
            )
        text += ["", *aligned(rows, left=(1, 2, 3, len(HEADER) - 1)), ""]
        if any(line.learner in transductive for line in comparison.lines):
            notes.append(transductive_note())
        notes += [line.format(tolerance=100 * comparison.tolerance) for line in LEGEND]
    for note in notes:
        text += wrapped(note)
    return "\n".join([*text, _result(comparison)])


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


def _result(comparison: RunComparison) -> str:
    """Write the result in one line."""
    count = comparison.count
    if not comparison.lines:
        return "nothing could be compared"
    lines = plural(len(comparison.lines), "line")
    of_all = f"{lines}, {count('better')} better, {count('not judged')} not judged"
    if not comparison.n_judged:
        return f"nothing could be judged: {of_all}: take more partitions"
    if count("worse"):
        return f"{count('worse')} worse beyond noise: of {of_all}"
    return f"nothing got worse beyond noise: {of_all}"
