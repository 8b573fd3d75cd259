"""The verbs of runs: `run` and `evaluate`, which carry them out, and those that read stored ones.

Which experiment the options make, where its results go, its progress, kept files and report.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import oasis_bench
from oasis_bench.analysis import compare_runs
from oasis_bench.command_line.options import EVERY_LEARNER, MODEL_SETTINGS, make_parser
from oasis_bench.command_line.parsing import DATA_OPTIONS, joined_options
from oasis_bench.command_line.progress import ProgressDisplay, in_words
from oasis_bench.data import LabelledRows, Scaling
from oasis_bench.experiment import (
    Experiment,
    LearnerSpec,
    package_hash,
    saved_steps,
    task_of_judgements,
    tasks_by_option,
)
from oasis_bench.plugins import Dataset, Registry, learner_of, load_model_of, load_reports
from oasis_bench.runs import (
    evaluate_run,
    export_trec,
    has_run,
    new_run_folder,
    read_run,
    resume_experiment,
    run_experiment,
)
from oasis_bench.system import Folder, OutputError, UsageError, without_options

PUBLISHED = Path(oasis_bench.__file__).resolve().parents[1] / "docs" / "results" / "suite"
"""The committed results of a checkout."""

TRIAL_FAILED = GOT_WORSE = 1
NOT_COMPARED = 3


def run(options: argparse.Namespace) -> int:
    """Run an experiment, or each of several, or continue a run."""
    if options.resume is not None:
        return _resume(options)
    if options.retry:
        raise UsageError("--retry is for a run that is continued: name the run with --resume")
    experiment = experiment_of(options)
    folder = options.output or new_run_folder(experiment.dataset)
    if experiment.corpora:
        return _run_suite(experiment, folder, options)
    if experiment.one_for_each_value():
        return go_on(experiment, folder, options)
    return _run_into(folder, _new_run(experiment, folder, options), options)


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
    folder = options.output or new_run_folder(experiment.dataset)
    return _run_into(folder, partial(run_experiment, experiment, folder), options)


def model_experiment(
    model: Path, dataset: str, plugin_files: Sequence[Path] = (), **settings: Any
) -> Experiment:
    """Return the experiment that evaluates a saved model on a data set, of a name or a path.

    The learner's label is the name of the model's file, without its end.  `settings` are fields of
    `Experiment`; those that are not given have its defaults, but `classes` is all, and the scaling
    is that of the model's file, where it holds one.  Where all tasks are of judgements, and neither
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
    if own is None or experiment.scaling == (own.name,):
        return experiment
    if experiment.scaling is not None:
        raise UsageError(f"{model} has its own scaling, {own.name}: leave --scaling out")
    return replace(experiment, scaling=(own.name,))


def _evaluate_run(options: argparse.Namespace) -> int:
    others = {"dataset", "data_options", "output", "cluster", *MODEL_SETTINGS} - {"tasks"}
    _refuse_given(options, others, "is for a model: the scores of a run are of its own data")
    if options.tasks is None:
        raise UsageError("the scores of a run are evaluated by tasks: name them with --tasks")
    with closing(ProgressDisplay()) as display:
        how = {"on_download": display.download, "on_trial": display.bar}
        failures = evaluate_run(options.evaluated, options.tasks, options.plugin, **how)
    report_on(options.evaluated, options.tables)
    return TRIAL_FAILED if failures else 0


def _resume(options: argparse.Namespace) -> int:
    kept = Experiment.settings().keys() - set(LearnerSpec.LIMITS)
    others = {"dataset", "data_options", "experiment", "algorithms", "params", "output"}
    why = "cannot be given with --resume: a continued run keeps its settings"
    _refuse_given(options, kept | others, why)
    how = {"retry": options.retry, "limits": _given(options, LearnerSpec.LIMITS)}
    return _run_into(options.resume, partial(resume_experiment, options.resume, **how), options)


def _refuse_given(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise UsageError where one of these options was given."""
    called = {name: one.flag for name, one in Experiment.settings().items()}
    called |= {"data_options": "an option of the data set", "params": "--param"}
    for name in sorted(names):
        if getattr(options, name) not in (None, []):
            raise UsageError(f"{called.get(name) or '--' + name.replace('_', '-')} {why}")


def experiment_of(options: argparse.Namespace) -> Experiment:
    """Read the experiment and put the options of the command line over it."""
    experiment = options.experiment or Experiment.from_toml("default")
    dataset = experiment.dataset if options.dataset is None else options.dataset
    given, names = data_options(options, dataset), options.algorithms
    if names == [EVERY_LEARNER]:
        own = experiment.dataset_options if dataset == experiment.dataset else {}
        names, left_out, *_ = _that_take(dataset, {**own, **given}, options.plugin)
        print(*left_out, sep="\n", end="\n" * bool(left_out), file=sys.stderr)
    known = experiment.learners
    return experiment.changed(
        _given(options, Experiment.settings()),
        dataset=dataset,
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

    Its rows are returned too, or their outline, which has the sizes and labels alone.
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
    """Return those of the options that were given."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _new_run(experiment: Experiment, folder: Path, options: argparse.Namespace) -> partial[int]:
    return partial(run_experiment, experiment, folder, remarks=quick_note(options))


def _run_suite(suite: Experiment, folder: Path, options: argparse.Namespace) -> int:
    """Run a suite corpus by corpus and export each result; those that are there are skipped."""
    results, corpora = results_folder(suite, folder), suite.one_for_each_value()
    left = {
        name: one for name, one in corpora.items() if not has_result(results / f"{name}.csv", one)
    }
    print(f"{len(left)} of {len(corpora)} corpora have no result in {results} yet")
    if not options.quick and (seconds := expected_seconds(left)):
        print(f"estimate from the published results: {in_words(seconds)}")
    export = partial(load_reports().export_run, kind="summary", output=results)
    failed = _go_on_with_each(left, folder, options, export)
    if results.is_dir():
        print(f"results: {results}: 'python -m oasis_bench ranks {results}' makes their page")
    return failed


def results_folder(suite: Experiment, output: Path) -> Path:
    """Return where the results of a suite are exported: the committed ones, or below `output`.

    Only the whole built-in suite, in a checkout, replaces committed results.
    """
    is_whole = suite.built_in is not None and suite == Experiment.from_toml(suite.built_in)
    return PUBLISHED if is_whole and PUBLISHED.is_dir() else output / "results"


def has_result(file: Path, experiment: Experiment) -> bool:
    """Return whether there is a result of this protocol, these learners and the present code.

    Beside it `equal-code.txt` may list versions of the code, a hash and a reason in each line, that
    were measured to give the same results.  If the present code is listed, results of all count.
    """
    if not file.is_file():
        return False
    rows, listed = pd.read_csv(file), file.parent / "equal-code.txt"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    now, equal = package_hash(), {line.split()[0] for line in lines if line.strip()}
    codes = equal if now in equal else {now}
    wanted = {"protocol": {experiment.protocol}, "learner": set(experiment.learners)}
    are_equal = all(name in rows and set(rows[name]) == it for name, it in wanted.items())
    return are_equal and "code" in rows and set(rows["code"]) <= codes


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


def _go_on_with_each(
    experiments: Mapping[str, Experiment],
    folder: Path,
    options: argparse.Namespace,
    export: Callable[[Path], object] | None = None,
) -> int:
    """Continue each of several experiments, and report or `export` it; return the status.

    One that is to be exported and cannot run, for instance as its data is missing, is left out.
    """
    registry, failed = Registry.load(options.plugin), 0
    for name, one in experiments.items():  # before the first begins: this may raise
        how_far(folder / name, one)
        registry.open_dataset(one.dataset, one.dataset_options)
        for spec in one.learners.values():
            registry.algorithms[spec.algorithm]
    for number, (name, one) in enumerate(experiments.items(), start=1):
        print(f"{name} ({number} of {len(experiments)}):", flush=True)
        try:
            if export is None:
                failed = max(failed, go_on(one, folder / name, options))
                continue
            status, why = go_on_or_leave_out(name, one, folder, options, reported=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted: repeat the command with --output {folder} to continue"
            ) from None
        failed = max(failed, status)
        if not why:
            export(folder / name)
    return failed


def go_on_or_leave_out(
    name: str,
    experiment: Experiment,
    folder: Path,
    options: argparse.Namespace,
    reported: bool = True,
) -> tuple[int, str]:
    """Do as `go_on` does in `folder` / `name`; return also why it is left out, if it cannot run."""
    try:
        return go_on(experiment, folder / name, options, reported), ""
    except OutputError:
        raise
    except UsageError as error:
        why = f"{name} is left out: {error}"
        print(f"oasis-bench: {why}", file=sys.stderr)
        return TRIAL_FAILED, why


def go_on(
    experiment: Experiment, folder: Path, options: argparse.Namespace, reported: bool = True
) -> int:
    """Run an experiment into a folder, from where it stopped; nothing if it is finished.

    If it has a list of values, each is run in a separate folder, and then shown side by side.
    """
    if several := experiment.one_for_each_value():
        failed = _go_on_with_each(several, folder, options)
        folders = {name: folder / name for name in several}
        (what,) = experiment.lists_of_values
        print(f"report: {load_reports().write_side_by_side(folders, folder, what)}")
        return failed
    state = how_far(folder, experiment)
    if state == "finished":
        print(f"{folder} is finished")
        return 0
    begun = partial(resume_experiment, folder)
    start = begun if state == "begun" else _new_run(experiment, folder, options)
    return _run_into(folder, start, options, reported)


def how_far(folder: Path, experiment: Experiment) -> Literal["new", "begun", "finished"]:
    """Tell how far the run of an experiment in a folder is; a run of another one is refused."""
    if not has_run(folder):
        return "new"
    info = read_run(folder).info
    before, now = info.experiment, experiment.settled_as(info.experiment)
    if before != now:
        names = [one.name for one in fields(now)]
        changed = [name for name in names if getattr(now, name) != getattr(before, name)]
        raise UsageError(
            f"{folder} has a run with other settings ({', '.join(changed)}): choose another "
            "--output, or give the settings of that run to continue it"
        )
    return "begun" if info.finished is None else "finished"


def _run_into(
    folder: Path, start: Callable[..., int], options: argparse.Namespace, reported: bool = True
) -> int:
    """Run trials as the options say, and make their report, unless not asked."""
    kinds = {Folder.MODELS: options.save_models, Folder.PREDICTIONS: options.predictions}
    before = options.resume  # a continued run keeps what it has kept so far
    failures = ProgressDisplay().carry_out(
        start,
        folder,
        jobs=options.jobs,
        cluster=options.cluster,
        plugin_files=options.plugin,
        keep=[it for it, on in kinds.items() if on or (before and (before / it).is_dir())],
        command=_command(_words_of(options)),
    )
    if reported:
        report_on(folder, options.tables)
    return TRIAL_FAILED if failures else 0


def report_on(folder: Path, tables: bool = False, baseline: str | None = None) -> int:
    """Make the report of a run; its answer comes first, and its `tables` if they are requested."""
    reports, run = load_reports(), read_run(folder)
    reports.refuse_baseline(run, baseline)  # before anything is printed
    print(reports.summary_text(run) if tables else reports.answer_text(run), flush=True)
    print(f"report: {reports.write_report(folder, baseline, run)}")  # figures take seconds
    return 0


def quick_note(options: argparse.Namespace) -> list[str]:
    """Say of a quick run that it is one, and name the command of the whole one."""
    if not options.quick:
        return []
    words = without_options(_words_of(options), ["--output"], switches=["--quick"])
    return [f"{Experiment.QUICK_REMARK}: {_command(words)}"]


def _words_of(options: argparse.Namespace) -> Sequence[str]:
    """Return the words of the command: as typed, or those that another command made."""
    words: Sequence[str] = getattr(options, "words", sys.argv[1:])
    return words


def _command(words: Iterable[str]) -> str:
    """Write a command as a shell takes it."""
    return shlex.join(["python", "-m", "oasis_bench", *words])


def report(options: argparse.Namespace) -> int:
    """Remake the report of a run."""
    return report_on(options.run, options.tables, options.baseline)


def judge(options: argparse.Namespace) -> int:
    """Write the rating page of a run, or collect ratings and remake the run's report."""
    reports = load_reports()
    given = {"n_queries": options.queries, "n_candidates": options.candidates}
    given |= {"output": options.output}
    of_page = {name: value for name, value in given.items() if value is not None}
    if options.collect:
        if of_page:
            name = next(iter(of_page)).removeprefix("n_")
            raise UsageError(f"--{name} is for the page: leave it out with --collect")
        summary = reports.collect_ratings(options.run, options.collect)
        report_on(options.run)
        print(summary)
        return 0
    page, summary = reports.write_rating_page(options.run, **of_page)
    print(summary)
    print(f"page: {page}")
    return 0


def ranks(options: argparse.Namespace) -> int:
    """Write the leaderboard of several runs."""
    reports = load_reports()
    how = options.task, options.measure, options.baseline
    page, summary = reports.write_ranks(options.runs, options.output, *how)
    print(summary)
    print(f"report: {page}")
    return 0


def recommend(options: argparse.Namespace) -> int:
    """Print which learner to take for data of this kind and size, by the results of the suite."""
    if options.what != "algorithms":
        raise UsageError("--for is for learners: 'list algorithms --for FILE'")
    words = ["run", "--dataset", options.dataset, "--algorithms", "all"]
    short = {name.replace("-", "_"): f"--{name}" for name, *_ in DATA_OPTIONS}
    for name, value in options.data_options:
        words += [short[name], value] if name in short else ["--data-option", f"{name}={value}"]
    words += [word for file in options.plugin for word in ("--plugin", str(file))]
    every = _command(words)
    suite = Experiment.from_toml("suite")
    results = options.results or results_folder(suite, Path("runs/suite"))
    if not any(results.glob("*")):
        raise UsageError(
            f"no results of the suite in {results}: name a folder of them with --results, or try "
            f"all learners on this data: {every}"
        )
    given = data_options(options, options.dataset)
    names, _, source, rows = _that_take(options.dataset, given, options.plugin, in_outline=True)
    registry = Registry.load(options.plugin)
    if (task := task_of_judgements(rows)) is not None:
        if not tasks_by_option(given):
            words += ["--tasks", task]
        learners = [registry.algorithms[name] for name in names]
        from_them = [it.name for it in learners if it.takes_triplets and rows.judged is not None]
        from_them += [it.name for it in learners if it.takes_pairs and task == "verification"]
        print(
            f"These items have judgements, for the task {task}: the suite has no results of it. "
            f"Learners that learn from such judgements: {', '.join(from_them) or 'none'}."
        )
        return _to_measure(words, options)
    reports, of_data = load_reports(), (source.items, str(given.get("features", "")), rows)
    rows = replace(rows, X=rows.prepared(), encoding=None)

    def no_task(name: str) -> str | None:
        if name not in registry.tasks:  # of the plugin of another
            return None
        task, n_classes = registry.tasks[name](), len(rows.class_names)
        split = registry.splits[task.split](suite).for_rows(rows)
        needed = next(filter(split.can_tune, count(n_classes)))
        few = f"has {n_classes} classes, and {needed} are needed" if n_classes < needed else None
        reason = few or split.refusal(rows)
        return f"it {reason}" if reason else task.refusal(rows)

    def no_learner(name: str) -> str | None:
        learner = registry.algorithms[name]()
        return learner.refusal(rows.items(learner.takes), rows.y)

    print(reports.recommend([results], names, *of_data, no_task, no_learner))
    return _to_measure(words, options)


def _to_measure(words: list[str], options: argparse.Namespace) -> int:
    """Print the command that compares all learners on the data; with --try, run it quickly."""
    print(f"To measure it on this data:\n  {_command(words)}", flush=True)
    if not options.trial:
        return 0
    words.append("--quick")
    return run(make_parser().parse_args(words, argparse.Namespace(words=words)))


def compare(options: argparse.Namespace) -> int:
    """Print what got better or worse; the status says it, too."""
    if not 0 <= options.tolerance < math.inf:
        raise UsageError(f"--tolerance: '{options.tolerance}': a share of at least 0 is needed")
    old, new = read_run(options.old), read_run(options.new)
    lines, notes = compare_runs(old, new, options.tolerance)
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
            shown = display.download, display.bar
            paths = export_trec(options.run, output, *shown, options.plugin)
    else:
        paths = load_reports().export_run(options.run, options.format, options.output)
    for path in paths:
        print(path)
    return 0
