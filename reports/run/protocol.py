"""How a run was made, as a text: what was searched on inner folds, what was fixed, its limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oasis_bench.data import SCALINGS
from oasis_bench.experiment import Search
from oasis_bench.reports.formatting import plural, series
from oasis_bench.reports.run.facts import chooser, finished, splits
from oasis_bench.runs import StoredRun


def protocol_text(run: StoredRun) -> str:
    """Say for each learner which hyper-parameters were chosen by validation, and which given."""
    experiment = run.info.experiment
    chosen, fixed = [], []
    for label in experiment.learners:
        values = _values(run, label)
        if several := [name for name, held in values.items() if len(held) > 1]:
            chosen.append(f"{label} ({', '.join(several)})")
        single = [f"{name} = {held[0]}" for name, held in values.items() if len(held) == 1]
        if single:
            fixed.append(f"{label} {', '.join(single)}")
    parts = [
        f"Chosen on {experiment.inner_folds} inner folds of the training {run.info.items}, by "
        f"{_by(run)}: {', '.join(chosen)}."
        if chosen
        else "No hyper-parameter was searched."
    ]
    if chosen:
        parts.append(f"Each learner had the same budget of search: {_budget(experiment.search)}.")
    if fixed:
        parts.append(f"Fixed: {'; '.join(fixed)}.")
    parts.append("All else is at the learners' defaults.")
    models = {label: spec.model for label, spec in experiment.learners.items() if spec.model}
    if models:
        names = [f"{label} was read from {Path(model).name}" for label, model in models.items()]
        parts = [f"Nothing was fitted: {series(names)}."]
    return " ".join([*parts, f"Limits of a fit: {'; '.join(_limits(run))}."])


def scaling_text(run: StoredRun) -> str:
    """Say how rows were scaled."""
    scalings = run.info.scaling
    if not scalings:
        return "Nothing is scaled: no learner takes rows."
    rows = f"Rows of {run.trials['n_features'].iloc[0]:,} features" if len(run.trials) else "Rows"
    if len(scalings) == 1:
        what = f"{rows} are scaled by {scalings[0]}: {SCALINGS[scalings[0]]}"
    else:
        what = f"{rows} are scaled as the inner folds chose among {', '.join(scalings)}"
    given = "" if run.info.experiment.scaling else " (as the data set says)"
    training = "all" if run.info.experiment.test_share == 1 else "the training"
    alone = "" if training == "all" else " alone"
    return f"{what}{given}. What scaling learns comes from {training} {run.info.items}{alone}."


def _budget(search: Search) -> str:
    """Write a budget of search."""
    if search.candidates is not None:
        return plural(search.candidates, "candidate")
    return "no limit" if search.seconds is None else f"{search} a trial"


def _by(run: StoredRun) -> str:
    """Say by what the inner folds chose."""
    measures = [chooser(run, split) for split in splits(run)]
    return series([f"{measure} of the task {task}" for task, measure in measures])


def _limits(run: StoredRun) -> Iterator[str]:
    """Say how much time and memory a fit might take: all, some learners, and resumed sessions."""
    experiment = run.info.experiment
    yield _limits_text(experiment.budget, experiment.memory)
    for label, spec in experiment.learners.items():
        if text := _limits_text(spec.budget, spec.memory):
            yield f"{label} {text}"
    for session in run.info.resumed:
        if text := _limits_text(session.limits.get("budget"), session.limits.get("memory")):
            yield f"after the run was resumed on {session.started[:10]}: {text} for all"


def _limits_text(time: str | None, memory: str | None) -> str:
    """Write the limits that are given."""
    return ", ".join(f"{w} {given}" for w, given in (("time", time), ("memory", memory)) if given)


def _values(run: StoredRun, label: str) -> dict[str, list[Any]]:
    """Collect the values of each hyper-parameter: those named, and those seen in its trials."""
    values: dict[str, list[Any]] = {}
    for name, given in run.info.experiment.learners[label].params.items():
        values[name] = list(given) if isinstance(given, list) else [given]
    validated = run.validation[run.validation["learner"] == label]
    fitted = finished(run)
    fitted = fitted[fitted["learner"] == label]
    for text in dict.fromkeys([*validated["params"], *fitted["params"]]):
        for name, value in json.loads(text).items():
            held = values.setdefault(name, [])
            if value not in held:
                held.append(value)
    if checkpoints := validated["n_steps"].dropna().unique().tolist():
        # Early stopping had them to choose from; with one of them it had no choice.
        name = "steps" if len(checkpoints) > 1 else "n_steps"
        values[name] = [int(checkpoint) for checkpoint in checkpoints]
    return values
