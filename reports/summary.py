"""The plain-text summary that the command line prints at the end of a run."""

from __future__ import annotations

import textwrap

from oasis_bench.reports.tables import (
    PRECISION_AT,
    by_subset_and_learner,
    clip,
    plural,
    precision_numbers,
    runtime_table,
    seconds_text,
    shortfall,
    subset_title,
    subsets,
)
from oasis_bench.store import RunRecord

SUMMARY_WIDTH = 100


def summary_text(run: RunRecord) -> str:
    """Summarise a run as plain text of at most 100 columns, for a terminal."""
    numbers, timings = precision_numbers(run), runtime_table(run).numbers
    seconds = timings[timings["quantity"] == "fit_seconds"]
    lines = [["classes", "learner", "mAP", *(f"P@{k}" for k in PRECISION_AT), "fit, s"]]
    notes = [
        f"mean ± sd over {plural(run.info['experiment']['partitions'], 'partition')}; fit: median"
    ]
    if numbers["verdict"].eq("best").any():
        notes.append(
            "* best, or not distinguishable from the best (corrected paired 95 % interval)"
        )
    for subset, learner, own in by_subset_and_learner(run, numbers):
        texts = []
        for number in own.itertuples():
            spread = f" ± {number.sd:.3f}" if number.measure == "mAP" else ""
            text = f"{number.mean:.3f}{spread}".replace("nan", "n/a") if number.n else "-"
            texts.append(text + ("*" if number.verdict in ("best", "tied") else " "))
        of_learner = seconds[(seconds["subset"] == subset) & (seconds["learner"] == learner)]
        median = of_learner["median"].iloc[0]
        fit = seconds_text(median) if own["n"].any() else "-"
        lines.append([str(subsets(run)[subset]), _printable(learner), *texts, fit])
        for reason in shortfall(run, subset, learner):
            whole = _printable(f"{subset_title(run, subset)}, {reason}")
            notes += textwrap.wrap(whole, SUMMARY_WIDTH, subsequent_indent="  ")
    return "\n".join([*_aligned(lines), *notes])


def _aligned(lines: list[list[str]]) -> list[str]:
    """Align cells in columns; the second, of labels, is cut so that a line fits."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    others = sum(widths) - widths[1] + 2 * (len(widths) - 1)
    widths[1] = min(widths[1], SUMMARY_WIDTH - others)
    return [
        "  ".join(
            clip(cell, width).ljust(width) if number == 1 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _printable(text: str) -> str:
    """Keep a label or a reason from sending control characters to the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
