"""Average ranks of learners over several runs: their table, figure, page and summary."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from oasis_bench.analysis.average_ranks import AverageRanks, least_datasets, rank_learners
from oasis_bench.reports.average_ranks_figure import draw_average_ranks
from oasis_bench.reports.average_ranks_scores import (
    DatasetScores,
    common_scores,
    other_settings,
    reasons_left_out,
    scores_of_runs,
)
from oasis_bench.reports.figure_style import STYLE, Drawing
from oasis_bench.reports.figure_style import render as render_figure
from oasis_bench.reports.formatting import p_text, plural, series
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.facts import (
    DAGGER,
    dataset_name,
    transductive_learners,
    transductive_note,
)
from oasis_bench.reports.run.summary import SUMMARY_WIDTH
from oasis_bench.reports.table import Cell, Table
from oasis_bench.store.run_file import read_run
from oasis_bench.system.errors import UsageError
from oasis_bench.system.plain_text import printable

PAGE = "ranks.html"
MANY_DATASETS = 10
"""Above this number the approximations of the test hold (Demšar 2006, section 3.2.2)."""


def write_ranks(
    folders: Sequence[Path], output: Path, task: str | None = None, measure: str | None = None
) -> tuple[Path, str]:
    """Rank the learners that several runs share and write table, figure and page.

    Parameters
    ----------
    folders : sequence of Path
        Of the runs, each of its data set.
    output : Path
        'tables/', 'figures/' and 'ranks.html' in it are written, each file whole.
    task : str, optional
        Learners are ranked by a measure of it; the first task of the first run if not given.
    measure : str, optional
        Such as 'mAP' or 'accuracy@3'; the first of the task if not given.

    Returns
    -------
    Path
        The page.
    str
        A summary in plain text.

    Raises
    ------
    UsageError
        Where the runs cannot be ranked together, or the files not be written.
    """
    runs = {folder: read_run(folder) for folder in folders}
    datasets = scores_of_runs(runs, task, measure)
    by = f"{datasets[0].measure} ({datasets[0].task})"
    transductive = {name for run in runs.values() for name in transductive_learners(run)}
    scores = common_scores(datasets)
    ranks = rank_learners(scores)
    notes = [
        *_meaning(ranks),
        *reasons_left_out(datasets, ranks.names),
        *other_settings(datasets, ranks.names),
        "Each data set counts once, by its class subset with the most classes, whose learners are "
        f"ranked by mean {by} over the partitions: "
        + series([one.title for one in datasets])
        + ".",
    ]
    if transductive & set(ranks.names):
        notes.append(transductive_note())
        new_names = {name: name + DAGGER * (name in transductive) for name in ranks.names}
        scores, ranks = (
            scores.rename(columns=new_names),
            rank_learners(scores.rename(columns=new_names)),
        )
    table, figure = _table(datasets, scores, ranks, notes), _figure(ranks, by)
    page = render("ranks.html.j2", table=table, figure=figure, n_datasets=len(datasets), by=by)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {output}: {error.strerror}") from error
    return write_files(output, PAGE, page, [table], [figure]), _summary(ranks, by, notes)


def _meaning(ranks: AverageRanks) -> list[str]:
    """Say in words what the tests say, and whether they can say anything."""
    n_datasets, n_learners = ranks.ranks.shape
    sets, least = plural(n_datasets, "data set"), least_datasets(n_learners)
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
    n_datasets, n_learners = ranks.ranks.shape
    title = f"Average ranks by {by}, 1 is best"
    meaning = plural(n_datasets, "data set")
    if n_datasets < least_datasets(n_learners):
        meaning += ": too few for a test, no learners are told apart"
    elif not ranks.differ:
        meaning += f": Friedman's test tells no learners apart (p = {p_text(ranks.p_value)})"
    else:
        weak = ", a rough guide" if n_datasets <= MANY_DATASETS else ""
        meaning += f"{weak}; a bar joins learners that are not told apart"
    with mpl.rc_context(STYLE):
        files = render_figure(draw_average_ranks(ranks, f"{title}\n{meaning}"))
    caption = f"{meaning.capitalize()}. Level 0.05; Demšar (JMLR 7, 2006)."
    return Drawing("ranks", title, caption, files)


def _table(
    datasets: Sequence[DatasetScores],
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
                    "dataset": dataset_name(one.run),
                    "subset": one.subset,
                    "partitions": one.n_partitions,
                    "task": one.task,
                    "measure": one.measure,
                    "score": score,
                    "rank": rank,
                }
            )
        rows.append(row)
    return Table(
        name="ranks",
        title=f"Average ranks over {plural(len(datasets), 'data set')}, and {datasets[0].measure} "
        "(rank) on each",
        header=("Learner", "Average rank", *(one.name for one in datasets)),
        align="l" + "r" * (len(datasets) + 1),
        rows=rows,
        notes=["Bold: best, or not told apart from the best.", *notes],
        numbers=pd.DataFrame(numbers),
    )


def _summary(ranks: AverageRanks, by: str, notes: Sequence[str]) -> str:
    names = {name: printable(name) for name in ranks.names}
    width = max(map(len, names.values()))
    lines = [f"average ranks by {by} over {plural(len(ranks.ranks), 'data set')}, 1 is best"]
    lines += [f"  {text:<{width}}  {ranks.average[name]:.3f}" for name, text in names.items()]
    lines += [
        textwrap.fill(printable(note), SUMMARY_WIDTH, subsequent_indent="  ") for note in notes
    ]
    return "\n".join(lines)
