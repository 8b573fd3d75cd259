"""Average ranks of the learners that all data sets have, after Demšar: table, figure, summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd

from oasis_bench.analysis import AverageRanks, rank_learners
from oasis_bench.reports.average_ranks_figure import draw_average_ranks
from oasis_bench.reports.average_ranks_scores import (
    ScoreTable,
    common_scores,
    one_of_each,
    reasons_left_out,
)
from oasis_bench.reports.figure_style import STYLE, Drawing, render as render_figure
from oasis_bench.reports.formatting import p_text, plural, series, wrapped
from oasis_bench.reports.table import Cell, Table
from oasis_bench.system import printable

NAME = "ranks"
MANY_DATASETS = 10
"""Above this number the approximations of the test hold (Demšar 2006, section 3.2.2)."""


@dataclass(frozen=True)
class RanksSection:
    """Average ranks as a page and a terminal show them.

    Attributes
    ----------
    tables : list of Table
        One; none where fewer than two learners are on every data set.
    figure : Drawing
    summary : list of str
    """

    tables: list[Table]
    figure: Drawing
    summary: list[str]


def average_ranks(tables: Sequence[ScoreTable]) -> RanksSection:
    """Rank the learners that every data set has, and test their average ranks.

    Of several tables of a data set one counts: see `one_of_each`.

    Parameters
    ----------
    tables : sequence of ScoreTable
        Of at least two data sets, all by one measure of one task.
    """
    datasets = one_of_each(tables)
    by = f"{datasets[0].measure} ({datasets[0].task})"
    scores = common_scores(datasets)
    left_out = list(reasons_left_out(tables, list(map(str, scores))))
    if scores.shape[1] < 2:
        found = series([str(name) for name in scores]) or "none"
        why = (
            f"learners with a result on every data set: {found}; average ranks need at least 2: "
            "run the same learners, by the same labels, on each, or leave out data sets"
        )
        drawing = Drawing(NAME, f"Average ranks by {by}", f"Not drawn: {why}.", {})
        return RanksSection([], drawing, wrapped(f"No average ranks: {why}."))
    ranks = rank_learners(scores)
    notes = [
        *_meaning(ranks),
        *left_out,
        "Learners are ranked by the mean over the partitions of "
        + series([one.title for one in datasets])
        + ".",
    ]
    summary = [
        f"average ranks by {by} over {plural(len(datasets), 'data set')}, 1 is best",
        *_rank_lines(ranks),
        *(line for note in notes for line in wrapped(note)),
    ]
    return RanksSection([_table(datasets, scores, ranks, notes)], _figure(ranks, by), summary)


def _meaning(ranks: AverageRanks) -> list[str]:
    """Say in words what the tests say, and whether they can say anything."""
    n_datasets, n_learners = ranks.ranks.shape
    sets, least = plural(n_datasets, "data set"), ranks.least_datasets
    if n_datasets < least:
        return [
            f"Too few data sets for a test: {plural(n_learners, 'learner')} on {sets} cannot be "
            f"told apart even where all data sets agree; at least {least} are needed. Read the "
            "ranks as a description of these data sets."
        ]
    conclusion = (
        "Learners whose average ranks differ by at least the critical difference "
        f"{ranks.critical_difference:.2f} (Nemenyi, level 0.05, all pairs) are told apart."
        if ranks.differ
        else "It does not reject that: no learner is told apart from another."
    )
    texts = [
        f"Friedman's test that all rank alike: chi-square {ranks.statistic:.2f}, "
        f"p = {p_text(ranks.p_value)} (permutations). {conclusion}"
    ]
    if n_datasets <= MANY_DATASETS:
        texts.append(
            f"Only {sets}: a rough guide. The critical difference is an approximation for more "
            f"than {MANY_DATASETS}, and on few only large differences show."
        )
    return texts


def _figure(ranks: AverageRanks, by: str) -> Drawing:
    """Draw the ranks, titled with what they mean: the figure is also shown without its page."""
    n_datasets = len(ranks.ranks)
    title = f"Average ranks by {by}, 1 is best"
    meaning = plural(n_datasets, "data set")
    if n_datasets < ranks.least_datasets:
        meaning += ": too few for a test, no learners are told apart"
    elif not ranks.differ:
        meaning += f": Friedman's test tells no learners apart (p = {p_text(ranks.p_value)})"
    else:
        weak = ", a rough guide" if n_datasets <= MANY_DATASETS else ""
        meaning += f"{weak}; a bar joins learners that are not told apart"
    with mpl.rc_context(STYLE):
        files = render_figure(draw_average_ranks(ranks, f"{title}\n{meaning}"), "ranks")
    caption = f"{meaning.capitalize()}. Level 0.05; Demšar (JMLR 7, 2006)."
    return Drawing(NAME, title, caption, files)


def _table(
    datasets: Sequence[ScoreTable],
    scores: pd.DataFrame,
    ranks: AverageRanks,
    notes: Sequence[str],
) -> Table:
    """Make the table: a row for each learner, the best first, score and rank on each data set."""
    best = ranks.names[0]
    bold = {best, *next((group for group in ranks.groups if best in group), ())}
    rows, numbers = [], []
    for name in ranks.names:
        average = ranks.average[name]
        row: list[str | Cell] = [name, Cell(f"{average:.3f}", bold=name in bold)]
        for one, score, rank in zip(datasets, scores[name], ranks.ranks[name], strict=True):
            row.append(f"{score:.3f} ({rank:g})")
            numbers.append(
                {
                    "learner": name,
                    "average_rank": average,
                    "dataset": one.dataset,
                    "subset": one.subset,
                    "partitions": one.n_partitions,
                    "task": one.task,
                    "measure": one.measure,
                    "score": score,
                    "rank": rank,
                }
            )
        rows.append(row)
    return Table.by_rows(
        name=NAME,
        title=f"Average ranks over {plural(len(datasets), 'data set')}, and {datasets[0].measure} "
        "(rank) on each",
        header=("Learner", "Average rank", *(one.dataset for one in datasets)),
        align="l" + "r" * (len(datasets) + 1),
        rows=rows,
        notes=["Bold: best, or not told apart from the best.", *notes],
        numbers=pd.DataFrame(numbers),
    )


def _rank_lines(ranks: AverageRanks) -> list[str]:
    names = {name: printable(name) for name in ranks.names}
    width = max(map(len, names.values()))
    return [f"  {text:<{width}}  {ranks.average[name]:.3f}" for name, text in names.items()]
