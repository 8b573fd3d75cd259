"""The scores that learners are ranked by: from each run one table, one score a learner.

Not for summaries of runs, which `summary_scores` reads, nor for the ranks:
`oasis_bench.analysis.average_ranks` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.analysis import measures_of, task_measures, with_costs
from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.formatting import plural, series, some
from oasis_bench.reports.run.facts import (
    dataset_name,
    learners,
    shortfall,
    sizes,
    split_of,
    subset_title,
    subsets,
    tasks,
    transductive_learners,
)
from oasis_bench.runs import StoredRun
from oasis_bench.system import UsageError, encodable


@dataclass(frozen=True, kw_only=True)
class ScoreTable:
    """The scores of one run, on one class subset of its data set.

    Attributes
    ----------
    source : str
        The run's folder, or the file of its summary.
    data : str
        What tells its data set from others; tables of one data set share its weight.
    dataset : str
        What the data set is called.
    items : str or None
        What it calls its items, such as 'images'; None where that is not known.
    subset : str
        The class subset that counts.
    subset_title : str
        The same for a reader.
    n_classes, n_train : int
    n_partitions : int
        The partitions that were tried with every learner: only these count.
    search : str
        The budget of each learner's search.
    task, measure : str
        What the scores are, in words.
    means : Series
        Mean of the measure over these partitions of each learner that has it on all of them, with
        six digits: as many as summaries have.
    seconds : Series
        What tuning and fit took of each of these learners: their medians over partitions,
        added; NaN where that is not known.
    missing : dict of str to str
        Why the run's other learners have no mean.
    settings : dict of str to Any
        What learners were run with, where that is known.
    transductive : set of str
        Learners that may use the unlabelled test items.
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


def measures_of_run(run: StoredRun) -> dict[str, list[str]]:
    """Return the measures of each task of a run, as the options of the command line name them."""
    return {task: measures_of(run, task)["option"].tolist() for task in tasks(run)}


def scores_of_run(folder: Path, run: StoredRun, task: str, measure: str) -> ScoreTable:
    """Take the scores of its data set from a run, by a measure that it has, such as 'accuracy@3'.

    The class subsets of a data set share items and are no data sets of their own, so one counts:
    that with the most classes of those tried with every learner.

    Raises
    ------
    UsageError
        Where no partition was tried with every learner.
    """
    measures = measures_of(run, task)
    name_of_measure = str(measures.loc[measures["option"] == measure, "name"].iloc[0])
    split = split_of(run, task)
    trials = run.trials[run.trials["split"] == split]
    n_tried = trials.groupby(["subset", "partition"])["learner"].nunique()
    complete = n_tried[n_tried == len(learners(run))].reset_index()[["subset", "partition"]]
    found = [subset for subset in subsets(run) if subset in set(complete["subset"])]
    if not found:
        raise UsageError(
            f"{folder} has no partition that was tried with every learner: let it go on, with "
            f"'run --resume {folder}'"
        )
    subset = found[-1]
    complete = complete[complete["subset"] == subset]
    values = task_measures(run, task)
    results = values[values["name"] == name_of_measure].merge(complete, on=["subset", "partition"])
    scores = results.groupby("learner")["value"].agg(["mean", "count"])
    means = scores.loc[scores["count"] == len(complete), "mean"]
    missing = {
        name: " ".join(shortfall(run, subset, name, split, task))
        for name in learners(run)
        if name not in means
    }
    costs = with_costs(trials.merge(complete, on=["subset", "partition"]))
    medians = costs.groupby("learner")[["tuning_seconds", "fit_seconds"]].median()
    e = run.info.experiment
    own = run.info.sources.dataset.name in PATH_DATASETS
    return ScoreTable(
        source=encodable(str(folder)),
        data=encodable(e.dataset) if own else dataset_name(run),
        dataset=dataset_name(run),
        items=run.info.items,
        subset=subset,
        subset_title=subset_title(run, subset),
        n_classes=subsets(run)[subset],
        n_train=(sizes(run, subset, split) or (0, 0))[0],
        n_partitions=len(complete),
        search=str(e.search),
        task=task,
        measure=name_of_measure,
        means=six_digits(means.reindex([name for name in learners(run) if name in means])),
        seconds=six_digits(medians.sum(axis=1, skipna=False).reindex(means.index)),
        missing={name: _reason(name, text) for name, text in missing.items()},
        settings={name: (spec.algorithm, spec.params) for name, spec in e.learners.items()},
        transductive=frozenset(transductive_learners(run)),
    )


def _reason(learner: str, text: str) -> str:
    """Take the learner's name from the front of what `shortfall` says, and the full stop."""
    return text.partition(": ")[2].removesuffix(".") if text.startswith(learner) else text


def joined_scores(tables: Sequence[ScoreTable]) -> pd.DataFrame:
    """Return the scores of all learners in all tables.

    Returns
    -------
    DataFrame of shape (n_tables, n_learners)
        NaN where a table lacks a learner; its index is the data set and the number of the table.
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
