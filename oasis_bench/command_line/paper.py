"""The verb `paper`: the experiments that decide the papers' claims, and the page of verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from oasis_bench.claims import CHALLENGES, experiments, on_papers_classes
from oasis_bench.command_line.running import (
    TRIAL_FAILED,
    go_on,
    print_note,
    quick_note,
    run_each,
)
from oasis_bench.experiment import Experiment, quick_settings
from oasis_bench.plugins import load_registry, load_reports
from oasis_bench.runs import one_for_each_value, what_varies
from oasis_bench.system import OutputError, UsageError, available_cores, unknown_name

QUICK = {"partitions": 1, "max_steps": 8_000, "threads": 1}
"""What is smaller than in `run --quick`: the results of neither are evidence.

Trials are side by side, one on each core."""

QUICK_JOBS = 8
"""Trials at a time, at most: those of networks take some 1 GB of memory each."""

QUICK_PATCHES = {"max_classes": 20, "features": "lab"}
"""Options of data sets with patches: those of all classes take minutes.  The rows are not used, and
LAB colours are the fastest.  Experiments of 10 and of 20 classes share the same patches."""

QUICK_PIXELS = {"pixels": 64, "max_triplets": 300}
"""Options of data sets with pixels: a sixth of the pixels of 160, and a third of the pictures."""

QUICK_TRIPLETS = 3_200
"""The most that a learner's parameter `n_triplets` may be in a quick run."""


def run_paper(options: argparse.Namespace) -> int:
    """Run the experiments one after the other; the page is written after each.

    One that cannot run, as its data is not to be had, is reported and left out.
    """
    if options.quick and (options.second_look or options.challenge):
        name = "--second-look" if options.second_look else "--challenge"
        raise UsageError(f"{name} is not for --quick, whose one partition tells nothing")
    if options.quick:
        options.jobs = min(available_cores(), QUICK_JOBS)  # its times are no evidence either
    names = options.experiments or experiments()
    for name in names:
        if name not in experiments():
            raise UsageError(f"--experiments: {unknown_name('experiment', name, experiments())}")
    for name in options.challenge:
        if name not in CHALLENGES:
            raise UsageError(f"--challenge: {unknown_name('challenge', name, CHALLENGES)}")
    output = options.output or Path("runs") / ("paper-quick" if options.quick else "paper")
    planned = {name: paper_experiment(name, options.quick) for name in names}
    reports, remarks = load_reports(), quick_note(options)
    try:
        failed = _run_all(planned, output, output, options, remarks)
        if options.second_look:
            again = {
                name: replace(planned[name], partitions=n, seed=planned[name].seed + 1)
                for name, n in reports.second_look(output).items()
                if planned.get(name) is not None and planned[name].partitions is not None
            }
            failed |= _run_all(again, output / reports.SECOND_LOOK, output, options, remarks)
        for challenge in options.challenge:
            changed = {name: CHALLENGES[challenge](one) for name, one in planned.items()}
            own = {name: one for name, one in changed.items() if one is not None}
            print(f"challenge: other {challenge}")
            folder = output / reports.CHALLENGED / challenge
            failed |= _run_all(own, folder, output, options, remarks)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted: the same command goes on") from None
    page, summary = reports.write_claims(output, remarks)
    print(summary)
    print(f"report: {page}")
    return TRIAL_FAILED if failed else 0


def paper_experiment(name: str, quick: bool) -> Experiment:
    """Return a built-in experiment, on the papers' classes where these are on disk.

    `quick`: of few partitions, pictures and steps.
    """
    experiment = on_papers_classes(name, Experiment.from_toml(name), load_registry())
    if not quick:
        return experiment
    settings = {**quick_settings(experiment), **QUICK}
    options = dict(experiment.dataset_options)
    if "pixels" in options:
        options |= QUICK_PIXELS
    if "patches" in options:
        options |= QUICK_PATCHES
    learners = {
        label: replace(spec, params={**spec.params, "n_triplets": QUICK_TRIPLETS})
        if spec.params.get("n_triplets", 0) > QUICK_TRIPLETS
        else spec
        for label, spec in experiment.learners.items()
    }
    return replace(experiment, dataset_options=options, learners=learners, **settings)


def _run_all(
    planned: Mapping[str, Experiment],
    folder: Path,
    output: Path,
    options: argparse.Namespace,
    remarks: list[str],
) -> bool:
    """Run experiments into folders of their names; tell whether a trial, or one of them, failed.

    Why one is left out joins the remarks, which the page in `output` has.
    """
    failed = False
    for number, (name, experiment) in enumerate(planned.items(), 1):
        print(f"{name} ({number} of {len(planned)}): {experiment.title}", flush=True)
        try:
            failed |= _run(experiment, folder / name, options) != 0
        except OutputError:
            raise
        except UsageError as error:
            remarks.append(f"{name} is left out: {error}")
            print_note(f"oasis-bench: {remarks[-1]}")
            failed = True
        load_reports().write_claims(output, remarks)
    return failed


def _run(experiment: Experiment, folder: Path, options: argparse.Namespace) -> int:
    if several := one_for_each_value(experiment):
        return run_each(several, what_varies(experiment), folder, options)
    return go_on(experiment, folder, options)
