"""The report of the web-scale experiment: its page, tables and figures.

A row of a table is of trainings that differ in their seed alone; a schedule (exact, or a batch
size) keeps its colour, marker and line style in all figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from oasis_bench.analysis import LEAST_POINTS
from oasis_bench.claims import published_web_scale
from oasis_bench.reports.figure_style import (
    CHANCE,
    STYLE,
    Drawing,
    LearnerStyle,
    draw_band,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
    log_counts,
    panels_of,
)
from oasis_bench.reports.formatting import interval_text, number_text, plural, seconds_text
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.table import Cell, Column, Table
from oasis_bench.reports.web_scale_measurements import (
    AT_K,
    SCHEDULE,
    TRAINING,
    batch_costs,
    checkpoints_of,
    curves,
    ends_of,
    growths,
    largest,
    learning_times,
    pooled,
    schedule_name,
)
from oasis_bench.system import UsageError
from oasis_bench.web_scale import PRECISION_AT, read_records

PAGE = "web-scale.html"

TARGET_EXPONENT = 1.05
"""Largest exponent of learning time against images that still counts as linear growth."""

Styles = Mapping[str, LearnerStyle]


def write_web_scale_report(folder: Path) -> Path:
    """Write 'tables/', 'figures/' and the page of the trainings whose records a folder holds."""
    records = [record for record in read_records(folder) if record.checkpoints]
    if not records:
        raise UsageError(
            f"{folder} holds no record of a training: 'web-scale --output {folder}' makes them"
        )
    data, checkpoints = records[0].data, checkpoints_of(records)
    ends = ends_of(checkpoints)
    tables, figures = web_scale_tables(ends, data), web_scale_figures(checkpoints)
    page = render(
        "web_scale.html.j2",
        tables=tables,
        figures=figures,
        data=data,
        n_images=int(ends["images"].max()),
        n_queries=sorted(checkpoints["n_queries"].unique()),
        unfinished=int((~ends["complete"]).sum()),
        n_trainings=len(ends),
        machines=_machines([record.provenance for record in records]),
        threads=sorted(checkpoints["threads"].unique()),
        loads=checkpoints["load"].dropna().agg(["min", "max"]).tolist(),
    )
    return write_files(folder, PAGE, page, tables.values(), figures.values())


def _machines(of_records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the provenance of the first record, and of others the values that differ from it."""
    machines = [first := of_records[0]]
    for other in of_records[1:]:
        keys = [key for key in {**first, **other} if other.get(key) != first.get(key)]
        differing = {key: other.get(key) for key in keys}
        if differing and differing not in machines:
            machines.append(differing)
    return machines


def web_scale_tables(ends: pd.DataFrame, data: Mapping[str, Any]) -> dict[str, Table]:
    """Make the tables by name; those of growth and of batches where there is something to say."""
    tables = [precision_table(ends), time_table(ends), published_table(ends, data)]
    if not (grown := growths(learning_times(ends))).empty:
        tables.append(growth_table(grown))
    if not (costs := batch_costs(ends)).empty:
        tables.append(batch_table(costs))
    return {table.name: table for table in tables}


def precision_table(ends: pd.DataFrame) -> Table:
    """Make the table of what was learned: a row for each schedule, unfinished trainings apart."""
    groups = pooled(ends)
    measured = ["mean_average_precision_at_start", "mean_average_precision", "standard_error"]
    start, end, error = measured
    return Table(
        name="precision",
        title="Mean average precision before and after learning",
        columns=[
            *_of_trainings(groups),
            Column("mAP, start", [own[start].mean() for own in groups], "{:.4f}".format),
            Column("mAP, end", [own[end] for own in groups], partial(_mean_text, "{:.4f}")),
            Column("Standard error", [own[error].mean() for own in groups], "{:.4f}".format),
            *(
                Column(f"P@{k}", [own[name] for own in groups], partial(_mean_text, "{:.3f}"))
                for k, name in zip(PRECISION_AT, AT_K, strict=True)
            ),
        ],
        numbers=ends[[*TRAINING, "n_steps", "complete", "n_queries", *measured, *AT_K]],
        notes=[
            "Start: W = I. ± standard deviation over seeds, where there are several. Standard "
            "error: of the mAP at the end, over queries. P@k: precision at k, at the end."
        ],
    )


def published_table(ends: pd.DataFrame, data: Mapping[str, Any]) -> Table:
    """Make the table of what the papers say of their experiment, ours beside it where we have it.

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
    numbers = published_web_scale().rename(columns={"value": "published"})
    numbers = numbers.assign(ours=numbers["figure"].map(ours).astype(float))
    return Table(
        name="published",
        title="What the papers say of their experiment, and ours",
        columns=[
            Column("What", numbers["figure"], align="l"),
            Column(
                "Published",
                numbers["published"],
                lambda value: f"{value:,.6g}" if value < 1 else f"{value:,.0f}",
            ),
            Column(
                "Ours",
                numbers["ours"],
                lambda value: number_text(value, "{:,.3g}" if value < 10 else "{:,.0f}", "-"),
            ),
            Column("Unit", numbers["unit"], align="l"),
            Column("Source", numbers["source"], align="l"),
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
    groups = pooled(ends, "threads")
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
            Column("Microseconds a step", step, lambda x: number_text(x.median(), "{:,.2f}", "-")),
            Column("Peak, MiB", peak, lambda x: number_text(x.median() / 2**20, "{:,.0f}")),
        ],
        numbers=ends[[*TRAINING, "threads", "n_steps", "complete", *measured]],
        notes=[
            "Of learning alone, ranking left out: medians over seeds, and [min – max] where there "
            "are several. Peak: resident memory, with the pages of the mapped rows."
        ],
    )


def growth_table(growths: pd.DataFrame) -> Table:
    """Make the table of the exponents of learning time against images."""
    ends = list(zip(growths["exponent"], growths["low"], growths["high"], strict=True))
    return Table(
        name="growth",
        title="Growth of learning time with the number of images",
        columns=[
            Column("Schedule", growths["schedule"], align="l"),
            Column("Steps an image", growths["steps_an_image"], "{:g}".format),
            Column("Threads", growths["threads"]),
            Column("Numbers of images", growths["n_sizes"]),
            Column("Exponent", growths["exponent"], "{:.3f}".format),
            Column("95 % interval", ends, lambda it: interval_text(it[1], it[2], "{:.3f}")),
            Column(f"At most {TARGET_EXPONENT}", ends, lambda it: _verdict(*it), align="l"),
        ],
        numbers=growths[[*SCHEDULE, "factor", "exponent", "low", "high"]],
    )


def batch_table(costs: pd.DataFrame) -> Table:
    """Make the table of what mini-batches cost in mAP: a row for each batch size."""
    less = zip(costs["mean_difference"], costs["sd_of_differences"], strict=True)
    names = ["images", "steps", "batch_size", "n_pairs"]
    headers = ("Images", "Steps", "Batch size", "Pairs of seeds")
    return Table(
        name="batches",
        title="Final mAP of mini-batches less that of exact",
        columns=[
            *(
                Column(header, costs[name], "{:,}".format)
                for header, name in zip(headers, names, strict=True)
            ),
            Column("mAP less exact's", less, lambda it: _spread_text(it[0], it[1], "{:+.5f}")),
            Column("Exact's deviation", costs["sd_of_exact"], lambda x: number_text(x, "{:.5f}")),
            Column(
                "Within",
                costs["within"],
                {None: "unknown", True: "yes", False: "no"}.__getitem__,
                align="l",
            ),
        ],
        numbers=costs[
            [*names, "mean_difference", "sd_of_differences", "sd_of_exact", "n_exact", "within"]
        ],
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


def _of_trainings(groups: Sequence[pd.DataFrame]) -> list[Column]:
    """Make the columns that say which trainings a row is about."""
    ends = [own.iloc[0] for own in groups]
    return [
        Column("Images", [end["images"] for end in ends], "{:,.0f}".format),
        Column("Batch size", [end["schedule"].removeprefix("batch ") for end in ends]),
        Column("Steps", map(_steps_cell, ends)),
        Column("Seeds", map(len, groups)),
    ]


def _steps_cell(end: pd.Series[Any]) -> Cell:
    done, planned = (f"{end[name]:,.0f}" for name in ("n_steps", "steps"))
    unfinished = (
        f"Seed {end['seed']}, unfinished: its row is of the first {done} of {planned} steps."
    )
    return Cell(done, notes=() if end["complete"] else (unfinished,))


def _mean_text(pattern: str, values: pd.Series[float]) -> str:
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


@mpl.rc_context(STYLE)
def web_scale_figures(checkpoints: pd.DataFrame) -> dict[str, Drawing]:
    """Draw mAP along the steps, the growth of time, and mAP by batch size; by name."""
    ends = ends_of(checkpoints)
    times, costs, shown = learning_times(ends), batch_costs(ends), curves(checkpoints)
    sizes = checkpoints["batch_size"].drop_duplicates().sort_values(na_position="first")
    styles = learner_styles([schedule_name(size) for size in sizes])
    seeds = {schedule: int(curve["seeds"].iloc[0]) for schedule, curve in shown.items()}
    counted = ", ".join(f"{schedule}: {plural(n, 'seed')}" for schedule, n in seeds.items())
    several = min(seeds.values(), default=0) > 1
    start = checkpoints.loc[checkpoints["n_steps"] == 0, "mean_average_precision"].mean()
    drawings = [
        finish(
            "map_along_steps",
            "mAP along the learning steps",
            _along_steps(shown, "sd" if several else "se", start, styles) if shown else None,
            spread="mean ± standard "
            + ("deviation over seeds" if several else "error over queries"),
            caption=f"Of the largest number of images, on a logarithmic scale ({counted}). Dashed "
            "grey: W = I, before the first step.",
            without="no training has come to a checkpoint after its first step",
        ),
        finish(
            "growth",
            "Learning time against the number of images",
            None if times.empty else _growth(times, growths(times), styles),
            spread="medians over seeds, bars from the shortest to the longest",
            caption="Both scales logarithmic; lines of least squares through the medians. "
            f"Target: an exponent of at most {TARGET_EXPONENT}.",
            without=f"no schedule is complete for {LEAST_POINTS} numbers of images or more",
        ),
        finish(
            "map_by_batch",
            "Final mAP by batch size",
            None if costs.empty else _by_batch(costs, styles),
            spread="mean ± standard deviation over seeds, where there are several",
            caption="Level line and band: exact.",
            without="exact and a batch size are not both complete for any number of images "
            "and steps",
        ),
    ]
    return {drawing.name: drawing for drawing in drawings}


def _along_steps(
    shown: Mapping[str, pd.DataFrame], spread: str, start: float, styles: Styles
) -> Figure:
    """Draw mAP against the number of steps for the largest number of images that has a line."""
    n_images = next(iter(shown.values()))["images"].iloc[0]
    titles = [f"{n_images:,} images"]
    figure, (axes,) = panels_of(titles, "learning steps (triplets)", "Mean average precision")
    log_counts(axes)
    for schedule, curve in shown.items():
        draw_band(axes, curve.assign(se=curve[spread]), styles[schedule])
    axes.axhline(start, **CHANCE)
    identity = {"W = I, the start": Line2D([], [], **CHANCE)}
    draw_legend(figure, {schedule: styles[schedule] for schedule in shown}, identity)
    return figure


def _growth(times: pd.DataFrame, growths: pd.DataFrame, styles: Styles) -> Figure:
    """Draw learning time against images with the lines of least squares."""
    groups = [group for _, group in growths.groupby(["steps_an_image", "threads"], sort=False)]
    titles = [
        f"{group['steps_an_image'].iloc[0]:g} steps an image, "
        f"{plural(group['threads'].iloc[0], 'thread')}"
        for group in groups
    ]
    figure, panels = panels_of(titles, "training images", "Learning, wall clock (seconds)")
    legend = {}
    for axes, group in zip(panels, groups, strict=True):
        log_counts(axes)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter())
        for growth in group.to_dict("records"):
            style = styles[growth["schedule"]]
            own = (times[SCHEDULE] == [growth[name] for name in SCHEDULE]).all(axis="columns")
            points = times[own]
            draw_bars(axes, points["images"], points, {**style, "linestyle": ""})
            x = points["images"].iloc[[0, -1]]
            fitted = growth["factor"] * x ** growth["exponent"]
            axes.plot(x, fitted, **{**style, "marker": ""}, linewidth=1)
            legend[f"{growth['schedule']}: exponent {growth['exponent']:.2f}"] = style
    draw_legend(figure, legend, {})
    return figure


def _by_batch(costs: pd.DataFrame, styles: Styles) -> Figure:
    """Draw final mAP by batch size, with exact OASIS as a level line and band.

    Shown is the largest number of images and steps, of those whose exact has several seeds if any.
    """
    costs = costs.assign(has_spread=costs["n_exact"] > 1)
    costs = largest(costs, "has_spread", "images", "steps")
    shared = costs.iloc[0]
    titles = [f"{shared['images']:,} images, {shared['steps']:,} steps"]
    figure, (axes,) = panels_of(titles, "batch size (triplets)", "Mean average precision")
    log_counts(axes)
    sizes = costs["batch_size"]
    axes.set_xlim(sizes.min() / 2, sizes.max() * 2)  # a single size has no range of its own
    colour, exact, sd = styles["exact"]["color"], shared["mean_of_exact"], shared["sd_of_exact"]
    axes.axhline(exact, color=colour, linewidth=1.2)
    if shared["has_spread"]:
        axes.axhspan(exact - sd, exact + sd, color=colour, alpha=0.18, linewidth=0)
    axes.plot(sizes, costs["mean"], color="0.6", linewidth=1)
    sds = costs["sd"].fillna(0)
    points = costs.assign(middle=costs["mean"], low=costs["mean"] - sds, high=costs["mean"] + sds)
    for size in sizes:
        style = {**styles[schedule_name(size)], "linestyle": ""}
        draw_bars(axes, [size], points[sizes == size], style)
    draw_legend(figure, {}, {"exact": Line2D([], [], color=colour, linewidth=1.2)})
    return figure
