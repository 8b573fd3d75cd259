"""The page of 'ranks': reads runs and summaries, writes the leaderboard and the average ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from oasis_bench.reports.average_ranks import average_ranks
from oasis_bench.reports.average_ranks_scores import (
    ScoreTable,
    measures_of_run,
    other_settings,
    scores_of_run,
)
from oasis_bench.reports.figure_style import STYLE, Drawing, render as render_figure
from oasis_bench.reports.formatting import aligned, plural, some, wrapped
from oasis_bench.reports.leaderboard import (
    Leaderboard,
    caveats,
    make_leaderboard,
    sentences,
)
from oasis_bench.reports.leaderboard_figure import draw_ratings
from oasis_bench.reports.leaderboard_tables import (
    inputs_table,
    pairs_table,
    scores_table,
    standing_table,
)
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.facts import DAGGER, transductive_note
from oasis_bench.reports.summary_scores import (
    measures_of_summary,
    read_summary,
    scores_of_summary,
)
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import UsageError, printable, unknown_name

PAGE = "ranks.html"


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which tables count.

    Attributes
    ----------
    items : str, optional
        Those whose data set calls its items so, such as 'images'.
    least_train, most_train : int, optional
        Those with so many training items.
    """

    items: str | None = None
    least_train: int | None = None
    most_train: int | None = None

    def keeps(self, table: ScoreTable) -> bool:
        """Tell whether a table counts."""
        return (
            self.items in (None, table.items)
            and (self.least_train is None or table.n_train >= self.least_train)
            and (self.most_train is None or table.n_train <= self.most_train)
        )


def write_ranks(
    paths: Sequence[Path],
    output: Path,
    task: str | None = None,
    measure: str | None = None,
    baseline: str | None = None,
    filters: Filters | None = None,
) -> tuple[Path, str]:
    """Compare learners over the data sets of several runs and write tables, figures and page.

    Parameters
    ----------
    paths : sequence of Path
        Folders of runs, or the CSV files of 'export --format summary'.
    output : Path
        'tables/', 'figures/' and 'ranks.html' in it are written, each file whole.
    task : str, optional
        Learners are compared by a measure of it; the first task of the first run if not given.
    measure : str, optional
        Such as 'mAP' or 'accuracy@3'; the first that the first run has of the task if not given.
    baseline : str, optional
        The learner whose error the others reduce; Euclidean, where it is there, if not given.
    filters : Filters, optional
        All tables count if not given.

    Returns
    -------
    Path
        The page.
    str
        A summary in plain text.

    Raises
    ------
    UsageError
        Where the runs cannot be compared, or the files not be written.
    """
    board, notes = read_leaderboard(paths, task, measure, baseline, filters)
    ranks = average_ranks(board.tables)
    lines = [*sentences(board), *notes]
    shown = [standing_table(board), scores_table(board), inputs_table(board)]
    figure = _figure(board)
    page = render(
        "ranks.html.j2",
        by=board.by,
        n_datasets=len(board.duels.datasets),
        lines=lines,
        figure=figure,
        standing=shown[0],
        scores=shown[1],
        inputs=shown[2],
        caveats=caveats(board),
        ranks=ranks,
    )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {output}: {error.strerror}") from error
    written = write_files(
        output, PAGE, page, [*shown, pairs_table(board), *ranks.tables], [figure, ranks.figure]
    )
    return written, "\n".join([*_summary(board, lines), *ranks.summary])


def read_leaderboard(
    paths: Sequence[Path],
    task: str | None = None,
    measure: str | None = None,
    baseline: str | None = None,
    filters: Filters | None = None,
) -> tuple[Leaderboard, list[str]]:
    """Read runs and summaries and compare their learners; arguments and errors as `write_ranks`.

    Returns
    -------
    Leaderboard
    list of str
        What was left out, and what a reader must know of the learners.
    """
    tables, notes = _read_scores(paths, task, measure)
    tables, left_out = _filtered(tables, filters or Filters())
    transductive = {name for table in tables for name in table.transductive}
    if baseline in transductive:
        baseline = f"{baseline}{DAGGER}"
    tables = [_marked(table, transductive) for table in tables]
    notes += [*left_out, *other_settings(tables)] + [transductive_note()] * bool(transductive)
    return make_leaderboard(tables, baseline), notes


def _read_scores(
    paths: Sequence[Path], task: str | None, measure: str | None
) -> tuple[list[ScoreTable], list[str]]:
    """Read the scores of runs and of summaries by one measure of one task.

    Those that do not have it are left out, and told in the second list.

    Raises
    ------
    UsageError
        Where a path is neither, or none has the task or the measure.
    """
    sources: dict[Path, StoredRun | pd.DataFrame] = {
        path: read_summary(path) if path.is_file() else read_run(path) for path in paths
    }
    measures = {
        path: measures_of_run(source)
        if isinstance(source, StoredRun)
        else measures_of_summary(source)
        for path, source in sources.items()
    }
    known_tasks = dict.fromkeys(name for own in measures.values() for name in own)
    if not known_tasks:
        raise UsageError(f"no learner has a result in {some(list(map(str, sources)))}")
    task = next(iter(known_tasks)) if task is None else task
    if task not in known_tasks:
        raise UsageError(unknown_name("task", task, known_tasks))
    known = dict.fromkeys(name for own in measures.values() for name in own.get(task, ()))
    measure = next(iter(known)) if measure is None else measure
    if measure not in known:
        raise UsageError(unknown_name(f"measure of {task}", measure, known))
    tables, without = [], []
    for path, source in sources.items():
        if measure not in measures[path].get(task, ()):
            without.append(str(path))
        elif isinstance(source, StoredRun):
            tables.append(scores_of_run(path, source, task, measure))
        else:
            tables.append(scores_of_summary(path, source, task, measure))
    return tables, [f"Without {measure} of {task}, so left out: {some(without)}."] * bool(without)


def _filtered(tables: Sequence[ScoreTable], filters: Filters) -> tuple[list[ScoreTable], list[str]]:
    """Return the tables that count, and a line on the others."""
    kinds = dict.fromkeys(table.items or "not known" for table in tables)
    if filters.items is not None and filters.items not in kinds:
        raise UsageError(unknown_name("kind of items", filters.items, kinds))
    kept = [table for table in tables if filters.keeps(table)]
    others = [f"{it.dataset} ({it.n_train:,})" for it in tables if not filters.keeps(it)]
    return kept, [f"Left out as asked, with their training items: {some(others)}."] * bool(others)


def _marked(table: ScoreTable, transductive: set[str]) -> ScoreTable:
    """Put a dagger behind the names of transductive learners."""

    def new(name: str) -> str:
        return name + DAGGER * (name in transductive)

    return replace(
        table,
        means=table.means.rename(index=new),
        missing={new(name): reason for name, reason in table.missing.items()},
        settings={new(name): value for name, value in table.settings.items()},
    )


def _figure(board: Leaderboard) -> Drawing:
    title = f"Elo by {board.by} over {plural(len(board.duels.datasets), 'data set')}"
    caption = (
        "Lines: 95 % intervals, data sets drawn anew. Behind a name: the data sets that it has, of "
        "all. Hollow: not placed, as on too few."
    )
    with mpl.rc_context(STYLE):
        files = render_figure(draw_ratings(board, title), "elo")
    return Drawing("elo", title, caption, files)


def _summary(board: Leaderboard, lines: Sequence[str]) -> Iterator[str]:
    """Yield the sentences, then the table of the leaderboard as text."""
    for line in lines:
        yield from wrapped(line)
    table = standing_table(board)
    rows = [table.header, *([printable(cell.text) for cell in row] for row in table.cells)]
    yield ""
    yield from (f"  {line}" for line in aligned(rows, left={0}))
    yield ""
