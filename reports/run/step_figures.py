"""The figures along the learning steps: the measure that chose the steps, and the symmetry of W."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    LearnerStyle,
    draw_band,
    draw_legend,
    finish,
    learner_styles,
    log_counts,
)
from oasis_bench.reports.plot import record
from oasis_bench.reports.run.facts import (
    chooser,
    dagger_notes,
    finished,
    learners,
    of_splits,
    partitions_text,
    splits,
    test_values,
)
from oasis_bench.reports.run.figure_parts import band_of, entries, panels
from oasis_bench.runs import StoredRun

PARTS: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
STEPS_LABEL = "learning steps (triplets)"


@mpl.rc_context(STYLE)
def step_figures(run: StoredRun) -> list[Drawing]:
    """Draw the figures of each split."""
    standard_error = f"mean ± standard error over {partitions_text(run)}"
    items, drawings = run.info.items, []
    for split in splits(run):
        task, measure = chooser(run, split)
        daggers = " ".join(["", *dagger_notes(run, finished(run, split)["learner"])])
        where = "".join(of_splits(run, f", {split}"))
        drawings += [
            finish(
                "_".join(["along_steps", *of_splits(run, split)]),
                f"{measure} along the learning steps{where}",
                draw_along_steps(run, split),
                spread=standard_error,
                caption=f"{measure} of the task {task}. Drawn as far as every partition was "
                f"followed. Solid: test {items}; dashed: training {items}; dotted: validation "
                f"{items} of the inner folds, for the chosen hyper-parameters (mean alone); "
                "triangle: median of the chosen numbers of steps, 0 at the left end. Learners "
                f"without steps are level lines at their value on test {items}." + daggers,
                without="no incremental learner has a trace",
            ),
            finish(
                "_".join(["symmetry", *of_splits(run, split)]),
                f"Symmetry index of W along the learning steps{where}",
                draw_symmetry(run, split),
                spread=standard_error,
                caption="Drawn as far as every partition was followed; learners of x'Wy alone."
                + daggers,
                without="no incremental learner of x'Wy has a trace",
            ),
        ]
    return drawings


def draw_along_steps(run: StoredRun, split: str) -> Figure | None:
    """Draw the measure that chose against the number of steps, on three parts of the items."""
    traces = run.traces[run.traces["split"] == split]
    if traces.empty:
        return None
    styles, trials = learner_styles(learners(run)), finished(run, split)
    trials = trials.assign(value=trials["trial_id"].map(test_values(run, split).to_dict()))
    scores = pd.concat([traces, _chosen_validation(run, trials)])
    figure, of_subset = panels(run, traces, STEPS_LABEL, chooser(run, split)[1])
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
            elif own["value"].notna().any():
                _draw_level(axes, own["value"].mean(), style)
    others: dict[str, Artist] = {
        part: Line2D([], [], color="0.3", linestyle=line) for part, line in PARTS.items()
    }
    others["chosen steps"] = Line2D([], [], color="0.3", marker="^", markersize=8, linestyle="")
    draw_legend(figure, entries(run, styles, trials), others, lines=False)
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


def _chosen_validation(run: StoredRun, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over folds of the validation of the chosen hyper-parameters."""
    chosen = ["trial_id", "scaling", "params"]
    rows = run.validation.merge(trials[chosen], on=chosen)
    rows = rows[rows["n_steps"] > 0]  # 0 has no place on the axis
    keys = ["learner", "subset", "partition", "n_steps"]
    return rows.groupby(keys)["value"].mean().reset_index().assign(part="validation")


def draw_symmetry(run: StoredRun, split: str) -> Figure | None:
    """Draw the symmetry index of W against the number of steps."""
    symmetry = run.symmetry[run.symmetry["split"] == split]
    if symmetry.empty:
        return None
    styles, trials = learner_styles(learners(run)), finished(run, split)
    figure, of_subset = panels(run, symmetry, STEPS_LABEL, "Symmetry index of W")
    for subset, axes in of_subset.items():
        log_counts(axes)
        rows = symmetry[symmetry["subset"] == subset]
        n_trials = trials.loc[trials["subset"] == subset, "learner"].value_counts()
        for learner, own in rows.groupby("learner"):
            band = band_of(own, "n_steps", "symmetry_index", partitions=n_trials[learner])
            draw_band(axes, band, styles[str(learner)])
    draw_legend(figure, entries(run, styles, symmetry), {})
    return figure
