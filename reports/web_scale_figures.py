"""The figures of the web-scale report: mAP along the steps, growth of time, mAP by batch size.

Each schedule keeps its colour, marker and line style in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, NullLocator

from oasis_bench.reports.canvas import (
    CHANCE,
    STYLE,
    Drawing,
    LearnerStyle,
    count_steps,
    draw_band,
    draw_legend,
    learner_styles,
    panels_of,
    render,
)
from oasis_bench.reports.text import plural
from oasis_bench.reports.web_scale_reading import (
    LEAST_SIZES,
    BatchCost,
    Growth,
    curves,
    schedule_name,
)
from oasis_bench.reports.web_scale_tables import TARGET_EXPONENT

TICK_ROOM = 0.14
"""Share of the range of an axis that a label of its ticks takes."""


def draw_all(
    checkpoints: pd.DataFrame, growths: Sequence[Growth], costs: Sequence[BatchCost]
) -> dict[str, Drawing]:
    """Draw every figure, by name."""
    names = [schedule_name(size) for size in sorted(checkpoints["batch_size"].unique(), key=_rank)]
    styles = learner_styles(names)
    with mpl.rc_context(STYLE):
        drawings = [
            _along_steps(checkpoints, styles),
            _growth(growths, styles),
            _batches(costs, styles),
        ]
    return {drawing.name: drawing for drawing in drawings}


def _rank(batch_size: float) -> float:
    """Put exact, which is NaN, before all batch sizes."""
    return 0 if math.isnan(batch_size) else batch_size


def _along_steps(checkpoints: pd.DataFrame, styles: Mapping[str, LearnerStyle]) -> Drawing:
    """Draw mAP against the number of steps for the largest number of images that has a line."""
    name, title = "map_along_steps", "mAP along the learning steps"
    shown = curves(checkpoints)
    if not shown:
        return _absent(name, title, "no training has come to a checkpoint after its first step")
    seeds = {schedule: int(curve["seeds"].iloc[0]) for schedule, curve in shown.items()}
    spread, told = (
        ("sd", "deviation over seeds") if min(seeds.values()) > 1 else ("se", "error over queries")
    )
    n_images = next(iter(shown.values()))["images"].iloc[0]
    figure, (axes,) = panels_of(
        [f"{n_images:,} images"], "learning steps (triplets)", "Mean average precision"
    )
    count_steps(axes)
    for schedule, curve in shown.items():
        draw_band(axes, curve.assign(se=curve[spread]), styles[schedule])
    start = checkpoints.loc[checkpoints["n_steps"] == 0, "mean_average_precision"]
    axes.axhline(start.mean(), **CHANCE)
    draw_legend(
        figure,
        {schedule: styles[schedule] for schedule in shown},
        {"W = I, the start": Line2D([], [], **CHANCE)},
    )
    counted = ", ".join(f"{schedule}: {plural(n, 'seed')}" for schedule, n in seeds.items())
    return _drawn(
        name,
        title,
        figure,
        f"mean ± standard {told}",
        f"Of the largest number of images, on a logarithmic scale ({counted}). Dashed grey: W = I, "
        "before the first step.",
    )


def _growth(growths: Sequence[Growth], styles: Mapping[str, LearnerStyle]) -> Drawing:
    """Draw learning time against images with the lines of least squares."""
    name, title = "growth", "Learning time against the number of images"
    if not growths:
        reason = f"no schedule is complete for {LEAST_SIZES} numbers of images or more"
        return _absent(name, title, reason)
    groups: dict[str, list[Growth]] = {}
    for growth in growths:
        threads = plural(growth.threads, "thread")
        groups.setdefault(f"{growth.steps_an_image:g} steps an image, {threads}", []).append(growth)
    figure, panels = panels_of(list(groups), "training images", "Learning, wall clock (seconds)")
    for axes, group in zip(panels, groups.values(), strict=True):
        _growth_panel(axes, group, styles)
    exponents = {f"{growth.schedule}: exponent {growth.exponent:.2f}": growth for growth in growths}
    draw_legend(figure, {text: styles[growth.schedule] for text, growth in exponents.items()}, {})
    intervals = "; ".join(
        f"{growth.schedule}: {growth.exponent:.3f} [{growth.low:.3f}, {growth.high:.3f}]"
        for growth in growths
    )
    return _drawn(
        name,
        title,
        figure,
        "medians over seeds, bars from the shortest to the longest",
        "Both scales logarithmic; lines of least squares through the medians. Exponent with its "
        f"95 % confidence interval: {intervals}. Target: at most {TARGET_EXPONENT}.",
    )


def _growth_panel(
    axes: Axes, growths: Sequence[Growth], styles: Mapping[str, LearnerStyle]
) -> None:
    sizes = {size for growth in growths for size in growth.points["images"]}
    _count_at(axes, sorted(sizes))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter())
    for growth in growths:
        style, points = styles[growth.schedule], growth.points
        axes.errorbar(
            points["images"],
            points["median"],
            yerr=[points["median"] - points["min"], points["max"] - points["median"]],
            capsize=2.5,
            elinewidth=1,
            **{**style, "linestyle": ""},
        )
        x = points["images"].iloc[[0, -1]]
        axes.plot(x, growth.factor * x**growth.exponent, **{**style, "marker": ""}, linewidth=1)


def _batches(costs: Sequence[BatchCost], styles: Mapping[str, LearnerStyle]) -> Drawing:
    """Draw final mAP by batch size, exact as a level band."""
    name, title = "map_by_batch", "Final mAP by batch size"
    if not costs:
        reason = "exact and a batch size are not both complete for any number of images and steps"
        return _absent(name, title, reason)
    cost = max(costs, key=lambda cost: (cost.exact.n > 1, cost.n_images, cost.n_steps))
    figure, (axes,) = panels_of(
        [f"{cost.n_images:,} images, {cost.n_steps:,} steps"],
        "batch size (triplets)",
        "Mean average precision",
    )
    _count_at(axes, list(cost.batches))
    colour = styles["exact"]["color"]
    axes.axhline(cost.exact.mean, color=colour, linewidth=1.2)
    if cost.exact.n > 1:
        low, high = cost.exact.mean - cost.exact.sd, cost.exact.mean + cost.exact.sd
        axes.axhspan(low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(
        list(cost.batches),
        [batch.mean for batch in cost.batches.values()],
        color="0.6",
        linewidth=1,
    )
    for size, batch in cost.batches.items():
        style = {**styles[schedule_name(size)], "linestyle": ""}
        spread = batch.sd if batch.n > 1 else None
        axes.errorbar([size], [batch.mean], yerr=spread, capsize=2.5, elinewidth=1, **style)
    draw_legend(figure, {}, {"exact": Line2D([], [], color=colour, linewidth=1.2)})
    return _drawn(
        name,
        title,
        figure,
        "mean ± standard deviation over seeds, where there are several",
        f"Level line and band: exact. {within_text(cost)}",
    )


def within_text(cost: BatchCost) -> str:
    """Say up to which batch size mAP stays within exact's spread."""
    if cost.exact.n < 2:
        return (
            "Exact with one seed has no spread: two seeds or more are needed to tell up to which "
            "batch size mAP stays within it."
        )
    known = [size for size, difference in cost.differences.items() if difference.n]
    if not known:
        return "No batch size shares a seed with exact: nothing can be paired."
    outside = next((size for size in known if not cost.within(size)), None)
    inside = known[: known.index(outside)] if outside else known
    what = (
        "the mean difference to exact, paired by seed, stays within exact's standard deviation "
        f"over {cost.exact.n} seeds ({cost.exact.sd:.5f})"
    )
    if outside is None:
        return f"Up to {inside[-1]:,}, the largest tried, {what}."
    lost = f"at {outside:,} it is {cost.differences[outside].mean:+.5f}"
    if not inside:
        return f"At no batch size tried {what}: {lost}."
    return f"Up to a batch size of {inside[-1]:,} {what}; {lost}."


def _count_at(axes: Axes, values: Sequence[int]) -> None:
    """Make the x axis logarithmic with ticks at ascending values, but none in another's label."""
    axes.set_xscale("log")
    axes.margins(x=0.1)
    room = TICK_ROOM * math.log(values[-1] / values[0])
    shown = [values[0]]
    for value in values[1:]:
        if math.log(value / shown[-1]) >= room:
            shown.append(value)
    labels = [f"{n:,}" if n < 10**6 else f"{n / 10**6:.3g}M" for n in shown]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(shown, labels)


def _drawn(name: str, title: str, figure: Figure, spread: str, caption: str) -> Drawing:
    """Render a figure; what its bars and bands are stands in it too: files travel alone."""
    figure.suptitle(f"{title}\n{spread}", fontsize="medium")
    return Drawing(name, title, f"{spread.capitalize()}. {caption}", render(figure))


def _absent(name: str, title: str, reason: str) -> Drawing:
    return Drawing(name, title, f"Not drawn: {reason}.", {})
