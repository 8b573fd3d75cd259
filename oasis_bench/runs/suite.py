"""The suite: experiments on many corpora, each exported when it is done and not run again.

A corpus whose exported result has the version of the protocol, the code and the learners of now is
skipped, so that a suite of hours can be carried out in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

import oasis_bench
from oasis_bench.experiment import Experiment, package_hash
from oasis_bench.system import available_cores

PUBLISHED = Path(oasis_bench.__file__).resolve().parents[1] / "docs" / "results" / "suite"
"""The committed results of a checkout."""


def results_folder(suite: Experiment, output: Path) -> Path:
    """Return where the results of a suite are exported: the committed ones, or below `output`.

    Only the whole built-in suite, in a checkout, replaces committed results.
    """
    is_whole = suite.built_in is not None and suite == Experiment.from_toml(suite.built_in)
    return PUBLISHED if is_whole and PUBLISHED.is_dir() else output / "results"


def has_result(file: Path, experiment: Experiment) -> bool:
    """Tell whether a result is there, of this protocol, these learners and the code of now."""
    if not file.is_file():
        return False
    rows = pd.read_csv(file)
    wanted = {
        "protocol": {experiment.protocol},
        "code": {package_hash()},
        "learner": set(experiment.learners),
    }
    return all(name in rows and set(rows[name]) == values for name, values in wanted.items())


def most_seconds(experiments: Mapping[str, Experiment]) -> float:
    """Return how long experiments take at most, where each trial uses all that it is given.

    Tuning is limited in processor time, of which each core gives its share; one split is counted
    for each two tasks, as a fit is evaluated on all tasks of its split.
    """
    total = 0.0
    for one in experiments.values():
        n_splits = 1 + ("unseen-classes" in one.tasks and len(one.tasks) > 1)
        tuning = (one.search.seconds or 0.0) / available_cores()
        n_trials = len(one.learners) * one.n_partitions * len(one.classes) * n_splits
        total += n_trials * (tuning + (one.budget.seconds or 0.0))
    return total


def expected_seconds(experiments: Mapping[str, Experiment]) -> float | None:
    """Return how long experiments take by the committed results, or None where some lack.

    A learner that these do not have is expected to take the mean of the others.
    """
    total = 0.0
    for name, one in experiments.items():
        file = PUBLISHED / f"{name}.csv"
        if not file.is_file():
            return None
        rows = pd.read_csv(file).drop_duplicates(["learner", "split", "subset"])
        seconds = (rows["tuning_seconds"] + rows["fit_seconds"]) * rows["partitions"]
        of_each = seconds.groupby(rows["learner"]).sum()
        total += of_each.reindex(list(one.learners)).fillna(of_each.mean()).sum()
    return total
