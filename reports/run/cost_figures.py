"""The figure of a run's costs: times of tuning, fit and query, side by side."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oasis_bench.analysis import noisy, with_costs
from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    categories,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
    log_seconds,
)
from oasis_bench.reports.formatting import plural
from oasis_bench.reports.run.facts import (
    dagger_notes,
    finished,
    learners,
    of_splits,
    partitions_text,
    splits,
    subsets,
)
from oasis_bench.reports.run.figure_parts import entries, side_by_side, subset_axis
from oasis_bench.runs import StoredRun

SHOWN = {
    "tuning_seconds": "Tuning (seconds)",
    "fit_seconds": "Fit (seconds)",
    "seconds_per_query": "Query (seconds)",
}
NOISY: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "", "markerfacecolor": "white"}


@mpl.rc_context(STYLE)
def cost_figures(run: StoredRun) -> list[Drawing]:
    """Draw the figure of each split."""
    return [
        finish(
            "_".join(["costs", *of_splits(run, split)]),
            "The three costs" + "".join(of_splits(run, f", {split}")),
            draw_costs(run, split),
            spread=f"median over {partitions_text(run)}, bars from the smallest to the largest",
            caption=" ".join(
                [
                    "Logarithmic scales. A learner without a point for tuning had nothing to tune.",
                    *_noisy_text(run, split),
                    *dagger_notes(run, finished(run, split)["learner"]),
                ]
            ),
            without="no trial has finished",
        )
        for split in splits(run)
    ]


def draw_costs(run: StoredRun, split: str) -> Figure | None:
    """Draw the times of tuning, fit and query against the number of classes."""
    trials = with_costs(finished(run, split))
    if trials.empty:
        return None
    figure, panels = categories(*subset_axis(run), list(SHOWN.values()))
    styles, waited = learner_styles(learners(run)), noisy(trials)
    for axes, cost in zip(panels, SHOWN, strict=True):
        trials[cost] = trials[cost].where(trials[cost] > 0)
        if trials[cost].notna().any():  # a single value has no range of its own
            axes.set_ylim(trials[cost].min() / 2, trials[cost].max() * 2)
        log_seconds(axes, "y")
        for learner, x in side_by_side(run).items():
            own = trials[trials["learner"] == learner]
            spread = own.groupby("subset")[cost].agg(["median", "min", "max"])
            points = spread.reindex(list(subsets(run))).set_axis(["middle", "low", "high"], axis=1)
            draw_bars(axes, x, points, styles[learner])
            if cost == "fit_seconds":
                marked = own.loc[waited[own.index], "subset"].unique()
                hollow = {**styles[learner], "linestyle": "", "markerfacecolor": "white"}
                middle = points["middle"].where(points.index.isin(marked))
                axes.plot(x, middle, **hollow, zorder=5)
    others: dict[str, Artist] = {"noisy": Line2D([], [], **NOISY)} if waited.any() else {}
    draw_legend(figure, entries(run, styles, trials), others)
    return figure


def _noisy_text(run: StoredRun, split: str) -> list[str]:
    """Say how many timings are noisy, where there are any."""
    trials = finished(run, split)
    if not (number := int(noisy(trials).sum())):
        return []
    return [
        f"Hollow: noisy, as a fit waited for a core for more than 5 % of its time ({number} of "
        f"{plural(len(trials), 'trial')}; the table says whose)."
    ]
