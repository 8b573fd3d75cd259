"""What each verb of the command line does and prints.  Not its options, nor what errors look like.

Importing this takes a second: `oasis_bench.command_line.main` does so when the options are right.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from oasis_bench.analysis.comparison import compare_runs
from oasis_bench.command_line.description import facts_of, facts_of_rows
from oasis_bench.command_line.listing import aligned, learner_lines, plugin_rows
from oasis_bench.experiment.settings import Experiment, LearnerSpec, built_in_experiments
from oasis_bench.plugins.registry import (
    OF_PATHS,
    BrokenPluginError,
    load_registry,
    load_reports,
    open_dataset,
)
from oasis_bench.runner.merge import merge_runs
from oasis_bench.runner.run import resume_experiment, run_experiment
from oasis_bench.store.run_file import read_run
from oasis_bench.system.errors import UsageError
from oasis_bench.system.provenance import available_cores
from oasis_bench.system.quick_imports import no_collections

TRIAL_FAILED = 1
GOT_WORSE = 1
NOT_COMPARED = 3

LIMITS = {"budget", "memory"}


def _run(options: argparse.Namespace) -> int:
    command = shlex.join(["python", "-m", "oasis_bench", *sys.argv[1:]])
    if options.resume is not None:
        output, start = options.resume, partial(_resume, options)
    elif options.retry:
        raise UsageError("--retry is for a run that goes on: name it with --resume")
    else:
        experiment = _experiment(options)
        stem = Path(experiment.dataset).stem
        output = options.output or Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
        start = partial(run_experiment, experiment, output, plugin_files=options.plugin)
    with _Display() as display:
        try:
            failures = start(
                jobs=options.jobs,
                cluster=options.cluster,
                on_trial=display.trial,
                on_download=display.download,
                command=command,
            )
        except KeyboardInterrupt:
            if display.done or options.resume:
                raise KeyboardInterrupt(
                    f"interrupted after {display.done} of {display.planned} trials; they are kept: "
                    f"'python -m oasis_bench run --resume {output}' goes on, "
                    f"'python -m oasis_bench report {output}' makes their report"
                ) from None
            raise  # nothing was kept
    _report_on(output)
    return TRIAL_FAILED if failures else 0


def _resume(options: argparse.Namespace, **how: Any) -> int:
    settings = {*Experiment.__dataclass_fields__, "experiment", "algorithms", "output", "plugin"}
    for name in sorted(settings - LIMITS):
        if getattr(options, name, None) not in (None, []):
            raise UsageError(
                f"{name} cannot be given with --resume: a run that goes on keeps its settings"
            )
    limits = _limits(options)
    return resume_experiment(options.resume, retry=options.retry, limits=limits, **how)


def _experiment(options: argparse.Namespace) -> Experiment:
    """Read the experiment and put the options of the command line over it."""
    experiment = Experiment.from_toml(options.experiment or "default")
    changes = {
        name: value
        for name in Experiment.__dataclass_fields__.keys() - LIMITS
        if (value := getattr(options, name, None)) is not None
    }
    if options.algorithms is not None:
        known = experiment.learners
        changes["learners"] = {
            name: known.get(name, LearnerSpec(name)) for name in options.algorithms
        }
    if changes.get("dataset", experiment.dataset) != experiment.dataset:
        changes["title"] = Path(changes["dataset"]).name
        changes.setdefault("classes", ("all",))  # those of the file are for its own data set
    return replace(experiment, **changes).limited(_limits(options))


def _limits(options: argparse.Namespace) -> dict[str, str]:
    given = {name: getattr(options, name) for name in LIMITS}
    return {name: value for name, value in given.items() if value is not None}


def _report(options: argparse.Namespace) -> int:
    _report_on(options.run)
    return 0


def _ranks(options: argparse.Namespace) -> int:
    page, summary = load_reports().write_ranks(options.runs, options.output)
    print(summary)
    print(f"report: {page}")
    return 0


def _report_on(folder: Path) -> None:
    reports = load_reports()
    page = reports.write_report(folder)
    print(reports.summary_text(read_run(folder)))
    print(f"report: {page}")


def _compare(options: argparse.Namespace) -> int:
    old, new = read_run(options.old), read_run(options.new)
    comparison = compare_runs(old, new, options.tolerance)
    print(
        load_reports().comparison_text(
            comparison, {f"OLD {options.old}": old, f"NEW {options.new}": new}
        )
    )
    if comparison.count("worse"):
        return GOT_WORSE
    return 0 if comparison.n_judged else NOT_COMPARED


def _merge(options: argparse.Namespace) -> int:
    n_trials = merge_runs(options.runs, options.into)
    _report_on(options.into)
    print(f"merged: {n_trials} trials of {len(options.runs)} runs")
    return 0


def _export(options: argparse.Namespace) -> int:
    for path in load_reports().export_run(options.run, options.format, options.output):
        print(path)
    return 0


def _list(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    tables: dict[str, Callable[[], list[str]]] = {
        "algorithms": lambda: learner_lines(registry.algorithms),
        "datasets": lambda: aligned(plugin_rows(registry.datasets)),
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


def _data_list(options: argparse.Namespace) -> int:
    for entry in load_registry(options.plugin).datasets:
        try:
            dataset = entry.load()
        except BrokenPluginError as error:
            print(f"{entry.name}: BROKEN: {error}")
            continue
        where = "of yours" if entry.name in OF_PATHS else dataset().location() or "not here yet"
        print(f"{entry.name}: {dataset.summary}\n    here: {where}\n    {dataset.home}")
    return 0


def _data_load(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    dataset = open_dataset(
        options.dataset, registry, options.label, options.visterms, options.block
    )
    if options.verb == "data describe":
        _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print(f"its rows: not here yet: 'data prepare {options.dataset}' gets them")
            return 0
    with _Display() as display:
        rows = dataset.load(display.download)
    _print_facts(facts_of_rows(dataset, rows))
    return 0


def _web_scale(options: argparse.Namespace) -> int:
    from oasis_bench.web_scale.training import Checkpoint, Training, open_data, train, trainings

    n_threads = options.threads or available_cores()
    planned = trainings(options.images, options.batch, options.seeds, options.steps_per_image)

    def tell(training: Training, point: Checkpoint) -> None:
        display.line(
            f"{training.name}: {point.n_steps:,} steps, {point.learn_seconds:,.0f} s, "
            f"mAP {point.mean_average_precision:.4f} ± {point.standard_error:.4f}"
        )

    with _Display() as display:
        data = open_data(
            max(options.images), options.test_images, options.visterms, display.download
        )
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
    "report": _report,
    "compare": _compare,
    "merge": _merge,
    "export": _export,
    "ranks": _ranks,
    "list": _list,
    "data list": _data_list,
    "data describe": _data_load,
    "data prepare": _data_load,
    "web-scale": _web_scale,
}


class _Display:
    """Progress: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._under_way: str | None = None

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def trial(self, columns: dict[str, Any], done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins."""
        self.done, self.planned = done, planned
        if done == 0:
            self._open(desc="trials", total=planned, unit="trial")
            with no_collections():  # now: what trials are forked off imports, too
                load_reports()
            return
        name = (
            f"{columns['learner']}, classes {columns['subset']}, partition {columns['partition']}"
        )
        problem = "" if columns["status"] == "ok" else f": {columns['status']}, {columns['reason']}"
        if self._live:
            if problem:
                self.line(name + problem)
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update()
        else:
            figures = problem or (
                f": mAP {columns['mean_average_precision']:.3f}, fit {columns['fit_seconds']:.3g} s"
            )
            print(f"[{done}/{planned}] {name}{figures}", file=sys.stderr)

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        if what != self._under_way and not self._live:
            print(what, file=sys.stderr)
        self.bar(what, done, total)

    def bar(self, what: str, done: int, total: int | None) -> None:
        """Show how far something is, on a terminal alone."""
        if what != self._under_way:
            self._under_way = what
            self._open(desc=what, total=total, unit="", unit_scale=True)
        if self._live:
            self._bar.update(done - self._bar.n)

    def line(self, text: str) -> None:
        """Show a line above the bar."""
        if self._live:
            tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)

    def _open(self, **bar: Any) -> None:
        self.close()
        if self._live:
            self._bar = tqdm(**bar, file=sys.stderr, dynamic_ncols=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None
