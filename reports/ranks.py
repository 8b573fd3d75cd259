"""Average ranks of learners over several runs: their table, figure, page and summary."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from oasis_bench.analysis.average_ranks import Ranking, least_datasets, rank_learners
from oasis_bench.reports.canvas import STYLE, Drawing
from oasis_bench.reports.canvas import render as render_figure
from oasis_bench.reports.page import render, write_files
from oasis_bench.reports.ranks_figure import draw_ranks
from oasis_bench.reports.ranks_reading import (
    DatasetScores,
    common_scores,
    gather,
    left_out,
    other_settings,
)
from oasis_bench.reports.summary import SUMMARY_WIDTH
from oasis_bench.reports.tables import Cell, Table
from oasis_bench.reports.text import p_text, plural, series
from oasis_bench.store.run_file import read_run
from oasis_bench.system.errors import UsageError
from oasis_bench.system.plain_text import printable

PAGE = "ranks.html"
MANY_DATASETS = 10
"""Above which the approximations of the test hold (Demšar 2006, section 3.2.2)."""


def write_ranks(folders: Sequence[Path], output: Path) -> tuple[Path, str]:
    """Rank the learners that several runs share and write table, figure and page.

    Parameters
    ----------
    folders : sequence of Path
        Of the runs, each of its data set.
    output : Path
        'tables/', 'figures/' and 'ranks.html' in it are written, each file whole.

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
    gathered = gather({folder: read_run(folder) for folder in folders})
    scores = common_scores(gathered)
    ranking = rank_learners(scores)
    notes = [
        *meaning(ranking),
        *left_out(gathered, ranking.names),
        *other_settings(gathered, ranking.names),
        "Each data set counts once, by its class subset with the most classes, whose learners are "
        "ranked by mean mAP over the partitions: " + series([one.title for one in gathered]) + ".",
    ]
    table, figure = _table(gathered, scores, ranking, notes), _figure(ranking)
    page = render("ranks.html.j2", table=table, figure=figure, n_datasets=len(gathered))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {output}: {error.strerror}") from error
    return write_files(output, PAGE, page, [table], [figure]), _summary(ranking, notes)


def meaning(ranking: Ranking) -> list[str]:
    """Say in words what the tests say, and whether they can say anything."""
    n_datasets, n_learners = ranking.ranks.shape
    sets, least = plural(n_datasets, "data set"), least_datasets(n_learners)
    if n_datasets < least:
        return [
            f"Too few data sets for a test: {plural(n_learners, 'learner')} on {sets} cannot be "
            f"told apart even where all data sets agree; at least {least} are needed. Read the "
            "ranks as a description of these data sets."
        ]
    texts = [
        f"Friedman's test that all rank alike: chi-square {ranking.statistic:.2f}, "
        f"p = {p_text(ranking.p_value)} (permutations). "
        + (
            "Learners whose average ranks differ by at least the critical difference "
            f"{ranking.critical_difference:.2f} (Nemenyi, level 0.05, all pairs) are told apart."
            if ranking.differ
            else "It does not refuse that: no learner is told apart from another."
        )
    ]
    if n_datasets <= MANY_DATASETS:
        texts.append(
            f"Only {sets}: a rough guide. The critical difference is an approximation for more "
            f"than {MANY_DATASETS}, and on few only large differences show."
        )
    return texts


def _mark(ranking: Ranking) -> str:
    """Say in the figure itself, which travels alone, how far it can be trusted."""
    n_datasets, n_learners = ranking.ranks.shape
    sets = plural(n_datasets, "data set")
    if n_datasets < least_datasets(n_learners):
        return f"{sets}: too few for a test, no learners are told apart"
    if not ranking.differ:
        return f"{sets}: Friedman's test tells no learners apart (p = {p_text(ranking.p_value)})"
    weak = ", a rough guide" if n_datasets <= MANY_DATASETS else ""
    return f"{sets}{weak}; a bar joins learners that are not told apart"


def _figure(ranking: Ranking) -> Drawing:
    with mpl.rc_context(STYLE):
        figure = draw_ranks(ranking, f"Average ranks by mAP, 1 is best\n{_mark(ranking)}")
        files = render_figure(figure)
    caption = f"{_mark(ranking).capitalize()}. Level 0.05; Demšar (JMLR 7, 2006)."
    return Drawing("ranks", "Average ranks by mAP, 1 is best", caption, files)


def _table(
    gathered: Sequence[DatasetScores], scores: pd.DataFrame, ranking: Ranking, notes: Sequence[str]
) -> Table:
    """Make the table: a row for each learner, the best first, mAP and rank on each data set."""
    best = ranking.names[0]
    bold = {best, *next((group for group in ranking.groups if best in group), ())}
    rows = [
        [
            Cell(name),
            Cell(f"{ranking.average[name]:.3f}", bold=name in bold),
            *(
                Cell(f"{score:.3f} ({rank:g})")
                for score, rank in zip(scores[name], ranking.ranks[name], strict=True)
            ),
        ]
        for name in ranking.names
    ]
    numbers = [
        {
            "learner": name,
            "average_rank": ranking.average[name],
            "dataset": one.run.info["experiment"]["dataset"],
            "subset": one.subset,
            "partitions": one.partitions,
            "mean_average_precision": scores[name].iloc[place],
            "rank": ranking.ranks[name].iloc[place],
        }
        for name in ranking.names
        for place, one in enumerate(gathered)
    ]
    return Table(
        name="ranks",
        title=f"Average ranks over {plural(len(gathered), 'data set')}, and mAP (rank) on each",
        header=("Learner", "Average rank", *(one.name for one in gathered)),
        align="l" + "r" * (len(gathered) + 1),
        rows=rows,
        notes=[("", text) for text in ("Bold: best, or not told apart from the best.", *notes)],
        numbers=pd.DataFrame(numbers),
    )


def _summary(ranking: Ranking, notes: Sequence[str]) -> str:
    width = max(len(printable(name)) for name in ranking.names)
    lines = [f"average ranks by mAP over {plural(len(ranking.ranks), 'data set')}, 1 is best"]
    lines += [
        f"  {printable(name):<{width}}  {ranking.average[name]:.3f}" for name in ranking.names
    ]
    lines += [
        textwrap.fill(printable(note), SUMMARY_WIDTH, subsequent_indent="  ") for note in notes
    ]
    return "\n".join(lines)
