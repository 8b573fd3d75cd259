"""A leaderboard of learners over data sets of which they may lack some: its sentences.

Not for the files that scores are read from (`average_ranks_scores`, `summary_scores`), nor for its
tables (`leaderboard_tables`) or Demšar's test (`average_ranks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from oasis_bench.analysis import LEAST_DATASETS, PRIOR_DRAWS, standings
from oasis_bench.reports.average_ranks_scores import (
    ScoreTable,
    joined_scores,
    median_seconds,
    six_digits,
)
from oasis_bench.reports.formatting import interval_text, plural, series, some
from oasis_bench.system import UsageError, unknown_name

BASELINE = "Euclidean"
"""The learner whose error the others reduce, where no other is named."""


@dataclass(frozen=True)
class Leaderboard:
    """Learners over data sets.

    Attributes
    ----------
    tables : sequence of ScoreTable
        All by one measure of one task.
    scores : DataFrame of shape (n_tables, n_learners)
        See `joined_scores`.
    datasets : list of str
    pairs : DataFrame
        A row for each learner and opponent that met: see `analysis.standings`.
    baseline : str or None
        None where the learner that was to be it has no result, or a score is above 1.
    standing : DataFrame
        A row for each learner, of the columns of `analysis.standings` and seconds (see
        `median_seconds`).  Those that are placed stand first, the highest rating first.
    """

    tables: Sequence[ScoreTable]
    scores: pd.DataFrame
    datasets: list[str]
    pairs: pd.DataFrame
    baseline: str | None
    standing: pd.DataFrame

    @property
    def by(self) -> str:
        """The measure and the task, in words."""
        return f"{self.tables[0].measure} ({self.tables[0].task})"

    @property
    def placed(self) -> pd.DataFrame:
        """The rows of `standing` of learners that are placed."""
        return self.standing[self.standing["placed"]]


def make_leaderboard(tables: Sequence[ScoreTable], baseline: str | None = None) -> Leaderboard:
    """Compare learners over data sets.

    Parameters
    ----------
    tables : sequence of ScoreTable
        All by one measure of one task.
    baseline : str, optional
        The learner whose error the others reduce; Euclidean, where it is there, if not given.

    Raises
    ------
    UsageError
        For fewer than two data sets, an unknown baseline, or where no learner met another.
    """
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
        ["placed", "rating"], ascending=False, kind="stable", ignore_index=True
    )
    return Leaderboard(
        tables, scores, found.datasets, found.pairs, baseline if usable else None, standing
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
    first = [row for _, row in board.placed.head(2).iterrows()]
    if first:
        texts = [
            f"{row['learner']}, {row['rating']:.0f} "
            f"({interval_text(row['low'], row['high'], '{:.0f}', 'none')}; on "
            f"{row['datasets']} of {n_datasets} data sets)"
            for row in first
        ]
        meeting = ""
        if len(first) == 2 and not any(pd.isna(row["low"]) for row in first):
            overlap = first[0]["low"] <= first[1]["high"]
            meeting = f"; their intervals {'overlap' if overlap else 'do not overlap'}"
        yield (
            f"Highest Elo, with 95 % intervals: {', then '.join(texts)}{meeting}. "
            f"{first[0]['learner']} wins {100 * first[0]['win_rate']:.0f} % of its games."
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
    few = len(board.datasets)
    told = {
        "Elo": "On each data set every two learners that have it play a game, won by the higher "
        "score. 400 points more are odds of ten to one; 1000 is an imagined average learner, "
        f"against which each has {PRIOR_DRAWS:g} draw besides, so that who never loses stays "
        "finite (Bradley and Terry 1952). It hides by how much a learner wins; and learners that "
        "never met are compared by way of others, as if strength were one number. The interval is "
        "of data sets drawn anew, 1000 times: "
        + ("with so few it is too narrow." if few < 10 else "partitions do not enter it."),
        "Win rate": "The share of games won, a tie counting a half. It hides how large differences "
        "are: .0001 is a win. Weak opponents raise it, and learners that were run where many "
        "others were.",
        "Average rank": "Over the data sets that a learner has. Where fewer learners were run the "
        "ranks are stretched to the number of all, so that the last of five is no better off than "
        "the last of twenty. It hides how large differences are, and changes with who else is "
        "ranked.",
    }
    told["Seconds"] = (
        "What choosing and fitting took, their medians over partitions added: the median over the "
        "data sets that a learner has. It hides how they grow: who was run on large data sets only "
        "looks slow, and a search with a limit in seconds takes what it may. Compare them where "
        "the same machine made the tables. Answering and memory are in the reports of the runs."
    )
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
