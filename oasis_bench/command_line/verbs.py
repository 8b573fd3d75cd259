"""What each verb of the command line does and prints.  Not its options, nor what errors look like.

Importing this takes a second: `oasis_bench.command_line.main` does so when the options are right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from oasis_bench.analysis.comparison import compare_runs
from oasis_bench.command_line.carrying_out import (
    TRIAL_FAILED,
    carry_out,
    command_words,
    kept_kinds,
    report_on,
    run_each,
    start_of,
)
from oasis_bench.command_line.check import check_file
from oasis_bench.command_line.judge import judge
from oasis_bench.command_line.listing import (
    aligned,
    facts_of,
    facts_of_rows,
    learner_lines,
    plugin_rows,
    task_lines,
)
from oasis_bench.command_line.paper import run_paper
from oasis_bench.command_line.progress import Display, in_words
from oasis_bench.command_line.trial_options import JUDGED_SETTINGS
from oasis_bench.command_line.trying import tried_lines
from oasis_bench.experiment.quick import quick_settings
from oasis_bench.experiment.settings import (
    LIMITS,
    Experiment,
    LearnerSpec,
    built_in_experiments,
    settings,
)
from oasis_bench.plugins.open_dataset import (
    PATH_DATASETS,
    needed_options,
    open_dataset,
    read_options,
)
from oasis_bench.plugins.registry import BrokenPluginError, load_registry, load_reports
from oasis_bench.runner.evaluate import evaluate_run, model_experiment
from oasis_bench.runner.merge import merge_runs
from oasis_bench.runner.run import new_folder, resume_experiment, run_experiment
from oasis_bench.runner.several import one_for_each_value, what_varies
from oasis_bench.runner.trec import export_trec
from oasis_bench.store.run_file import read_run
from oasis_bench.system.errors import UsageError
from oasis_bench.system.files import make_writable
from oasis_bench.system.provenance import available_cores

GOT_WORSE = 1
NOT_COMPARED = 3
CHECK_FAILED = 1


def _run(options: argparse.Namespace) -> int:
    if options.resume is not None:
        output, start = options.resume, partial(_resume, options)
    elif options.retry:
        raise UsageError("--retry is for a run that goes on: name it with --resume")
    else:
        experiment = _experiment(options)
        output = options.output or new_folder(experiment.dataset)
        if several := one_for_each_value(experiment):
            return run_each(several, what_varies(experiment), output, options)
        start = start_of(experiment, output, options)
    return carry_out(
        partial(start, keep=kept_kinds(options), command=command_words()), output, options
    )


def _evaluate(options: argparse.Namespace) -> int:
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
    flag = settings()[name].flag if name in settings() else ""
    return flag or f"--{name.replace('_', '-')}"


def _resume(options: argparse.Namespace, **how: Any) -> int:
    kept = settings().keys() - set(LIMITS)
    for name in sorted({*kept, "dataset", "data_options", "experiment", "algorithms", "output"}):
        if getattr(options, name) not in (None, []):
            raise UsageError(
                f"{_option(name)} cannot be given with --resume: a run that goes on keeps its "
                "settings"
            )
    limits = _given(options, LIMITS)
    how |= {"plugin_files": options.plugin, "retry": options.retry, "limits": limits}
    return resume_experiment(options.resume, **how)


def _experiment(options: argparse.Namespace) -> Experiment:
    """Read the experiment and put the options of the command line over it."""
    experiment = options.experiment or Experiment.from_toml("default")
    changes = _given(options, settings().keys() - set(LIMITS))
    if options.quick:
        changes = {**quick_settings(experiment), **changes}
    if options.algorithms is not None:
        known = experiment.learners
        changes["learners"] = {
            name: known.get(name, LearnerSpec(name)) for name in options.algorithms
        }
    name = experiment.dataset if options.dataset is None else options.dataset
    data_options = experiment.dataset_options
    if name != experiment.dataset:  # what the file says of its own data set is not for this one
        if options.classes is None:
            changes["classes"] = ("all",)
        changes = {**changes, "title": Path(name).name, "dataset": name}
        data_options = {}
    changes["dataset_options"] = {**data_options, **_data_options(options, name)}
    changes["each"] = {key: v for key, v in experiment.each.items() if key not in changes}
    return replace(experiment, **changes).limited(_given(options, LIMITS))


def _data_options(options: argparse.Namespace, dataset: str) -> dict[str, Any]:
    """Return the options of the data set that were given."""
    if not options.data_options:
        return {}
    return read_options(dataset, load_registry(options.plugin), dict(options.data_options))


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the options that were given."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _ranks(options: argparse.Namespace) -> int:
    reports = load_reports()
    page, summary = reports.write_ranks(
        options.runs,
        options.output,
        options.task,
        options.measure,
        options.baseline,
        reports.Filters(
            items=options.kind, least_train=options.min_train, most_train=options.max_train
        ),
    )
    print(summary)
    print(f"report: {page}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    old, new = read_run(options.old), read_run(options.new)
    comparison = compare_runs(old, new, options.tolerance)
    runs = {f"OLD {options.old}": old, f"NEW {options.new}": new}
    print(load_reports().comparison_text(comparison, runs))
    if comparison.count("worse"):
        return GOT_WORSE
    return 0 if comparison.n_judged else NOT_COMPARED


def _merge(options: argparse.Namespace) -> int:
    n_trials = merge_runs(options.runs, options.into)
    report_on(options.into)
    print(f"merged: {n_trials} trials of {len(options.runs)} runs")
    for folder in options.runs:
        if (folder / "ratings.csv").exists():
            print(
                f"{folder}/ratings.csv stays there: 'judge {options.into} --collect' takes ratings"
            )
    return 0


def _export(options: argparse.Namespace) -> int:
    if options.format == "trec":
        output = options.output or options.run / "export"
        with closing(Display()) as display:
            told = display.download, display.bar
            paths = export_trec(options.run, output, *told, options.plugin)
    else:
        paths = load_reports().export_run(options.run, options.format, options.output)
    for path in paths:
        print(path)
    return 0


def _list(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    if options.dataset is not None:
        if options.what != "algorithms":
            raise UsageError("--for is for algorithms: 'list algorithms --for PATH'")
        data_options = _data_options(options, options.dataset)
        with closing(Display()) as display:
            tried = tried_lines(options.dataset, data_options, registry, options.plugin, display)
        print("\n".join(tried))
        return 0
    tables: dict[str, Callable[[], list[str]]] = {
        "algorithms": lambda: learner_lines(registry.algorithms),
        "datasets": lambda: aligned(plugin_rows(registry.datasets)),
        "tasks": lambda: task_lines(registry.tasks),
        "experiments": lambda: aligned(
            [(name, Experiment.from_toml(name).title) for name in built_in_experiments()]
        ),
    }
    for what, lines in tables.items():
        if options.what in (None, what):
            print(f"{what}:")
            for line in lines():
                print(f"  {line}")
    return 0


def _check(options: argparse.Namespace) -> int:
    return 0 if check_file(options.file) else CHECK_FAILED


def _data_list(options: argparse.Namespace) -> int:
    datasets = load_registry(options.plugin).datasets
    for name in datasets:
        try:
            dataset = datasets[name]
        except BrokenPluginError as error:
            print(f"{name}: BROKEN: {error}")
            continue
        if name in PATH_DATASETS:
            here: str | None = "of yours"
        elif needed := needed_options(dataset):
            here = f"known with its options ({', '.join(needed)})"
        else:
            here = dataset().location()
        print(f"{name}: {dataset.summary}\n    here: {here or 'not yet'}\n    {dataset.home}")
    return 0


def _data_load(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    data_options = read_options(options.dataset, registry, dict(options.data_options))
    dataset = open_dataset(options.dataset, registry, data_options)
    if options.verb == "data describe":
        lines = dataset.description() if dataset.location() is not None else []  # may raise
        _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print(f"its rows: not here yet: 'data prepare {options.dataset}' gets them")
            return 0
        for line in lines:
            print(line)
    with closing(Display()) as display:
        rows = dataset.load(display.download)
    _print_facts(facts_of_rows(dataset, rows))
    return 0


def _web_scale(options: argparse.Namespace) -> int:
    from oasis_bench.web_scale.forecast import chance_level, forecast_lines
    from oasis_bench.web_scale.training import Checkpoint, Training, open_data, train, trainings

    n_threads = options.threads or available_cores()
    planned = trainings(options.images, options.batch, options.seeds, options.steps_per_image)

    def tell(training: Training, point: Checkpoint) -> None:
        left = training.n_steps - point.n_steps
        seconds = point.learn_seconds / point.n_steps * left if point.n_steps else 0.0
        display.line(
            f"{training.name}: {point.n_steps:,} steps, {point.learn_seconds:,.0f} s, "
            f"mAP {point.mean_average_precision:.4f} ± {point.standard_error:.4f}"
            + (f", about {in_words(seconds)} of learning left" if seconds else "")
        )

    size = max(options.images), options.test_images, options.visterms
    lines = forecast_lines(*size, planned, options.output)
    make_writable(options.output)
    print("\n".join(lines), flush=True)
    with closing(Display()) as display:
        data = open_data(*size, display.download)
        display.line(f"chance: mAP {chance_level(data, options.queries):.4f}")
        try:
            for training in planned:
                train(
                    *(data, training, options.output, n_threads, options.queries),
                    progress=display.bar,
                    on_checkpoint=tell,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted: the same command goes on from the last checkpoint"
            ) from None
    print(f"report: {load_reports().write_web_scale_report(options.output)}")
    return 0


def _print_facts(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        print(f"{name:<15}  {value}", flush=True)


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "evaluate": _evaluate,
    "report": lambda options: report_on(options.run, options.baseline),
    "compare": _compare,
    "merge": _merge,
    "export": _export,
    "judge": judge,
    "ranks": _ranks,
    "list": _list,
    "check": _check,
    "data list": _data_list,
    "data describe": _data_load,
    "data prepare": _data_load,
    "paper": run_paper,
    "web-scale": _web_scale,
}
