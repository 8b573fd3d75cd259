"""The verbs `paper` and `web-scale`, which repeat the papers' experiments and write pages."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from oasis_bench.claims import ClassList, experiments, needs_quiet_cores
from oasis_bench.command_line.progress import ProgressDisplay, in_words
from oasis_bench.command_line.run import TRIAL_FAILED, how_of, quick_note, report_on
from oasis_bench.experiment import Experiment, changed
from oasis_bench.plugins import Registry, load_reports
from oasis_bench.runs import go_on_or_leave_out
from oasis_bench.system import Folder, UsageError, n_cores, unknown_name
from oasis_bench.web_scale import chance_level, train, trainings

QUICK = {"partitions": 1, "max_steps": 8_000, "threads": 1}
"""Settings smaller than in `run --quick`: the results of neither are evidence."""

LARGE = ("keel",)
"""Experiments for --large: with them, the others and this one take more than two hours."""

MOST_JOBS = 8
"""Most trials at a time: trials of networks take some 1 GB of memory each."""

QUICK_PATCHES = {"max_classes": 20, "features": "lab"}
"""Options of data sets with patches: patches of all classes take minutes.  The rows are not used,
and LAB colours are the fastest.  Experiments of 10 and of 20 classes share patches."""

QUICK_PIXELS = {"pixels": 64, "max_triplets": 200}
"""Options of data sets with pixels: a sixth of the pixels at 160, and a fifth of the pictures."""

QUICK_TRIPLETS = 3_200
"""Limit of a learner's parameter `n_triplets` in a quick run."""


def paper(options: argparse.Namespace) -> int:
    """Run the experiments one after another; write the page after each.

    Trials run in parallel, one on each core, unless a claim is about their time; the times of a
    quick run are no evidence.
    An experiment that cannot run, for lack of data, is reported and left out.  What lacks packages
    is said before the first one.
    """
    names = asked_experiments(options)
    output = options.output or Path("runs") / ("paper-quick" if options.quick else "paper")
    planned = {name: paper_experiment(name, options.quick) for name in names}
    reports, remarks, failures = load_reports(), quick_note(options), 0
    registry = Registry.load()
    for name, experiment in planned.items():
        one = next(iter(experiment.one_for_each_value().values()), experiment)
        try:
            registry.open_dataset(one.dataset, one.dataset_options)
        except UsageError as error:
            print(f"{name} will be left out: {error}", flush=True)
    for number, (name, experiment) in enumerate(planned.items(), 1):
        print(f"{name} ({number} of {len(planned)}): {experiment.title}", flush=True)
        alone = needs_quiet_cores(name) and not options.quick
        options.jobs = 1 if alone else min(max(1, n_cores() // experiment.threads), MOST_JOBS)
        try:
            with closing(ProgressDisplay()) as display:
                ended = go_on_or_leave_out(
                    name, experiment, output, how_of(options), display, report_on
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted: repeat the command to continue") from None
        failures += ended.failures
        if ended.left_out:
            remarks.append(ended.left_out)
        page, summary = reports.write_claims(output, remarks)
    print(summary)
    print(f"report: {page}")
    return TRIAL_FAILED if failures else 0


def asked_experiments(options: argparse.Namespace) -> list[str]:
    """Name the experiments that the options ask for; a quick run has the large ones, too."""
    known, names = experiments(), options.experiments or []
    if options.large and (names or options.quick):
        raise UsageError("--large has no effect with --experiments or --quick: leave it out")
    for name in names:
        if name not in known:
            raise UsageError(f"--experiments: {unknown_name('experiment', name, known)}")
    return names or [it for it in known if options.quick or (it in LARGE) == options.large]


def paper_experiment(name: str, quick: bool) -> Experiment:
    """Return a built-in experiment, on the papers' classes if they are on disk.

    `quick`: with few partitions, pictures and steps.
    """
    experiment = ClassList.experiment(name, Registry.load())
    if not quick:
        return experiment
    options = {
        option: value[:3] if isinstance(value, list) else value  # three of the tables of KEEL
        for option, value in experiment.dataset_options.items()
    }
    if experiment.replicates:  # one set, whose pictures need no others
        options["max_classes"] = max(size for size in experiment.classes if isinstance(size, int))
    if "pixels" in options:
        options |= QUICK_PIXELS
    if "patches" in options:
        options |= QUICK_PATCHES
    learners = {
        label: replace(spec, params={**spec.params, "embedder__n_steps": QUICK_TRIPLETS})
        if spec.params.get("embedder__n_steps", 0) > QUICK_TRIPLETS
        else spec
        for label, spec in experiment.learners.items()
    }
    given = {**QUICK, "replicates": None, "tasks": experiment.tasks}
    return changed(experiment, given, dataset_options=options, learners=learners, quick=True)


def web_scale(options: argparse.Namespace) -> int:
    """Train, and write the report."""
    n_threads = options.threads or n_cores()
    planned = trainings(options.images, options.batch, options.seeds, options.steps_per_image)

    def tell(words: str, seconds_left: float) -> None:
        left = f", about {in_words(seconds_left)} of learning left" if seconds_left else ""
        display.note(words + left)

    size = max(options.images), options.test_images, options.visterms
    dataset: Any = Registry.load().datasets["web-scale"]
    with closing(ProgressDisplay()) as display:
        data = dataset.kept(*size, display.download)  # it checks the sizes, and keeps the images
        Folder(options.output).make_writable()
        n_steps = sum(training.n_steps for training in planned)
        display.note(
            f"learning: {n_steps:,} steps in {len(planned)} trainings; a million steps take 11 s "
            "on two cores in batches of 65,536, minutes in small ones"
        )
        display.note(f"chance: mAP {chance_level(data, options.queries):.4f}")
        try:
            for training in planned:
                train(
                    *(data, training, options.output, n_threads, options.queries),
                    progress=display.bar,
                    on_checkpoint=tell,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted: repeat the command to continue from the last checkpoint"
            ) from None
    print(f"report: {load_reports().write_web_scale_report(options.output)}")
    return 0
