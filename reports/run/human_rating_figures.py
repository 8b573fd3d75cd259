"""What raters say of a run, drawn: precision at k, and query by query (JMLR 2010, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    draw_band,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
)
from oasis_bench.reports.plot import record
from oasis_bench.reports.run.facts import learners, marked
from oasis_bench.reports.run.figure_parts import entries, panels
from oasis_bench.reports.run.human_ratings import (
    ERROR_BARS,
    HUMAN,
    Rated,
    error_of,
    marks_of,
    mean_of,
    rated_subsets,
)
from oasis_bench.runs import StoredRun

HUMAN_STYLE: dict[str, Any] = {
    "label": HUMAN,
    "color": "#262626",
    "linestyle": (0, (2, 1.5)),
    "marker": "*",
}
LABELS: dict[str, Any] = {"linestyle": ":", "linewidth": 1.2}
NO_LINE: dict[str, Any] = {"linestyle": "none"}


@mpl.rc_context(STYLE)
def rating_figures(run: StoredRun, ratings: pd.DataFrame) -> Sequence[Drawing]:
    """Draw precision at k by raters, and query by query; nothing where none is judged."""
    rated = rated_subsets(run, marks_of(ratings))
    if not rated:
        return ()
    at_last = {
        learner: np.mean(
            [
                mean_of(one.by_raters[learner][:, -1], (0, 1))
                for one in rated.values()
                if learner in one.by_labels
            ]
        )
        for learner in _rows_of(rated)["learner"].unique()
    }
    best = max(at_last, key=lambda learner: float(at_last[learner]))
    of_best = {subset: one for subset, one in rated.items() if best in one.by_labels}
    return (
        finish(
            "ratings_precision_at_k",
            "Judged by people: precision at the top k",
            _draw_precision(run, rated),
            spread=ERROR_BARS,
            caption="Dotted: the same by labels. Human level: the choice of each rater, judged by "
            "the others.",
            without="",
        ),
        finish(
            "ratings_by_query",
            f"Judged by people: each query, {marked(run, best)} and the raters",
            _draw_by_query(run, of_best, best),
            spread=ERROR_BARS,
            caption="Of the learners the one that is best by raters. Precision at the last k; "
            "queries in the order of the learner’s.",
            without="",
        ),
    )


def _rows_of(rated: Mapping[str, Rated]) -> pd.DataFrame:
    """Return what `panels` and `entries` ask for: the subsets and learners that are judged."""
    pairs = [(subset, learner) for subset, one in rated.items() for learner in one.by_labels]
    return pd.DataFrame(pairs, columns=["subset", "learner"])


def _draw_precision(run: StoredRun, rated: Mapping[str, Rated]) -> Figure:
    styles = learner_styles(learners(run))
    x_label = f"k ({run.info.items} retrieved)"
    figure, of_subset = panels(run, _rows_of(rated), x_label, "Precision at k")
    for subset, axes in of_subset.items():
        one = rated[subset]
        ks = np.arange(1, one.k + 1)
        for learner, values in one.by_raters.items():
            by_rater = mean_of(values, 0)
            band = pd.DataFrame({"x": ks, "mean": mean_of(by_rater, 1), "se": error_of(by_rater)})
            draw_band(axes, band, HUMAN_STYLE if learner == HUMAN else styles[learner])
        for learner, values in one.by_labels.items():
            axes.plot(ks, values.mean(axis=0), color=styles[learner]["color"], **LABELS)
            record(axes, f"{learner}, labels", ks, values.mean(axis=0))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    others = {
        HUMAN: Line2D([], [], **HUMAN_STYLE),
        "by labels": Line2D([], [], color="0.35", **LABELS),
    }
    draw_legend(figure, entries(run, styles, _rows_of(rated)), others)
    return figure


def _draw_by_query(run: StoredRun, rated: Mapping[str, Rated], best: str) -> Figure:
    styles = learner_styles(learners(run))
    figure, of_subset = panels(run, _rows_of(rated), "query", "Precision at k")
    for subset, axes in of_subset.items():
        one = rated[subset]
        order = np.argsort(-mean_of(one.by_raters[best][:, -1], 1), kind="stable")
        for name, style, shift in ((best, styles[best], -0.12), (HUMAN, HUMAN_STYLE, 0.12)):
            values = one.by_raters[name][order, -1]
            middle, error = mean_of(values, 1), np.nan_to_num(error_of(values))
            points = pd.DataFrame({"middle": middle, "low": middle - error, "high": middle + error})
            x = np.arange(1, len(order) + 1) + shift
            draw_bars(axes, x, points, {**style, **NO_LINE})
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    human = Line2D([], [], **{**HUMAN_STYLE, **NO_LINE})
    draw_legend(figure, {marked(run, best): {**styles[best], **NO_LINE}}, {HUMAN: human})
    return figure
