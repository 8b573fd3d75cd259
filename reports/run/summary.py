"""The plain-text summary that the command line prints at the end of a run."""

from __future__ import annotations

import textwrap

from oasis_bench.analysis.noise import noisy
from oasis_bench.reports.formatting import aligned, clip, plural, seconds_text
from oasis_bench.reports.run.facts import (
    by_subset_and_learner,
    class_noun,
    finished,
    partitions_text,
    shortfall,
    subset_title,
)
from oasis_bench.reports.run.precision_tables import (
    BOLD,
    PRECISION_AT,
    mean_texts,
    precision_numbers,
)
from oasis_bench.reports.run.time_tables import runtime_table
from oasis_bench.store.run_file import RunRecord
from oasis_bench.system.plain_text import printable

SUMMARY_WIDTH, SUBSET_WIDTH = 110, 10


def summary_text(run: RunRecord) -> str:
    """Summarise a run as plain text of at most 110 columns, for a terminal."""
    numbers, timings = precision_numbers(run), runtime_table(run).numbers
    seconds = timings[timings["quantity"] == "fit_seconds"]
    at_k = (f"P@{k}" for k in PRECISION_AT)
    lines = [[class_noun(run), "learner", "mAP ", *(f"{text} " for text in at_k), "fit, s", ""]]
    notes = [f"mean ± sd over {partitions_text(run)}; fit: median [min - max]"]
    if numbers["verdict"].eq("best").any():
        notes.append(
            "* best, or not distinguishable from the best (corrected paired t-test, Holm, 0.05)"
        )
    if count := int(noisy(finished(run)).sum()):
        notes.append(
            f"fit times of {plural(count, 'trial')} are noisy: they waited for a core "
            "(marked in the report)"
        )
    for subset, learner, own in by_subset_and_learner(run, numbers):
        texts = [
            text.replace(" ", "") + ("*" if verdict in BOLD else " ")
            for text, verdict in zip(mean_texts(own), own["verdict"], strict=True)
        ]
        of_learner = seconds[(seconds["subset"] == subset) & (seconds["learner"] == learner)]
        median, low, high = (
            seconds_text(of_learner[end].iloc[0]) for end in ("median", "min", "max")
        )
        fit = [median, f"[{low} - {high}]"] if own["n"].any() else ["-", ""]
        lines.append([printable(clip(subset, SUBSET_WIDTH)), printable(learner), *texts, *fit])
        for reason in shortfall(run, subset, learner):
            whole = printable(f"{subset_title(run, subset)}, {reason}")
            notes += textwrap.wrap(whole, SUMMARY_WIDTH, subsequent_indent="  ")
    return "\n".join([*_aligned_to_width(lines), *notes])


def _aligned_to_width(lines: list[list[str]]) -> list[str]:
    """Align cells in columns; shorten the learners' labels where a line would be too long."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    room = SUMMARY_WIDTH - (sum(widths) - widths[1] + 2 * last)
    cut = [[line[0], clip(line[1], room), *line[2:]] for line in lines]
    return aligned(cut, left=(1, last))
