"""The verb `paper`: the experiments that decide the papers' claims, and the page of verdicts."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from oasis_bench.claims.papers import experiments
from oasis_bench.command_line.carrying_out import TRIAL_FAILED, go_on, print_note, run_each
from oasis_bench.experiment.quick import quick_settings
from oasis_bench.experiment.settings import Experiment
from oasis_bench.plugins.registry import load_reports
from oasis_bench.runner.several import one_for_each_value, what_varies
from oasis_bench.system.errors import OutputError, UsageError, unknown_name

QUICK_STEPS = 8_000
"""The end of the search for steps in a quick run: fewer than `run --quick` has."""


def run_paper(options: argparse.Namespace) -> int:
    """Run the experiments one after the other; the page is written after each.

    One that cannot run, as its data is not to be had, is told and left out.
    """
    names = options.experiments or experiments()
    for name in names:
        if name not in experiments():
            raise UsageError(f"--experiments: {unknown_name('experiment', name, experiments())}")
    output = options.output or Path("runs") / ("paper-quick" if options.quick else "paper")
    status, page, summary = 0, None, ""
    for number, name in enumerate(names, 1):
        experiment = Experiment.from_toml(name)
        print(f"{name} ({number} of {len(names)}): {experiment.title}", flush=True)
        if options.quick:
            quick = {**quick_settings(experiment), "max_steps": QUICK_STEPS}
            experiment = replace(experiment, **quick)
        try:
            status = max(status, _run(experiment, output / name, options))
        except OutputError:
            raise
        except UsageError as error:
            print_note(f"oasis-bench: {name} is left out: {error}")
            status = TRIAL_FAILED
        except KeyboardInterrupt:
            words = ["python", "-m", "oasis_bench", "paper", *["--quick"] * options.quick]
            again = shlex.join([*words, "--output", str(output)])
            raise KeyboardInterrupt(f"interrupted: '{again}' goes on") from None
        page, summary = load_reports().write_claims(output)
    print(summary)
    print(f"report: {page}")
    return status


def _run(experiment: Experiment, folder: Path, options: argparse.Namespace) -> int:
    if several := one_for_each_value(experiment):
        return run_each(several, what_varies(experiment), folder, options)
    return go_on(experiment, folder, options)
