"""The scores that learners are ranked by: from each run one data set, one score a learner.

Not for the ranks: `oasis_bench.analysis.average_ranks` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from oasis_bench.analysis.headlines import named, task_measures
from oasis_bench.reports.formatting import clip, plural, series
from oasis_bench.reports.run.facts import (
    dataset_name,
    learners,
    shortfall,
    split_of,
    subset_title,
    subsets,
    tasks,
)
from oasis_bench.store.run_file import RunRecord
from oasis_bench.system.errors import UsageError, unknown_name

NAME_WIDTH = 24


@dataclass(frozen=True)
class DatasetScores:
    """The scores of one run's data set.

    Attributes
    ----------
    name : str
        Short name of the data set.
    run : RunRecord
    subset : str
        The class subset that counts.
    n_partitions : int
        The partitions that were tried with every learner: only these count.
    task, measure : str
        What the scores are, in words.
    means : Series
        Mean of the measure over these partitions of each learner that has it on all of them.
    """

    name: str
    run: RunRecord
    subset: str
    n_partitions: int
    task: str
    measure: str
    means: pd.Series[float]

    @property
    def title(self) -> str:
        """The data set, its class subset and partitions."""
        size = subset_title(self.run, self.subset)
        return f"{self.name} ({size}, {plural(self.n_partitions, 'partition')})"


def scores_of_runs(
    runs: Mapping[Path, RunRecord], task: str | None, measure: str | None
) -> list[DatasetScores]:
    """Take from each run the scores of its data set.

    `task` and `measure`, such as 'accuracy@3', are those of the scores: the first task of the first
    run and the first measure of the task where they are None.

    The class subsets of a data set share items and are no data sets of their own, so each run
    counts once: by its subset with the most classes of those tried with every learner.

    Raises
    ------
    UsageError
        For fewer than two runs, two of one data set, one without a partition that was tried with
        every learner, or one that has no such task or measure.
    """
    if len(runs) < 2:
        raise UsageError(
            f"{plural(len(runs), 'run')}: average ranks need at least 2, each of its data set"
        )
    seen: dict[tuple[str, str], Path] = {}
    for folder, run in runs.items():
        dataset = (run.info.experiment.dataset, dataset_name(run))
        if dataset in seen:
            raise UsageError(
                f"{seen[dataset]} and {folder} are both of {dataset[1]}: one run counts for a data "
                "set, so name one of them"
            )
        seen[dataset] = folder
    first = next(iter(runs.values()))
    asked = tasks(first)[0] if task is None else task
    return [_scores(folder, run, asked, measure) for folder, run in runs.items()]


def _scores(folder: Path, run: RunRecord, task: str, measure: str | None) -> DatasetScores:
    if task not in tasks(run):
        raise UsageError(f"{folder}: {unknown_name('task', task, tasks(run))}")
    measures = named(run, task)
    if measure is not None and measure not in set(measures["option"]):
        known = unknown_name(f"measure of {task}", measure, measures["option"])
        raise UsageError(f"{folder}: {known}")
    chosen = measures if measure is None else measures[measures["option"] == measure]
    name_of_measure = str(chosen["name"].iloc[0])
    trials = run.trials[run.trials["split"] == split_of(run, task)]
    n_tried = trials.groupby(["subset", "partition"])["learner"].nunique()
    complete = n_tried[n_tried == len(learners(run))].reset_index()[["subset", "partition"]]
    found = [subset for subset in subsets(run) if subset in set(complete["subset"])]
    if not found:
        raise UsageError(
            f"{folder} has no partition that was tried with every learner: let it go on, with "
            f"'run --resume {folder}'"
        )
    complete = complete[complete["subset"] == found[-1]]
    values = task_measures(run, task)
    values = values[values["name"] == name_of_measure]
    results = values.merge(complete, on=["subset", "partition"])
    scores = results.groupby("learner")["value"].agg(["mean", "count"])
    means = scores.loc[scores["count"] == len(complete), "mean"]
    name = clip(dataset_name(run), NAME_WIDTH)
    return DatasetScores(name, run, found[-1], len(complete), task, name_of_measure, means)


def common_scores(datasets: Sequence[DatasetScores]) -> pd.DataFrame:
    """Return the scores of the learners that have one on every data set.

    Returns
    -------
    DataFrame of shape (n_datasets, n_learners)

    Raises
    ------
    UsageError
        Where fewer than two learners have a score on every data set.
    """
    scores = pd.DataFrame([one.means for one in datasets], index=range(len(datasets)))
    common = scores.reindex(columns=learners(datasets[0].run)).dropna(axis="columns")
    if common.shape[1] < 2:
        found = series([str(name) for name in common]) or "none"
        raise UsageError(
            f"learners with a result on every data set: {found}; ranks need at least 2: run the "
            "same learners, by the same labels, on each"
        )
    return common


def reasons_left_out(datasets: Sequence[DatasetScores], ranked: Sequence[str]) -> Iterator[str]:
    """Say which learners are not ranked, and why."""
    everyone = dict.fromkeys(name for one in datasets for name in learners(one.run))
    for name in everyone:
        if name in ranked:
            continue
        absent = [one.name for one in datasets if name not in learners(one.run)]
        reasons = [f"not in the run on {series(absent)}"] if absent else []
        reasons += [
            f"on {one.name}: {reason.removeprefix(name + ': ').removesuffix('.')}"
            for one in datasets
            if name in learners(one.run) and name not in one.means
            for reason in shortfall(
                one.run, one.subset, name, split_of(one.run, one.task), one.task
            )
        ]
        yield f"{name} is left out: {'; '.join(reasons)}."


def other_settings(datasets: Sequence[DatasetScores], ranked: Sequence[str]) -> Iterator[str]:
    """Say which labels stand for other settings in some of the runs."""
    for name in ranked:
        specs = [one.run.info.experiment.learners[name] for one in datasets]
        settings = [(spec.algorithm, spec.params) for spec in specs]
        if any(other != settings[0] for other in settings[1:]):
            yield f"{name} has other settings in some of the runs: its ranks mix them."
