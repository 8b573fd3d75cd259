"""The scores that learners are ranked by: of each run one table, one score per learner.

They are read from a run, or from its summary, the CSV file of 'export --format summary'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.analysis import option_name
from oasis_bench.plugins import PATH_DATASETS, BrokenPluginError, load_registry
from oasis_bench.reports.formatting import plural, series, some
from oasis_bench.reports.view import RunView
from oasis_bench.system import UsageError, encodable, error_line, shown

NEEDED = (
    *("dataset", "subset", "subset_title", "n_classes", "n_train", "task", "measure", "k", "name"),
    *("learner", "mean", "partitions", "note", "search"),
)
TEXTS = ("dataset", "subset", "subset_title", "task", "measure", "name", "learner", "search")

FILLED = (*TEXTS[:-1], "n_classes", "partitions")


@dataclass(frozen=True, kw_only=True)
class ScoreTable:
    """The scores of one run, on one class subset of its data set.

    `source` is the run's folder, or the file of its summary; `data` tells its data set from others:
    tables of one share its weight.  `items` is what the data set calls its items, `n_partitions`
    the number of partitions that were tried with every learner: only these count.  `means` and
    `seconds` (medians of tuning and fit, added) have six digits, as many as summaries, and
    are of the learners with a result on all of these partitions; `missing` says why others are not.
    """

    source: str
    data: str
    dataset: str
    items: str | None
    subset: str
    subset_title: str
    n_classes: int
    n_train: int
    n_partitions: int
    search: str
    task: str
    measure: str
    means: pd.Series[float]
    seconds: pd.Series[float]
    missing: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    transductive: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The data set, its class subset and partitions."""
        return f"{self.dataset} ({self.subset_title}, {plural(self.n_partitions, 'partition')})"


def six_digits(means: pd.Series[float]) -> pd.Series[float]:
    """Round to six significant digits: equal results stay equal, wherever they are read from."""
    return means.map(lambda value: float(f"{value:.6g}"))


def measures_of_run(view: RunView) -> dict[str, list[str]]:
    """Return the measures of each task of a run, as the options of the command line name them."""
    return {task: view.measures[task]["option"].tolist() for task in view.tasks}


def scores_of_run(folder: Path, view: RunView, task: str, measure: str) -> ScoreTable:
    """Take the scores of its data set from a run, by a measure that it has, such as 'accuracy@3'.

    The class subsets of a data set share items and are no data sets of their own, so one counts:
    that with the most classes of those tried with every learner.
    """
    measures = view.measures[task]
    name_of_measure = str(measures.loc[measures["option"] == measure, "name"].iloc[0])
    split = view.split_of(task)
    trials = view.trials[view.trials["split"] == split]
    n_tried = trials.groupby(["subset", "partition"])["learner"].nunique()
    complete = n_tried[n_tried == len(view.learners)].reset_index()[["subset", "partition"]]
    found = [subset for subset in view.subsets if subset in set(complete["subset"])]
    if not found:
        raise UsageError(
            f"{folder} has no partition that was tried with every learner: let it go on, with "
            f"'run --resume {folder}'"
        )
    subset = found[-1]
    complete = complete[complete["subset"] == subset]
    values = view.values[task]
    results = values[values["name"] == name_of_measure].merge(complete, on=["subset", "partition"])
    scores = results.groupby("learner")["value"].agg(["mean", "count"])
    means = scores.loc[scores["count"] == len(complete), "mean"]
    missing = {
        name: " ".join(view.shortfall(subset, name, split, task))
        for name in view.learners
        if name not in means
    }
    costs = trials.merge(complete, on=["subset", "partition"])
    medians = costs.groupby("learner")[["tuning_seconds", "fit_seconds"]].median()
    e = view.info.experiment
    own = view.info.sources.dataset.name in PATH_DATASETS
    return ScoreTable(
        source=encodable(str(folder)),
        data=encodable(e.dataset) if own else view.dataset_name,
        dataset=view.dataset_name,
        items=view.info.items,
        subset=subset,
        subset_title=view.subset_title(subset),
        n_classes=view.subsets[subset],
        n_train=(view.sizes.get((subset, split)) or (0, 0))[0],
        n_partitions=len(complete),
        search=str(e.search),
        task=task,
        measure=name_of_measure,
        means=six_digits(means.reindex([name for name in view.learners if name in means])),
        seconds=six_digits(medians.sum(axis=1, skipna=False).reindex(means.index)),
        missing={name: _reason(name, text) for name, text in missing.items()},
        settings={name: (spec.algorithm, spec.params) for name, spec in e.learners.items()},
        transductive=frozenset(view.transductive),
    )


def _reason(learner: str, text: str) -> str:
    """Take the learner's name from the front of what `shortfall` says, and the full stop."""
    return text.partition(": ")[2].removesuffix(".") if text.startswith(learner) else text


def read_summary(path: Path) -> pd.DataFrame:
    """Read a summary; its column `option` names measures as the command line does."""
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


def joined_scores(tables: Sequence[ScoreTable]) -> pd.DataFrame:
    """Return the scores of all learners in all tables.

    It is of shape (n_tables, n_learners), NaN where a table lacks a learner; its index is the data
    set and the number of the table.
    """
    names = dict.fromkeys(name for table in tables for name in (*table.means.index, *table.missing))
    scores = pd.DataFrame([table.means for table in tables]).reindex(columns=list(names))
    scores.index = pd.MultiIndex.from_arrays([[table.data for table in tables], range(len(tables))])
    return scores.astype(float)


def median_seconds(tables: Sequence[ScoreTable]) -> pd.Series[float]:
    """Return what tuning and fit took of each learner: its median data set.

    Of several tables of a data set it is their mean.
    """
    seconds = pd.DataFrame([table.seconds for table in tables]).astype(float)
    return seconds.groupby([table.data for table in tables]).mean().median()


def one_of_each(tables: Sequence[ScoreTable]) -> list[ScoreTable]:
    """Choose a table of each data set, for what needs all learners in one.

    It is that with the most of the learners that all data sets have, then with the most learners,
    then with the most training items.
    """
    of_data = joined_scores(tables).notna().groupby(level=0, sort=False).any()
    everywhere = of_data.columns[of_data.all()]

    def size(table: ScoreTable) -> tuple[int, int, int]:
        return len(table.means.index.intersection(everywhere)), len(table.means), table.n_train

    return [
        max((table for table in tables if table.data == data), key=size) for data in of_data.index
    ]


def common_scores(tables: Sequence[ScoreTable]) -> pd.DataFrame:
    """Return the scores of the learners that every table holds, of shape (n_tables, n_learners)."""
    return joined_scores(tables).dropna(axis="columns").reset_index(drop=True)


def reasons_left_out(tables: Sequence[ScoreTable], ranked: Sequence[str]) -> Iterator[str]:
    """Say which learners are not ranked, and why; those of one reason together."""
    names_of: dict[str, list[str]] = {}
    datasets = {table.data: table.dataset for table in tables}
    for name in map(str, joined_scores(tables)):
        if name in ranked:
            continue
        with_it = [table for table in tables if name in table.means or name in table.missing]
        absent = [
            title
            for data, title in datasets.items()
            if not any(table.data == data for table in with_it)
        ]
        reasons = [f"not run on {some(absent)}"] if absent else []
        reasons += [
            f"on {table.dataset}: {table.missing[name]}"
            for table in with_it
            if name in table.missing
        ]
        reason = "; ".join(reasons) or "not in the run that counts for each data set"
        names_of.setdefault(reason, []).append(name)
    for reason, names in names_of.items():
        yield f"{series(names)} {'is' if len(names) == 1 else 'are'} left out: {reason}."


def other_settings(tables: Sequence[ScoreTable]) -> Iterator[str]:
    """Say which labels stand for other settings in some of the tables."""
    for name in map(str, joined_scores(tables)):
        known = [table.settings[name] for table in tables if name in table.settings]
        if any(other != known[0] for other in known[1:]):
            yield f"{name} has other settings in some of the runs: its figures mix them."
