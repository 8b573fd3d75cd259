"""The verbs of runs: `run` and `evaluate`, which run trials, and verbs that read stored runs.

They make an experiment from the options, and show its results, progress, files and report.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from scipy import sparse

from oasis_bench.analysis import compare_runs
from oasis_bench.command_line.options import EVERY_LEARNER, MODEL_SETTINGS
from oasis_bench.command_line.parsing import DATA_OPTIONS, joined_options
from oasis_bench.command_line.printed import add_rows
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.data import LabelledRows
from oasis_bench.experiment import (
    Experiment,
    LearnerSpec,
    changed,
    model_experiment,
    on_corpora,
    read_experiment,
    task_of_judgements,
)
from oasis_bench.plugins import Dataset, Registry, load_reports
from oasis_bench.runs import (
    How,
    evaluate_run,
    export_trec,
    go_on,
    new_run_folder,
    read_run,
    refuse_used_folder,
    resume_experiment,
)
from oasis_bench.system import Folder, UsageError, spelled, unknown_name, without_options

TRIAL_FAILED = GOT_WORSE = 1
NOT_COMPARED = 3


def run(options: argparse.Namespace) -> int:
    """Run an experiment, or each of several, or continue a run."""
    if options.resume is not None:
        return _resume(options)
    if options.retry:
        raise UsageError("--retry is for a run that is continued: name the run with --resume")
    experiment = experiment_of(options)
    return _run(experiment, options)


def evaluate(options: argparse.Namespace) -> int:
    """Evaluate a model on other data, or the kept scores of a run by other tasks."""
    if options.evaluated.is_dir():
        return _evaluate_run(options)
    if options.dataset is None:
        raise UsageError(f"{options.evaluated} needs data to be evaluated on: give --dataset")
    experiment = model_experiment(
        options.evaluated,
        options.dataset,
        options.plugin,
        dataset_options=data_options(options, options.dataset),
        **_given(options, MODEL_SETTINGS),
    )
    return _run(experiment, options)


def _run(experiment: Experiment, options: argparse.Namespace) -> int:
    folder = options.output or new_run_folder(experiment.dataset)
    if not experiment.one_for_each_value():
        refuse_used_folder(folder)
    report = partial(report_on, tables=options.tables)
    with closing(ProgressDisplay()) as display:
        ended = go_on(experiment, folder, how_of(options), display, report)
    if ended.result:
        print(ended.result)
    return TRIAL_FAILED if ended.failures else 0


def how_of(options: argparse.Namespace) -> How:
    """Return the options on how trials are run."""
    kinds = {Folder.MODELS: options.save_models, Folder.PREDICTIONS: options.predictions}
    return How(
        options.jobs,
        options.cluster,
        options.plugin,
        keep=[kind for kind, is_kept in kinds.items() if is_kept],
        command=_command(sys.argv[1:]),
        remarks=quick_note(options),
    )


def _evaluate_run(options: argparse.Namespace) -> int:
    others = {"dataset", "data_options", "output", "cluster", *MODEL_SETTINGS} - {"tasks"}
    _refuse_given(options, others, "is for a model: the scores of a run are of its own data")
    if options.jobs > 1:
        raise UsageError("--jobs is for a model: the scores of a run are evaluated one by one")
    if options.tasks is None:
        raise UsageError("the scores of a run are evaluated by tasks: name them with --tasks")
    with closing(ProgressDisplay()) as display:
        failures = evaluate_run(options.evaluated, options.tasks, options.plugin, display)
    report_on(options.evaluated, options.tables)
    return TRIAL_FAILED if failures else 0


def _resume(options: argparse.Namespace) -> int:
    kept = Experiment.settings().keys() - set(LearnerSpec.LIMITS)
    others = {"dataset", "data_options", "experiment", "algorithms", "corpora", "params", "output"}
    why = "cannot be given with --resume: a continued run keeps its settings"
    _refuse_given(options, kept | others, why)
    if options.quick:
        raise UsageError(f"--quick {why}")
    limits = _given(options, LearnerSpec.LIMITS)
    with closing(ProgressDisplay()) as display:
        failures = resume_experiment(
            options.resume, how_of(options), display, options.retry, limits
        )
    report_on(options.resume, options.tables)
    return TRIAL_FAILED if failures else 0


def _refuse_given(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise UsageError if one of these options was given."""
    for name in sorted(names):
        if getattr(options, name) not in (None, []):
            what = "an option of the data set" if name == "data_options" else spelled(name)
            raise UsageError(f"{what} {why}")


def experiment_of(options: argparse.Namespace) -> Experiment:
    """Read the experiment and apply the options of the command line."""
    experiment = options.experiment or read_experiment("default")
    if options.corpora is not None:
        if options.dataset is not None:
            raise UsageError("--corpora and --dataset both name data: leave one of them out")
        experiment = on_corpora(experiment, options.corpora)
    dataset = experiment.dataset if options.dataset is None else options.dataset
    given, names = data_options(options, dataset), options.algorithms
    if names == [EVERY_LEARNER]:
        own = experiment.dataset_options if dataset == experiment.dataset else {}
        names, left_out, *_ = _that_take(dataset, {**own, **given}, options.plugin)
        print(*left_out, sep="\n", end="\n" * bool(left_out), file=sys.stderr)
    known = experiment.learners
    return changed(
        experiment,
        _given(options, Experiment.settings()),
        dataset=options.dataset,
        dataset_options=given,
        learners=None if names is None else {it: known.get(it, LearnerSpec(it)) for it in names},
        quick=options.quick,
        params=options.params,
    )


def _that_take(
    dataset: str,
    of_data: Mapping[str, Any],
    plugin_files: list[Path],
    in_outline: bool = False,
) -> tuple[list[str], list[str], Dataset, LabelledRows]:
    """Name the learners that take the items of a data set; say why others are left out.

    Also return its rows, or their outline with only sizes and labels.
    """
    registry = Registry.load(plugin_files)
    names, left_out = [], []
    source = registry.open_dataset(dataset, of_data)
    with closing(ProgressDisplay()) as display:
        rows = source.load_checked(display.download, in_outline)
    for name in registry.algorithms:
        try:
            source.refuse_unless_taken_by(registry.algorithms[name], rows)
            names.append(name)
        except UsageError as error:
            left_out.append(f"left out: {error}")
    return names, left_out, source, rows


def data_options(options: argparse.Namespace, dataset: str) -> dict[str, Any]:
    """Return the options of the data set that were given."""
    if not options.data_options:
        return {}
    return Registry.load(options.plugin).read_options(dataset, joined_options(options.data_options))


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return the given options among these."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def report_on(folder: Path, tables: bool = False, baseline: str | None = None) -> int:
    """Make the report of a run; its answer comes first, and its `tables` if they are requested."""
    reports, run = load_reports(), read_run(folder)
    if baseline is not None and baseline not in run.info.experiment.learners:
        raise UsageError(unknown_name("baseline", baseline, run.info.experiment.learners))
    print(reports.summary_text(run) if tables else reports.answer_text(run), flush=True)
    print(f"report: {reports.write_report(folder, baseline, run)}")  # figures take seconds
    add_rows(lambda: reports.result_rows(run).assign(folder=str(folder)))
    return 0


def quick_note(options: argparse.Namespace) -> list[str]:
    """Return a note on a quick run, with the command of the full run."""
    if not options.quick:
        return []
    words = without_options(sys.argv[1:], ["--output"], switches=["--quick"])
    return [f"{Experiment.QUICK_REMARK}: {_command(words)}"]


def _command(words: Iterable[str]) -> str:
    """Write a command as a shell takes it."""
    return shlex.join(["python", "-m", "oasis_bench", *words])


def report(options: argparse.Namespace) -> int:
    """Remake the report of a run."""
    return report_on(options.run, options.tables, options.baseline)


def judge(options: argparse.Namespace) -> int:
    """Write the rating page of a run, or collect ratings and remake the run's report."""
    reports, of_page = load_reports(), ("queries", "candidates", "output")
    if options.collect:
        _refuse_given(options, of_page, "is for the page: leave it out with --collect")
        summary = reports.collect_ratings(options.run, options.collect)
        report_on(options.run)
        print(summary)
        return 0
    page, summary = reports.write_rating_page(options.run, **_given(options, of_page))
    print(summary)
    print(f"page: {page}")
    return 0


def ranks(options: argparse.Namespace) -> int:
    """Write the leaderboard of several runs."""
    reports = load_reports()
    how = options.task, options.measure, options.baseline
    page, summary, rows = reports.write_ranks(options.runs, options.output, *how)
    add_rows(lambda: rows)
    print(summary)
    print(f"report: {page}")
    return 0


MEASURE = "To measure it on this data:\n  "
"""Before the command that compares all learners."""


def recommend(options: argparse.Namespace) -> int:
    """Recommend a learner for data of this kind and size, by the results of the suite."""
    if options.what != "algorithms":
        raise UsageError("--for is for learners: 'list algorithms --for FILE'")
    words = ["run", "--dataset", options.dataset, "--algorithms", "all"]
    short = {name.replace("-", "_"): f"--{name}" for name, *_ in DATA_OPTIONS}
    for name, value in options.data_options:
        words += [short[name], value] if name in short else ["--data-option", f"{name}={value}"]
    words += [word for file in options.plugin for word in ("--plugin", str(file))]
    every = _command(words)
    suite = read_experiment("suite")
    results = options.results or load_reports().SUITE
    if results.is_dir() and not any(results.iterdir()):
        raise UsageError(
            f"no results of the suite in {results}: leave --results out, or try all learners on "
            f"this data: {every}"
        )
    given = data_options(options, options.dataset)
    names, _, source, rows = _that_take(options.dataset, given, options.plugin, in_outline=True)
    registry = Registry.load(options.plugin)
    if (task := task_of_judgements(rows)) is not None:
        words += ["--tasks", task]
        learners = [registry.algorithms[name] for name in names]
        from_them = [it.name for it in learners if it.takes_triplets and rows.judged is not None]
        from_them += [it.name for it in learners if it.takes_pairs and task == "verification"]
        print(
            f"These items have judgements, for the task {task}: the suite has no results of it. "
            f"Learners that learn from such judgements: {', '.join(from_them) or 'none'}."
        )
        print(MEASURE + _command(words))
        return 0
    reports, of_data = load_reports(), (source.items, str(given.get("features", "")), rows)
    rows = replace(rows, X=rows.prepared(), encoding=None)

    def no_task(name: str) -> str | None:
        if name not in registry.tasks:  # a task of another plugin
            return None
        task, n_classes = registry.tasks[name](), len(rows.class_names)
        split = registry.splits[task.split](suite).for_rows(rows)
        needed = next(filter(split.can_tune, count(n_classes)))
        few = f"has {n_classes} classes, and {needed} are needed" if n_classes < needed else None
        reason = few or split.refusal(rows)
        return f"it {reason}" if reason else task.refusal(rows)

    def no_learner(name: str) -> str | None:
        learner = registry.algorithms[name]()
        items = rows.items(learner.takes)
        if sparse.issparse(items) and not learner.takes_sparse:
            return None  # it would learn from a projection, which is not made here
        return learner.refusal(items, rows.y)

    print(reports.recommend([results], names, *of_data, no_task, no_learner))
    print(MEASURE + every)
    return 0


def compare(options: argparse.Namespace) -> int:
    """Print changes for the better or worse; the status shows them, too."""
    if not 0 <= options.tolerance < math.inf:
        raise UsageError(f"--tolerance: '{options.tolerance}': a share of at least 0 is needed")
    old, new = read_run(options.old), read_run(options.new)
    lines, notes = compare_runs(old, new, options.tolerance)
    add_rows(lambda: lines)
    runs = {f"OLD {options.old}": old, f"NEW {options.new}": new}
    print(load_reports().comparison_text(lines, notes, runs, options.tolerance))
    if lines["verdict"].eq("worse").any():
        return GOT_WORSE
    return 0 if lines["verdict"].ne("not judged").any() else NOT_COMPARED


def export(options: argparse.Namespace) -> int:
    """Write the numbers of a run for other programs, and print the paths."""
    if options.format == "trec":
        output = options.output or Folder(options.run).path(Folder.EXPORT)
        with closing(ProgressDisplay()) as display:
            paths = export_trec(options.run, output, options.plugin, display)
    else:
        paths = load_reports().export_run(options.run, options.format, options.output)
    for path in paths:
        print(path)
    return 0
