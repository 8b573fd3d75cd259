"""What raters say of a run: precision at k beside labels and the human level (JMLR 2010, 5.2.3).

Marks are 1 (relevant), 0 (not relevant) or NaN: a rater need not have marked every candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.claims import published_web_scale
from oasis_bench.reports.figure_style import (
    STYLE,
    Drawing,
    draw_band,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
)
from oasis_bench.reports.figures import entries, panels
from oasis_bench.reports.formatting import number_text, plural, series
from oasis_bench.reports.plot import record
from oasis_bench.reports.ratings import MARKS, whole_depths
from oasis_bench.reports.table import Column, Table
from oasis_bench.reports.view import RunView
from oasis_bench.tasks import human_level

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

HUMAN = "human level"
ERROR_BARS = "mean ± standard error over the raters"
HUMAN_STYLE: dict[str, Any] = {
    "label": HUMAN,
    "color": "#262626",
    "linestyle": (0, (2, 1.5)),
    "marker": "*",
}
LABELS: dict[str, Any] = {"linestyle": ":", "linewidth": 1.2}
NO_LINE: dict[str, Any] = {"linestyle": "none"}


def precision_of_raters(marks: Floats) -> Floats:
    """Return the precision at each k by each rater, of marks (n_ranks, n_raters), best first.

    The mean of the rater's marks among the first k; NaN where he marked none of them.
    """
    hits, n = np.nan_to_num(marks).cumsum(axis=0), (~np.isnan(marks)).cumsum(axis=0)
    shares: Floats = np.divide(hits, n, out=np.full(hits.shape, np.nan), where=n > 0)
    return shares


def fleiss_kappa(counts: Counts) -> float:
    """Return Fleiss' kappa: agreement of pairs of raters above that of chance, at most 1.

    ``counts[i, c]`` is how many raters put item i into category c; items of fewer than two raters
    are left out.  NaN where all that is left is of one category.  J. L. Fleiss, Psychological
    Bulletin 76(5), 1971, equations 1 to 7.
    """
    counts = counts[counts.sum(axis=1) > 1]
    n = counts.sum(axis=1)
    agreement = ((counts * (counts - 1)).sum(axis=1) / (n * (n - 1))).mean() if len(n) else np.nan
    by_chance = np.square(counts.sum(axis=0) / max(counts.sum(), 1)).sum()
    return float((agreement - by_chance) / (1 - by_chance)) if by_chance < 1 else np.nan


@dataclass(frozen=True)
class Rated:
    """What raters say of a class subset, of the queries whose first k of every learner are marked.

    `by_raters` is the precision at 1 to k (n_queries, k, n_raters) of each learner by each rater,
    and, of `HUMAN`, that of each rater's own choice by the others; `by_labels` is (n_queries, k).
    """

    queries: list[int]
    by_raters: Mapping[str, Floats]
    by_labels: Mapping[str, Floats]

    @property
    def k(self) -> int:
        """The last rank that is judged."""
        return int(self.by_raters[HUMAN].shape[1])


def marks_of(ratings: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each query and candidate, a column for each rater: 1, 0, or NaN."""
    value = ratings["mark"].map(dict(zip(MARKS, (1.0, 0.0, np.nan), strict=True)))
    table = ratings.assign(value=value).pivot(
        index=["query", "candidate"], columns="rater_id", values="value"
    )
    return table[table.notna().any(axis=1)]


def rated_subsets(view: RunView, marks: pd.DataFrame) -> dict[str, Rated]:
    """Judge what the learners retrieve on each class subset; nothing where too little is marked.

    The last rank k is the one for which k times the number of queries that are marked so far is
    largest; the other queries are left out.
    """
    rows = view.retrievals
    rows = rows[rows["query"].isin(marks.index.get_level_values("query"))].sort_values("rank")
    rated = {}
    for subset in view.subsets:
        own = rows[rows["subset"] == subset]
        depths = whole_depths(own, marks.index.to_list())
        if not (depths > 0).any():
            continue
        k = int(max(depths, key=lambda k: k * (depths >= k).sum()))
        queries = [int(query) for query in depths.index[depths >= k]]
        own = own[(own["rank"] <= k) & own["query"].isin(queries)]
        by_raters, by_labels = {}, {}
        for learner in view.learners:
            found = own[own["learner"] == learner].sort_values(["query", "rank"])
            if len(found) < k * len(queries):
                continue
            pairs = pd.MultiIndex.from_frame(found[["query", "retrieved"]])
            of_ranks = marks.reindex(pairs).to_numpy().reshape(len(queries), k, -1)
            by_raters[learner] = np.stack([precision_of_raters(one) for one in of_ranks])
            hits = found["relevant"].to_numpy(float).reshape(len(queries), k)
            by_labels[learner] = hits.cumsum(axis=1) / np.arange(1, k + 1)
        of_queries = [marks.xs(query, level="query").to_numpy() for query in queries]
        by_raters[HUMAN] = np.stack([human_level(one, k) for one in of_queries])
        rated[subset] = Rated(queries, by_raters, by_labels)
    return rated


def _mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the mean of what is there; NaN where nothing is."""
    means: Floats = np.ma.filled(np.ma.masked_invalid(values).mean(axis=axis), np.nan)
    return np.asarray(means, dtype=float)


def _mean_deviation(values: Floats) -> Floats:
    """Return the sample standard deviation over columns, its mean over rows, for each last index.

    So JMLR 5.2.3 does: of values (n_queries, n_raters, k), that over the raters of a query, on
    average.  What is missing, or alone in its row, does not count.
    """
    return _mean(np.stack([pd.DataFrame(row).std() for row in values]), 0)


def _error(values: Floats) -> Floats:
    """Return the standard error of what is there along the last axis, else NaN."""
    return pd.DataFrame(np.atleast_2d(values)).sem(axis=1).to_numpy()


def _along_k(one: Rated, learner: str) -> pd.DataFrame:
    """Return what the table of precision says, a row for each k."""
    values = one.by_raters[learner]
    by_raters = _mean(values, 0)
    return pd.DataFrame(
        {
            "k": np.arange(1, one.k + 1),
            "by_raters": _mean(by_raters, 1),
            "standard_error": _error(by_raters),
            "by_labels": one.by_labels.get(learner, np.full((1, one.k), np.nan)).mean(axis=0),
            "deviation_over_raters": _mean_deviation(values.transpose(0, 2, 1)),
            "deviation_over_queries": _mean_deviation(values.transpose(2, 0, 1)),
        }
    )


def rating_tables(view: RunView, ratings: pd.DataFrame) -> list[Table]:
    """Make the table of precision at k by raters and by labels; none where none is judged."""
    marks = marks_of(ratings)
    rated = rated_subsets(view, marks)
    if not rated:
        return []
    numbers = [
        _along_k(one, learner).assign(subset=subset, learner=learner, queries=len(one.queries))
        for subset, one in rated.items()
        for learner in one.by_raters
    ]
    last = pd.concat([own.tail(1) for own in numbers])
    errors = [number_text(error, " ± {:.3f}", missing="") for error in last["standard_error"]]
    table = Table(
        name="ratings",
        title=f"Precision at k by {plural(ratings['rater_id'].nunique(), 'rater')}, and by labels",
        columns=[
            Column(view.class_noun.capitalize(), [view.subset_label(it) for it in last["subset"]]),
            Column("Learner", [view.marked(name) for name in last["learner"]], align="l"),
            Column("k", last["k"]),
            Column("Queries", last["queries"]),
            Column("By raters", map(str.__add__, map(_number, last["by_raters"]), errors)),
            Column("By labels", last["by_labels"], _number),
            Column("Deviation over raters", last["deviation_over_raters"], _number),
            Column("Deviation over queries", last["deviation_over_queries"], _number),
        ],
        numbers=pd.concat(numbers),
        notes=_notes(ratings, marks),
    )
    return [table]


def _number(value: float) -> str:
    return number_text(value, "{:.3f}", missing="–")


def _notes(ratings: pd.DataFrame, marks: pd.DataFrame) -> list[str]:
    counts = np.stack([(marks == value).sum(axis=1) for value in (1, 0)], axis=1)
    alone = int((counts.sum(axis=1) < 2).sum())
    by_chance = float(marks.mean(axis=1).groupby("query").mean().mean())
    published = published_web_scale().set_index("figure")["value"]
    of_paper = series([f"{published[f'deviation over {of}']}" for of in ("raters", "queries")])
    return [
        f"{ERROR_BARS.capitalize()}. k is the last rank to which the pictures of every learner are "
        "rated; a query of fewer is left out. Human level: what a rater marked as relevant comes "
        "first, judged by the other raters. Deviation over raters: the sample standard deviation "
        "of the raters’ precision for a query, on average; over queries: of the queries’ precision "
        f"for a rater, on average (JMLR 5.2.3, for mAP: {of_paper}). A random order of the rated "
        f"candidates has {by_chance:.3f}.",
        f"Agreement of the raters: Fleiss’ kappa {_number(fleiss_kappa(counts))}; 1 is agreement "
        f"throughout, 0 what chance gives. {len(counts) - alone} candidates with at least two "
        f"raters count, {alone} do not; "
        f"{(ratings['mark'] == MARKS[2]).sum()} of {len(ratings)} marks are ‘{MARKS[2]}’, and "
        "count nowhere.",
    ]


@mpl.rc_context(STYLE)
def rating_figures(view: RunView, ratings: pd.DataFrame) -> Sequence[Drawing]:
    """Draw precision at k by raters, and query by query; nothing where none is judged."""
    rated = rated_subsets(view, marks_of(ratings))
    if not rated:
        return ()
    at_last = {
        learner: np.mean(
            [
                _mean(one.by_raters[learner][:, -1], (0, 1))
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
            _draw_precision(view, rated),
            spread=ERROR_BARS,
            caption="Dotted: the same by labels. Human level: the choice of each rater, judged by "
            "the others.",
            without="",
        ),
        finish(
            "ratings_by_query",
            f"Judged by people: each query, {view.marked(best)} and the raters",
            _draw_by_query(view, of_best, best),
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


def _draw_precision(view: RunView, rated: Mapping[str, Rated]) -> Figure:
    styles = learner_styles(view.learners)
    x_label = f"k ({view.info.items} retrieved)"
    figure, of_subset = panels(view, _rows_of(rated), x_label, "Precision at k")
    for subset, axes in of_subset.items():
        one = rated[subset]
        ks = np.arange(1, one.k + 1)
        for learner, values in one.by_raters.items():
            by_rater = _mean(values, 0)
            band = pd.DataFrame({"x": ks, "mean": _mean(by_rater, 1), "se": _error(by_rater)})
            draw_band(axes, band, HUMAN_STYLE if learner == HUMAN else styles[learner])
        for learner, values in one.by_labels.items():
            axes.plot(ks, values.mean(axis=0), color=styles[learner]["color"], **LABELS)
            record(axes, f"{learner}, labels", ks, values.mean(axis=0))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    others = {
        HUMAN: Line2D([], [], **HUMAN_STYLE),
        "by labels": Line2D([], [], color="0.35", **LABELS),
    }
    draw_legend(figure, entries(view, styles, _rows_of(rated)), others)
    return figure


def _draw_by_query(view: RunView, rated: Mapping[str, Rated], best: str) -> Figure:
    styles = learner_styles(view.learners)
    figure, of_subset = panels(view, _rows_of(rated), "query", "Precision at k")
    for subset, axes in of_subset.items():
        one = rated[subset]
        order = np.argsort(-_mean(one.by_raters[best][:, -1], 1), kind="stable")
        for name, style, shift in ((best, styles[best], -0.12), (HUMAN, HUMAN_STYLE, 0.12)):
            values = one.by_raters[name][order, -1]
            middle, error = _mean(values, 1), np.nan_to_num(_error(values))
            points = pd.DataFrame({"middle": middle, "low": middle - error, "high": middle + error})
            x = np.arange(1, len(order) + 1) + shift
            draw_bars(axes, x, points, {**style, **NO_LINE})
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    human = Line2D([], [], **{**HUMAN_STYLE, **NO_LINE})
    draw_legend(figure, {view.marked(best): {**styles[best], **NO_LINE}}, {HUMAN: human})
    return figure
