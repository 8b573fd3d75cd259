"""What a command is to run: one experiment for each value of a list, or of a saved model.

And how far the run in a folder is with it, or the results of a suite: a corpus whose exported
result has the version of the protocol, the code and the learners of now is not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import oasis_bench
from oasis_bench.data import Scaling
from oasis_bench.experiment import (
    Experiment,
    LearnerSpec,
    dataset_of_file,
    package_hash,
    saved_steps,
    settled_as,
    tasks_by_option,
)
from oasis_bench.plugins import Registry, learner_of, load_model_of
from oasis_bench.runs.store import holds_run, read_run
from oasis_bench.system import UsageError

PUBLISHED = Path(oasis_bench.__file__).resolve().parents[1] / "docs" / "results" / "suite"
"""The committed results of a checkout."""


def one_for_each_value(experiment: Experiment) -> dict[str, Experiment]:
    """Return an experiment for each corpus of a suite, or each value of what has a list of them.

    A list is that of an option of the data set, or of a setting in the table `each` of the file.
    Each experiment is an ordinary run in a separate folder.
    """
    if experiment.corpora:
        return {name: _on_corpus(experiment, name) for name in experiment.corpora}
    options, each = experiment.dataset_options, experiment.each
    lists = lists_of_values(experiment)
    if not lists:
        return {}
    if len(lists) > 1:
        raise UsageError(f"{' and '.join(lists)} have lists of values, a run for each: one may")
    name, values = next(iter(lists.items()))
    words = [str(value) for value in values] if isinstance(values, list) else []
    if not words or [*dict.fromkeys(Path(word).name for word in words)] != words:
        raise UsageError(f"{name} = {values}: different values that can name folders are needed")
    found = {}
    for word, value in zip(words, values, strict=True):
        change = {name: value} if each else {"dataset_options": {**options, name: value}}
        title = f"{experiment.title}: {f'{name} = ' if each else ''}{word}"
        found[word] = replace(experiment, each={}, title=title, **change)
    return found


def _on_corpus(experiment: Experiment, name: str) -> Experiment:
    """Return the experiment on one corpus; what its table says comes before what all say."""
    changes: dict[str, Any] = dict(experiment.corpora[name])
    changes |= dataset_of_file(changes.pop("dataset"), f"corpus {name}")
    known = experiment.learners
    if "learners" in changes:
        changes["learners"] = {one: known[one] for one in changes["learners"] if one in known}
    title = f"{experiment.title}: {name}"
    return replace(experiment, **{"title": title, "corpora": {}, "quick": {}, **changes})


def lists_of_values(experiment: Experiment) -> dict[str, Any]:
    """Return what has a list of values, a run for each: options of the data set and settings."""
    options = experiment.dataset_options
    lists = {name: values for name, values in options.items() if isinstance(values, list)}
    return {**lists, **experiment.each}


def model_experiment(
    model: Path, dataset: str, plugin_files: Sequence[Path] = (), **settings: Any
) -> Experiment:
    """Return the experiment that evaluates a saved model on a data set, of a name or a path.

    The learner's label is the name of the model's file, without its end.  `settings` are fields of
    `Experiment`; those that are not given have its defaults, but `classes` is all, and the scaling
    is that of the model's file, if it has one.  Where all tasks are of judgements, and neither
    `partitions` nor `test_share` is given, each judgement tests, once.
    """
    registry = Registry.load(plugin_files)
    name = learner_of(load_model_of(registry, model), [])[0].name
    learner = LearnerSpec(name, model=str(model.resolve()))
    title = f"{name} of {model.name} on {Path(dataset).name}"
    # There are no inner folds; for fewer of them fewer training items are enough.
    defaults: dict[str, Any] = {"classes": ("all",), "inner_folds": 2}
    settings = {**tasks_by_option(settings.get("dataset_options", {})), **settings}
    splits = [registry.splits[registry.tasks[task].split] for task in settings.get("tasks", ())]
    if splits and "split" not in settings and all(split.all_may_test for split in splits):
        if "partitions" not in settings and settings.get("test_share", 1.0) == 1:
            defaults |= {"partitions": 1, "test_share": 1.0}
        elif settings.get("test_share") == 1 and settings["partitions"] > 1:
            raise UsageError(
                f"partitions = {settings['partitions']} of all judgements are the same: leave "
                "partitions out, or give a smaller test_share"
            )
    experiment = Experiment(title, dataset, {model.stem: learner}, **{**defaults, **settings})
    steps = saved_steps(model, registry)
    own = None if steps is None else Scaling.of(steps)
    if own is None or experiment.scaling == (own,):
        return experiment
    if experiment.scaling is not None:
        raise UsageError(f"{model} has its own scaling, {own}: leave --scaling out")
    return replace(experiment, scaling=(own,))


def how_far(folder: Path, experiment: Experiment) -> Literal["new", "begun", "finished"]:
    """Tell how far the run of an experiment in a folder is; a run of another one is refused."""
    if not holds_run(folder):
        return "new"
    info = read_run(folder).info
    before, now = info.experiment, settled_as(experiment, info.experiment)
    if before != now:
        names = [one.name for one in fields(now)]
        changed = [name for name in names if getattr(now, name) != getattr(before, name)]
        raise UsageError(
            f"{folder} has a run with other settings ({', '.join(changed)}): choose another "
            "--output, or give the settings of that run to continue it"
        )
    return "begun" if info.finished is None else "finished"


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
