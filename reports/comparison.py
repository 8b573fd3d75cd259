"""A comparison of two runs as plain text for a terminal; `analysis.comparison` makes it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from oasis_bench.analysis import Line, RunComparison
from oasis_bench.reports.formatting import aligned, clip, p_text, plural, seconds_text, wrapped
from oasis_bench.reports.view import DAGGER, transductive_note, view_of
from oasis_bench.runs import StoredRun
from oasis_bench.system import printable

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
    "share items (Nadeau & Bengio 2003); of judgements n groups, and a bootstrap over them.",
    "Costs (tuning on inner folds, fit, query time, peak memory, model): geometric means, "
    "NEW / OLD, paired t-interval of the logarithm; less than 1 ms (of a query 10 µs) or 1 MiB (of "
    "a model 1 KiB) counts as that. Seconds leave out fits that waited for a core.",
    "not judged: among others a change that is the same on all partitions, which has no spread to "
    "test. A model's size is judged by the tolerance alone.",
    "same: no change, one that chance may explain, or one of a cost of up to {tolerance:g} % or up "
    "to the smallest that counts. The interval says how large a change may be.",
    "Each interval is of its line alone. The verdict depends on p, Holm, corrected for the number "
    "of lines that have it, at level 0.05: where nothing changed, at most 1 comparison in 20 finds "
    "anything worse or better by chance.",
)


def comparison_text(comparison: RunComparison, runs: Mapping[str, StoredRun]) -> str:
    """Write a comparison: the runs, a line for each measure, notes, and the result.

    Parameters
    ----------
    comparison : RunComparison
    runs : dict of str to StoredRun
        The two runs, by the names that the text has for them.
    """
    transductive = {name for run in runs.values() for name in view_of(run).transductive}
    text = [printable(line) for line in map(_origin, runs, runs.values())]
    notes = list(comparison.notes)
    if comparison.lines:
        rows = [HEADER, *(_cells(line, transductive) for line in comparison.lines)]
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


def _cells(line: Line, transductive: Collection[str]) -> list[str]:
    """Write the cells of a line of the table."""
    learner = line.learner + DAGGER * (line.learner in transductive)
    labels = [line.subset, learner, line.task, NAMES.get(line.measure, line.measure)]
    labels = [clip(printable(label), LABEL_WIDTH) for label in labels]
    if line.counts_results:
        values = [f"{line.old:.0f}", f"{line.new:.0f}", f"{line.change:+.0f}"]
        pattern = ""
    elif not line.is_cost:
        values = [f"{line.old:.4f}", f"{line.new:.4f}", f"{line.change:+.4f}"]
        pattern = "[{:+.4f}, {:+.4f}]"
    else:
        values = [_cost(line.measure, value) for value in (line.old, line.new)]
        values.append(f"x{line.change:.2f}")
        pattern = "[{:.2f}, {:.2f}]"
    interval = "" if math.isnan(line.low) else pattern.format(line.low, line.high)
    p_value = "" if math.isnan(line.p_value) else p_text(line.p_value)
    reason = f": {clip(printable(line.reason), REASON_WIDTH)}" if line.reason else ""
    return [*labels, str(line.n), *values, interval, p_value, f"{line.verdict}{reason}"]


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
