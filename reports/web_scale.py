"""The report of the web-scale experiment: its page, tables and figures.

A row of a table summarises trainings that differ only in their seed.  A schedule (exact, or a batch
size) has the same colour, marker and line style in all figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

from oasis_bench.claims import published
from oasis_bench.reports import figure_style as fs
from oasis_bench.reports.report_files import write_page
from oasis_bench.reports.table import Column, Table, number_text, seconds_text
from oasis_bench.reports.words import note
from oasis_bench.system import UsageError
from oasis_bench.web_scale import TrainingRecord

TRAINING = ["images", "steps", "batch_size", "seed"]
"""The columns that identify a training; batch_size is NaN for exact OASIS."""


def write_web_scale_report(folder: Path) -> Path:
    """Write 'tables/', 'figures/' and the page for the training records in a folder."""
    records = [record for record in TrainingRecord.read_all(folder) if record.checkpoints]
    if not records:
        raise UsageError(
            f"{folder} has no record of a training: 'web-scale --output {folder}' makes them"
        )
    data, checkpoints = records[0].data, checkpoints_of(records)
    ends = ends_of(checkpoints)
    tables = [precision_table(ends), time_table(ends), published_table(ends, data)]
    figures = web_scale_figures(checkpoints)
    origins = [record.provenance for record in records]
    machines = [one for number, one in enumerate(origins) if one not in origins[:number]]
    return write_page(
        folder,
        "web-scale.html",
        "web_scale.html.j2",
        tables={table.name: table for table in tables},
        figures=figures,
        data=data,
        n_images=int(ends["images"].max()),
        n_queries=sorted(checkpoints["n_queries"].unique()),
        unfinished=int((~ends["complete"]).sum()),
        n_trainings=len(ends),
        machines=machines,
    )


# --- what the records show


def schedule_name(batch_size: float) -> str:
    """Name a schedule; NaN is exact OASIS."""
    return "exact" if math.isnan(batch_size) else f"batch {batch_size:,.0f}"


def checkpoints_of(records: Sequence[TrainingRecord]) -> pd.DataFrame:
    """Return a row for each checkpoint, in the order of images, steps, batch size and seed.

    The columns are these four, threads, schedule (its name), and the fields of `Checkpoint`, with
    columns such as precision_at_1 for its precisions.  batch_size is NaN for exact OASIS.
    """
    rows = [
        {
            **dict(zip(TRAINING, astuple(record.training), strict=True)),
            "threads": record.n_threads,
            **asdict(point),
            **{f"precision_at_{k}": value for k, value in point.precision_at.items()},
        }
        for record in records
        for point in record.checkpoints
    ]
    frame = pd.DataFrame(rows).drop(columns="precision_at")
    frame = frame.astype({"batch_size": float, "peak_bytes": float})
    frame["schedule"] = frame["batch_size"].map(schedule_name)
    return frame.sort_values([*TRAINING, "n_steps"], na_position="first", ignore_index=True)


def ends_of(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return the last checkpoint of each training.

    `mean_average_precision_at_start` is the value for W = I, from the first checkpoint;
    `peak_bytes` is the largest of all checkpoints; `complete` says whether all steps are done.
    """
    trainings = checkpoints.groupby(TRAINING, dropna=False, sort=False)
    first, ends = (rows.reset_index(drop=True) for rows in (trainings.head(1), trainings.tail(1)))
    return ends.assign(
        mean_average_precision_at_start=first["mean_average_precision"],
        peak_bytes=trainings["peak_bytes"].max().to_numpy(),
        microseconds_a_step=1e6 * ends["learn_seconds"] / ends["n_steps"].replace(0, math.nan),
        complete=ends["n_steps"] == ends["steps"],
    )


def pooled(ends: pd.DataFrame) -> list[pd.DataFrame]:
    """Group complete trainings that differ only in their seed; unfinished ones are alone."""
    unfinished_seed = ends["seed"].where(~ends["complete"])
    keys = [ends[name] for name in (*TRAINING[:-1], "threads")]
    return [own for _, own in ends.groupby([*keys, unfinished_seed], dropna=False, sort=False)]


def largest(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the rows that are largest in the first column, of these those in the next, ..."""
    for name in names:
        frame = frame[frame[name] == frame[name].max()]
    return frame


def curves(checkpoints: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return mAP along the steps for the largest number of images, by schedule.

    The columns are x, the steps, without the start and as far as all seeds have come; mean of mAP
    over seeds; se, the standard error over queries.
    """
    found = {}
    learned = largest(checkpoints[checkpoints["n_steps"] > 0], "images", "steps")
    for schedule, own in learned.groupby("schedule", sort=False):
        own = own[own["n_steps"] <= own.groupby("seed")["n_steps"].max().min()]
        means = own.groupby("n_steps")[["mean_average_precision", "standard_error"]].mean()
        found[str(schedule)] = means.set_axis(["mean", "se"], axis=1).reset_index(names="x")
    return found


# --- tables


def precision_table(ends: pd.DataFrame) -> Table:
    """Make the table of what was learned: a row for each schedule, unfinished trainings apart."""
    groups = pooled(ends)
    measured = ["mean_average_precision_at_start", "mean_average_precision", "standard_error"]
    start, end, error = measured
    at_k = [str(name) for name in ends if str(name).startswith("precision_at_")]
    return Table(
        name="precision",
        title="Mean average precision before and after learning",
        columns=[
            *_of_trainings(groups),
            Column("mAP, start", [own[start].mean() for own in groups], "{:.4f}".format),
            Column("mAP, end", [own[end] for own in groups], partial(_mean_text, "{:.4f}")),
            Column("Standard error", [own[error].mean() for own in groups], "{:.4f}".format),
            *(
                Column(
                    name.replace("precision_at_", "P@"),
                    [own[name] for own in groups],
                    partial(_mean_text, "{:.3f}"),
                )
                for name in at_k
            ),
        ],
        numbers=ends[[*TRAINING, "n_steps", "complete", "n_queries", *measured, *at_k]],
        notes=[note("precision")],
    )


def time_table(ends: pd.DataFrame) -> Table:
    """Make the table of time and memory: a row for each schedule, unfinished trainings apart."""
    groups = pooled(ends)
    measured = ["learn_seconds", "cpu_seconds", "microseconds_a_step", "peak_bytes"]
    learning, processor, step, peak = ([own[name] for own in groups] for name in measured)
    return Table(
        name="time",
        title="Time and memory of learning",
        columns=[
            *_of_trainings(groups),
            Column("Threads", [own["threads"].iloc[0] for own in groups]),
            Column("Learning", learning, _time_text),
            Column("Processor time", processor, _time_text),
            Column(
                "Microseconds per step", step, lambda x: number_text(x.median(), "{:,.2f}", "-")
            ),
            Column("Peak, MiB", peak, lambda x: number_text(x.median() / 2**20, "{:,.0f}")),
        ],
        numbers=ends[[*TRAINING, "threads", "n_steps", "complete", *measured]],
        notes=[note("time")],
    )


def published_table(ends: pd.DataFrame, data: Mapping[str, Any]) -> Table:
    """Make the table of the papers' values for their experiment, with ours if we have them.

    Ours is the largest of the complete trainings, with the smallest batches; means over its seeds.
    `data` are the parameters of the generated data.
    """
    ours: dict[str, float] = {"test images": data["n_test"], "features": data["n_visterms"]}
    if len(complete := largest(ends[ends["complete"]], "images", "steps")):
        own = pooled(complete)[0]
        ours |= {
            "training images": own["images"].iloc[0],
            "steps at saturation": own["steps"].iloc[0],
            "training time": own["cpu_seconds"].mean() / 60,
            "precision at 1 against R_II": own["precision_at_1"].mean(),
        }
    numbers = published("web_scale").rename(columns={"value": "published"})
    numbers = numbers.assign(ours=numbers["figure"].map(ours).astype(float))
    return Table(
        name="published",
        title="The experiment of the papers, and ours",
        columns=[
            Column("What", numbers["figure"], align="l"),
            Column("Published", numbers["published"], _figure_text),
            Column("Ours", numbers["ours"], _figure_text),
            Column("Unit", numbers["unit"], align="l"),
            Column("Source", numbers["source"], align="l"),
        ],
        numbers=numbers[["figure", "published", "ours", "unit", "source"]],
        notes=[note("published")],
    )


def _of_trainings(groups: Sequence[pd.DataFrame]) -> list[Column]:
    """Make the columns that say which trainings a row is about."""
    ends = [own.iloc[0] for own in groups]
    return [
        Column("Images", [end["images"] for end in ends], "{:,.0f}".format),
        Column("Batch size", [end["schedule"].removeprefix("batch ") for end in ends]),
        Column("Steps", ends, _steps_text),
        Column("Seeds", map(len, groups)),
    ]


def _steps_text(end: pd.Series[Any]) -> str:
    done, planned = (f"{end[name]:,.0f}" for name in ("n_steps", "steps"))
    return done if end["complete"] else f"{done} of {planned} (seed {end['seed']})"


def _mean_text(pattern: str, values: pd.Series[float]) -> str:
    """Write a mean, with its standard deviation if there is one."""
    spread = number_text(values.std(), " ± " + pattern, missing="")
    return number_text(values.mean(), pattern) + spread


def _figure_text(value: float) -> str:
    return number_text(value, "{:,.3g}" if value < 10 else "{:,.0f}", "-")


def _time_text(seconds: pd.Series[float]) -> str:
    """Write the median and, if there are several values, the range, in seconds or minutes."""
    size, unit = (60, "min") if seconds.median() >= 120 else (1, "s")
    low, median, high = (
        seconds_text(value / size) for value in (seconds.min(), seconds.median(), seconds.max())
    )
    return f"{median} {unit}" + (f" [{low} – {high}]" if len(seconds) > 1 else "")


# --- figures


@mpl.rc_context(fs.STYLE)
def web_scale_figures(checkpoints: pd.DataFrame) -> list[fs.Drawing]:
    """Draw mAP along the steps; nothing if no training has a step."""
    shown = curves(checkpoints)
    if not shown:
        return []
    n_images = largest(checkpoints[checkpoints["n_steps"] > 0], "images")["images"].iloc[0]
    sizes = checkpoints["batch_size"].drop_duplicates().sort_values(na_position="first")
    styles = fs.styles_in_order([schedule_name(size) for size in sizes])
    start = checkpoints.loc[checkpoints["n_steps"] == 0, "mean_average_precision"].mean()
    figure, (axes,) = fs.panels_of([f"{n_images:,} images"], "triplets", "Mean average precision")
    fs.log_counts(axes)
    for schedule, curve in shown.items():
        fs.draw_band(axes, curve, styles[schedule])
    axes.axhline(start, **fs.CHANCE)
    drawn = {schedule: styles[schedule] for schedule in shown}
    fs.draw_legend(figure, drawn, {"W = I, the start": fs.CHANCE})
    return fs.finish("map_along_steps", figure, "map_along_steps")
