"""The figure of the learned spaces: test items in a plane, before and after learning."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oasis_bench.analysis.headlines import headlines, task_measures
from oasis_bench.reports.figure_style import (
    LABEL_WIDTH,
    PANELS_A_ROW,
    STYLE,
    Drawing,
    draw_legend,
    finish,
    learner_styles,
)
from oasis_bench.reports.formatting import clip
from oasis_bench.reports.plot import Plot, record
from oasis_bench.reports.run.confusion import class_names
from oasis_bench.reports.run.facts import (
    dagger_notes,
    learners,
    marked,
    split_of,
    subset_title,
    subsets,
    tasks,
)
from oasis_bench.store.run_file import RunRecord

MOST_LEARNERS = 11
"""Panels of learners: those with the highest first measure."""

AFTER, BEFORE = ["x", "y"], ["x_before", "y_before"]


@mpl.rc_context(STYLE)
def space_figures(run: RunRecord) -> list[Drawing]:
    """Draw the plane of each learner for the largest subset that has any; else nothing."""
    points = _largest_subset(run)
    if points.empty:
        return []
    subset, split = points["subset"].iloc[0], points["split"].iloc[0]
    n_shown, n_classes = points["label"].nunique(), len(class_names(run, subset, split))
    shown = _shown(run, points)
    of_classes = (
        f"of {n_shown} classes, drawn at random of those that test, " if n_shown < n_classes else ""
    )
    return [
        finish(
            "learned_space",
            "Test " + run.info.items + " before and after learning",
            draw_spaces(run, points, shown),
            spread=f"first partition, {subset_title(run, subset)}",
            caption=" ".join(
                [
                    f"At most {points.groupby(['learner', 'label']).size().max()} test "
                    f"{run.info.items} of a class, {of_classes}in the plane of the two principal "
                    "axes of their similarity (classical scaling of the learner’s scores, centred "
                    "and made symmetric). Before learning: the principal components of the rows as "
                    "they were scaled. The title of a panel says which share of the variance its "
                    "plane has. What the other axes hold is not seen: what overlaps here may lie "
                    "apart, and measures are of the whole space. A plane is turned so that it fits "
                    "the first panel; its scale is its own.",
                    *_not_shown(run, points, shown),
                    *dagger_notes(run, shown),
                ]
            ),
            without="",
        )
    ]


def _largest_subset(run: RunRecord) -> pd.DataFrame:
    """Return the projections of the largest subset that has any, of the first partition."""
    rows = run.projections[run.projections["partition"] == 0]
    held = [subset for subset in subsets(run) if subset in set(rows["subset"])]
    return rows[rows["subset"] == held[-1]] if held else rows


def _shown(run: RunRecord, points: pd.DataFrame) -> list[str]:
    """Return the learners that have a panel, in the order of the experiment."""
    present = [name for name in learners(run) if name in set(points["learner"])]
    task = next(it for it in tasks(run) if split_of(run, it) == points["split"].iloc[0])
    values = task_measures(run, task)
    of_subset = values["subset"] == points["subset"].iloc[0]
    values = values[of_subset & (values["name"] == headlines(run, task)[0])]
    means = values.groupby("learner")["value"].mean()
    best = sorted(present, key=lambda name: -means.get(name, -np.inf))[:MOST_LEARNERS]
    return [name for name in present if name in best]


def _not_shown(run: RunRecord, points: pd.DataFrame, shown: list[str]) -> list[str]:
    n_others = points["learner"].nunique() - len(shown)
    return [f"Not drawn: {n_others} learners that are worse."] if n_others else []


def draw_spaces(run: RunRecord, points: pd.DataFrame, shown: list[str]) -> Figure:
    """Draw a panel for the rows of each scaling, then one for each learner."""
    scalings = run.trials.set_index("trial_id")["scaling"]
    points = points.assign(scaling=points["trial_id"].map(scalings))
    panels: dict[str, pd.DataFrame] = {}
    for scaling, own in points.dropna(subset=BEFORE).groupby("scaling", sort=False):
        first = own[own["trial_id"] == own["trial_id"].iloc[0]]
        before = first.assign(x=first["x_before"], y=first["y_before"])
        panels[f"before learning, {scaling}"] = before
    names = class_names(run, points["subset"].iloc[0], points["split"].iloc[0])
    first = next(iter(panels.values()), None)
    for learner in shown:
        own = points[points["learner"] == learner]
        panels[marked(run, learner)] = _turned(own, first)
    numbers = sorted(points["label"].unique())
    styles = learner_styles([names[number] for number in numbers])
    looks = [{**style, "linestyle": "none", "markersize": 3.5} for style in styles.values()]
    figure = Plot(len(panels), PANELS_A_ROW, (2.5, 2.5), "y", left=0.3, bottom=0.35)
    for axes, (title, own) in zip(figure.panels, panels.items(), strict=True):
        share = float((own[AFTER] ** 2).sum(axis=1).mean())
        figure.set_panel_title(axes, f"{clip(title, LABEL_WIDTH)}: {100 * share:.0f} %")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        for number, look in zip(numbers, looks, strict=True):
            of_class = own[own["label"] == number]
            axes.plot(of_class["x"], of_class["y"], **look)
            record(axes, names[number], of_class["x"].round(4), of_class["y"].round(4))
    marks = {clip(look["label"], LABEL_WIDTH): Line2D([], [], **look) for look in looks}
    draw_legend(figure, {}, marks)
    return figure


def _turned(own: pd.DataFrame, first: pd.DataFrame | None) -> pd.DataFrame:
    """Turn or mirror a plane so that it fits the first one (orthogonal Procrustes)."""
    if first is None:
        return own
    paired = own.merge(first[["row", *AFTER]], on="row", suffixes=("", "_first"))
    left, _, right = np.linalg.svd(paired[AFTER].T.to_numpy() @ paired[["x_first", "y_first"]])
    turned = own[AFTER].to_numpy() @ (left @ right)
    return own.assign(x=turned[:, 0], y=turned[:, 1])
