"""The figures of a run: precision at k, mAP and symmetry along the steps, run time, mAP by classes.

Each learner keeps its colour, marker and line style in all of them.
"""

from __future__ import annotations

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
from matplotlib.ticker import MaxNLocator

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import summarise
from oasis_bench.reports.figure_style import (
    CHANCE,
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
    panels_of,
)
from oasis_bench.reports.formatting import plural
from oasis_bench.reports.run.facts import (
    chance_level,
    class_noun,
    finished,
    learners,
    partitions_text,
    subset_label,
    subset_title,
    subsets,
)
from oasis_bench.store.run_file import RunRecord

NOISY: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "", "markerfacecolor": "white"}
SPLITS: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
STEPS_LABEL = "learning steps (triplets)"


def draw_all(run: RunRecord) -> dict[str, Drawing]:
    """Draw every figure of a run, by name."""
    partitions = partitions_text(run)
    standard_error = f"mean ± standard error over {partitions}"
    with mpl.rc_context(STYLE):
        drawings = (
            finish(
                "precision_at_k",
                "Precision at the top k",
                draw_precision_at_k(run),
                spread=standard_error,
                caption="Dashed grey: chance level.",
                without="no trial has finished",
            ),
            finish(
                "map_along_steps",
                "mAP along the learning steps",
                draw_along_steps(run),
                spread=standard_error,
                caption="Drawn as far as every partition was followed. Solid: test images; "
                "dashed: training images; dotted: validation images of the inner folds, for the "
                "chosen hyper-parameters (mean alone); triangle: median of the chosen numbers of "
                "steps. Learners without steps are level lines at their test mAP.",
                without="no incremental learner has a trace",
            ),
            finish(
                "symmetry",
                "Symmetry index of W along the learning steps",
                draw_symmetry(run),
                spread=standard_error,
                caption="Drawn as far as every partition was followed; learners of x'Wy alone.",
                without="no incremental learner of x'Wy has a trace",
            ),
            finish(
                "runtime",
                "Run time of the final fit",
                draw_runtime(run),
                spread=f"median over {partitions}, bars from the shortest to the longest",
                caption="Logarithmic scale." + _noisy_text(run),
                without="no trial has finished",
            ),
            finish(
                "map_by_classes",
                "mAP against the number of classes",
                draw_by_classes(run),
                spread=standard_error,
                caption="Dashed grey: chance level.",
                without="fewer than two class subsets have a result",
            ),
        )
    return {drawing.name: drawing for drawing in drawings}


def draw_precision_at_k(run: RunRecord) -> Figure | None:
    """Draw precision against k, a panel for each subset."""
    if run.precision_at_k.empty:
        return None
    styles = learner_styles(learners(run))
    figure, panels = _panels(run, run.precision_at_k, "k (images retrieved)", "Precision at k")
    for subset, axes in panels.items():
        rows = run.precision_at_k[run.precision_at_k["subset"] == subset]
        for learner, style in styles.items():
            band = _band(rows[rows["learner"] == learner], "k", "precision")
            draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        axes.axhline(chance_level(run, subset), **CHANCE)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    draw_legend(figure, _present(styles, run.precision_at_k), {"chance": Line2D([], [], **CHANCE)})
    return figure


def draw_along_steps(run: RunRecord) -> Figure | None:
    """Draw mAP against the number of steps, on training, validation and test images."""
    if run.traces.empty:
        return None
    styles, trials = learner_styles(learners(run)), finished(run)
    scores = pd.concat([run.traces, _chosen_validation(run)])
    figure, panels = _panels(run, run.traces, STEPS_LABEL, "Mean average precision")
    for subset, axes in panels.items():
        log_counts(axes)
        heights = (0.035 + 0.05 * number for number in count())  # triangles do not overlap
        for learner, style in styles.items():
            own = trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
            rows = scores[(scores["subset"] == subset) & (scores["learner"] == learner)]
            for split, line in SPLITS.items():
                of_split = rows[rows["split"] == split]
                band = _band(of_split, "n_steps", "mean_average_precision", partitions=len(own))
                drawn = {**style, "markersize": 3, "linestyle": line}
                draw_band(axes, band, drawn, shade=split != "validation")
            chosen = pd.to_numeric(own["n_steps"]).dropna()
            if len(chosen):
                _mark_chosen(axes, chosen.median(), next(heights), style)
            elif len(own):
                _draw_level(axes, own["mean_average_precision"].mean(), style)
    others: dict[str, Artist] = {
        split: Line2D([], [], color="0.3", linestyle=line) for split, line in SPLITS.items()
    }
    others["chosen steps"] = Line2D([], [], color="0.3", marker="^", markersize=8, linestyle="")
    draw_legend(figure, _present(styles, trials), others, lines=False)
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


def _draw_level(axes: Axes, level: float, style: LearnerStyle) -> None:
    """Draw a learner without steps: a level line with its marker at the right end."""
    axes.axhline(level, color=style["color"], linewidth=1.2)
    axes.plot([1], [level], **style, transform=axes.get_yaxis_transform(), clip_on=False)


def draw_symmetry(run: RunRecord) -> Figure | None:
    """Draw the symmetry index of W against the number of steps."""
    if run.symmetry.empty:
        return None
    styles, trials = learner_styles(learners(run)), finished(run)
    figure, panels = _panels(run, run.symmetry, STEPS_LABEL, "Symmetry index of W")
    for subset, axes in panels.items():
        log_counts(axes)
        rows = run.symmetry[run.symmetry["subset"] == subset]
        n_trials = trials.loc[trials["subset"] == subset, "learner"].value_counts()
        for learner, own in rows.groupby("learner"):
            band = _band(own, "n_steps", "symmetry_index", partitions=n_trials[learner])
            draw_band(axes, band, styles[str(learner)])
    draw_legend(figure, _present(styles, run.symmetry), {})
    return figure


def draw_runtime(run: RunRecord) -> Figure | None:
    """Draw the seconds of the final fit against the number of classes."""
    trials = finished(run)
    if trials.empty:
        return None
    figure, axes = categories(*_subset_axis(run), "Final fit, wall clock (seconds)")
    axes.set_yscale("log")
    every = trials["fit_seconds"].clip(lower=1e-9)
    axes.set_ylim(every.min() / 2, every.max() * 2)  # a single value has no range of its own
    styles, waited = learner_styles(learners(run)), noisy(trials)
    for learner, x in _side_by_side(run).items():
        own = trials[trials["learner"] == learner]
        seconds = own.groupby("subset")["fit_seconds"].agg(["median", "min", "max"])
        points = seconds.reindex(list(subsets(run))).set_axis(["middle", "low", "high"], axis=1)
        draw_bars(axes, x, points, styles[learner])
        marked = own.loc[waited[own.index], "subset"].unique()
        hollow = {**styles[learner], "linestyle": "", "markerfacecolor": "white", "zorder": 5}
        axes.plot(x, points["middle"].where(points.index.isin(marked)), **hollow)
    others: dict[str, Artist] = {"noisy": Line2D([], [], **NOISY)} if waited.any() else {}
    draw_legend(figure, _present(styles, trials), others)
    return figure


def _noisy_text(run: RunRecord) -> str:
    """Say how many timings are noisy, where there are any."""
    trials = finished(run)
    if not (number := int(noisy(trials).sum())):
        return ""
    return (
        f" Hollow: noisy, as a fit waited for a core for more than 5 % of its time ({number} of "
        f"{plural(len(trials), 'trial')}; the table says whose)."
    )


def draw_by_classes(run: RunRecord) -> Figure | None:
    """Draw test mAP against the number of classes."""
    trials = finished(run)
    if trials["subset"].nunique() < 2:
        return None
    figure, axes = categories(*_subset_axis(run), "Mean average precision")
    styles = learner_styles(learners(run))
    for learner, x in _side_by_side(run).items():
        own = trials[trials["learner"] == learner]
        summaries = [
            summarise(own.loc[own["subset"] == subset, "mean_average_precision"])
            for subset in subsets(run)
        ]
        points = pd.DataFrame(
            [(s.mean, s.mean - s.standard_error, s.mean + s.standard_error) for s in summaries],
            columns=["middle", "low", "high"],
        )
        draw_bars(axes, x, points, styles[learner])
    chances = [chance_level(run, subset) for subset in subsets(run)]
    axes.plot(range(len(chances)), chances, **CHANCE)
    draw_legend(figure, _present(styles, trials), {"chance": Line2D([], [], **CHANCE)})
    return figure


def _panels(
    run: RunRecord, rows: pd.DataFrame, x_label: str, y_label: str
) -> tuple[Figure, dict[str, Axes]]:
    """Make a figure with a panel for each subset that has rows."""
    shown = [subset for subset in subsets(run) if (rows["subset"] == subset).any()]
    figure, panels = panels_of([subset_title(run, subset) for subset in shown], x_label, y_label)
    return figure, dict(zip(shown, panels, strict=True))


def _subset_axis(run: RunRecord) -> tuple[list[str], str]:
    """Return the label of each subset, and what their numbers count."""
    return [subset_label(run, subset) for subset in subsets(run)], f"number of {class_noun(run)}"


def _side_by_side(run: RunRecord) -> dict[str, npt.NDArray[np.float64]]:
    """Return the place of each learner's points: a little beside those of the others."""
    names = learners(run)
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    places = np.arange(len(subsets(run)))
    return {name: places + shift for name, shift in zip(names, shifts, strict=True)}


def _band(rows: pd.DataFrame, x: str, y: str, partitions: int | None = None) -> pd.DataFrame:
    """Return mean and standard error of `y` at each `x`, where there are `partitions` values."""
    points = [
        (place, summary.mean, summary.standard_error)
        for place, values in rows.groupby(x)[y]
        if (summary := summarise(values)).n == (partitions or summary.n)
    ]
    return pd.DataFrame(points, columns=["x", "mean", "se"], dtype=float)


def _chosen_validation(run: RunRecord) -> pd.DataFrame:
    """Return the mean over folds of the validation mAP of the chosen hyper-parameters."""
    chosen = finished(run)[["trial_id", "params"]]
    rows = run.validation.merge(chosen, on=["trial_id", "params"])
    keys = ["learner", "subset", "partition", "n_steps"]
    means = rows.groupby(keys)["mean_average_precision"].mean()
    return means.reset_index().assign(split="validation")


def _present(styles: Mapping[str, LearnerStyle], rows: pd.DataFrame) -> dict[str, LearnerStyle]:
    """Return the styles of the learners that have rows."""
    return {name: style for name, style in styles.items() if (rows["learner"] == name).any()}
