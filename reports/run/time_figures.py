"""The figures of what time buys: the first measure against total time, and along the seconds."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oasis_bench.analysis import headlines, summarise, task_measures, with_costs
from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    LearnerStyle,
    draw_band,
    draw_legend,
    finish,
    learner_styles,
    log_seconds,
)
from oasis_bench.reports.formatting import clip
from oasis_bench.reports.plot import record
from oasis_bench.reports.run.facts import (
    chooser,
    dagger_notes,
    finished,
    learners,
    of_splits,
    partitions_text,
    split_of,
    splits,
    task_title,
    test_values,
)
from oasis_bench.reports.run.figure_parts import band_of, entries, panels
from oasis_bench.runs import StoredRun

FRONT: dict[str, Any] = {"label": "front", "color": "0.35", "linewidth": 1, "zorder": 1}
NAME_WIDTH = 22


@mpl.rc_context(STYLE)
def quality_against_time(run: StoredRun, task: str) -> Drawing:
    """Draw the first measure of a task against the time of tuning and fit."""
    first = headlines(run, task)[0]
    figure = draw_quality_against_time(run, task)
    return finish(
        f"{task}_against_time",
        f"{task_title(task)}: {first} against the time of tuning and fit",
        figure,
        spread="median and range of time, mean ± standard error, over " + partitions_text(run),
        caption=" ".join(
            [
                "Time is what the inner folds took, learning and validation, and the final fit. "
                "Grey line, with names: the Pareto front, the learners than which no other is "
                "both faster and better.",
                *dagger_notes(run, finished(run, split_of(run, task))["learner"]),
            ]
        ),
        without="no trial has a result and a time",
    )


def draw_quality_against_time(run: StoredRun, task: str) -> Figure | None:
    """Draw a point for each learner, a panel for each subset, and the Pareto front."""
    points = times_and_values(run, task)
    if points.empty:
        return None
    styles = learner_styles(learners(run))
    figure, of_subset = panels(run, points, "tuning and fit", headlines(run, task)[0])
    for subset, axes in of_subset.items():
        own = points[points["subset"] == subset]
        _log_seconds_along(axes, own[["seconds_min", "seconds_max"]].to_numpy())
        for row in own.to_dict("records"):
            style = {**styles[row["learner"]], "linestyle": "", "markersize": 6}
            x, y, error = row["seconds"], row["mean"], row["standard_error"]
            error = 0 if np.isnan(error) else error
            ends = [[x - row["seconds_min"]], [row["seconds_max"] - x]]
            axes.errorbar([x], [y], xerr=ends, yerr=[error], elinewidth=1, **style)
            record(axes, row["learner"], [x], [y], [y - error], [y + error])
        front = own[pareto_front(own["seconds"].to_numpy(), own["mean"].to_numpy())]
        front = front.sort_values("seconds")
        axes.plot(front["seconds"], front["mean"], drawstyle="steps-post", **FRONT)
        for name, x, y in zip(front["learner"], front["seconds"], front["mean"], strict=True):
            axes.annotate(
                clip(name, NAME_WIDTH),
                (x, y),
                xytext=(4, 5),
                textcoords="offset points",
                fontsize="x-small",
                parse_math=False,
            )
    others: dict[str, Artist] = {"Pareto front": Line2D([], [], **FRONT)}
    draw_legend(figure, entries(run, styles, points), others, lines=False)
    return figure


def times_and_values(run: StoredRun, task: str) -> pd.DataFrame:
    """Return time and quality of each learner on each subset where both are known.

    Returns
    -------
    DataFrame
        subset, learner, seconds (the median over partitions of tuning and fit together),
        seconds_min, seconds_max, mean and standard_error of the task's first headline.
    """
    trials = with_costs(finished(run, split_of(run, task)))
    tuning = trials["tuning_seconds"].fillna(0)  # nothing to tune
    seconds = (tuning + trials["fit_seconds"]).where(lambda it: it > 0)
    measures = task_measures(run, task)
    first = measures[measures["name"] == headlines(run, task)[0]].set_index("trial_id")["value"]
    value = trials["trial_id"].map(first.to_dict()).astype(float)
    known = trials.assign(seconds=seconds, value=value).dropna(subset=["seconds", "value"])
    columns = {
        "seconds": ("seconds", "median"),
        "seconds_min": ("seconds", "min"),
        "seconds_max": ("seconds", "max"),
        "mean": ("value", "mean"),
        "standard_error": ("value", "sem"),
    }
    cells: Any = known.groupby(["subset", "learner"], sort=False)
    return pd.DataFrame(cells.agg(**columns).reset_index())


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
def along_seconds(run: StoredRun) -> list[Drawing]:
    """Draw the measure that chose along the seconds of learning, a figure for each split."""
    return [
        finish(
            "_".join(["along_seconds", *of_splits(run, split)]),
            f"{chooser(run, split)[1]} along the seconds of learning"
            + "".join(of_splits(run, f", {split}")),
            draw_along_seconds(run, split),
            spread=f"mean ± standard error over {partitions_text(run)}",
            caption=" ".join(
                [
                    f"Of test {run.info.items}. Seconds are steps times the seconds a step: the "
                    "median over partitions of the final fit’s time over its steps. Measuring "
                    "along the way is not in them, nor is tuning. A marker alone: a learner "
                    "without steps, at the median time of its fit.",
                    *dagger_notes(run, finished(run, split)["learner"]),
                ]
            ),
            without="no incremental learner has a trace",
        )
        for split in splits(run)
    ]


def draw_along_seconds(run: StoredRun, split: str) -> Figure | None:
    """Draw the traces of test items against seconds, and learners without steps as points."""
    trials = finished(run, split)
    trials = trials.assign(
        value=trials["trial_id"].map(test_values(run, split).to_dict()).astype(float),
        seconds=trials["fit_seconds"],
        steps=trials["n_steps"],
    )
    stepped = trials[(trials["steps"] > 0) & (trials["seconds"] > 0)]
    keys = ["subset", "learner"]
    a_step = (stepped["seconds"] / stepped["steps"]).groupby([stepped[key] for key in keys])
    traces = run.traces[(run.traces["split"] == split) & (run.traces["part"] == "test")]
    traces = traces.merge(a_step.median().rename("a_step").reset_index(), on=keys)
    if traces.empty:
        return None
    traces = traces.assign(seconds=traces["n_steps"] * traces["a_step"])
    whole = trials[trials["steps"].isna() & (trials["seconds"] > 0)].dropna(subset=["value"])
    styles = learner_styles(learners(run))
    figure, of_subset = panels(run, traces, "learning", chooser(run, split)[1])
    for subset, axes in of_subset.items():
        curves = traces[traces["subset"] == subset]
        points = whole[whole["subset"] == subset]
        _log_seconds_along(axes, np.r_[curves["seconds"], points["seconds"]])
        for learner, style in styles.items():
            n_trials = ((trials["subset"] == subset) & (trials["learner"] == learner)).sum()
            own = curves[curves["learner"] == learner]
            band = band_of(own, "seconds", "value", partitions=int(n_trials))
            if len(band):
                draw_band(axes, band, {**style, "markersize": 3})
            _draw_alone(axes, points[points["learner"] == learner], style)
    draw_legend(figure, entries(run, styles, pd.concat([traces, whole])), {})
    return figure


def _draw_alone(axes: Axes, trials: pd.DataFrame, style: LearnerStyle) -> None:
    """Draw a learner without steps as one marker, at the median time of its fit."""
    if trials.empty:
        return
    value = summarise(trials["value"])
    error = 0 if np.isnan(value.standard_error) else value.standard_error
    x, y = [trials["seconds"].median()], np.array([value.mean])
    axes.errorbar(x, y, yerr=[error], **{**style, "linestyle": "", "markersize": 6})
    record(axes, style["label"], x, y, y - error, y + error)


def _log_seconds_along(axes: Axes, seconds: npt.NDArray[np.float64]) -> None:
    """Make the x axis one of seconds, on a logarithmic scale around all of `seconds`."""
    axes.set_xlim(seconds.min() / 1.6, seconds.max() * 1.6)
    log_seconds(axes, "x")
