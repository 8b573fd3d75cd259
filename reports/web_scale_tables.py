"""The tables of the web-scale report: precision, time and memory, growth, cost of batches."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from oasis_bench.analysis.statistics import Summary, summarise
from oasis_bench.reports.tables import Cell, Notes, Table
from oasis_bench.reports.text import number_text, seconds_text
from oasis_bench.reports.web_scale_reading import (
    PRECISION_AT,
    TRAINING,
    BatchCost,
    Growth,
    pooled,
    schedule_name,
)

TARGET_EXPONENT = 1.05
"""Largest exponent of learning time against images that still passes for linear growth."""


def precision_table(ends: pd.DataFrame) -> Table:
    """Make the table of what was learned: a row for each schedule, unfinished trainings apart."""
    notes = Notes()
    at_k = [f"precision_at_{k}" for k in PRECISION_AT]
    rows = [
        [
            *_what(own, notes),
            Cell(f"{own['mean_average_precision_at_start'].mean():.4f}"),
            Cell(_mean_text(own["mean_average_precision"], 4)),
            Cell(f"{own['standard_error'].mean():.4f}"),
            *(Cell(_mean_text(own[name], 3)) for name in at_k),
        ]
        for own in pooled(ends)
    ]
    measured = ["mean_average_precision_at_start", "mean_average_precision", "standard_error"]
    return Table(
        name="precision",
        title="Mean average precision before and after learning",
        header=(
            *("Images", "Batch size", "Steps", "Seeds"),
            *("mAP, start", "mAP, end", "Standard error"),
            *(f"P@{k}" for k in PRECISION_AT),
        ),
        align="r" * 10,
        rows=rows,
        notes=notes.all(
            "Start: W = I. ± standard deviation over seeds, where there are several. Standard "
            "error: of the mAP at the end, over queries. P@k: precision at k, at the end."
        ),
        numbers=ends[[*TRAINING, "n_steps", "complete", "n_queries", *measured, *at_k]],
    )


def time_table(ends: pd.DataFrame) -> Table:
    """Make the table of time and memory: a row for each schedule, unfinished trainings apart."""
    notes, rows = Notes(), []
    for own in pooled(ends, "threads"):
        peak = own["peak_bytes"].median() / 2**20
        rows.append(
            [
                *_what(own, notes),
                Cell(str(own["threads"].iloc[0])),
                Cell(_time_text(own["learn_seconds"])),
                Cell(_time_text(own["cpu_seconds"])),
                Cell(number_text(own["microseconds_a_step"].median(), "{:,.2f}", missing="-")),
                Cell(number_text(peak, "{:,.0f}")),
            ]
        )
    measured = ["learn_seconds", "cpu_seconds", "microseconds_a_step", "peak_bytes"]
    return Table(
        name="time",
        title="Time and memory of learning",
        header=(
            *("Images", "Batch size", "Steps", "Seeds", "Threads"),
            *("Learning", "Processor time", "Microseconds a step", "Peak, MiB"),
        ),
        align="r" * 9,
        rows=rows,
        notes=notes.all(
            "Of learning alone, ranking left out: medians over seeds, and [min – max] where there "
            "are several. Peak: resident memory, the pages of the mapped rows among it."
        ),
        numbers=ends[[*TRAINING, "threads", "n_steps", "complete", *measured]],
    )


def growth_table(growths: Sequence[Growth]) -> Table:
    """Make the table of the exponents of learning time against images."""
    rows = [
        [
            Cell(growth.schedule),
            Cell(f"{growth.steps_an_image:g}"),
            Cell(str(growth.threads)),
            Cell(str(len(growth.points))),
            Cell(f"{growth.exponent:.3f}"),
            Cell(f"{growth.low:.3f} to {growth.high:.3f}"),
            Cell(verdict_text(growth)),
        ]
        for growth in growths
    ]
    columns = ["schedule", "steps_an_image", "threads", "factor", "exponent", "low", "high"]
    return Table(
        name="growth",
        title="Growth of learning time with the number of images",
        header=(
            *("Schedule", "Steps an image", "Threads", "Numbers of images"),
            *("Exponent", "95 % interval", f"At most {TARGET_EXPONENT}"),
        ),
        align="lrrrrrl",
        rows=rows,
        notes=[],
        numbers=pd.DataFrame(
            [[getattr(growth, name) for name in columns] for growth in growths], columns=columns
        ),
    )


def batch_table(costs: Sequence[BatchCost]) -> Table:
    """Make the table of what batches cost in mAP: a row for each batch size."""
    rows, numbers = [], []
    for cost in costs:
        for size, difference in cost.differences.items():
            within = cost.within(size)
            rows.append(
                [
                    Cell(f"{cost.n_images:,}"),
                    Cell(f"{cost.n_steps:,}"),
                    Cell(f"{size:,}"),
                    Cell(str(difference.n)),
                    Cell(_summary_text(difference, "{:+.5f}")),
                    Cell(number_text(cost.exact.sd, "{:.5f}")),
                    Cell("unknown" if within is None else "yes" if within else "no"),
                ]
            )
            numbers.append(
                {
                    "images": cost.n_images,
                    "steps": cost.n_steps,
                    "batch_size": size,
                    "n_pairs": difference.n,
                    "mean_difference": difference.mean,
                    "sd_of_differences": difference.sd,
                    "sd_of_exact": cost.exact.sd,
                    "n_exact": cost.exact.n,
                    "within": within,
                }
            )
    return Table(
        name="batches",
        title="Final mAP of mini-batches less that of exact",
        header=(
            *("Images", "Steps", "Batch size", "Pairs of seeds"),
            *("mAP less exact's", "Exact's deviation", "Within"),
        ),
        align="rrrrrrl",
        rows=rows,
        notes=[
            (
                "",
                "Mean ± standard deviation of the differences, paired by seed; exact's deviation "
                "is over its seeds. Within: the mean difference is no larger than that.",
            )
        ],
        numbers=pd.DataFrame(numbers),
    )


def verdict_text(growth: Growth) -> str:
    """Say whether the exponent meets its target, and whether all of its interval agrees."""
    met = growth.exponent <= TARGET_EXPONENT
    surely = growth.high <= TARGET_EXPONENT if met else growth.low > TARGET_EXPONENT
    return ("met" if met else "missed") + ("" if surely else ", not surely")


def _what(own: pd.DataFrame, notes: Notes) -> list[Cell]:
    """Say which trainings a row is of."""
    end = own.iloc[0]
    size = schedule_name(end["batch_size"]).removeprefix("batch ")
    done, planned = (f"{end[name]:,.0f}" for name in ("n_steps", "steps"))
    marks: tuple[str, ...] = ()
    if not end["complete"]:
        marks = notes.mark(
            f"Seed {end['seed']}, unfinished: its row is of the first {done} of {planned} steps."
        )
    return [
        Cell(f"{end['images']:,.0f}"),
        Cell(size),
        Cell(done, marks=marks),
        Cell(str(len(own))),
    ]


def _mean_text(values: pd.Series[float], digits: int) -> str:
    return _summary_text(summarise(values.dropna()), f"{{:.{digits}f}}")


def _summary_text(summary: Summary, pattern: str) -> str:
    """Write the mean, and the deviation where there is one."""
    text = number_text(summary.mean, pattern)
    return text + (f" ± {pattern.replace('+', '').format(summary.sd)}" if summary.n > 1 else "")


def _time_text(seconds: pd.Series[float]) -> str:
    """Write the median, and both ends where there are several, in seconds or minutes."""
    size, unit = (60, "min") if seconds.median() >= 120 else (1, "s")
    low, median, high = (
        seconds_text(value / size) for value in (seconds.min(), seconds.median(), seconds.max())
    )
    return f"{median} {unit}" + (f" [{low} – {high}]" if len(seconds) > 1 else "")
