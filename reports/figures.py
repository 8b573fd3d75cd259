"""A run's figures: precision at k, mAP and symmetry along the steps, mAP over classes, run time.

Each learner keeps its colour, marker and line style in all of them.  Not for the ground that they
are drawn on: the canvas module makes that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import summarise
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
    row_of_places,
)
from oasis_bench.reports.reading import (
    chance_level,
    class_noun,
    finished,
    learners,
    subset_label,
    subset_title,
    subsets,
)
from oasis_bench.reports.text import plural
from oasis_bench.store.run_file import RunRecord

NOISY: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "", "markerfacecolor": "white"}


@dataclass(frozen=True)
class _Plan:
    """A figure to be drawn: `draw` returns it, or None where the run holds nothing for it.

    What its bars and bands are, `spread`, stands in the figure itself too: files travel alone.
    """

    name: str
    title: str
    spread: str
    caption: str
    without: str
    draw: Callable[[RunRecord], Figure | None]


def draw_all(run: RunRecord) -> dict[str, Drawing]:
    """Draw every figure of a run, by name."""
    partitions = plural(run.info["experiment"]["partitions"], "partition")
    standard_error = f"mean ± standard error over {partitions}"
    plans = (
        _Plan(
            name="precision_at_k",
            title="Precision at the top k",
            spread=standard_error,
            caption="Dashed grey: chance level.",
            without="no trial has finished",
            draw=draw_precision_at_k,
        ),
        _Plan(
            name="map_along_steps",
            title="mAP along the learning steps",
            spread=standard_error,
            caption="Drawn as far as every partition was followed. Solid: test images; dashed: "
            "training images; dotted: validation images of the inner folds, for the chosen "
            "hyper-parameters (mean alone); triangle: median of the chosen numbers of steps. "
            "Learners without steps are level lines at their test mAP.",
            without="no incremental learner has a trace",
            draw=draw_along_steps,
        ),
        _Plan(
            name="symmetry",
            title="Symmetry index of W along the learning steps",
            spread=standard_error,
            caption="Drawn as far as every partition was followed; learners of x'Wy alone.",
            without="no incremental learner of x'Wy has a trace",
            draw=draw_symmetry,
        ),
        _Plan(
            name="runtime",
            title="Run time of the final fit",
            spread=f"median over {partitions}, bars from the shortest to the longest",
            caption="Logarithmic scale." + _noisy_text(run),
            without="no trial has finished",
            draw=draw_runtime,
        ),
        _Plan(
            name="map_by_classes",
            title="mAP against the number of classes",
            spread=standard_error,
            caption="Dashed grey: chance level.",
            without="fewer than two class subsets have a result",
            draw=draw_by_classes,
        ),
    )
    drawings = {}
    with mpl.rc_context(STYLE):
        for plan in plans:
            figure = plan.draw(run)
            if figure is None:
                drawings[plan.name] = Drawing(
                    plan.name, plan.title, f"Not drawn: {plan.without}.", {}
                )
                continue
            figure.suptitle(f"{plan.title}\n{plan.spread}", fontsize="medium")
            caption = f"{plan.spread.capitalize()}. {plan.caption}"
            drawings[plan.name] = Drawing(plan.name, plan.title, caption, render(figure))
    return drawings


def draw_precision_at_k(run: RunRecord) -> Figure | None:
    """Draw precision against k, a panel for each subset."""
    if run.precision_at_k.empty:
        return None
    styles = learner_styles(learners(run))
    shown = _subsets_with(run, run.precision_at_k)
    figure, panels = panels_of(
        [subset_title(run, subset) for subset in shown], "k (images retrieved)", "Precision at k"
    )
    for axes, subset in zip(panels, shown, strict=True):
        rows = run.precision_at_k[run.precision_at_k["subset"] == subset]
        for learner, style in styles.items():
            band = _bands(rows[rows["learner"] == learner], "k", "precision")
            draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        axes.axhline(chance_level(run, subset), **CHANCE)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    draw_legend(figure, _present(styles, run.precision_at_k), {"chance": Line2D([], [], **CHANCE)})
    return figure


def draw_along_steps(run: RunRecord) -> Figure | None:
    """Draw mAP against the number of steps, on training, validation and test images."""
    if run.traces.empty:
        return None
    styles = learner_styles(learners(run))
    shown = _subsets_with(run, run.traces)
    validation = _chosen_validation(run)
    figure, panels = panels_of(
        [subset_title(run, subset) for subset in shown],
        "learning steps (triplets)",
        "Mean average precision",
    )
    splits: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
    for axes, subset in zip(panels, shown, strict=True):
        count_steps(axes)
        heights = (0.035 + 0.05 * number for number in count())  # no triangle hides another
        trials = finished(run)
        trials = trials[trials["subset"] == subset]
        for learner, style in styles.items():
            own = trials[trials["learner"] == learner]
            plain = {**style, "markersize": 3}
            for split, line in splits.items():
                rows = validation if split == "validation" else run.traces
                rows = rows[(rows["subset"] == subset) & (rows["learner"] == learner)]
                rows = rows[rows["split"] == split]
                band = _bands(rows, "n_steps", "mean_average_precision", partitions=len(own))
                draw_band(axes, band, {**plain, "linestyle": line}, shade=split != "validation")
            chosen = pd.to_numeric(own["n_steps"]).dropna()
            if len(chosen):
                axes.plot(
                    [chosen.median()],
                    [next(heights)],
                    marker="^",
                    markersize=9,
                    color=style["color"],
                    markeredgecolor="white",
                    transform=axes.get_xaxis_transform(),
                    zorder=5,
                )
            elif len(own):
                level = own["mean_average_precision"].mean()
                axes.axhline(level, color=style["color"], linewidth=1.2)
                axes.plot(
                    [1], [level], **style, transform=axes.get_yaxis_transform(), clip_on=False
                )
    others: dict[str, Artist] = {
        split: Line2D([], [], color="0.3", linestyle=line) for split, line in splits.items()
    }
    others["chosen steps"] = Line2D([], [], color="0.3", marker="^", markersize=8, linestyle="")
    draw_legend(figure, _present(styles, finished(run)), others, lines=False)
    return figure


def draw_symmetry(run: RunRecord) -> Figure | None:
    """Draw the symmetry index of W against the number of steps."""
    if run.symmetry.empty:
        return None
    styles = learner_styles(learners(run))
    shown = _subsets_with(run, run.symmetry)
    figure, panels = panels_of(
        [subset_title(run, subset) for subset in shown],
        "learning steps (triplets)",
        "Symmetry index of W",
    )
    trials = finished(run)
    for axes, subset in zip(panels, shown, strict=True):
        count_steps(axes)
        rows = run.symmetry[run.symmetry["subset"] == subset]
        n_trials = trials.loc[trials["subset"] == subset, "learner"].value_counts()
        for learner, own in rows.groupby("learner"):
            band = _bands(own, "n_steps", "symmetry_index", partitions=n_trials[learner])
            draw_band(axes, band, styles[str(learner)])
    draw_legend(figure, _present(styles, run.symmetry), {})
    return figure


def draw_runtime(run: RunRecord) -> Figure | None:
    """Draw the seconds of the final fit against the number of classes."""
    trials = finished(run)
    if trials.empty:
        return None
    figure, axes = row_of_places(*_places(run), "Final fit, wall clock (seconds)")
    axes.set_yscale("log")
    every = trials["fit_seconds"].clip(lower=1e-9)
    axes.set_ylim(every.min() / 2, every.max() * 2)  # a single value has no range of its own
    styles = learner_styles(learners(run))
    for learner, places in _dodged(run).items():
        seconds = trials[trials["learner"] == learner].groupby("subset")["fit_seconds"]
        ends = seconds.agg(["median", "min", "max"]).reindex(list(subsets(run)))
        axes.errorbar(
            places,
            ends["median"],
            yerr=[ends["median"] - ends["min"], ends["max"] - ends["median"]],
            capsize=2.5,
            elinewidth=1,
            **styles[learner],
        )
        waited = noisy(trials[trials["learner"] == learner])
        marked = trials.loc[waited.index[waited], "subset"].unique()
        hollow = {**styles[learner], "linestyle": "", "markerfacecolor": "white", "zorder": 5}
        axes.plot(places, ends["median"].where(ends.index.isin(marked)), **hollow)
    others: dict[str, Artist] = {"noisy": Line2D([], [], **NOISY)} if noisy(trials).any() else {}
    draw_legend(figure, _present(styles, trials), others)
    return figure


def _noisy_text(run: RunRecord) -> str:
    """Say which timings are noisy, where there are any."""
    trials = finished(run)
    if not (count := int(noisy(trials).sum())):
        return ""
    return (
        f" Hollow: noisy, as a fit waited for a core for more than 5 % of its time ({count} of "
        f"{plural(len(trials), 'trial')}; the table says whose)."
    )


def draw_by_classes(run: RunRecord) -> Figure | None:
    """Draw test mAP against the number of classes."""
    trials = finished(run)
    shown = _subsets_with(run, trials)
    if len(shown) < 2:
        return None
    figure, axes = row_of_places(*_places(run), "Mean average precision")
    styles = learner_styles(learners(run))
    for learner, places in _dodged(run).items():
        own = trials[trials["learner"] == learner]
        summaries = [
            summarise(own.loc[own["subset"] == subset, "mean_average_precision"])
            for subset in subsets(run)
        ]
        axes.errorbar(
            places,
            [summary.mean for summary in summaries],
            yerr=[summary.standard_error for summary in summaries],
            capsize=2.5,
            elinewidth=1,
            **styles[learner],
        )
    axes.plot(
        range(len(subsets(run))), [chance_level(run, name) for name in subsets(run)], **CHANCE
    )
    draw_legend(figure, _present(styles, trials), {"chance": Line2D([], [], **CHANCE)})
    return figure


def _places(run: RunRecord) -> tuple[list[str], str]:
    """Return the label of each subset, and what their numbers count."""
    return [subset_label(run, subset) for subset in subsets(run)], f"number of {class_noun(run)}"


def _dodged(run: RunRecord) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Place each learner's points a little beside the others'."""
    names = learners(run)
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    return {
        name: np.arange(len(subsets(run))) + shift
        for name, shift in zip(names, shifts, strict=True)
    }


def _bands(rows: pd.DataFrame, x: str, y: str, partitions: int | None = None) -> pd.DataFrame:
    """Return mean and standard error of `y` at each `x` (both where `partitions` values are)."""
    points = [
        (place, summary.mean, summary.standard_error)
        for place, values in rows.groupby(x)[y]
        if (summary := summarise(values)).n == (partitions or summary.n)
    ]
    return pd.DataFrame(points, columns=["x", "mean", "se"], dtype=float)


def _chosen_validation(run: RunRecord) -> pd.DataFrame:
    """Return the mean over folds of what the chosen hyper-parameters scored at each step."""
    chosen = finished(run)[["trial_id", "params"]]
    rows = run.validation.merge(chosen, on=["trial_id", "params"])
    keys = ["learner", "subset", "partition", "n_steps"]
    means = rows.groupby(keys)["mean_average_precision"].mean()
    return means.reset_index().assign(split="validation")


def _subsets_with(run: RunRecord, rows: pd.DataFrame) -> list[str]:
    held = set(rows["subset"])
    return [subset for subset in subsets(run) if subset in held]


def _present(styles: Mapping[str, LearnerStyle], rows: pd.DataFrame) -> dict[str, LearnerStyle]:
    held = set(rows["learner"])
    return {name: style for name, style in styles.items() if name in held}
