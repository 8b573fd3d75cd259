"""Every learner on one small partition of a data set: which apply, their cost, where to begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oasis_bench.command_line.listing import aligned, form_of, input_of
from oasis_bench.command_line.progress import Display
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.plugins.inputs import refuse_unlike_inputs
from oasis_bench.plugins.open_dataset import open_dataset
from oasis_bench.plugins.registry import BrokenPluginError, Registry
from oasis_bench.runner.run import run_experiment
from oasis_bench.store.run_file import RunRecord, read_run
from oasis_bench.system.errors import UsageError

SEARCH, BUDGET = "2s", "10s"
"""What a learner may take: for its search, and for its fit."""


def tried_lines(
    name: str,
    data_options: Mapping[str, Any],
    registry: Registry,
    plugin_files: Sequence[Path],
    display: Display,
) -> list[str]:
    """Run one trial of every learner that takes the data set's items; return what it came to.

    Learners that answered come first, the quickest fit on top; then those that did not, and why.
    """
    dataset = open_dataset(name, registry, data_options)
    rows = dataset.load(display.download)
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
    return [*_answered(run, registry), "", *_not_answered(run, unlike), "", _how(run, name)]


def _answered(run: RunRecord, registry: Registry) -> list[str]:
    found = run.measures[run.measures["measure"] == "mAP"]
    found = found.merge(run.trials[["trial_id", "fit_seconds"]], on="trial_id")
    found = found.sort_values("fit_seconds")
    rows: list[tuple[str, ...]] = [("name", "form", "takes", "fit, s", "mAP, a first look")]
    for label, seconds, value in zip(
        *(found[column] for column in ("learner", "fit_seconds", "value")), strict=True
    ):
        learner = registry.algorithms[label]
        figures = f"{seconds:.3g}", f"{value:.3f}"
        rows.append((label, form_of(learner), input_of(learner), *figures))
    return aligned(rows)


def _not_answered(run: RunRecord, unlike: Mapping[str, str]) -> list[str]:
    lost = run.trials[run.trials["status"] != "ok"]
    reasons = dict(zip(lost["learner"], lost["status"] + ": " + lost["reason"], strict=True))
    rows = [(label, reason) for label, reason in (reasons | dict(unlike)).items()]
    return ["without an answer:", *aligned(rows)] if rows else ["all of them answered"]


def _how(run: RunRecord, name: str) -> str:
    """Say what was done, and how to go on."""
    e = run.info.experiment
    size = int(run.trials["n_train"].max())
    return (
        f"One partition of {size} training items, {e.search} of search and {e.budget} of fit at "
        "most for each: no result, but where to begin. Take the baselines and quick ones first: "
        f"python -m oasis_bench run --dataset {name} --algorithms "
        "Euclidean,StandardizedEuclidean,ClassifierPosterior,OASIS,LDA"
    )
