"""The figures of a run: precision and costs by classes, time, learning steps, learned spaces.

Each learner keeps its colour, marker and line style in all figures of a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.linalg import orthogonal_procrustes

from oasis_bench.reports import figure_style as fs
from oasis_bench.reports.table import clip
from oasis_bench.reports.view import RunView, task_title
from oasis_bench.reports.words import WORDS

NAME_WIDTH = 22
FRONT: dict[str, Any] = {"label": "front", "color": "0.35", "linewidth": 1, "zorder": 1}
PARTS: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
USES: dict[str, Any] = {
    "direct": {"linestyle": "-"},
    "posterior": {"linestyle": (0, (4, 2)), "markerfacecolor": "white"},
}
"""The line and the marker of each use, in figures with both."""

STEPS_LABEL = "learning steps (triplets)"

MOST_LEARNERS = 11
"""Panels of learners: the first of the experiment."""

AFTER, BEFORE = ["x", "y"], ["x_before", "y_before"]


def panels(
    view: RunView, rows: pd.DataFrame, x_label: str, y_label: str
) -> tuple[fs.Plot, dict[str, Axes]]:
    """Make a figure with a panel for each subset that has rows."""
    shown = [subset for subset in view.subsets if (rows["subset"] == subset).any()]
    figure, made = fs.panels_of([view.subset_title(subset) for subset in shown], x_label, y_label)
    return figure, dict(zip(shown, made, strict=True))


def band_of(rows: pd.DataFrame, x: str, partitions: int | None = None) -> pd.DataFrame:
    """Return mean and standard error of the value at each `x` that has `partitions` values."""
    points = rows.groupby(x)["value"].agg(["mean", "sem", "size"])
    points = points[points["size"] == (partitions or points["size"])]
    return points.reset_index(names="x").rename(columns={"sem": "se"})


def entries(
    view: RunView, styles: Mapping[str, fs.LearnerStyle], rows: pd.DataFrame
) -> dict[str, fs.LearnerStyle]:
    """Return the legend entries of the learners that have rows."""
    present = set(rows["learner"])
    return {view.marked(name): style for name, style in styles.items() if name in present}


def draw_quality_against_time(view: RunView, task: str) -> fs.Plot | None:
    """Draw a point for each learner, a panel for each subset, and the Pareto front."""
    points = times_and_values(view, task)
    if points.empty:
        return None
    styles = fs.learner_styles(view.learners)
    figure, of_subset = panels(view, points, "tuning and fit", view.names(task)[0])
    for subset, axes in of_subset.items():
        draw_against_time(axes, points[points["subset"] == subset], styles)
    others = {"Pareto front": FRONT, **_legend_of_uses(view)}
    fs.draw_legend(figure, entries(view, styles, points), others, lines=False)
    return figure


def _legend_of_uses(view: RunView) -> dict[str, dict[str, Any]]:
    """Return the legend entries of the uses; none if the run has only the direct use."""
    uses = USES if view.has_posterior else {}
    return {use: {"color": "0.35", "marker": "o", **look} for use, look in uses.items()}


def draw_against_time(
    axes: Axes, points: pd.DataFrame, styles: Mapping[str, fs.LearnerStyle]
) -> None:
    """Draw learners at their seconds and values (middle, low, high), and the Pareto front.

    A learner may have a point for each `use`.
    """
    axes.set_xlim(points["seconds_min"].min() / 1.6, points["seconds_max"].max() * 1.6)
    axes.margins(y=0.15)  # room for the names above points
    fs.log_seconds(axes)
    for row in points.to_dict("records"):
        style = {**styles[row["learner"]], **USES[row.get("use", "direct")]}
        style |= {"linestyle": "", "markersize": 6}
        x, y, low, high = (row[name] for name in ("seconds", "middle", "low", "high"))
        errors = np.nan_to_num([[y - low], [high - y]])
        ends = [[x - row["seconds_min"]], [row["seconds_max"] - x]]
        axes.errorbar([x], [y], xerr=ends, yerr=errors, elinewidth=1, **style)
    front = points[pareto_front(points["seconds"].to_numpy(), points["middle"].to_numpy())]
    front = front.sort_values("seconds")
    axes.plot(front["seconds"], front["middle"], drawstyle="steps-post", **FRONT)
    middle = math.prod(axes.get_xlim()) ** 0.5
    front = front.drop_duplicates("learner")
    for name, x, y in zip(front["learner"], front["seconds"], front["middle"], strict=True):
        axes.annotate(
            clip(name, NAME_WIDTH),
            (x, y),
            xytext=(4, 5) if x < middle else (-4, 5),
            horizontalalignment="left" if x < middle else "right",
            textcoords="offset points",
            fontsize="small",
            parse_math=False,
        )


def times_and_values(view: RunView, task: str) -> pd.DataFrame:
    """Return time and quality of each learner and use on each subset, if both are known.

    Its columns: subset, learner, use, seconds (the median over partitions of tuning and fit
    together), seconds_min, seconds_max; middle, the mean of the task's first headline, with low and
    high, a standard error below and above.
    """
    trials, measures = view.finished_on(view.split_of(task)), view.values[task]
    tuning = trials["tuning_seconds"].fillna(0)  # nothing to tune
    seconds = (tuning + trials["fit_seconds"]).where(lambda it: it > 0)
    first = measures.loc[measures["name"] == view.names(task)[0], ["trial_id", *USES]]
    first = first.melt("trial_id", var_name="use").astype({"value": float})
    known = trials.assign(seconds=seconds).merge(first, on="trial_id")
    known = known.dropna(subset=["seconds", "value"])
    columns = {
        "seconds": ("seconds", "median"),
        "seconds_min": ("seconds", "min"),
        "seconds_max": ("seconds", "max"),
        "middle": ("value", "mean"),
        "error": ("value", "sem"),
    }
    cells: Any = known.groupby(["subset", "learner", "use"], sort=False)
    found = pd.DataFrame(cells.agg(**columns).reset_index())
    error = found.pop("error")
    return found.assign(low=found["middle"] - error, high=found["middle"] + error)


def pareto_front(
    seconds: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Tell which learners no other beats: as fast or faster, as good or better, and not equal."""
    faster = seconds[None, :] <= seconds[:, None]
    better = values[None, :] >= values[:, None]
    other = (seconds[None, :] != seconds[:, None]) | (values[None, :] != values[:, None])
    beaten: npt.NDArray[np.bool_] = (faster & better & other).any(axis=1)
    return ~beaten


@mpl.rc_context(fs.STYLE)
def task_figures(view: RunView, task: str) -> dict[str, list[fs.Drawing]]:
    """Draw each figure of `DRAWN`; an empty list for one that shows nothing of the task."""
    uses = WORDS["figures"]["uses"] if view.has_posterior else ""
    words = {"task": task_title(task), "measure": view.names(task)[0], "uses": uses}
    return {
        what: fs.finish(f"{task}_{what}", draw(view, task), what, view=view, **words)
        for what, draw in DRAWN.items()
    }


@mpl.rc_context(fs.STYLE)
def split_figures(view: RunView, what: str) -> list[fs.Drawing]:
    """Draw 'costs' or 'along_steps' for each split that has something to show."""
    draw = {"costs": draw_costs, "along_steps": draw_along_steps}[what]
    return [
        drawing
        for split, (task, measure) in view.tuned_by.items()
        for drawing in fs.finish(
            what + view.of_split(f"_{split}"),
            draw(view, split),
            what,
            view=view,
            task=task,
            measure=measure,
            split=view.of_split(f", {split}"),
        )
    ]


def draw_costs(view: RunView, split: str) -> fs.Plot | None:
    """Draw the times of tuning, fit and query against the number of classes."""
    trials = view.finished_on(split)
    if trials["subset"].nunique() < 2:
        return None
    styles, figure = fs.learner_styles(view.learners), _by_classes(view, [*WORDS["axes"].values()])
    for axes, cost in zip(figure.panels, WORDS["axes"], strict=True):
        seconds = trials[cost].where(trials[cost] > 0)
        if seconds.notna().any():  # a single value has no range
            axes.set_ylim(seconds.min() / 2, seconds.max() * 2)
        fs.log_seconds(axes, "y")
        spread = seconds.groupby([trials["learner"], trials["subset"]])
        _draw_bars(view, axes, spread.agg(["median", "min", "max"]), styles)
    fs.draw_legend(figure, entries(view, styles, trials), {})
    return figure


def draw_by_classes(view: RunView, task: str) -> fs.Plot | None:
    """Draw the first measure of a task against the number of classes."""
    values, first = view.values[task], view.names(task)[0]
    values = values[values["name"] == first]
    if values["subset"].nunique() < 2 or view.info.multi_label:
        return None
    styles, figure = fs.learner_styles(view.learners), _by_classes(view, [first])
    (axes,) = figure.panels
    for use, look in USES.items() if view.has_posterior else (("direct", {}),):
        spread = values.groupby(["learner", "subset"])[use].agg(["mean", "sem"]).astype(float)
        ends = {"low": spread["mean"] - spread["sem"], "high": spread["mean"] + spread["sem"]}
        own = {name: {**style, **look} for name, style in styles.items()}
        _draw_bars(view, axes, spread[["mean"]].assign(**ends), own)
    each_once = values.drop_duplicates(["subset", "partition"])
    chances = each_once.groupby("subset")["chance"].mean().reindex(list(view.subsets))
    axes.plot(range(len(chances)), chances, **fs.CHANCE)
    others = {"chance": fs.CHANCE, **_legend_of_uses(view)}
    fs.draw_legend(figure, entries(view, styles, values), others, lines=not view.has_posterior)
    return figure


def _by_classes(view: RunView, y_labels: list[str]) -> fs.Plot:
    """Make a panel for each y label, with a place on the x axis for each class subset."""
    labels = [view.subset_label(subset) for subset in view.subsets]
    size = (3.9 if len(y_labels) == 1 else 2.3, 2.3)
    figure = fs.Plot(len(y_labels), size, left=0.85, bottom=0.55 + 0.035 * max(map(len, labels)))
    for axes, y_label in zip(figure.panels, y_labels, strict=True):
        axes.set_xticks(range(len(labels)), labels, parse_math=False)
        axes.set(xlabel=f"number of {view.class_noun}", ylabel=y_label)
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.grid(visible=False, axis="x")
    return figure


def _draw_bars(
    view: RunView, axes: Axes, spread: pd.DataFrame, styles: Mapping[str, fs.LearnerStyle]
) -> None:
    """Draw the first column by learner and subset, with bars from the second to the third."""
    names, places = view.learners, np.arange(len(view.subsets))
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    for name, shift in zip(names, shifts, strict=True):
        if name in spread.index:
            middle, low, high = spread.loc[name].reindex(list(view.subsets)).to_numpy().T
            bars = np.nan_to_num([middle - low, high - middle])
            look = {"capsize": 2.5, "elinewidth": 1, **styles[name]}
            axes.errorbar(places + shift, middle, yerr=bars, **look)


def draw_precision_at_k(view: RunView, task: str) -> fs.Plot | None:
    """Draw precision against k, a panel for each subset."""
    curve = view.values[task].query("measure == 'precision'")
    return _draw_curve(view, curve, f"k ({view.info.items} retrieved)", "Precision at k", "chance")


def draw_reliability(view: RunView, task: str) -> fs.Plot | None:
    """Draw the share of the same in tenths of pairs against its probability, by subset."""
    curve = view.values[task].query("measure == 'reliability'")
    p = curve.groupby(["subset", "learner", "k"])["chance"].transform("mean")
    labels = "Probability of the same, in %", "Share of the same", "calibrated"
    return _draw_curve(view, curve.assign(k=100 * p, chance=p), *labels)


DRAWN = {
    "against_time": draw_quality_against_time,
    "by_classes": draw_by_classes,
    "precision_at_k": draw_precision_at_k,
    "reliability": draw_reliability,
}
"""The figures of a task."""


def _draw_curve(
    view: RunView, curve: pd.DataFrame, x_label: str, y_label: str, dashed: str
) -> fs.Plot | None:
    if curve.empty:
        return None
    styles = fs.learner_styles(view.learners)
    figure, of_subset = panels(view, curve, x_label, y_label)
    for subset, axes in of_subset.items():
        rows = curve[curve["subset"] == subset]
        for learner, style in styles.items():
            band = band_of(rows[rows["learner"] == learner], "k")
            fs.draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        chance = rows.drop_duplicates(["partition", "k"]).groupby("k")["chance"].mean()
        axes.plot(chance.index, chance, **fs.CHANCE)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    fs.draw_legend(figure, entries(view, styles, curve), {dashed: fs.CHANCE})
    return figure


def draw_along_steps(view: RunView, split: str) -> fs.Plot | None:
    """Draw the measure of tuning against the number of steps, on three parts of the items."""
    traces = view.stored.traces
    traces = traces[traces["split"] == split]
    if traces.empty:
        return None
    styles, trials = fs.learner_styles(view.learners), view.finished_on(split)
    scores = pd.concat([traces, _tuned_validation(view, trials)])
    task, measure = view.tuned_by[split]
    values = view.values[task]
    values = values[values["name"] == measure]
    figure, of_subset = panels(view, traces, STEPS_LABEL, measure)
    for subset, axes in of_subset.items():
        fs.log_counts(axes)
        for learner, style in styles.items():
            own = trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
            rows = scores[(scores["subset"] == subset) & (scores["learner"] == learner)]
            for part, line in PARTS.items():
                of_part = rows[rows["part"] == part]
                band = band_of(of_part, "n_steps", partitions=len(own))
                drawn = {**style, "markersize": 3, "linestyle": line}
                fs.draw_band(axes, band, drawn, shade=part != "validation")
            level = values.loc[values["trial_id"].isin(own["trial_id"]), "as_learned"].mean()
            if own["n_steps"].isna().all() and not math.isnan(level):
                # A learner without steps: a level line with its marker at the right end.
                axes.axhline(level, color=style["color"], linewidth=1.2)
                right = axes.get_yaxis_transform()
                axes.plot([1], [level], **style, transform=right, clip_on=False)
    parts = {part: {"color": "0.35", "linestyle": line} for part, line in PARTS.items()}
    fs.draw_legend(figure, entries(view, styles, trials), parts, lines=False)
    return figure


def _tuned_validation(view: RunView, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over folds of the validation of the tuned hyper-parameters."""
    chosen = ["trial_id", "scaling", "params"]
    first = view.validation[["trial_id", "task"]].drop_duplicates()
    rows = view.validated.merge(first).merge(trials[chosen], on=chosen)
    is_whole = rows["n_folds"] == rows.groupby("trial_id")["n_folds"].transform("max")
    rows = rows[is_whole & (rows["n_steps"] > 0)]  # 0 has no place on the axis
    columns = ["learner", "subset", "partition", "n_steps", "validation"]
    return rows[columns].rename(columns={"validation": "value"}).assign(part="validation")


@mpl.rc_context(fs.STYLE)
def space_figures(view: RunView) -> list[fs.Drawing]:
    """Draw the plane of each learner for the largest subset that has any; else nothing."""
    points = view.stored.projections[view.stored.projections["partition"] == 0]
    held = [subset for subset in view.subsets if subset in set(points["subset"])]
    if not held:
        return []
    points = points[points["subset"] == held[-1]]
    subset, split = points["subset"].iloc[0], points["split"].iloc[0]
    n_shown, n_classes = points["label"].nunique(), len(view.class_names(subset, split))
    present = set(points["learner"])
    shown = [name for name in view.learners if name in present][:MOST_LEARNERS]
    return fs.finish(
        "learned_space",
        draw_spaces(view, points, shown),
        "learned_space",
        view=view,
        subset=view.subset_title(subset),
        learners=f", the first {MOST_LEARNERS} learners" if len(present) > MOST_LEARNERS else "",
        most=points.groupby(["learner", "label"]).size().max(),
        classes=f"of {n_shown} test classes, chosen at random, " if n_shown < n_classes else "",
        blended=", after the blend with the Euclidean baseline" if view.is_blended else "",
        used=" in the selected use" if view.has_posterior else "",
    )


def draw_spaces(view: RunView, points: pd.DataFrame, shown: list[str]) -> fs.Plot:
    """Draw a panel for the rows of each scaling, then one for each learner."""
    shown_planes = planes(view, points, shown)
    names = view.class_names(points["subset"].iloc[0], points["split"].iloc[0])
    numbers = sorted(points["label"].unique())
    styles = fs.styles_in_order([names[number] for number in numbers])
    looks = [{**style, "linestyle": "none", "markersize": 3.5} for style in styles.values()]
    figure = fs.Plot(len(shown_planes), (2.5, 2.5), left=0.3, bottom=0.1)
    for axes, (title, own) in zip(figure.panels, shown_planes.items(), strict=True):
        share = float((own[AFTER] ** 2).sum(axis=1).mean())
        fs.set_title(axes, f"{clip(title, fs.LABEL_WIDTH)}: {100 * share:.0f} %")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        for number, look in zip(numbers, looks, strict=True):
            of_class = own[own["label"] == number]
            axes.plot(of_class["x"], of_class["y"], **look)
    fs.draw_legend(figure, dict(zip(styles, looks, strict=True)), {})
    return figure


def planes(view: RunView, points: pd.DataFrame, shown: list[str]) -> dict[str, pd.DataFrame]:
    """Return the points of each panel: the rows of each scaling, then each learner."""
    scalings = view.trials.set_index("trial_id")["scaling"]
    points = points.assign(scaling=points["trial_id"].map(scalings))
    planes: dict[str, pd.DataFrame] = {}
    for scaling, own in points.dropna(subset=BEFORE).groupby("scaling", sort=False):
        first = own[own["trial_id"] == own["trial_id"].iloc[0]]
        before = first.assign(x=first["x_before"], y=first["y_before"])
        planes[f"before learning, {scaling}"] = before
    first = next(iter(planes.values()), None)
    planes |= {view.marked(name): points[points["learner"] == name] for name in shown}
    return {name: _turned(own, first) for name, own in planes.items()}


def _turned(own: pd.DataFrame, first: pd.DataFrame | None) -> pd.DataFrame:
    """Turn or mirror a plane so that it fits the first one (orthogonal Procrustes)."""
    if first is None:
        return own
    paired = own.merge(first[["row", *AFTER]], on="row", suffixes=("", "_first"))
    turn, _ = orthogonal_procrustes(paired[AFTER], paired[["x_first", "y_first"]])
    turned = own[AFTER].to_numpy() @ turn
    return own.assign(x=turned[:, 0], y=turned[:, 1])
