"""What the figures of a run share, and those of its costs, of its seconds and of its steps.

Each learner keeps its colour, marker and line style in all figures of a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oasis_bench.analysis import summarise
from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    LearnerStyle,
    categories,
    draw_band,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
    log_counts,
    log_seconds,
    panels_of,
)
from oasis_bench.reports.formatting import clip, plural
from oasis_bench.reports.plot import Plot, record
from oasis_bench.reports.view import RunView, task_title

COSTS = {
    "tuning_seconds": "Tuning (seconds)",
    "fit_seconds": "Fit (seconds)",
    "seconds_per_query": "Query (seconds)",
}
NOISY: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "", "markerfacecolor": "white"}
FRONT: dict[str, Any] = {"label": "front", "color": "0.35", "linewidth": 1, "zorder": 1}
NAME_WIDTH = 22
PARTS: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
STEPS_LABEL = "learning steps (triplets)"


def panels(
    view: RunView, rows: pd.DataFrame, x_label: str, y_label: str
) -> tuple[Plot, dict[str, Axes]]:
    """Make a figure with a panel for each subset that has rows."""
    shown = [subset for subset in view.subsets if (rows["subset"] == subset).any()]
    figure, made = panels_of([view.subset_title(subset) for subset in shown], x_label, y_label)
    return figure, dict(zip(shown, made, strict=True))


def subset_axis(view: RunView) -> tuple[list[str], str]:
    """Return the label of each subset, and what their numbers count."""
    return [view.subset_label(subset) for subset in view.subsets], f"number of {view.class_noun}"


def side_by_side(view: RunView) -> dict[str, npt.NDArray[np.float64]]:
    """Return the place of each learner's points: a little beside those of the others."""
    names = view.learners
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    places = np.arange(len(view.subsets))
    return {name: places + shift for name, shift in zip(names, shifts, strict=True)}


def band_of(rows: pd.DataFrame, x: str, y: str, partitions: int | None = None) -> pd.DataFrame:
    """Return mean and standard error of `y` at each `x`, where there are `partitions` values."""
    points = [
        (place, summary.mean, summary.standard_error)
        for place, values in rows.groupby(x)[y]
        if (summary := summarise(values)).n == (partitions or summary.n)
    ]
    return pd.DataFrame(points, columns=["x", "mean", "se"], dtype=float)


def entries(
    view: RunView, styles: Mapping[str, LearnerStyle], rows: pd.DataFrame
) -> dict[str, LearnerStyle]:
    """Return the legend entries of the learners that have rows."""
    present = set(rows["learner"])
    return {view.marked(name): style for name, style in styles.items() if name in present}


@mpl.rc_context(STYLE)
def cost_figures(view: RunView) -> list[Drawing]:
    """Draw the figure of the three costs of each split."""
    return [
        finish(
            "_".join(["costs", *view.of_splits(split)]),
            "The three costs" + "".join(view.of_splits(f", {split}")),
            draw_costs(view, split),
            spread=f"median over {view.partitions_text}, bars from the smallest to the largest",
            caption=" ".join(
                [
                    "Logarithmic scales. A learner without a point for tuning had nothing to tune.",
                    *_noisy_text(view.finished_on(split)),
                    *view.dagger_notes(view.finished_on(split)["learner"]),
                ]
            ),
            without="no trial has finished",
        )
        for split in view.splits
    ]


def draw_costs(view: RunView, split: str) -> Figure | None:
    """Draw the times of tuning, fit and query against the number of classes."""
    trials = view.finished_on(split)
    if trials.empty:
        return None
    figure, of_costs = categories(*subset_axis(view), list(COSTS.values()))
    styles = learner_styles(view.learners)
    for axes, cost in zip(of_costs, COSTS, strict=True):
        trials = trials.assign(**{cost: trials[cost].where(trials[cost] > 0)})
        if trials[cost].notna().any():  # a single value has no range of its own
            axes.set_ylim(trials[cost].min() / 2, trials[cost].max() * 2)
        log_seconds(axes, "y")
        for learner, x in side_by_side(view).items():
            own = trials[trials["learner"] == learner]
            spread = own.groupby("subset")[cost].agg(["median", "min", "max"])
            points = spread.reindex(list(view.subsets)).set_axis(["middle", "low", "high"], axis=1)
            draw_bars(axes, x, points, styles[learner])
            if cost == "fit_seconds":
                hollow = {**styles[learner], "linestyle": "", "markerfacecolor": "white"}
                waited = points.index.isin(own.loc[own["noisy"], "subset"].unique())
                axes.plot(x, points["middle"].where(waited), **hollow, zorder=5)
    others: dict[str, Artist] = {"noisy": Line2D([], [], **NOISY)} if trials["noisy"].any() else {}
    draw_legend(figure, entries(view, styles, trials), others)
    return figure


def _noisy_text(trials: pd.DataFrame) -> list[str]:
    """Say how many timings are noisy, where there are any."""
    if not (number := int(trials["noisy"].sum())):
        return []
    return [
        f"Hollow: noisy, as a fit waited for a core for more than 5 % of its time ({number} of "
        f"{plural(len(trials), 'trial')}; the table says whose)."
    ]


@mpl.rc_context(STYLE)
def quality_against_time(view: RunView, task: str) -> Drawing:
    """Draw the first measure of a task against the time of tuning and fit."""
    return finish(
        f"{task}_against_time",
        f"{task_title(task)}: {view.headlines[task][0]} against the time of tuning and fit",
        draw_quality_against_time(view, task),
        spread="median and range of time, mean ± standard error, over " + view.partitions_text,
        caption=" ".join(
            [
                "Time is what the inner folds took, learning and validation, and the final fit. "
                "Grey line, with names: the Pareto front, the learners than which no other is "
                "both faster and better.",
                *view.dagger_notes(view.finished_on(view.split_of(task))["learner"]),
            ]
        ),
        without="no trial has a result and a time",
    )


def draw_quality_against_time(view: RunView, task: str) -> Figure | None:
    """Draw a point for each learner, a panel for each subset, and the Pareto front."""
    points = times_and_values(view, task)
    if points.empty:
        return None
    styles = learner_styles(view.learners)
    figure, of_subset = panels(view, points, "tuning and fit", view.headlines[task][0])
    for subset, axes in of_subset.items():
        draw_against_time(axes, points[points["subset"] == subset], styles)
    others: dict[str, Artist] = {"Pareto front": Line2D([], [], **FRONT)}
    draw_legend(figure, entries(view, styles, points), others, lines=False)
    return figure


def draw_against_time(axes: Axes, points: pd.DataFrame, styles: Mapping[str, LearnerStyle]) -> None:
    """Draw learners at their seconds and values (middle, low, high), and the Pareto front."""
    _log_seconds_along(axes, points[["seconds_min", "seconds_max"]].to_numpy())
    for row in points.to_dict("records"):
        style = {**styles[row["learner"]], "linestyle": "", "markersize": 6}
        x, y, low, high = (row[name] for name in ("seconds", "middle", "low", "high"))
        errors = np.nan_to_num([[y - low], [high - y]])
        ends = [[x - row["seconds_min"]], [row["seconds_max"] - x]]
        axes.errorbar([x], [y], xerr=ends, yerr=errors, elinewidth=1, **style)
        record(axes, row["learner"], [x], [y], y - errors[0], y + errors[1])
    front = points[pareto_front(points["seconds"].to_numpy(), points["middle"].to_numpy())]
    front = front.sort_values("seconds")
    axes.plot(front["seconds"], front["middle"], drawstyle="steps-post", **FRONT)
    for name, x, y in zip(front["learner"], front["seconds"], front["middle"], strict=True):
        axes.annotate(
            clip(name, NAME_WIDTH),
            (x, y),
            xytext=(4, 5),
            textcoords="offset points",
            fontsize="x-small",
            parse_math=False,
        )


def times_and_values(view: RunView, task: str) -> pd.DataFrame:
    """Return time and quality of each learner on each subset where both are known.

    Its columns: subset, learner, seconds (the median over partitions of tuning and fit
    together), seconds_min, seconds_max; middle, the mean of the task's first headline, with low and
    high, a standard error below and above.
    """
    trials, measures = view.finished_on(view.split_of(task)), view.values[task]
    tuning = trials["tuning_seconds"].fillna(0)  # nothing to tune
    seconds = (tuning + trials["fit_seconds"]).where(lambda it: it > 0)
    first = measures[measures["name"] == view.headlines[task][0]].set_index("trial_id")["value"]
    value = trials["trial_id"].map(first.to_dict()).astype(float)
    known = trials.assign(seconds=seconds, value=value).dropna(subset=["seconds", "value"])
    columns = {
        "seconds": ("seconds", "median"),
        "seconds_min": ("seconds", "min"),
        "seconds_max": ("seconds", "max"),
        "middle": ("value", "mean"),
        "error": ("value", "sem"),
    }
    cells: Any = known.groupby(["subset", "learner"], sort=False)
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


@mpl.rc_context(STYLE)
def along_seconds(view: RunView) -> list[Drawing]:
    """Draw the measure that chose along the seconds of learning, a figure for each split."""
    return [
        finish(
            "_".join(["along_seconds", *view.of_splits(split)]),
            f"{measure} along the seconds of learning" + "".join(view.of_splits(f", {split}")),
            draw_along_seconds(view, split),
            spread=f"mean ± standard error over {view.partitions_text}",
            caption=" ".join(
                [
                    f"Of test {view.info.items}. Seconds are steps times the seconds a step: the "
                    "median over partitions of the final fit’s time over its steps. Measuring "
                    "along the way is not in them, nor is tuning. A marker alone: a learner "
                    "without steps, at the median time of its fit.",
                    *view.dagger_notes(view.finished_on(split)["learner"]),
                ]
            ),
            without="no incremental learner has a trace",
        )
        for split, (_, measure) in view.chooser.items()
    ]


def draw_along_seconds(view: RunView, split: str) -> Figure | None:
    """Draw the traces of test items against seconds, and learners without steps as points."""
    trials, keys = view.finished_on(split), ["subset", "learner"]
    stepped = trials[(trials["n_steps"] > 0) & (trials["fit_seconds"] > 0)]
    per_step = (stepped["fit_seconds"] / stepped["n_steps"]).groupby([stepped[it] for it in keys])
    traces = view.stored.traces
    traces = traces[(traces["split"] == split) & (traces["part"] == "test")]
    traces = traces.merge(per_step.median().rename("per_step").reset_index(), on=keys)
    if traces.empty:
        return None
    traces = traces.assign(seconds=traces["n_steps"] * traces["per_step"])
    whole = trials[trials["n_steps"].isna() & (trials["fit_seconds"] > 0)].dropna(subset=["test"])
    styles = learner_styles(view.learners)
    figure, of_subset = panels(view, traces, "learning", view.chooser[split][1])
    for subset, axes in of_subset.items():
        curves = traces[traces["subset"] == subset]
        points = whole[whole["subset"] == subset]
        _log_seconds_along(axes, np.r_[curves["seconds"], points["fit_seconds"]])
        for learner, style in styles.items():
            n_trials = ((trials["subset"] == subset) & (trials["learner"] == learner)).sum()
            own = curves[curves["learner"] == learner]
            band = band_of(own, "seconds", "value", partitions=int(n_trials))
            if len(band):
                draw_band(axes, band, {**style, "markersize": 3})
            _draw_alone(axes, points[points["learner"] == learner], style)
    draw_legend(figure, entries(view, styles, pd.concat([traces, whole])), {})
    return figure


def _draw_alone(axes: Axes, trials: pd.DataFrame, style: LearnerStyle) -> None:
    """Draw a learner without steps as one marker, at the median time of its fit."""
    if trials.empty:
        return
    value = summarise(trials["test"])
    error = 0 if np.isnan(value.standard_error) else value.standard_error
    x, y = [trials["fit_seconds"].median()], np.array([value.mean])
    axes.errorbar(x, y, yerr=[error], **{**style, "linestyle": "", "markersize": 6})
    record(axes, style["label"], x, y, y - error, y + error)


def _log_seconds_along(axes: Axes, seconds: npt.NDArray[np.float64]) -> None:
    """Make the x axis one of seconds, on a logarithmic scale around all of `seconds`."""
    axes.set_xlim(seconds.min() / 1.6, seconds.max() * 1.6)
    log_seconds(axes, "x")


@mpl.rc_context(STYLE)
def step_figures(view: RunView) -> list[Drawing]:
    """Draw the measure that chose the steps, and the symmetry of W, along them, for each split."""
    standard_error = f"mean ± standard error over {view.partitions_text}"
    items, drawings = view.info.items, []
    for split, (task, measure) in view.chooser.items():
        daggers = " ".join(["", *view.dagger_notes(view.finished_on(split)["learner"])])
        where = "".join(view.of_splits(f", {split}"))
        drawings += [
            finish(
                "_".join(["along_steps", *view.of_splits(split)]),
                f"{measure} along the learning steps{where}",
                draw_along_steps(view, split),
                spread=standard_error,
                caption=f"{measure} of the task {task}. Drawn as far as every partition was "
                f"followed. Solid: test {items}; dashed: training {items}; dotted: validation "
                f"{items} of the inner folds, for the chosen hyper-parameters (mean alone); "
                "triangle: median of the chosen numbers of steps, 0 at the left end. Learners "
                f"without steps are level lines at their value on test {items}." + daggers,
                without="no incremental learner has a trace",
            ),
            finish(
                "_".join(["symmetry", *view.of_splits(split)]),
                f"Symmetry index of W along the learning steps{where}",
                draw_symmetry(view, split),
                spread=standard_error,
                caption="Drawn as far as every partition was followed; learners of x'Wy alone."
                + daggers,
                without="no incremental learner of x'Wy has a trace",
            ),
        ]
    return drawings


def draw_along_steps(view: RunView, split: str) -> Figure | None:
    """Draw the measure that chose against the number of steps, on three parts of the items."""
    traces = view.stored.traces
    traces = traces[traces["split"] == split]
    if traces.empty:
        return None
    styles, trials = learner_styles(view.learners), view.finished_on(split)
    scores = pd.concat([traces, _chosen_validation(view, trials)])
    figure, of_subset = panels(view, traces, STEPS_LABEL, view.chooser[split][1])
    for subset, axes in of_subset.items():
        log_counts(axes)
        heights = (0.035 + 0.05 * number for number in count())  # triangles do not overlap
        for learner, style in styles.items():
            own = trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
            rows = scores[(scores["subset"] == subset) & (scores["learner"] == learner)]
            for part, line in PARTS.items():
                of_part = rows[rows["part"] == part]
                band = band_of(of_part, "n_steps", "value", partitions=len(own))
                drawn = {**style, "markersize": 3, "linestyle": line}
                drawn["label"] = f"{learner}, {part}"
                draw_band(axes, band, drawn, shade=part != "validation")
            chosen = own["n_steps"].dropna()
            if len(chosen):
                _mark_chosen(axes, max(chosen.median(), 1), next(heights), style)
            elif own["test"].notna().any():
                _draw_level(axes, own["test"].mean(), style)
    others: dict[str, Artist] = {
        part: Line2D([], [], color="0.3", linestyle=line) for part, line in PARTS.items()
    }
    others["chosen steps"] = Line2D([], [], color="0.3", marker="^", markersize=8, linestyle="")
    draw_legend(figure, entries(view, styles, trials), others, lines=False)
    return figure


def _mark_chosen(axes: Axes, n_steps: float, height: float, style: LearnerStyle) -> None:
    """Put a triangle at the chosen number of steps."""
    axes.plot(
        [n_steps],
        [height],
        marker="^",
        markersize=9,
        color=style["color"],
        markeredgecolor="white",
        transform=axes.get_xaxis_transform(),
        zorder=5,
    )
    record(axes, f"{style['label']}, chosen steps", [n_steps], [math.nan])


def _draw_level(axes: Axes, level: float, style: LearnerStyle) -> None:
    """Draw a learner without steps: a level line with its marker at the right end."""
    axes.axhline(level, color=style["color"], linewidth=1.2)
    axes.plot([1], [level], **style, transform=axes.get_yaxis_transform(), clip_on=False)
    record(axes, style["label"], [math.nan], [level])


def _chosen_validation(view: RunView, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over folds of the validation of the chosen hyper-parameters."""
    chosen = ["trial_id", "scaling", "params"]
    rows = view.validated.merge(trials[chosen], on=chosen)
    is_whole = rows["n_folds"] == rows.groupby("trial_id")["n_folds"].transform("max")
    rows = rows[is_whole & (rows["n_steps"] > 0)]  # 0 has no place on the axis
    columns = ["learner", "subset", "partition", "n_steps", "validation"]
    return rows[columns].rename(columns={"validation": "value"}).assign(part="validation")


def draw_symmetry(view: RunView, split: str) -> Figure | None:
    """Draw the symmetry index of W against the number of steps."""
    symmetry = view.stored.symmetry
    symmetry = symmetry[symmetry["split"] == split]
    if symmetry.empty:
        return None
    styles, trials = learner_styles(view.learners), view.finished_on(split)
    figure, of_subset = panels(view, symmetry, STEPS_LABEL, "Symmetry index of W")
    for subset, axes in of_subset.items():
        log_counts(axes)
        rows = symmetry[symmetry["subset"] == subset]
        n_trials = trials.loc[trials["subset"] == subset, "learner"].value_counts()
        for learner, own in rows.groupby("learner"):
            band = band_of(own, "n_steps", "symmetry_index", partitions=n_trials[learner])
            draw_band(axes, band, styles[str(learner)])
    draw_legend(figure, entries(view, styles, symmetry), {})
    return figure
