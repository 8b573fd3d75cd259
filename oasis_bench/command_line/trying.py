"""Every learner on one small partition of a data set: which apply, their cost, where to begin."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oasis_bench.analysis import with_costs
from oasis_bench.command_line.listing import aligned, form_of, input_of
from oasis_bench.command_line.progress import Display
from oasis_bench.command_line.trial_options import DATA_OPTIONS
from oasis_bench.experiment import Duration, Experiment, LearnerSpec, Search
from oasis_bench.plugins import (
    BrokenPluginError,
    Registry,
    load_rows,
    open_dataset,
    refuse_unlike_inputs,
)
from oasis_bench.runs import StoredRun, read_run, run_experiment
from oasis_bench.system import UsageError

SEARCH, BUDGET = Search.of("search", "1s"), Duration.of("budget", "10s")
"""What a learner may take: for its search, and for its fit."""

FIRST = ("Euclidean", "StandardizedEuclidean", "ClassifierPosterior", "OASIS", "LDA")
"""What a first run compares: the baselines and two quick learners."""


def tried_lines(
    name: str,
    data_options: Mapping[str, Any],
    registry: Registry,
    plugin_files: Sequence[Path],
    display: Display,
) -> list[str]:
    """Run one trial of every learner that takes the data set's items; return what it came to.

    Learners that answered come first, what costs least on top; then those that did not, and why.
    """
    dataset = open_dataset(name, registry, data_options)
    rows = load_rows(dataset, display.download)
    learners, unlike = {}, {}
    for label in registry.algorithms:
        try:
            refuse_unlike_inputs(registry.algorithms[label], dataset, rows)
            learners[label] = LearnerSpec(label)
        except (BrokenPluginError, UsageError) as error:
            unlike[label] = str(error)
    experiment = Experiment(
        f"All algorithms on {name}",
        name,
        learners,
        dict(data_options),
        classes=("all",),
        partitions=1,
        search=SEARCH,
        budget=BUDGET,
        traces=False,
        examples=0,
    )
    with TemporaryDirectory(prefix="oasis-bench-") as folder:
        output = Path(folder) / "run"
        run_experiment(
            experiment,
            output,
            plugin_files=plugin_files,
            on_plan=display.plan,
            on_trial=display.trial,
            on_download=display.download,
            on_note=display.line,
        )
        run = read_run(output)
    found = _by_cost(run)
    first = [learner for learner, *_ in found if learner in FIRST]
    how = _how(run, first, ["--dataset", name, *_as_words(data_options, plugin_files)])
    return [*_answered(found, registry), "", *_not_answered(run, unlike), "", *how]


def _answered(found: Sequence[tuple[str, float, float]], registry: Registry) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("name", "form", "takes", "tuning + fit, s", "mAP, a first look"),
    ]
    for label, seconds, value in found:
        learner = registry.algorithms[label]
        figures = f"{seconds:.3g}", f"{value:.3f}"
        rows.append((label, form_of(learner), input_of(learner), *figures))
    return aligned(rows)


def _by_cost(run: StoredRun) -> list[tuple[str, float, float]]:
    """Return learner, seconds of tuning and fit, and mAP: what costs least first."""
    measured = run.measures[run.measures["measure"] == "mAP"]
    costs = with_costs(run.trials)[["trial_id", "tuning_seconds", "fit_seconds"]]
    found = measured.merge(costs, on="trial_id")
    seconds = found["tuning_seconds"] + found["fit_seconds"]
    return sorted(zip(found["learner"], seconds, found["value"], strict=True), key=itemgetter(1))


def _not_answered(run: StoredRun, unlike: Mapping[str, str]) -> list[str]:
    lost = run.trials[run.trials["status"] != "ok"]
    reasons = dict(zip(lost["learner"], lost["status"] + ": " + lost["reason"], strict=True))
    rows = [(label, reason) for label, reason in (reasons | dict(unlike)).items()]
    return ["without an answer:", *aligned(rows)] if rows else ["all of them answered"]


def _how(run: StoredRun, first: Sequence[str], data: Sequence[str]) -> list[str]:
    """Say what was done, and how to go on."""
    e = run.info.experiment
    size = int(run.trials["n_train"].max())
    words = ["python", "-m", "oasis_bench", "run", *data, "--algorithms", ",".join(first)]
    return [
        f"One partition of {size} training items, {e.search} of search and {e.budget} of fit at "
        "most for each: no result, but where to begin. Try them in the order of the table, what "
        "costs least first. To begin with, the baselines and two learners that are quick:",
        f"  {shlex.join(words)}",
    ]


def _as_words(data_options: Mapping[str, Any], plugin_files: Sequence[Path]) -> list[str]:
    """Write options of the data set and plugin files as on the command line."""
    words = []
    for name, value in data_options.items():
        short = name.replace("_", "-")
        is_short = short in {known for known, *_ in DATA_OPTIONS}
        words += [f"--{short}", f"{value}"] if is_short else ["--data-option", f"{name}={value}"]
    return words + [word for path in plugin_files for word in ("--plugin", str(path))]
