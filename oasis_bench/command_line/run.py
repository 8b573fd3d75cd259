"""The verbs `run` and `evaluate`: which experiment the options make, and where its results go."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from typing import Any

from oasis_bench.command_line.progress import Display
from oasis_bench.command_line.running import (
    TRIAL_FAILED,
    carry_out,
    command_words,
    kept_kinds,
    report_on,
    run_each,
    start_of,
)
from oasis_bench.command_line.trial_options import JUDGED_SETTINGS
from oasis_bench.experiment import LIMITS, Experiment, LearnerSpec, changed, known_settings
from oasis_bench.plugins import load_registry, read_options
from oasis_bench.runs import (
    evaluate_run,
    model_experiment,
    new_folder,
    one_for_each_value,
    resume_experiment,
    run_experiment,
    what_varies,
)
from oasis_bench.system import UsageError


def run(options: argparse.Namespace) -> int:
    """Run an experiment, or each of several, or go on with a run."""
    if options.resume is not None:
        output, start = options.resume, partial(_resume, options)
    elif options.retry:
        raise UsageError("--retry is for a run that goes on: name it with --resume")
    else:
        experiment = experiment_of(options)
        output = options.output or new_folder(experiment.dataset)
        if several := one_for_each_value(experiment):
            return run_each(several, what_varies(experiment), output, options)
        start = start_of(experiment, output, options)
    return carry_out(
        partial(start, keep=kept_kinds(options), command=command_words()), output, options
    )


def evaluate(options: argparse.Namespace) -> int:
    """Judge kept scores, of a run, or a model on other data."""
    if options.judged.is_dir():
        return _evaluate_run(options)
    if options.dataset is None:
        raise UsageError(f"which data is {options.judged} to be judged on? Name it with --dataset")
    experiment = model_experiment(
        options.judged,
        options.dataset,
        options.plugin,
        dataset_options=_data_options(options, options.dataset),
        **_given(options, JUDGED_SETTINGS),
    )
    start = partial(run_experiment, experiment, plugin_files=options.plugin)
    output = options.output or new_folder(experiment.dataset)
    return carry_out(partial(start, output, command=command_words()), output, options)


def _evaluate_run(options: argparse.Namespace) -> int:
    others = {"dataset", "data_options", "output", "cluster", *JUDGED_SETTINGS} - {"tasks"}
    for name in sorted(others):
        if getattr(options, name) not in (None, []):
            raise UsageError(
                f"{_option(name)} is for a model: the scores of a run are of its own data"
            )
    if options.tasks is None:
        raise UsageError("which tasks are to judge the scores of this run? Name them with --tasks")
    with closing(Display()) as display:
        how = {"on_download": display.download, "on_trial": display.bar}
        failures = evaluate_run(options.judged, options.tasks, options.plugin, **how)
    report_on(options.judged)
    return TRIAL_FAILED if failures else 0


def _option(name: str) -> str:
    """Return how an option is written whose value has this name."""
    if name == "data_options":
        return "an option of the data set"
    flag = known_settings()[name].flag if name in known_settings() else ""
    return flag or f"--{name.replace('_', '-')}"


def _resume(options: argparse.Namespace, **how: Any) -> int:
    kept = known_settings().keys() - set(LIMITS)
    for name in sorted({*kept, "dataset", "data_options", "experiment", "algorithms", "output"}):
        if getattr(options, name) not in (None, []):
            raise UsageError(
                f"{_option(name)} cannot be given with --resume: a run that goes on keeps its "
                "settings"
            )
    limits = _given(options, LIMITS)
    how |= {"plugin_files": options.plugin, "retry": options.retry, "limits": limits}
    return resume_experiment(options.resume, **how)


def experiment_of(options: argparse.Namespace) -> Experiment:
    """Read the experiment and put the options of the command line over it."""
    experiment = options.experiment or Experiment.from_toml("default")
    dataset = experiment.dataset if options.dataset is None else options.dataset
    learners = None
    if options.algorithms is not None:
        known = experiment.learners
        learners = {name: known.get(name, LearnerSpec(name)) for name in options.algorithms}
    return changed(
        experiment,
        _given(options, known_settings()),
        dataset=dataset,
        dataset_options=_data_options(options, dataset),
        learners=learners,
        quick=options.quick,
    )


def _data_options(options: argparse.Namespace, dataset: str) -> dict[str, Any]:
    """Return the options of the data set that were given."""
    if not options.data_options:
        return {}
    return read_options(dataset, load_registry(options.plugin), dict(options.data_options))


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the options that were given."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
