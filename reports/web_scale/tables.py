"""The tables of the web-scale report: precision, time and memory, growth, cost of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from oasis_bench.claims import published_web_scale
from oasis_bench.reports.formatting import interval_text, number_text, seconds_text
from oasis_bench.reports.table import Cell, Table
from oasis_bench.reports.web_scale.measurements import (
    TRAINING,
    pooled,
    schedule_name,
)
from oasis_bench.web_scale import PRECISION_AT

TARGET_EXPONENT = 1.05
"""Largest exponent of learning time against images that still counts as linear growth."""


def precision_table(ends: pd.DataFrame) -> Table:
    """Make the table of what was learned: a row for each schedule, unfinished trainings apart."""
    at_k = [f"precision_at_{k}" for k in PRECISION_AT]
    measured = ["mean_average_precision_at_start", "mean_average_precision", "standard_error"]
    return Table.by_rows(
        name="precision",
        title="Mean average precision before and after learning",
        header=(
            *("Images", "Batch size", "Steps", "Seeds"),
            *("mAP, start", "mAP, end", "Standard error"),
            *(f"P@{k}" for k in PRECISION_AT),
        ),
        align="r" * 10,
        rows=[
            [
                *_training_cells(own),
                f"{own['mean_average_precision_at_start'].mean():.4f}",
                _mean_text(own["mean_average_precision"], "{:.4f}"),
                f"{own['standard_error'].mean():.4f}",
                *(_mean_text(own[name], "{:.3f}") for name in at_k),
            ]
            for own in pooled(ends)
        ],
        numbers=ends[[*TRAINING, "n_steps", "complete", "n_queries", *measured, *at_k]],
        notes=[
            "Start: W = I. ± standard deviation over seeds, where there are several. Standard "
            "error: of the mAP at the end, over queries. P@k: precision at k, at the end."
        ],
    )


def published_table(ends: pd.DataFrame, data: Mapping[str, Any]) -> Table:
    """Make the table of what the papers say of their experiment, ours beside it where we have it.

    Ours is the largest of the complete trainings, with the smallest batches; means over its seeds.

    Parameters
    ----------
    ends : DataFrame
        As `ends_of` returns it.
    data : mapping
        The parameters of the generated data, as the records have them.
    """
    ours: dict[str, float] = {
        "test images": data["n_test"],
        "features": data["n_visterms"],
    }
    if len(complete := ends[ends["complete"]]):
        *_, largest = complete.groupby(["images", "steps"])
        own = next(pooled(largest[1]))
        ours |= {
            "training images": own["images"].iloc[0],
            "steps at saturation": own["steps"].iloc[0],
            "training time": own["cpu_seconds"].mean() / 60,
            "precision at 1 against R_II": own["precision_at_1"].mean(),
        }
    numbers = published_web_scale().rename(columns={"value": "published"})
    numbers = numbers.assign(ours=numbers["figure"].map(ours).astype(float))
    return Table.by_rows(
        name="published",
        title="What the papers say of their experiment, and ours",
        header=("What", "Published", "Ours", "Unit", "Source"),
        align="lrrll",
        rows=[
            [
                str(row["figure"]),
                f"{row['published']:,.6g}" if row["published"] < 1 else f"{row['published']:,.0f}",
                number_text(row["ours"], "{:,.3g}" if row["ours"] < 10 else "{:,.0f}", missing="-"),
                str(row["unit"]),
                str(row["source"]),
            ]
            for row in numbers.to_dict("records")
        ],
        numbers=numbers[["figure", "published", "ours", "unit", "source"]],
        notes=[
            "Ours: the largest training that is complete; its steps are given, not chosen by "
            "saturation, and its time is the processor's. Its images are generated, so that "
            "precision cannot be compared. '-': not measured here."
        ],
    )


def time_table(ends: pd.DataFrame) -> Table:
    """Make the table of time and memory: a row for each schedule, unfinished trainings apart."""
    measured = ["learn_seconds", "cpu_seconds", "microseconds_a_step", "peak_bytes"]
    return Table.by_rows(
        name="time",
        title="Time and memory of learning",
        header=(
            *("Images", "Batch size", "Steps", "Seeds", "Threads"),
            *("Learning", "Processor time", "Microseconds a step", "Peak, MiB"),
        ),
        align="r" * 9,
        rows=[
            [
                *_training_cells(own),
                str(own["threads"].iloc[0]),
                _time_text(own["learn_seconds"]),
                _time_text(own["cpu_seconds"]),
                number_text(own["microseconds_a_step"].median(), "{:,.2f}", missing="-"),
                number_text(own["peak_bytes"].median() / 2**20, "{:,.0f}"),
            ]
            for own in pooled(ends, "threads")
        ],
        numbers=ends[[*TRAINING, "threads", "n_steps", "complete", *measured]],
        notes=[
            "Of learning alone, ranking left out: medians over seeds, and [min – max] where there "
            "are several. Peak: resident memory, with the pages of the mapped rows."
        ],
    )


def growth_table(growths: pd.DataFrame) -> Table:
    """Make the table of the exponents of learning time against images."""
    columns = ["schedule", "steps_an_image", "threads", "factor", "exponent", "low", "high"]
    return Table.by_rows(
        name="growth",
        title="Growth of learning time with the number of images",
        header=(
            *("Schedule", "Steps an image", "Threads", "Numbers of images"),
            *("Exponent", "95 % interval", f"At most {TARGET_EXPONENT}"),
        ),
        align="lrrrrrl",
        rows=[
            [
                growth["schedule"],
                f"{growth['steps_an_image']:g}",
                str(growth["threads"]),
                str(growth["n_sizes"]),
                f"{growth['exponent']:.3f}",
                interval_text(growth["low"], growth["high"], "{:.3f}"),
                _verdict(growth["exponent"], growth["low"], growth["high"]),
            ]
            for growth in growths.to_dict("records")
        ],
        numbers=growths[columns],
    )


def batch_table(costs: pd.DataFrame) -> Table:
    """Make the table of what mini-batches cost in mAP: a row for each batch size."""
    columns = ["images", "steps", "batch_size", "n_pairs", "mean_difference", "sd_of_differences"]
    words = {None: "unknown", True: "yes", False: "no"}
    return Table.by_rows(
        name="batches",
        title="Final mAP of mini-batches less that of exact",
        header=(
            *("Images", "Steps", "Batch size", "Pairs of seeds"),
            *("mAP less exact's", "Exact's deviation", "Within"),
        ),
        align="rrrrrrl",
        rows=[
            [
                *(f"{cost[name]:,}" for name in ("images", "steps", "batch_size", "n_pairs")),
                _spread_text(cost["mean_difference"], cost["sd_of_differences"], "{:+.5f}"),
                number_text(cost["sd_of_exact"], "{:.5f}"),
                words[cost["within"]],
            ]
            for cost in costs.to_dict("records")
        ],
        numbers=costs[[*columns, "sd_of_exact", "n_exact", "within"]],
        notes=[
            "Mean ± standard deviation of the differences, paired by seed; exact's deviation is "
            "over its seeds, of which it takes two or more. Within: the mean difference is no "
            "larger than that."
        ],
    )


def _verdict(exponent: float, low: float, high: float) -> str:
    """Say whether the exponent meets its target, and whether all of its interval agrees."""
    met = exponent <= TARGET_EXPONENT
    surely = high <= TARGET_EXPONENT if met else low > TARGET_EXPONENT
    return ("met" if met else "missed") + ("" if surely else ", not surely")


def _training_cells(own: pd.DataFrame) -> list[str | Cell]:
    """Make the cells that say which trainings a row is about."""
    end = own.iloc[0]
    done, planned = (f"{end[name]:,.0f}" for name in ("n_steps", "steps"))
    unfinished = (
        f"Seed {end['seed']}, unfinished: its row is of the first {done} of {planned} steps."
    )
    return [
        f"{end['images']:,.0f}",
        schedule_name(end["batch_size"]).removeprefix("batch "),
        Cell(done, notes=() if end["complete"] else (unfinished,)),
        str(len(own)),
    ]


def _mean_text(values: pd.Series[float], pattern: str) -> str:
    return _spread_text(values.mean(), values.std(), pattern)


def _spread_text(mean: float, sd: float, pattern: str) -> str:
    """Write a mean, with its standard deviation where there is one."""
    spread = number_text(sd, " ± " + pattern.replace("+", ""), missing="")
    return number_text(mean, pattern) + spread


def _time_text(seconds: pd.Series[float]) -> str:
    """Write the median, and both ends where there are several, in seconds or minutes."""
    size, unit = (60, "min") if seconds.median() >= 120 else (1, "s")
    low, median, high = (
        seconds_text(value / size) for value in (seconds.min(), seconds.median(), seconds.max())
    )
    return f"{median} {unit}" + (f" [{low} – {high}]" if len(seconds) > 1 else "")
