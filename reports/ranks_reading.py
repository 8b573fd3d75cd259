"""The scores that average ranks are made of, from several runs: one score a learner and data set.

Not for the ranks themselves: `oasis_bench.analysis.average_ranks` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from oasis_bench.reports.reading import (
    finished,
    learners,
    shortfall,
    subset_title,
    subsets,
)
from oasis_bench.reports.text import clip, plural, series
from oasis_bench.store.run_file import RunRecord
from oasis_bench.system.errors import UsageError

NAME_WIDTH = 24


@dataclass(frozen=True)
class DatasetScores:
    """What one run says of its data set.

    Attributes
    ----------
    name : str
        Of the data set, short.
    run : RunRecord
    subset : str
        The class subset that counts.
    partitions : int
        Those that were tried with every learner; they count.
    means : Series
        Mean mAP over these partitions of each learner that finished all of them.
    """

    name: str
    run: RunRecord
    subset: str
    partitions: int
    means: pd.Series[float]

    @property
    def title(self) -> str:
        """The data set, its class subset and partitions."""
        size = subset_title(self.run, self.subset)
        return f"{self.name} ({size}, {plural(self.partitions, 'partition')})"


def gather(runs: Mapping[Path, RunRecord]) -> list[DatasetScores]:
    """Take from each run the scores of its data set.

    The class subsets of a data set share images and are no data sets of their own, so each run
    counts once: by its subset with the most classes of those tried with every learner.

    Raises
    ------
    UsageError
        For fewer than two runs, two of one data set, or one without a partition that was tried
        with every learner.
    """
    if len(runs) < 2:
        raise UsageError(
            f"{plural(len(runs), 'run')}: average ranks need at least 2, each of its data set"
        )
    seen: dict[str, Path] = {}
    for folder, run in runs.items():
        dataset = run.info["experiment"]["dataset"]
        if dataset in seen:
            raise UsageError(
                f"{seen[dataset]} and {folder} are both of {dataset}: one run counts for a data "
                "set, so name one of them"
            )
        seen[dataset] = folder
    return [_scores(folder, run) for folder, run in runs.items()]


def _scores(folder: Path, run: RunRecord) -> DatasetScores:
    names = learners(run)
    tried = run.trials.groupby(["subset", "partition"])["learner"].nunique() == len(names)
    whole = tried[tried].reset_index()[["subset", "partition"]]
    shown = [subset for subset in subsets(run) if subset in set(whole["subset"])]
    if not shown:
        raise UsageError(
            f"{folder} has no partition that was tried with every learner: let it go on, with "
            f"'run --resume {folder}'"
        )
    whole = whole[whole["subset"] == shown[-1]]
    scores = finished(run).merge(whole, on=["subset", "partition"])
    scores = scores.groupby("learner")["mean_average_precision"].agg(["mean", "count"])
    complete = scores.loc[scores["count"] == len(whole), "mean"]
    name = clip(Path(run.info["experiment"]["dataset"]).name, NAME_WIDTH)
    return DatasetScores(name, run, shown[-1], len(whole), complete)


def common_scores(gathered: list[DatasetScores]) -> pd.DataFrame:
    """Bring the scores of the learners that every run has into one frame.

    Returns
    -------
    DataFrame of shape (n_datasets, n_learners)

    Raises
    ------
    UsageError
        Where fewer than two learners have a score on every data set.
    """
    scores = pd.DataFrame([one.means for one in gathered], index=range(len(gathered)))
    common = scores.reindex(columns=learners(gathered[0].run)).dropna(axis="columns")
    if common.shape[1] < 2:
        found = series([str(name) for name in common]) or "none"
        raise UsageError(
            f"learners with a result on every data set: {found}; ranks need at least 2: run the "
            "same learners, by the same labels, on each"
        )
    return common


def left_out(gathered: list[DatasetScores], kept: list[str]) -> Iterator[str]:
    """Say which learners are not ranked, and why: nobody gets a rank for what is missing."""
    everyone = dict.fromkeys(name for one in gathered for name in learners(one.run))
    for name in everyone:
        if name in kept:
            continue
        without = [one.name for one in gathered if name not in learners(one.run)]
        reasons = [f"not in the run on {series(without)}"] if without else []
        reasons += [
            f"on {one.name}: {reason.removeprefix(name + ': ').removesuffix('.')}"
            for one in gathered
            if name in learners(one.run) and name not in one.means
            for reason in shortfall(one.run, one.subset, name)
        ]
        yield f"{name} is left out: {'; '.join(reasons)}."


def other_settings(gathered: list[DatasetScores], kept: list[str]) -> Iterator[str]:
    """Say which learners are not the same in all runs, their labels apart."""
    for name in kept:
        given = [one.run.info["experiment"]["learners"][name] for one in gathered]
        settings = [(spec["algorithm"], spec["params"]) for spec in given]
        if any(other != settings[0] for other in settings[1:]):
            yield f"{name} has other settings in some of the runs: its ranks mix them."
