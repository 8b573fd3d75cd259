"""The tables of a leaderboard: the learners, what was measured, what that is of, every pair."""

from __future__ import annotations

import pandas as pd

from oasis_bench.analysis import LEAST_DATASETS
from oasis_bench.reports.formatting import interval_text, number_text, plural, seconds_text
from oasis_bench.reports.leaderboard import Leaderboard, budget_text
from oasis_bench.reports.table import Cell, Table


def standing_table(board: Leaderboard) -> Table:
    """Make the table: a row for each learner, the highest rating first, those not placed last."""
    n_datasets = len(board.datasets)
    with_error = board.baseline is not None
    rows: list[list[str | Cell]] = []
    for row in board.standing.to_dict("records"):
        cells: list[str | Cell] = [
            Cell(str(row["learner"]), bold=bool(row["placed"]) and not rows),
            f"{row['datasets']} of {n_datasets}",
            f"{row['rating']:.0f}",
            interval_text(row["low"], row["high"], "{:.0f}"),
            number_text(row["win_rate"], "{:.2f}", missing="-"),
            number_text(row["average_rank"], "{:.1f}", missing="-"),
            "-" if pd.isna(row["seconds"]) else seconds_text(row["seconds"]),
        ]
        if with_error:
            low, high = row["error_reduction_low"], row["error_reduction_high"]
            cells += [
                _percent(row["error_reduction"]),
                "-" if pd.isna(low) else f"{_percent(low)} to {_percent(high)}",
                _percent(row["error_reduction_median"]),
            ]
        rows.append(cells)
    header = ["Learner", "Data sets", "Elo", "Elo, 95 %", "Win rate", "Average rank", "Seconds"]
    header += ["Error reduction, %", "Its 95 %", "Its median, %"] * with_error
    few = not board.standing["placed"].all()
    none = bool(board.standing["low"].isna().any())
    return Table.by_rows(
        name="leaderboard",
        title=f"Learners over {plural(n_datasets, 'data set')}, by {board.by}",
        header=tuple(header),
        align="l" + "r" * (len(header) - 1),
        rows=rows,
        numbers=board.standing.round(
            {"rating": 1, "low": 1, "high": 1}
            | dict.fromkeys(board.standing.columns[6:].drop("seconds"), 4)
        ),
        notes=[
            *[f"Last, not placed: those on fewer than {LEAST_DATASETS} data sets."] * few,
            *["'-': no interval, as of few data sets, or of values without spread."] * none,
        ],
    )


def _percent(share: float) -> str:
    return number_text(100 * share, "{:+.0f}", missing="-").replace("-0", "0").replace("+0", "0")


def scores_table(board: Leaderboard) -> Table:
    """Make the table of what was measured: mean and rank of each learner, a column a table."""
    ranks = board.scores.rank(axis=1, ascending=False)
    names = board.standing["learner"].tolist()
    rows: list[list[str | Cell]] = []
    for name in names:
        pairs = zip(board.scores[name], ranks[name], strict=True)
        rows.append([name, *("-" if pd.isna(m) else f"{m:.3f} ({rank:g})" for m, rank in pairs)])
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
    return Table.by_rows(
        name="scores",
        title=f"{board.tables[0].measure} (rank) in each table",
        header=("Learner", *(f"{n} {it.dataset}" for n, it in enumerate(board.tables, start=1))),
        align="l" + "r" * len(board.tables),
        rows=rows,
        numbers=pd.DataFrame(numbers),
        notes=["The numbers of the tables are those of the next table. '-': no result."],
    )


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
    return Table.by_rows(
        name="inputs",
        title="The tables that count",
        header=(
            *("Table", "Data set", "Kind", "Classes", "Training items", "Partitions", "Learners"),
            *("Search", "Source"),
        ),
        align="rlllrrrll",
        rows=[[str(value) for value in row] for row in numbers.itertuples(index=False)],
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
    rows = [
        [str(row.learner), str(row.opponent), str(row.datasets), f"{row.wins:g}"]
        for row in pairs.itertuples()
    ]
    return Table.by_rows(
        name="pairs",
        title="Every two learners that met",
        header=("Learner", "Opponent", "Data sets", "Won"),
        align="llrr",
        rows=rows,
        numbers=pairs.round({"wins": 4}),
    )
