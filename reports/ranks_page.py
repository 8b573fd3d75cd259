"""The page of several runs: learners over data sets, tested and ranked, and run beside run.

`ranks` writes it for any runs and summaries, `run` for the values of a setting or a data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from oasis_bench.analysis import AverageRanks, rank_learners, signed_rank_tests
from oasis_bench.experiment import known_settings
from oasis_bench.reports.figure_style import LABEL_WIDTH, STYLE, Drawing, render as render_figure
from oasis_bench.reports.formatting import aligned, clip, p_text, plural, series, wrapped
from oasis_bench.reports.leaderboard import (
    Filters,
    Leaderboard,
    caveats,
    inputs_table,
    pairs_table,
    read_leaderboard,
    score_text,
    scores_table,
    sentences,
    standing_table,
)
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.scores import ScoreTable, common_scores, one_of_each, reasons_left_out
from oasis_bench.reports.side_by_side import SideBySide, side_by_side
from oasis_bench.reports.table import Cell, Column, Table
from oasis_bench.reports.view import view_of
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError, printable

PAGE, PAGE_OF_VALUES = "ranks.html", "side_by_side.html"
COLOR, WIDTH, ROW = "#0072b2", 7.5, 0.26


@dataclass(frozen=True)
class RankTests:
    """The learners that every data set has, and what tests say of them; no table where no two."""

    tables: Sequence[Table]
    lines: Sequence[str]
    notes: Sequence[str]


def write_ranks(
    paths: Sequence[Path],
    output: Path,
    task: str | None = None,
    measure: str | None = None,
    baseline: str | None = None,
    filters: Filters | None = None,
) -> tuple[Path, str]:
    """Compare learners over the data sets of runs and summaries; return the page and a summary.

    They are compared by a measure of a task, such as 'accuracy@3', if none is given by the first
    that the first run has.  The others reduce the error of `baseline`, Euclidean if it is there.
    """
    board, notes = read_leaderboard(paths, task, measure, baseline, filters)
    tests = rank_tests(board)
    lines = [*sentences(board), *notes]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {output}: {error.strerror}") from error
    title = f"Learners over {plural(len(board.datasets), 'data set')}, by {board.by}"
    written = _write(output, PAGE, title, lines, board, tests, None)
    return written, "\n".join([*_summary(board, lines), *tests.lines])


def write_side_by_side(folders: Mapping[str, Path], output: Path, what: str) -> tuple[Path, str]:
    """Write the page of runs that differ in the value of `what`, a setting or a data set's option.

    Where their values are numbers, such as training items a class, it has a figure; where they are
    data sets, learners are ranked over them too.  What differs from published figures is returned
    as text.
    """
    views = {name: view_of(read_run(folder)) for name, folder in folders.items()}
    if what in known_settings():
        what = known_settings()[what].help.split(",")[0]
    beside = side_by_side(views, what)
    title = f"{plural(len(views), 'run')} side by side, by {what}"
    try:
        board, notes = read_leaderboard(list(folders.values()))
    except UsageError:  # of one data set, or of learners that met on none
        return _write(output, PAGE_OF_VALUES, title, (), None, None, beside), beside.text
    lines = [*sentences(board), *notes]
    page = _write(output, PAGE_OF_VALUES, title, lines, board, rank_tests(board), beside)
    return page, beside.text


def _write(
    output: Path,
    name: str,
    title: str,
    lines: Sequence[str],
    board: Leaderboard | None,
    tests: RankTests | None,
    beside: SideBySide | None,
) -> Path:
    """Write the page, with the parts that there are, and its tables and figures."""
    parts: dict[str, Any] = {"title": title, "lines": lines, "board": None, "beside": beside}
    tables: list[Table] = [] if beside is None else [beside.table]
    figures = [] if beside is None else list(beside.figures)
    if board is not None and tests is not None:
        standing, *measured = standing_table(board), scores_table(board), inputs_table(board)
        figure = rank_figure(board)
        parts |= {"board": standing, "figure": figure, "caveats": caveats(board)}
        parts |= {"tests": tests, "measured": measured}
        tables += [standing, *measured, pairs_table(board), *tests.tables]
        figures.append(figure)
    return write_files(output, name, render("ranks.html.j2", **parts), tables, figures)


def rank_figure(board: Leaderboard) -> Drawing:
    """Draw average ranks, and the rank on each data set, the best learner at the top."""
    title = f"Ranks by {board.by} over {plural(len(board.datasets), 'data set')}, 1 is best"
    caption = (
        "Large: the average rank; small: the rank on each data set. Behind a name: the data sets "
        "that it has, of all. Hollow: not placed, as on too few."
    )
    with mpl.rc_context(STYLE):
        files = render_figure(draw_ranks(board, title), "ranks")
    return Drawing("ranks", title, caption, files)


def draw_ranks(board: Leaderboard, title: str) -> Figure:
    """Draw the ranks of each learner along a line of its own."""
    standing, n_datasets = board.standing, len(board.datasets)
    figure = Figure(figsize=(WIDTH, 1.3 + ROW * len(standing)))
    axes = figure.subplots()
    for place, row in enumerate(standing.to_dict("records")):
        ranks = board.ranks[row["learner"]].dropna()
        axes.plot(ranks, [place] * len(ranks), "o", color="0.6", markersize=3)
        fill = COLOR if row["placed"] else "white"
        axes.plot([row["average_rank"]], [place], "D", color=COLOR, markerfacecolor=fill)
    labels = [
        f"{clip(name, LABEL_WIDTH)}  {n}/{n_datasets}"
        for name, n in zip(standing["learner"], standing["datasets"], strict=True)
    ]
    axes.set_yticks(range(len(standing)), labels, parse_math=False)
    axes.set_ylim(len(standing) - 0.4, -0.6)
    axes.set_xlabel("rank")
    axes.grid(visible=False, axis="y")
    figure.suptitle(title, fontsize="medium")
    return figure


def rank_tests(board: Leaderboard) -> RankTests:
    """Rank the learners that every data set has, and test their differences from the best.

    Of several tables of a data set one counts: see `one_of_each`.
    """
    datasets = one_of_each(board.tables)
    scores = common_scores(datasets)
    left_out = list(reasons_left_out(board.tables, list(map(str, scores))))
    if scores.shape[1] < 2:
        found = series([str(name) for name in scores]) or "none"
        why = (
            f"No tests: learners with a result on every data set: {found}; tests need at least 2: "
            "run the same learners, by the same labels, on each, or leave out data sets."
        )
        return RankTests([], wrapped(why), [why])
    ranks = rank_learners(scores)
    notes = [
        *_meaning(ranks),
        *left_out,
        "Learners are ranked by the mean over the partitions of "
        + series([one.title for one in datasets])
        + ".",
    ]
    names = {name: printable(name) for name in ranks.names}
    width = max(map(len, names.values()))
    lines = [
        f"average ranks by {board.by} over {plural(len(datasets), 'data set')}, 1 is best",
        *(f"  {text:<{width}}  {ranks.average[name]:.3f}" for name, text in names.items()),
        *(line for note in notes for line in wrapped(note)),
    ]
    return RankTests([_tests_table(datasets, scores, ranks, board.baseline, notes)], lines, notes)


def _meaning(ranks: AverageRanks) -> list[str]:
    """Say in words what the tests say, and whether they can say anything."""
    n_datasets, n_learners = ranks.ranks.shape
    sets, least = plural(n_datasets, "data set"), ranks.least_datasets
    if n_datasets < least:
        return [
            f"Too few data sets for a test: no difference of {plural(n_learners, 'learner')} on "
            f"{sets} can be significant, even where all data sets agree; at least {least} are "
            "needed. Read the ranks as a description of these data sets."
        ]
    best, *others = ranks.names
    below = [name for name in others if name not in ranks.tied]
    parts = [f"significantly below: {series(below)}"] * bool(below)
    parts += [f"not significantly: {series(ranks.tied)}"] * bool(ranks.tied)
    return [
        f"Friedman's test that all rank alike: chi-square {ranks.statistic:.2f}, "
        f"p = {p_text(ranks.p_value)} (permutations). Wilcoxon's signed-rank test against {best}, "
        f"corrected by Holm, level 0.05: {'; '.join(parts)}."
    ]


def _tests_table(
    datasets: Sequence[ScoreTable],
    scores: pd.DataFrame,
    ranks: AverageRanks,
    baseline: str | None,
    notes: Sequence[str],
) -> Table:
    """Make the table: a row for each learner, the best first, score and rank on each data set."""
    names, best = ranks.names, ranks.names[0]
    enough = len(datasets) >= ranks.least_datasets
    bold = {best, *(ranks.tied if enough else names)}
    p_values = {"best": (best, ranks.p_values)}
    if baseline in names and baseline != best:
        p_values["baseline"] = (baseline, signed_rank_tests(scores, baseline))
    numbers = pd.DataFrame(
        {
            "learner": name,
            "average_rank": ranks.average[name],
            "dataset": one.dataset,
            "subset": one.subset,
            "partitions": one.n_partitions,
            "task": one.task,
            "measure": one.measure,
            "score": score,
            "rank": rank,
            **{f"p_against_{which}": own[name] for which, (_, own) in p_values.items()},
        }
        for name in names
        for one, score, rank in zip(datasets, scores[name], ranks.ranks[name], strict=True)
    )
    averages = [Cell(f"{ranks.average[name]:.3f}", bold=name in bold) for name in names]
    return Table(
        name="ranks",
        title=f"Average ranks over {plural(len(datasets), 'data set')}, and {datasets[0].measure} "
        "(rank) on each",
        columns=[
            Column("Learner", names, align="l"),
            Column("Average rank", averages),
            *(
                Column(f"p against {other}, Holm", own[names], p_text)
                for other, own in p_values.values()
            ),
            *(
                Column(one.dataset, map(score_text, scores[names].iloc[n], ranks.ranks.iloc[n]))
                for n, one in enumerate(datasets)
            ),
        ],
        notes=["Bold: best, or not significantly different from the best.", *notes],
        numbers=numbers,
    )


def _summary(board: Leaderboard, lines: Sequence[str]) -> Iterator[str]:
    """Yield the sentences, then the table of the leaderboard as text."""
    for line in lines:
        yield from wrapped(line)
    table = standing_table(board)
    rows = [table.header, *([printable(cell.text) for cell in row] for row in table.cells)]
    yield ""
    yield from (f"  {line}" for line in aligned(rows, left={0}))
    yield ""
