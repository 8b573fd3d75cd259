"""Learners over the data sets of runs and summaries: what is read, sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from oasis_bench.analysis import LEAST_DATASETS, standings
from oasis_bench.reports.formatting import (
    numbers_as,
    plural,
    seconds_text,
    series,
    some,
)
from oasis_bench.reports.scores import (
    ScoreTable,
    joined_scores,
    measures_of_run,
    measures_of_summary,
    median_seconds,
    other_settings,
    read_summary,
    scores_of_run,
    scores_of_summary,
    six_digits,
)
from oasis_bench.reports.table import Cell, Column, Table
from oasis_bench.reports.view import DAGGER, transductive_note, view_of
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import UsageError, unknown_name

BASELINE = "Euclidean"
"""The learner whose error the others reduce, where no other is named."""


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


@dataclass(frozen=True)
class Leaderboard:
    """Learners over data sets, by one measure of one task.

    `scores` are those of `joined_scores`; `baseline` is None where the learner that was to be it
    has no result, or a score is above 1.  `standing` has a row for each learner, of the columns of
    `analysis.standings` and seconds (see `median_seconds`): those that are placed stand first, the
    best average rank first.  `ranks` and `pairs` are those of `analysis.standings`.
    """

    tables: Sequence[ScoreTable]
    scores: pd.DataFrame
    datasets: Sequence[str]
    baseline: str | None
    standing: pd.DataFrame
    ranks: pd.DataFrame
    pairs: pd.DataFrame

    @property
    def by(self) -> str:
        """The measure and the task, in words."""
        return f"{self.tables[0].measure} ({self.tables[0].task})"


def read_leaderboard(
    paths: Sequence[Path],
    task: str | None = None,
    measure: str | None = None,
    baseline: str | None = None,
    filters: Filters | None = None,
) -> tuple[Leaderboard, list[str]]:
    """Read runs and summaries and compare their learners, as `write_ranks` does.

    Also returned: what was left out, and what a reader must know of the learners.
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
    """
    sources: dict[Path, StoredRun | pd.DataFrame] = {
        path: read_summary(path) if path.is_file() else read_run(path) for path in paths
    }
    measures = {
        path: measures_of_run(view_of(source))
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
            tables.append(scores_of_run(path, view_of(source), task, measure))
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
        seconds=table.seconds.rename(index=new),
        missing={new(name): reason for name, reason in table.missing.items()},
        settings={new(name): value for name, value in table.settings.items()},
    )


def make_leaderboard(tables: Sequence[ScoreTable], baseline: str | None = None) -> Leaderboard:
    """Compare learners over data sets, of which they may lack some."""
    scores = joined_scores(tables)
    n_datasets = scores.index.get_level_values(0).nunique()
    if n_datasets < 2:
        raise UsageError(
            f"{plural(n_datasets, 'data set')}: ranks need at least 2; name more runs, or "
            "summaries of runs"
        )
    if (scores.count(axis=1) < 2).all():
        raise UsageError(
            "no two learners have a result on the same data set: ranks need runs of at least 2 "
            "learners"
        )
    if baseline is not None and baseline not in scores:
        raise UsageError(unknown_name("baseline", baseline, scores.columns))
    baseline = BASELINE if baseline is None else baseline
    usable = baseline in scores and not (scores > 1).to_numpy().any()
    found = standings(scores, baseline if usable else None)
    standing = found.learners
    place = list(standing).index("average_rank") + 1
    standing.insert(place, "seconds", six_digits(median_seconds(tables)))
    standing = standing.rename_axis("learner").reset_index()
    standing = standing[standing["datasets"] > 0].sort_values(
        by=["placed", "average_rank"], ascending=[False, True], kind="stable", ignore_index=True
    )
    return Leaderboard(
        *(tables, scores, found.datasets, baseline if usable else None),
        *(standing, found.ranks, found.pairs),
    )


def sentences(board: Leaderboard) -> Iterator[str]:
    """Say what the leaderboard holds, who stands first, and what it mixes."""
    n_datasets = len(board.datasets)
    has_all = int((board.standing["datasets"] == n_datasets).sum())
    yield (
        f"{plural(len(board.standing), 'learner')} by {board.by} on "
        f"{plural(n_datasets, 'data set')} ({plural(len(board.tables), 'table')}); "
        f"{has_all} of them have a result on every data set."
    )
    placed = board.standing[board.standing["placed"]]
    first = placed.head(2).to_dict("records")
    if first:
        texts = [
            f"{row['learner']}, {row['average_rank']:.1f} (on {row['datasets']} of {n_datasets} "
            "data sets)"
            for row in first
        ]
        yield (
            f"Best average rank: {', then '.join(texts)}. {first[0]['learner']} wins "
            f"{100 * first[0]['win_rate']:.0f} % of its comparisons."
        )
    few = board.standing.loc[~board.standing["placed"], "learner"].tolist()
    if few:
        yield (
            f"Not placed, as on fewer than {LEAST_DATASETS} data sets: {series(few)}. They stand "
            "last, without intervals: what they show is of one or two data sets."
        )
    budgets: dict[str, list[str]] = {}
    for table in board.tables:
        budgets.setdefault(table.search, []).append(table.dataset)
    if len(budgets) > 1:
        texts = [
            f"{budget_text(search)} on {some(list(dict.fromkeys(names)))}"
            for search, names in budgets.items()
        ]
        yield (
            "The budget of a learner's search is not the same in all tables: "
            f"{'; '.join(texts)}. Learners are compared within a table only, where all have the "
            "same; the figures of a learner over data sets mix budgets."
        )


def budget_text(search: str) -> str:
    """Write the budget of a search in words."""
    return f"{search} candidates" if search.isdecimal() else search


def caveats(board: Leaderboard) -> dict[str, str]:
    """Say of each figure what it is and what it hides."""
    told = {
        "Average rank": "Over the data sets that a learner has. Where fewer learners were run the "
        "ranks are stretched to the number of all, so that the last of five is no better off than "
        "the last of twenty. It hides how large differences are, and changes with who else is "
        "ranked.",
        "Win rate": "On each data set every two learners that have it are compared, and the higher "
        "score wins: the share that is won, a tie counting a half. It hides how large differences "
        "are: .0001 is a win. Weak opponents raise it, and learners that were run where many "
        "others were.",
        "Seconds": "What tuning and fit took, their medians over partitions added: the "
        "median over the data sets that a learner has. It hides how they grow: who was run on "
        "large data sets only looks slow, and a search with a limit in seconds takes what it may. "
        "Compare them where the same machine made the tables. Query time and memory are in the "
        "reports of the runs.",
    }
    if board.baseline is not None:
        told["Error reduction"] = (
            f"1 − (1 − m) / (1 − m of {board.baseline}), with m the measure: its mean over data "
            "sets with Student's 95 % interval, and its median. One data set on which the "
            "baseline makes few errors can outweigh all others in the mean: where mean and median "
            "disagree, look at the scores."
        )
    told["All of them"] = (
        "A data set counts once: by the class subset with the most classes, and where several "
        "runs are of it they share its weight, however many partitions, classes or training items "
        "they have. A data set of 150 rows counts as much as one of 10,000."
    )
    return told


def standing_table(board: Leaderboard) -> Table:
    """Make the table: a row for each learner, the best first and those not placed last."""
    rows, n_datasets = board.standing, len(board.datasets)
    names = [
        Cell(name, bold=bool(placed) and place == 0)
        for place, (name, placed) in enumerate(zip(rows["learner"], rows["placed"], strict=True))
    ]
    ends = (rows["error_reduction_low"], rows["error_reduction_high"])
    of_error = [
        Column("Error reduction, %", rows["error_reduction"], _percent),
        Column("Its 95 %", (_percents(*pair) for pair in zip(*ends, strict=True))),
        Column("Its median, %", rows["error_reduction_median"], _percent),
    ] * (board.baseline is not None)
    few = not rows["placed"].all()
    return Table(
        name="leaderboard",
        title=f"Learners over {plural(n_datasets, 'data set')}, by {board.by}",
        columns=[
            Column("Learner", names, align="l"),
            Column("Data sets", rows["datasets"], f"{{}} of {n_datasets}".format),
            Column("Average rank", rows["average_rank"], numbers_as("{:.1f}", "-")),
            Column("Win rate", rows["win_rate"], numbers_as("{:.2f}", "-")),
            Column("Seconds", rows["seconds"], lambda it: "-" if pd.isna(it) else seconds_text(it)),
            *of_error,
        ],
        numbers=rows.round(
            {name: 4 for name in rows if name not in ("learner", "datasets", "placed", "seconds")}
        ),
        notes=[
            *[f"Last, not placed: those on fewer than {LEAST_DATASETS} data sets."] * few,
            *["'-': no interval, as of few data sets, or of values without spread."]
            * bool(of_error and ends[0].isna().any()),
        ],
    )


def _percent(share: float) -> str:
    text = numbers_as("{:+.0f}", "-")(100 * share)
    return text.replace("-0", "0").replace("+0", "0")


def _percents(low: float, high: float) -> str:
    return "-" if pd.isna(low) else f"{_percent(low)} to {_percent(high)}"


def scores_table(board: Leaderboard) -> Table:
    """Make the table of what was measured: mean and rank of each learner, a column a table."""
    ranks = board.scores.rank(axis=1, ascending=False)
    names = board.standing["learner"].tolist()
    numbers = [
        {
            "learner": name,
            "dataset": table.dataset,
            "subset": table.subset,
            "train_items": table.n_train,
            "partitions": table.n_partitions,
            "task": table.task,
            "measure": table.measure,
            "score": board.scores[name].iloc[place],
            "rank": ranks[name].iloc[place],
            "learners": len(table.means),
            "note": table.missing.get(name),
            "source": table.source,
        }
        for name in names
        for place, table in enumerate(board.tables)
        if name in table.means or name in table.missing
    ]
    of_tables = [
        Column(
            f"{place + 1} {table.dataset}",
            map(score_text, board.scores[names].iloc[place], ranks[names].iloc[place]),
        )
        for place, table in enumerate(board.tables)
    ]
    return Table(
        name="scores",
        title=f"{board.tables[0].measure} (rank) in each table",
        columns=[Column("Learner", names, align="l"), *of_tables],
        numbers=pd.DataFrame(numbers),
        notes=["The numbers of the tables are those of the next table. '-': no result."],
    )


def score_text(score: float, rank: float) -> str:
    """Write a score with its rank."""
    return "-" if pd.isna(score) else f"{score:.3f} ({rank:g})"


def inputs_table(board: Leaderboard) -> Table:
    """Make the table of the tables that count, and of what they are of."""
    numbers = pd.DataFrame(
        {
            "table": range(1, len(board.tables) + 1),
            "dataset": [it.dataset for it in board.tables],
            "items": [it.items or "not known" for it in board.tables],
            "classes": [it.subset_title for it in board.tables],
            "train_items": [it.n_train for it in board.tables],
            "partitions": [it.n_partitions for it in board.tables],
            "learners": [len(it.means) for it in board.tables],
            "search": [budget_text(it.search) for it in board.tables],
            "source": [it.source for it in board.tables],
        }
    )
    header = ("Table", "Data set", "Kind", "Classes", "Training items", "Partitions", "Learners")
    columns = zip((*header, "Search", "Source"), "rlllrrrll", numbers, strict=True)
    return Table(
        name="inputs",
        title="The tables that count",
        columns=[Column(head, numbers[name], align=side) for head, side, name in columns],
        numbers=numbers,
        notes=[
            f"{name} has no mean on {table.dataset}: {reason}."
            for table in board.tables
            for name, reason in table.missing.items()
        ],
    )


def pairs_table(board: Leaderboard) -> Table:
    """Make the table of every two learners that met: on how many data sets, and who won."""
    pairs = board.pairs
    return Table(
        name="pairs",
        title="Every two learners that met",
        columns=[
            Column("Learner", pairs["learner"], align="l"),
            Column("Opponent", pairs["opponent"], align="l"),
            Column("Data sets", pairs["datasets"]),
            Column("Won", pairs["wins"], "{:g}".format),
        ],
        numbers=pairs.round({"wins": 4}),
    )
