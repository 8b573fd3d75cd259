"""The figures of the web-scale report: mAP along the steps, growth of time, mAP by batch size.

Each schedule keeps its colour, marker and line style in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from oasis_bench.analysis import LEAST_POINTS
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
from oasis_bench.reports.formatting import plural
from oasis_bench.reports.web_scale.measurements import (
    SCHEDULE,
    curves,
    schedule_name,
)
from oasis_bench.reports.web_scale.tables import TARGET_EXPONENT


def draw_all(
    checkpoints: pd.DataFrame, times: pd.DataFrame, growths: pd.DataFrame, costs: pd.DataFrame
) -> dict[str, Drawing]:
    """Draw every figure, by name, from the frames of the same names in `measurements`."""
    sizes = checkpoints["batch_size"].drop_duplicates().sort_values(na_position="first")
    styles = learner_styles([schedule_name(size) for size in sizes])
    with mpl.rc_context(STYLE):
        drawings = [
            _along_steps(checkpoints, styles),
            finish(
                "growth",
                "Learning time against the number of images",
                None if growths.empty else _growth(times, growths, styles),
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


def _along_steps(checkpoints: pd.DataFrame, styles: Mapping[str, LearnerStyle]) -> Drawing:
    """Draw mAP against the number of steps for the largest number of images that has a line."""
    shown = curves(checkpoints)
    seeds = {schedule: int(curve["seeds"].iloc[0]) for schedule, curve in shown.items()}
    several = min(seeds.values(), default=0) > 1
    counted = ", ".join(f"{schedule}: {plural(n, 'seed')}" for schedule, n in seeds.items())
    figure = None
    if shown:
        n_images = next(iter(shown.values()))["images"].iloc[0]
        figure, (axes,) = panels_of(
            [f"{n_images:,} images"], "learning steps (triplets)", "Mean average precision"
        )
        log_counts(axes)
        for schedule, curve in shown.items():
            draw_band(axes, curve.assign(se=curve["sd" if several else "se"]), styles[schedule])
        start = checkpoints.loc[checkpoints["n_steps"] == 0, "mean_average_precision"]
        axes.axhline(start.mean(), **CHANCE)
        identity = {"W = I, the start": Line2D([], [], **CHANCE)}
        draw_legend(figure, {schedule: styles[schedule] for schedule in shown}, identity)
    return finish(
        "map_along_steps",
        "mAP along the learning steps",
        figure,
        spread=f"mean ± standard {'deviation over seeds' if several else 'error over queries'}",
        caption=f"Of the largest number of images, on a logarithmic scale ({counted}). Dashed "
        "grey: W = I, before the first step.",
        without="no training has come to a checkpoint after its first step",
    )


def _growth(
    times: pd.DataFrame, growths: pd.DataFrame, styles: Mapping[str, LearnerStyle]
) -> Figure:
    """Draw learning time against images with the lines of least squares."""
    groups = [group for _, group in growths.groupby(["steps_an_image", "threads"], sort=False)]
    firsts = [group.iloc[0] for group in groups]
    titles = [
        f"{first['steps_an_image']:g} steps an image, {plural(first['threads'], 'thread')}"
        for first in firsts
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


def _by_batch(costs: pd.DataFrame, styles: Mapping[str, LearnerStyle]) -> Figure:
    """Draw final mAP by batch size, with exact OASIS as a level line and band.

    Shown is the largest number of images and steps, of those whose exact has several seeds if any.
    """
    costs = costs.assign(has_spread=costs["n_exact"] > 1)
    for largest in ("has_spread", "images", "steps"):
        costs = costs[costs[largest] == costs[largest].max()]
    shared = costs.iloc[0]
    figure, (axes,) = panels_of(
        [f"{shared['images']:,} images, {shared['steps']:,} steps"],
        "batch size (triplets)",
        "Mean average precision",
    )
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
