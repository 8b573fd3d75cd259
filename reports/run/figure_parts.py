"""What the figures of a run share: a panel for each subset, means with errors, legend entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from oasis_bench.analysis import summarise
from oasis_bench.reports.figure_style import LearnerStyle, panels_of
from oasis_bench.reports.plot import Plot
from oasis_bench.reports.run.facts import (
    class_noun,
    learners,
    marked,
    subset_label,
    subset_title,
    subsets,
)
from oasis_bench.runs import StoredRun


def panels(
    run: StoredRun, rows: pd.DataFrame, x_label: str, y_label: str
) -> tuple[Plot, dict[str, Axes]]:
    """Make a figure with a panel for each subset that has rows."""
    shown = [subset for subset in subsets(run) if (rows["subset"] == subset).any()]
    figure, made = panels_of([subset_title(run, subset) for subset in shown], x_label, y_label)
    return figure, dict(zip(shown, made, strict=True))


def subset_axis(run: StoredRun) -> tuple[list[str], str]:
    """Return the label of each subset, and what their numbers count."""
    return [subset_label(run, subset) for subset in subsets(run)], f"number of {class_noun(run)}"


def side_by_side(run: StoredRun) -> dict[str, npt.NDArray[np.float64]]:
    """Return the place of each learner's points: a little beside those of the others."""
    names = learners(run)
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    places = np.arange(len(subsets(run)))
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
    run: StoredRun, styles: Mapping[str, LearnerStyle], rows: pd.DataFrame
) -> dict[str, LearnerStyle]:
    """Return the legend entries of the learners that have rows."""
    present = set(rows["learner"])
    return {marked(run, name): style for name, style in styles.items() if name in present}
