"""What the terminal shows: the summary of a run, and the comparison of two."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from oasis_bench.analysis import Line, RunComparison, used_by_compare
from oasis_bench.reports.measures import ABSTAINED, CHANCE, ceilings, mean_texts
from oasis_bench.reports.table import (
    SUMMARY_WIDTH,
    aligned,
    clip,
    number_text,
    p_text,
    plural,
    seconds_text,
    series,
    wrapped,
)
from oasis_bench.reports.verdict import (
    MOST_NAMED,
    all_at_most,
    answers,
    leads,
    near_chance,
    next_steps,
    without_comparison,
)
from oasis_bench.reports.view import (
    DAGGER,
    RunView,
    task_title,
    transductive_note,
    view_of,
)
from oasis_bench.runs import StoredRun
from oasis_bench.system import Text

SUBSET_WIDTH = 10
BESIDE_SPREAD = " " * len("±0.000*")
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


def answer_text(run: StoredRun) -> str:
    """Say in nine lines at most who is best on each task, what it costs and what to try next.

    The report, and `summary_text`, also have differences with their intervals, and tables.
    """
    view = view_of(run)
    gaps = [line for gap in dict.fromkeys(_gaps(view)) for line in wrapped(gap)]
    more = [f"  (of {len(gaps)} lines on what failed; all are in the report)"]
    last = [*wrapped(_brief_costs(view)), *(gaps if len(gaps) < 3 else [gaps[0], *more])]
    first = [line for task in view.tasks for line in wrapped(_brief(view, task))]
    steps = [(f"{it.why}:", f"  {Text.printable(it.command)}") for it in next_steps(view)[:1]]
    if len(first) + len(last) + 2 <= MOST_LINES:
        last += [line for step in steps for line in step]
    if len(first) > (room := MOST_LINES - len(last)):
        first = [*first[: room - 1], "  (the other tasks are in the report)"]
    return "\n".join([*first, *last])


def _brief(view: RunView, task: str) -> str:
    """Say who has the highest mean on the largest class subset, and by how much."""
    scored = [it for it in view.comparisons[task] if it.scores.notna().any(axis=None)]
    if not scored:
        return ""
    of_subset = {it.name: it for it in scored if it.subset == scored[-1].subset}
    names = [name for name in used_by_compare(view.stored, task) if name in of_subset]
    it = of_subset[names[0]]
    where, best = f"{task_title(task)}, {view.subset_title(it.subset)}: ", it.best.best
    near = " ".join(near_chance(view, task, it))
    if all_at_most(it):
        return f"{where}all learners are at the most there is (1.000) in {it.name}."
    if best is None:
        return f"{where}{without_comparison(view, it)} {near}"
    return where + " ".join([*leads(view, it), near])


def _brief_costs(view: RunView) -> str:
    """Say what one partition took of each learner, the cheapest first; of many the ends."""
    trials = view.finished_on(view.splits[0])
    subsets = [subset for subset in view.subsets if (trials["subset"] == subset).any()]
    own = trials[trials["subset"].isin(subsets[-1:])]
    parts = own["tuning_seconds"].fillna(0) + own["fit_seconds"].fillna(0) + own["query_seconds"]
    medians = parts.groupby(own["learner"]).median().dropna().sort_values()
    texts = [f"{view.marked(str(it))} {seconds_text(own)} s" for it, own in medians.items()]
    if len(texts) > 2 * MOST_NAMED:
        texts = [*texts[:MOST_NAMED], "...", *texts[-MOST_NAMED:]]
    return f"Tuning, fit and queries of one partition: {', '.join(texts)}." if texts else ""


def summary_text(run: StoredRun, in_python: bool = False) -> str:
    """Summarise a run as plain text of at most 110 columns: the answer, each task, the costs.

    What to do next is a command, or in Python an argument of `oasis_bench.run`.
    """
    view = view_of(run)
    text = [part for line in answers(view) for part in (*wrapped(line), "")]
    of_partitions = [task for task in view.tasks if view.split_of(task) not in view.judged]
    notes = [f"mean ± sd over {view.partitions_text}"] * bool(of_partitions)
    others = [task for task in view.tasks if task not in of_partitions]
    notes += [f"{task}: mean ± {view.spread_text(task)}" for task in others]
    notes = ["; ".join([*notes, "costs: medians [min - max]"])]
    for task in view.tasks:
        lines, best, limits = _task_lines(view, task)
        text += [f"{task}:", *_aligned_to_width(lines, (1,)), *limits]
        if best and not notes[1:]:
            notes.append(
                "* best, or statistically tied with the best (corrected paired t-test, Holm, 0.05)"
            )
    if view.is_blended:
        notes.append(
            "(in brackets) as learned, without the blend with the Euclidean baseline; = what was "
            "learned has weight 0"
        )
    for split in view.splits:
        title = ", ".join(["costs", *view.of_splits(split)])
        text += [f"{title}:", *_aligned_to_width(_cost_lines(view, split), (1, 4))]
    if count := int(view.finished["noisy"].sum()):
        notes.append(
            f"{plural(count, 'fit time')} noisy: the fit waited for a core (marked in the report)"
        )
    notes += view.dagger_notes
    for whole in dict.fromkeys(_gaps(view)):
        notes += wrapped(whole)
    for step in next_steps(view)[:1]:
        notes += [
            f"{step.why}:",
            f"  {Text.printable(step.argument if in_python else step.command)}",
        ]
    return "\n".join([*text, *notes])


def _task_lines(view: RunView, task: str) -> tuple[list[list[str]], bool, list[str]]:
    """Return the cells of a task's table, whether one has a star, and what cannot reach 1."""
    numbers, measures = view.numbers[task], view.measures[task]
    measures = measures[measures["name"].isin(used_by_compare(view.stored, task))]
    numbers = numbers[numbers["name"].isin(measures["name"])]
    lines = [[view.class_noun, "learner", *(f"{option} " for option in measures["option"])]]
    limits: list[str] = []
    for subset, learner, own in view.by_subset_and_learner(numbers, view.split_of(task)):
        texts = [
            text.replace(ABSTAINED, "=").replace(" ", "") + ("*" if bold else " ")
            for text, bold in zip(mean_texts(own), own["bold"], strict=True)
        ]
        lines.append([*_labels(view, subset, learner), *texts])
        if learner == view.learners[-1]:
            chances = [number_text(value, "{:.3f}", missing="-") for value in own["chance"]]
            lines.append([lines[-1][0], CHANCE, *(text + BESIDE_SPREAD for text in chances)])
            limits += ceilings(view, task, own)
    return lines, bool(numbers["bold"].any()), list(dict.fromkeys(limits))


def _cost_lines(view: RunView, split: str) -> list[list[str]]:
    """Return the cells of the table of a split's costs, fewer than the report has."""
    head = ("learner", "tuning, s", "fit, s", "", "query, ms", "", "model, KiB")
    lines = [[view.class_noun, *head]]
    costs = view.costs[split].set_index("quantity")
    for subset, learner, own in view.by_subset_and_learner(costs, split):
        median, fit = own["median"], own.loc[["fit_seconds"]].iloc[0]
        query = own.loc[["seconds_per_query"]].iloc[0]
        cells = [
            *(seconds_text(median["tuning_seconds"]), seconds_text(fit["median"])),
            f"[{seconds_text(fit['min'])} - {seconds_text(fit['max'])}]" if fit["n"] else "",
            seconds_text(1000 * median["seconds_per_query"]),
            f"[{seconds_text(1000 * query['min'])} - {seconds_text(1000 * query['max'])}]",
            number_text(median["model_bytes"] / 2**10, "{:,.1f}"),
        ]
        cells = cells if own["n"].any() else ["-", "-", "", "-", "", "-"]
        lines.append([*_labels(view, subset, learner), *cells])
    return lines


def _labels(view: RunView, subset: str, learner: str) -> tuple[str, str]:
    return Text.printable(clip(subset, SUBSET_WIDTH)), Text.printable(view.marked(learner))


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


def _aligned_to_width(lines: list[list[str]], left: tuple[int, ...]) -> list[str]:
    """Align cells in columns; shorten the learners' labels where a line would be too long."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = SUMMARY_WIDTH - (sum(widths) - widths[1] + 2 * (len(widths) - 1))
    cut = [[line[0], clip(line[1], max(room, 8)), *line[2:]] for line in lines]
    return aligned(cut, left=left)


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
    labels = [clip(Text.printable(label), LABEL_WIDTH) for label in labels]
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
    reason = f": {clip(Text.printable(line.reason), REASON_WIDTH)}" if line.reason else ""
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
