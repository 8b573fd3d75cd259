"""Carry out experiments: their progress, what is kept, their reports; not which ones.

For the verbs that run trials.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from oasis_bench.command_line.progress import Display
from oasis_bench.experiment import QUICK_REMARK, Experiment
from oasis_bench.plugins import load_registry, load_reports, open_dataset
from oasis_bench.runs import how_far, read_run, resume_experiment, run_experiment
from oasis_bench.system import without_options
from oasis_bench.trial import MODELS, PREDICTIONS

TRIAL_FAILED = 1


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


def go_on(experiment: Experiment, output: Path, options: argparse.Namespace) -> int:
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
    return carry_out(start, output, options)


def carry_out(start: Callable[..., int], output: Path, options: argparse.Namespace) -> int:
    """Run trials into a folder, show their progress and make their report."""
    with closing(Display()) as display:
        try:
            failures = start(
                jobs=options.jobs,
                cluster=options.cluster,
                on_trial=display.trial,
                on_download=display.download,
                on_note=print_note,
                on_plan=display.plan,
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
