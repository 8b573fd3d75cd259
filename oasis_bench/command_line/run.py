"""The verbs `run` and `evaluate`, and what carries out experiments for other verbs too.

Which experiment the options make, where its results go, its progress, kept files and report.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from oasis_bench.command_line.options import JUDGED_SETTINGS
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.experiment import (
    LIMITS,
    QUICK_REMARK,
    Experiment,
    LearnerSpec,
    changed,
    known_settings,
)
from oasis_bench.plugins import load_registry, load_reports, open_dataset, read_options
from oasis_bench.runs import (
    evaluate_run,
    expected_seconds,
    has_result,
    how_far,
    model_experiment,
    most_seconds,
    new_folder,
    one_for_each_value,
    read_run,
    results_folder,
    resume_experiment,
    run_experiment,
    what_varies,
)
from oasis_bench.system import UsageError, without_options
from oasis_bench.trial import MODELS, PREDICTIONS

TRIAL_FAILED = 1


def run(options: argparse.Namespace) -> int:
    """Run an experiment, or each of several, or go on with a run."""
    if options.resume is not None:
        output, start = options.resume, partial(_resume, options)
    elif options.retry:
        raise UsageError("--retry is for a run that goes on: name it with --resume")
    else:
        experiment = experiment_of(options)
        output = options.output or new_folder(experiment.dataset)
        if experiment.corpora:
            return run_suite(experiment, output, options)
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
        dataset_options=data_options(options, options.dataset),
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
    with closing(ProgressDisplay()) as display:
        how = {"on_download": display.download, "on_trial": display.bar}
        failures = evaluate_run(options.judged, options.tasks, options.plugin, **how)
    report_on(options.judged)
    return TRIAL_FAILED if failures else 0


def _option(name: str) -> str:
    """Return how an option is written whose value has this name."""
    if name == "data_options":
        return "an option of the data set"
    if name == "params":
        return "--param"
    flag = known_settings()[name].flag if name in known_settings() else ""
    return flag or f"--{name.replace('_', '-')}"


def _resume(options: argparse.Namespace, **how: Any) -> int:
    kept = known_settings().keys() - set(LIMITS)
    names = {"dataset", "data_options", "experiment", "algorithms", "params", "output"}
    for name in sorted(kept | names):
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
        dataset_options=data_options(options, dataset),
        learners=learners,
        quick=options.quick,
        params=options.params,
    )


def data_options(options: argparse.Namespace, dataset: str) -> dict[str, Any]:
    """Return the options of the data set that were given."""
    if not options.data_options:
        return {}
    return read_options(dataset, load_registry(options.plugin), dict(options.data_options))


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the options that were given."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def start_of(experiment: Experiment, output: Path, options: argparse.Namespace) -> partial[int]:
    """Return what runs an experiment into a new folder."""
    remarks = quick_note(options)
    return partial(run_experiment, experiment, output, plugin_files=options.plugin, remarks=remarks)


def run_each(
    experiments: Mapping[str, Experiment], what: str, folder: Path, options: argparse.Namespace
) -> int:
    """Run each of several experiments into a folder of its own, then show them side by side."""
    registry = load_registry(options.plugin)
    for one in experiments.values():  # before the first begins: this may raise
        open_dataset(one.dataset, registry, one.dataset_options)
    failed = 0
    for name, experiment in experiments.items():
        print(f"{name}:", flush=True)
        try:
            failed = max(failed, go_on(experiment, folder / name, options))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted: the same command with --output {folder} goes on"
            ) from None
    page, summary = load_reports().write_side_by_side(
        {name: folder / name for name in experiments}, folder, what
    )
    print(summary)
    print(f"report: {page}")
    return failed


def run_suite(suite: Experiment, folder: Path, options: argparse.Namespace) -> int:
    """Run a suite corpus by corpus and export each result; those that are there are skipped."""
    results, reports = results_folder(suite, folder), load_reports()
    corpora = one_for_each_value(suite)
    left = {
        name: one for name, one in corpora.items() if not has_result(results / f"{name}.csv", one)
    }
    print(f"{len(left)} of {len(corpora)} corpora have no result in {results} yet{_time(left)}")
    registry, failed = load_registry(options.plugin), 0
    for one in left.values():  # before the first begins: this may raise
        open_dataset(one.dataset, registry, one.dataset_options)
    for number, (name, experiment) in enumerate(left.items(), start=1):
        print(f"{name} ({number} of {len(left)}):", flush=True)
        try:
            failed = max(failed, go_on(experiment, folder / name, options, reported=False))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted: the same command with --output {folder} goes on"
            ) from None
        reports.export_run(folder / name, "summary", results)
    print(f"results: {results}: 'python -m oasis_bench ranks {results}' makes their page")
    return failed


def _time(experiments: Mapping[str, Experiment]) -> str:
    """Say how long experiments take, by the committed results or at most."""
    if not experiments:
        return ""
    expected, most = expected_seconds(experiments), most_seconds(experiments)
    if expected is not None:
        return f"; they took {expected / 3600:.1f} h on the machine of the committed results"
    return f"; at most {most / 3600:.1f} h, where each learner uses its whole budget"


def go_on(
    experiment: Experiment, output: Path, options: argparse.Namespace, reported: bool = True
) -> int:
    """Run an experiment into a folder, from where it stopped; nothing where it is finished."""
    match how_far(output, experiment):
        case "finished":
            print(f"{output} is finished")
            return 0
        case "begun":
            start = partial(resume_experiment, output, plugin_files=options.plugin)
        case "new":
            start = start_of(experiment, output, options)
    start = partial(start, keep=kept_kinds(options), command=command_words())
    return carry_out(start, output, options, reported)


def carry_out(
    start: Callable[..., int], output: Path, options: argparse.Namespace, reported: bool = True
) -> int:
    """Run trials into a folder, show their progress and make their report, unless not asked."""
    with closing(ProgressDisplay()) as display:
        try:
            failures = start(
                jobs=options.jobs,
                cluster=options.cluster,
                on_trial=display.trial,
                on_download=display.download,
                on_note=print_note,
            )
        except KeyboardInterrupt:
            plugins = [word for path in options.plugin for word in ("--plugin", str(path))]
            again = shlex.join(
                ["python", "-m", "oasis_bench", "run", "--resume", str(output), *plugins]
            )
            if display.done or (options.verb == "run" and options.resume):
                raise KeyboardInterrupt(
                    f"interrupted after {display.done} of {display.planned} trials; they are kept: "
                    f"'{again}' goes on, "
                    f"'python -m oasis_bench report {output}' makes their report"
                ) from None
            raise  # nothing was kept
    if reported:
        report_on(output)
    return TRIAL_FAILED if failures else 0


def kept_kinds(options: argparse.Namespace) -> list[str]:
    """Return what is kept of each trial in files."""
    wanted = {MODELS: options.save_models, PREDICTIONS: options.predictions}
    return [kind for kind, now in wanted.items() if now or _kept_before(options, kind)]


def _kept_before(options: argparse.Namespace, kind: str) -> bool:
    """Tell whether a run that goes on has kept models, or scores, so far."""
    return options.resume is not None and (options.resume / kind).is_dir()


def report_on(folder: Path, baseline: str | None = None) -> int:
    """Make the report of a run; what it says comes first."""
    reports, run = load_reports(), read_run(folder)
    reports.find_baseline(run, baseline)  # raises before anything is printed
    print(reports.summary_text(run), flush=True)  # figures take seconds more
    print(f"report: {reports.write_report(folder, baseline, run)}")
    return 0


def quick_note(options: argparse.Namespace) -> list[str]:
    """Say of a quick run that it is one, and name the command of the whole one."""
    if not options.quick:
        return []
    words = without_options(sys.argv[1:], ["--output"], switches=["--quick"])
    whole = shlex.join(["python", "-m", "oasis_bench", *words])
    return [f"{QUICK_REMARK}: {whole}"]


def print_note(line: str) -> None:
    """Print a line that is not a result."""
    with suppress(OSError):  # the report has it, too
        print(line, file=sys.stderr, flush=True)


def command_words() -> str:
    """Return the command line, for the report."""
    return shlex.join(["python", "-m", "oasis_bench", *sys.argv[1:]])
