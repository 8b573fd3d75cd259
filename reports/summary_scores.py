"""The scores of runs that are only there as summaries, the CSV files of 'export --format summary'.

Not for runs: `average_ranks_scores`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from oasis_bench.analysis import option_name
from oasis_bench.plugins import BrokenPluginError, load_registry
from oasis_bench.reports.average_ranks_scores import ScoreTable, six_digits
from oasis_bench.system import UsageError, error_line, shown

NEEDED = (
    *("dataset", "subset", "subset_title", "n_classes", "n_train", "task", "measure", "k", "name"),
    *("learner", "mean", "partitions", "note", "search"),
)
TEXTS = ("dataset", "subset", "subset_title", "task", "measure", "name", "learner", "search")

FILLED = (*TEXTS[:-1], "n_classes", "partitions")


def read_summary(path: Path) -> pd.DataFrame:
    """Read a summary; its column `option` names measures as the command line does.

    Raises
    ------
    UsageError
        Where the file cannot be read, or is no summary.
    """
    try:
        rows = pd.read_csv(
            path, dtype=dict.fromkeys(TEXTS, object), keep_default_na=False, na_values=[""]
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error_line(error)}") from error
    lacking = [name for name in NEEDED if name not in rows]
    if lacking or rows.empty:
        raise UsageError(
            f"{path} is no summary of a run: "
            + (f"its column {lacking[0]!r} is missing" if lacking else "it has no row")
            + "; make one with 'export RUN --format summary'"
        )
    for name in ("n_classes", "n_train", "mean", "partitions", "k"):
        numbers = pd.to_numeric(rows[name], errors="coerce")
        if (numbers.isna() & rows[name].notna()).any():
            wrong = rows.loc[numbers.isna() & rows[name].notna(), name].iloc[0]
            raise UsageError(f"{path}: {name} = {wrong!r}: a number is needed")
        rows[name] = numbers
    for name in FILLED:
        if rows[name].isna().any():
            raise UsageError(f"{path}: {name} is empty in row {rows[name].isna().argmax() + 2}")
    # A text that a spreadsheet would take for a formula was written with an apostrophe before it.
    rows["learner"] = rows["learner"].str.replace(r"^'(?=[=+\-@\t\r])", "", regex=True)
    options = [option_name(*pair) for pair in zip(rows["measure"], rows["k"], strict=True)]
    return rows.assign(option=options)


def measures_of_summary(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the measures of each task by which it has a result, as the command line names them.

    The summary of a run that was stopped may have rows of a task that had not begun.
    """
    with_result = rows[rows["partitions"] > 0]
    return {
        str(task): own["option"].unique().tolist()
        for task, own in with_result.groupby("task", sort=False)
    }


def scores_of_summary(path: Path, rows: pd.DataFrame, task: str, measure: str) -> ScoreTable:
    """Take the scores of its data set from a summary, by a measure that it has a result by.

    Of the class subsets that with the most classes counts, of those with a result; of its learners
    those with the most partitions: what fewer give is not comparable.

    Raises
    ------
    UsageError
        Where a learner is there twice.
    """
    asked = rows[(rows["task"] == task) & (rows["option"] == measure)]
    with_result = asked[asked["partitions"] > 0]
    subset = with_result.sort_values("n_classes", kind="stable")["subset"].iloc[-1]
    own = asked[asked["subset"] == subset].set_index("learner")
    if own.index.has_duplicates:
        twice = own.index[own.index.duplicated()][0]
        raise UsageError(
            f"{path} has {shown(twice)} twice on {shown(subset)}: a file is of one run"
        )
    n_partitions = own["partitions"].max()
    whole = own["partitions"] == n_partitions
    first = own.iloc[0]
    costs = own.reindex(columns=["tuning_seconds", "fit_seconds"]).loc[whole]
    seconds = costs.apply(pd.to_numeric, errors="coerce").sum(axis=1, skipna=False)
    notes = own.loc[~whole, "note"].fillna("fewer partitions than others")
    return ScoreTable(
        source=str(path),
        data=str(first["dataset"]),
        dataset=str(first["dataset"]),
        items=_items(str(first["dataset"])),
        subset=str(subset),
        subset_title=str(first["subset_title"]),
        n_classes=int(first["n_classes"]),
        n_train=int(own["n_train"].fillna(0).max()),
        n_partitions=int(n_partitions),
        search=str(first["search"]),
        task=task,
        measure=str(first["name"]),
        means=six_digits(own.loc[whole, "mean"]),
        seconds=six_digits(seconds),
        missing={str(name): str(note).removesuffix(".") for name, note in notes.items()},
    )


def _items(dataset: str) -> str | None:
    """Return what a data set of the registry calls its items: its name is the first word."""
    datasets, name = load_registry().datasets, dataset.partition(" ")[0]
    try:
        return datasets[name].items if name in list(datasets) else None
    except BrokenPluginError:
        return None
