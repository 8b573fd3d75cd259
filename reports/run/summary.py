"""The plain-text summary that the command line prints at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator

from oasis_bench.analysis import measures_of, noisy, used_by_compare
from oasis_bench.reports.formatting import (
    SUMMARY_WIDTH,
    aligned,
    clip,
    number_text,
    seconds_text,
    series,
    wrapped,
)
from oasis_bench.reports.run.cost_tables import cost_tables
from oasis_bench.reports.run.facts import (
    by_subset_and_learner,
    class_noun,
    dagger_notes,
    finished,
    learners,
    marked,
    of_splits,
    partitions_text,
    shortfall,
    split_of,
    splits,
    subset_title,
    tasks,
)
from oasis_bench.reports.run.measure_tables import CHANCE, ceilings, mean_texts, measure_numbers
from oasis_bench.reports.run.verdict import answers, next_steps
from oasis_bench.reports.table import Table
from oasis_bench.runs import StoredRun
from oasis_bench.system import printable

SUBSET_WIDTH = 10
BESIDE_SPREAD = " " * len("±0.000*")


def summary_text(run: StoredRun, in_python: bool = False) -> str:
    """Summarise a run as plain text of at most 110 columns: the answer, each task, the costs.

    What to do next is a command, or in Python an argument of `oasis_bench.run`.
    """
    text = [part for line in answers(run) for part in (*wrapped(line), "")]
    notes = [f"mean ± sd over {partitions_text(run)}; costs: medians [min - max]"]
    for task in tasks(run):
        lines, best, limits = _task_lines(run, task)
        text += [f"{task}:", *_aligned_to_width(lines, (1,)), *limits]
        if best and not notes[1:]:
            notes.append(
                "* best, or not distinguishable from the best (corrected paired t-test, Holm, 0.05)"
            )
    for split, table in zip(splits(run), cost_tables(run), strict=True):
        title = ", ".join(["costs", *of_splits(run, split)])
        text += [f"{title}:", *_aligned_to_width(_cost_lines(run, table), (1, 4))]
    if count := int(noisy(finished(run)).sum()):
        notes.append(
            (
                "the fit time of 1 trial is noisy: it"
                if count == 1
                else f"fit times of {count} trials are noisy: they"
            )
            + " waited for a core (marked in the report)"
        )
    notes += dagger_notes(run, learners(run))
    for whole in dict.fromkeys(_gaps(run)):
        notes += wrapped(whole)
    for step in next_steps(run)[:1]:
        notes += [f"{step.why}:", f"  {printable(step.argument if in_python else step.command)}"]
    return "\n".join([*text, *notes])


def _task_lines(run: StoredRun, task: str) -> tuple[list[list[str]], bool, list[str]]:
    """Return the cells of a task's table, whether one has a star, and what cannot reach 1."""
    numbers, measures = measure_numbers(run, task), measures_of(run, task)
    measures = measures[measures["name"].isin(used_by_compare(run, task))]
    numbers = numbers[numbers["name"].isin(measures["name"])]
    lines = [[class_noun(run), "learner", *(f"{option} " for option in measures["option"])]]
    for subset, learner, own in by_subset_and_learner(run, numbers):
        texts = [
            text.replace(" ", "") + ("*" if bold else " ")
            for text, bold in zip(mean_texts(own), own["bold"], strict=True)
        ]
        lines.append([*_labels(run, subset, learner), *texts])
        if learner == learners(run)[-1]:
            chances = [number_text(value, "{:.3f}", missing="-") for value in own["chance"]]
            lines.append([lines[-1][0], CHANCE, *(text + BESIDE_SPREAD for text in chances)])
    return lines, bool(numbers["bold"].any()), list(dict.fromkeys(ceilings(run, task, numbers)))


def _cost_lines(run: StoredRun, costs: Table) -> list[list[str]]:
    """Return the cells of a table of costs, fewer than the report has."""
    lines = [
        [
            *(class_noun(run), "learner", "tuning, s", "fit, s", "", "query, ms", ""),
            "model, KiB",
        ]
    ]
    for subset, learner, own in by_subset_and_learner(run, costs.numbers.set_index("quantity")):
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
        lines.append([*_labels(run, subset, learner), *cells])
    return lines


def _labels(run: StoredRun, subset: str, learner: str) -> tuple[str, str]:
    return printable(clip(subset, SUBSET_WIDTH)), printable(marked(run, learner))


def _gaps(run: StoredRun) -> Iterator[str]:
    """Say where learners have fewer results than planned, once for all with the same reason."""
    same: dict[tuple[str, str], list[str]] = {}
    for task in tasks(run):
        for subset, learner, _ in by_subset_and_learner(run, run.trials):
            for told in shortfall(run, subset, learner, split_of(run, task), task):
                where = f"{task}, " if len(tasks(run)) > 1 else ""
                name, reason = marked(run, learner), told.removeprefix(f"{marked(run, learner)}: ")
                same.setdefault((f"{where}{subset_title(run, subset)}", reason), []).append(name)
    for (where, reason), names in same.items():
        who = "all learners" if len(names) == len(learners(run)) > 2 else series(names)
        yield f"{where}, {who}: {reason}"


def _aligned_to_width(lines: list[list[str]], left: tuple[int, ...]) -> list[str]:
    """Align cells in columns; shorten the learners' labels where a line would be too long."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = SUMMARY_WIDTH - (sum(widths) - widths[1] + 2 * (len(widths) - 1))
    cut = [[line[0], clip(line[1], max(room, 8)), *line[2:]] for line in lines]
    return aligned(cut, left=left)
