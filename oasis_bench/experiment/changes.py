"""An experiment over which a user's own settings are put, from the command line or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from oasis_bench.experiment.quick import quick_settings
from oasis_bench.experiment.settings import LIMITS, Experiment, LearnerSpec


def changed(
    experiment: Experiment,
    given: Mapping[str, Any],
    *,
    dataset: str | None = None,
    dataset_options: Mapping[str, Any] | None = None,
    learners: Mapping[str, LearnerSpec] | None = None,
    title: str | None = None,
    quick: bool = False,
) -> Experiment:
    """Return an experiment with what a user has given in place of what it says.

    What it says of its own data set does not hold for another one: this has all its classes, a
    title of its own and no options, where these are not given.

    Parameters
    ----------
    experiment : Experiment
    given : mapping
        Settings by their names; budget and memory are then those of all learners.
    dataset : str, optional
        A name or a path.
    dataset_options : mapping, optional
        Those of the data set that are given.
    learners : mapping of str to LearnerSpec, optional
        In place of all others.
    title : str, optional
    quick : bool, default False
        Whether the settings of a quick run hold where none are given.

    Raises
    ------
    UsageError
        Where the result is no experiment.
    """
    changes = {name: value for name, value in given.items() if name not in LIMITS}
    if quick:
        changes = {**quick_settings(experiment), **changes}
    options = experiment.dataset_options
    if dataset is not None and dataset != experiment.dataset:
        if "classes" not in given:
            changes["classes"] = ("all",)
        changes |= {"dataset": dataset, "title": Path(dataset).name}
        options = {}
    changes["dataset_options"] = {**options, **(dataset_options or {})}
    if learners is not None:
        changes["learners"] = learners
    if title is not None:
        changes["title"] = title
    changes["each"] = {name: v for name, v in experiment.each.items() if name not in changes}
    limits = {name: given[name] for name in LIMITS if name in given}
    return replace(experiment, **changes).limited(limits)
