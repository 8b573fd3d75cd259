"""What raters say of a run: precision at k beside labels and the human level, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from oasis_bench.analysis import (
    Floats,
    fleiss_kappa,
    human_level,
    krippendorff_alpha,
    precision_of_raters,
)
from oasis_bench.claims import published_web_scale
from oasis_bench.reports.formatting import clip, plural, series
from oasis_bench.reports.rating_page import MARKS
from oasis_bench.reports.rating_questions import whole_depths
from oasis_bench.reports.run.facts import (
    class_noun,
    learners,
    marked,
    subset_label,
    subset_title,
    subsets,
)
from oasis_bench.reports.run.retrieved_images import retrievals
from oasis_bench.reports.table import Table
from oasis_bench.runs import StoredRun

HUMAN = "human level"
NAME_WIDTH = 40
ERROR_BARS = "mean ± standard error over the raters"


@dataclass(frozen=True)
class Rated:
    """What raters say of a class subset.

    Attributes
    ----------
    queries : list of int
        Those whose first k of every learner are marked; k is the last rank that is judged.
    by_raters : dict of str to ndarray of shape (n_queries, k, n_raters)
        Precision at 1 to k of each learner, by each rater; of `HUMAN`, that of each rater's own
        choice by the others.
    by_labels : dict of str to ndarray of shape (n_queries, k)
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


def rated_subsets(run: StoredRun, marks: pd.DataFrame) -> dict[str, Rated]:
    """Judge what the learners retrieve on each class subset; nothing where too little is marked.

    The last rank k is the one for which k times the number of queries that are marked so far is
    largest; the other queries are left out.
    """
    rows = retrievals(run)
    rows = rows[rows["query"].isin(marks.index.get_level_values("query"))].sort_values("rank")
    rated = {}
    for subset in subsets(run):
        own = rows[rows["subset"] == subset]
        depths = whole_depths(own, marks.index.to_list())
        if not (depths > 0).any():
            continue
        k = int(max(depths, key=lambda k: k * (depths >= k).sum()))
        queries = [int(query) for query in depths.index[depths >= k]]
        own = own[(own["rank"] <= k) & own["query"].isin(queries)]
        by_raters, by_labels = {}, {}
        for learner in learners(run):
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


def mean_of(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the mean of what is there; NaN where nothing is."""
    means: Floats = np.ma.filled(np.ma.masked_invalid(values).mean(axis=axis), np.nan)
    return np.asarray(means, dtype=float)


def _mean_deviation(values: Floats) -> Floats:
    """Return the sample standard deviation over columns, its mean over rows, for each last index.

    So JMLR 5.2.3 does: with queries as rows and raters as columns, that over the raters of a
    query, on average.  What is missing, or alone in its row, does not count.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns, k)
    """
    return mean_of(np.stack([pd.DataFrame(row).std() for row in values]), 0)


def error_of(values: Floats) -> Floats:
    """Return the standard error of what is there along the last axis, else NaN."""
    return pd.DataFrame(np.atleast_2d(values)).sem(axis=1).to_numpy()


def rating_tables(run: StoredRun, ratings: pd.DataFrame) -> list[Table]:
    """Make the tables of precision at k by raters, and of each rater; none where none is judged."""
    marks = marks_of(ratings)
    rated = rated_subsets(run, marks)
    if not rated:
        return []
    return [_precision_table(run, ratings, marks, rated), _raters_table(run, ratings, rated)]


def _precision_table(
    run: StoredRun, ratings: pd.DataFrame, marks: pd.DataFrame, rated: Mapping[str, Rated]
) -> Table:
    rows, numbers = [], []
    for subset, one in rated.items():
        for learner, values in one.by_raters.items():
            by_raters = mean_of(values, 0)  # a row for each k
            by_labels = one.by_labels.get(learner, np.full((1, one.k), np.nan)).mean(axis=0)
            own = pd.DataFrame(
                {
                    "k": np.arange(1, one.k + 1),
                    "by_raters": mean_of(by_raters, 1),
                    "standard_error": error_of(by_raters),
                    "by_labels": by_labels,
                    "deviation_over_raters": _mean_deviation(values.transpose(0, 2, 1)),
                    "deviation_over_queries": _mean_deviation(values.transpose(2, 0, 1)),
                }
            )
            numbers.append(own.assign(subset=subset, learner=learner, queries=len(one.queries)))
            _, mean, error, *others = own.to_numpy()[-1].tolist()
            cells = [_number(mean) + ("" if np.isnan(error) else f" ± {error:.3f}")]
            cells += map(_number, others)
            names = [subset_label(run, subset), marked(run, learner)]
            rows.append([*names, str(one.k), str(len(one.queries)), *cells])
    return Table(
        name="ratings",
        title=f"Precision at k by {plural(ratings['rater_id'].nunique(), 'rater')}, and by labels",
        header=(
            *(class_noun(run).capitalize(), "Learner", "k", "Queries", "By raters", "By labels"),
            *("Deviation over raters", "Deviation over queries"),
        ),
        align="rlrrrrrr",
        rows=rows,
        numbers=pd.concat(numbers),
        notes=_notes(ratings, marks),
    )


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


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
        f"Agreement of the raters: Fleiss’ kappa {_number(fleiss_kappa(counts))}, Krippendorff’s "
        f"alpha {_number(krippendorff_alpha(counts))}; 1 is agreement throughout, 0 what chance "
        f"gives. {len(counts) - alone} candidates with at least two raters count, {alone} do not; "
        f"{(ratings['mark'] == MARKS[2]).sum()} of {len(ratings)} marks are ‘{MARKS[2]}’, and "
        "count nowhere.",
    ]


def _raters_table(run: StoredRun, ratings: pd.DataFrame, rated: Mapping[str, Rated]) -> Table:
    """Make the table of each rater's marks, and of that choice at the last k by the others."""
    counts = pd.crosstab(ratings["rater_id"], ratings["mark"]).reindex(
        columns=list(MARKS), fill_value=0
    )
    names = ratings.groupby("rater_id")["rater"].last()
    levels = pd.DataFrame(
        {subset: mean_of(one.by_raters[HUMAN][:, -1], 0) for subset, one in rated.items()},
        index=counts.index,
    )
    of_levels = [
        f"Choice by the others, {subset_title(run, subset)}, k = {one.k}"
        for subset, one in rated.items()
    ]
    rows = [
        [
            clip(str(name), NAME_WIDTH) or f"rater {number}",
            *map(str, counts.iloc[number - 1]),
            *map(_number, levels.iloc[number - 1]),
        ]
        for number, name in enumerate(names, start=1)
    ]
    return Table(
        name="raters",
        title="Each rater, and how the others judge what was chosen",
        header=("Rater", *(mark.capitalize() for mark in MARKS), *of_levels),
        align="l" + "r" * (len(MARKS) + len(rated)),
        rows=rows,
        numbers=pd.concat(
            [names, counts, levels.add_prefix("by_the_others_")], axis=1
        ).reset_index(),
    )
