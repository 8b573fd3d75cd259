"""The plain-text summary that the command line prints at the end of a run."""

from __future__ import annotations

import textwrap

from oasis_bench.reports.precision import BOLD, PRECISION_AT, mean_texts, precision_numbers
from oasis_bench.reports.reading import (
    by_subset_and_learner,
    class_noun,
    shortfall,
    subset_title,
)
from oasis_bench.reports.tables import runtime_table
from oasis_bench.reports.text import clip, plural, seconds_text
from oasis_bench.store import RunRecord

SUMMARY_WIDTH, SUBSET_WIDTH = 110, 10


def summary_text(run: RunRecord) -> str:
    """Summarise a run as plain text of at most 110 columns, for a terminal."""
    numbers, timings = precision_numbers(run), runtime_table(run).numbers
    seconds = timings[timings["quantity"] == "fit_seconds"]
    at_k = (f"P@{k}" for k in PRECISION_AT)
    lines = [[class_noun(run), "learner", "mAP ", *(f"{text} " for text in at_k), "fit, s", ""]]
    notes = [
        f"mean ± sd over {plural(run.info['experiment']['partitions'], 'partition')}; "
        "fit: median [min - max]"
    ]
    if numbers["verdict"].eq("best").any():
        notes.append(
            "* best, or not distinguishable from the best (corrected paired 95 % interval)"
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
        lines.append([_printable(clip(subset, SUBSET_WIDTH)), _printable(learner), *texts, *fit])
        for reason in shortfall(run, subset, learner):
            whole = _printable(f"{subset_title(run, subset)}, {reason}")
            notes += textwrap.wrap(whole, SUMMARY_WIDTH, subsequent_indent="  ")
    return "\n".join([*_aligned(lines), *notes])


def _aligned(lines: list[list[str]]) -> list[str]:
    """Align cells in columns, labels and ranges at the left; labels are cut so that a line fits."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    others = sum(widths) - widths[1] + 2 * last
    widths[1] = min(widths[1], SUMMARY_WIDTH - others)
    return [
        "  ".join(
            clip(cell, width).ljust(width) if number in (1, last) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _printable(text: str) -> str:
    """Keep a label or a reason from sending control characters to the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
