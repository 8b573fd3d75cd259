"""The figure of the learned spaces: test items in a plane, before and after learning."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from oasis_bench.reports.figure_style import (
    LABEL_WIDTH,
    PANELS_PER_ROW,
    STYLE,
    Drawing,
    draw_legend,
    finish,
    learner_styles,
)
from oasis_bench.reports.formatting import clip
from oasis_bench.reports.plot import Plot, record
from oasis_bench.reports.view import RunView

MOST_LEARNERS = 11
"""Panels of learners: those with the highest first measure."""

THUMBNAIL, THUMBNAIL_PIXELS = 0.075, 48
"""The side of a picture in a plane, as a share of the panel's, and of its file."""

AFTER, BEFORE = ["x", "y"], ["x_before", "y_before"]


@mpl.rc_context(STYLE)
def space_figures(view: RunView) -> list[Drawing]:
    """Draw the plane of each learner for the largest subset that has any; else nothing.

    Where the run has pictures, a second figure has them in two of the planes.
    """
    points = _largest_subset(view)
    if points.empty:
        return []
    subset, split = points["subset"].iloc[0], points["split"].iloc[0]
    n_shown, n_classes = points["label"].nunique(), len(view.class_names(subset, split))
    shown = _shown(view, points)
    of_classes = (
        f"of {n_shown} classes, drawn at random of those that test, " if n_shown < n_classes else ""
    )
    return [
        finish(
            "learned_space",
            "Test " + view.info.items + " before and after learning",
            draw_spaces(view, points, shown),
            spread=f"first partition, {view.subset_title(subset)}",
            caption=" ".join(
                [
                    f"At most {points.groupby(['learner', 'label']).size().max()} test "
                    f"{view.info.items} of a class, {of_classes}in the plane of the two principal "
                    "axes of their similarity (classical scaling of the learner’s scores, centred "
                    "and made symmetric). Before learning: the principal components of the rows as "
                    "they were scaled. The title of a panel says which share of the variance its "
                    "plane has. What the other axes hold is not seen: what overlaps here may lie "
                    "apart, and measures are of the whole space. A plane is turned so that it fits "
                    "the first panel; its scale is its own.",
                    *_not_shown(view, points, shown),
                    *view.dagger_notes(shown),
                ]
            ),
            without="",
        ),
        *_picture_figures(view, points, shown),
    ]


def _picture_figures(view: RunView, points: pd.DataFrame, shown: list[str]) -> list[Drawing]:
    """Draw the planes before learning and of the best learner with pictures in them."""
    thumbnails = view.stored.pictures.set_index("row")["thumbnail"].dropna().to_dict()
    held = points[points["row"].isin(list(thumbnails))]
    if held.empty:
        return []
    best = _by_quality(view, points, shown)[0]
    panels = _panels(view, points[points["learner"] == best], [best])
    figure = Plot(len(panels), 2, (4.2, 4.2), "y", left=0.3, bottom=0.1)
    for axes, (title, own) in zip(figure.panels, panels.items(), strict=True):
        figure.set_panel_title(axes, clip(title, LABEL_WIDTH))
        _draw_pictures(axes, own[own["row"].isin(list(thumbnails))], thumbnails)
    return [
        finish(
            "learned_space_pictures",
            "The pictures before and after learning",
            figure,
            spread=f"first partition, {view.subset_title(points['subset'].iloc[0])}",
            caption="The planes of the figure above, before learning and of the learner with the "
            "highest first measure, with the pictures that the run keeps: those of its example "
            "queries and of what is retrieved for them. One that would cover another is left out.",
            without="",
        )
    ]


def _draw_pictures(axes: Axes, own: pd.DataFrame, thumbnails: Mapping[Any, bytes]) -> None:
    """Draw each picture at its place; one that would cover an earlier one is left out."""
    places = own[AFTER].to_numpy()
    low, high = places.min(axis=0), places.max(axis=0)
    side = THUMBNAIL * max(*(high - low), 1e-12)
    drawn = np.full((0, 2), np.inf)
    for row, place in zip(own["row"], places, strict=True):
        if (np.abs(drawn - place).max(axis=1) < side).any():
            continue
        with Image.open(BytesIO(thumbnails[row])) as file:
            picture = np.asarray(file.convert("RGB").resize((THUMBNAIL_PIXELS,) * 2))
        left, bottom = place - side / 2
        ends = (left, left + side, bottom, bottom + side)
        axes.imshow(picture, extent=ends, interpolation="none")
        drawn = np.vstack([drawn, place])
    middle, half = (low + high) / 2, (high - low).max() / 2 + side  # the panel is a square
    axes.set(xlim=middle[0] + np.array([-half, half]), ylim=middle[1] + np.array([-half, half]))
    axes.set_xticks([])
    axes.set_yticks([])
    record(axes, "pictures", drawn[:, 0].round(4), drawn[:, 1].round(4))


def _largest_subset(view: RunView) -> pd.DataFrame:
    """Return the projections of the largest subset that has any, of the first partition."""
    rows = view.stored.projections[view.stored.projections["partition"] == 0]
    held = [subset for subset in view.subsets if subset in set(rows["subset"])]
    return rows[rows["subset"] == held[-1]] if held else rows


def _shown(view: RunView, points: pd.DataFrame) -> list[str]:
    """Return the learners that have a panel, in the order of the experiment."""
    present = [name for name in view.learners if name in set(points["learner"])]
    best = _by_quality(view, points, present)[:MOST_LEARNERS]
    return [name for name in present if name in best]


def _by_quality(view: RunView, points: pd.DataFrame, present: list[str]) -> list[str]:
    """Put learners in the order of their first measure, the best first."""
    task = next(it for it in view.tasks if view.split_of(it) == points["split"].iloc[0])
    values = view.values[task]
    of_subset = values["subset"] == points["subset"].iloc[0]
    values = values[of_subset & (values["name"] == view.headlines[task][0])]
    means = values.groupby("learner")["value"].mean()
    return sorted(present, key=lambda name: -means.get(name, -np.inf))


def _not_shown(view: RunView, points: pd.DataFrame, shown: list[str]) -> list[str]:
    n_others = points["learner"].nunique() - len(shown)
    return [f"Not drawn: {n_others} learners that are worse."] if n_others else []


def draw_spaces(view: RunView, points: pd.DataFrame, shown: list[str]) -> Figure:
    """Draw a panel for the rows of each scaling, then one for each learner."""
    panels = _panels(view, points, shown)
    names = view.class_names(points["subset"].iloc[0], points["split"].iloc[0])
    numbers = sorted(points["label"].unique())
    styles = learner_styles([names[number] for number in numbers])
    looks = [{**style, "linestyle": "none", "markersize": 3.5} for style in styles.values()]
    figure = Plot(len(panels), PANELS_PER_ROW, (2.5, 2.5), "y", left=0.3, bottom=0.35)
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


def _panels(view: RunView, points: pd.DataFrame, shown: list[str]) -> dict[str, pd.DataFrame]:
    """Return the points of each panel: the rows of each scaling, then each learner."""
    scalings = view.trials.set_index("trial_id")["scaling"]
    points = points.assign(scaling=points["trial_id"].map(scalings))
    panels: dict[str, pd.DataFrame] = {}
    for scaling, own in points.dropna(subset=BEFORE).groupby("scaling", sort=False):
        first = own[own["trial_id"] == own["trial_id"].iloc[0]]
        before = first.assign(x=first["x_before"], y=first["y_before"])
        panels[f"before learning, {scaling}"] = before
    first = next(iter(panels.values()), None)
    for learner in shown:
        own = points[points["learner"] == learner]
        panels[view.marked(learner)] = _turned(own, first)
    return panels


def _turned(own: pd.DataFrame, first: pd.DataFrame | None) -> pd.DataFrame:
    """Turn or mirror a plane so that it fits the first one (orthogonal Procrustes)."""
    if first is None:
        return own
    paired = own.merge(first[["row", *AFTER]], on="row", suffixes=("", "_first"))
    left, _, right = np.linalg.svd(paired[AFTER].T.to_numpy() @ paired[["x_first", "y_first"]])
    turned = own[AFTER].to_numpy() @ (left @ right)
    return own.assign(x=turned[:, 0], y=turned[:, 1])
