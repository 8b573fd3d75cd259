"""What a run searched on inner folds, what it held fixed and its limits, told from its store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from oasis_bench.reports.run.facts import finished
from oasis_bench.store.run_file import RunRecord

LIMITS = {"budget": "time", "memory": "memory"}
ELSE = "All else is at the learners' defaults."


def settings_text(run: RunRecord) -> str:
    """Say for each learner which hyper-parameters were chosen by validation, and which given."""
    chosen, fixed = [], []
    for label in run.info["experiment"]["learners"]:
        values = _values(run, label)
        if several := [name for name, held in values.items() if len(held) > 1]:
            chosen.append(f"{label} ({', '.join(several)})")
        single = {name: held[0] for name, held in values.items() if len(held) == 1}
        if single:
            fixed.append(f"{label} " + ", ".join(f"{name} = {v}" for name, v in single.items()))
    folds = run.info["experiment"]["inner_folds"]
    parts = [
        f"Chosen on {folds} inner folds of the training images: {', '.join(chosen)}."
        if chosen
        else "No hyper-parameter was searched."
    ]
    if fixed:
        parts.append(f"Fixed: {'; '.join(fixed)}.")
    return " ".join([*parts, ELSE, _limits_text(run)])


def _limits_text(run: RunRecord) -> str:
    """Say how much time and memory a fit might take."""
    experiment = run.info["experiment"]
    own = [
        f"{label} {text}"
        for label, spec in experiment["learners"].items()
        if (text := _limits(spec))
    ]
    return f"Limits of a fit: {'; '.join([_limits(experiment), *own, *_later_limits(run)])}."


def _later_limits(run: RunRecord) -> Iterator[str]:
    """Say which limits were given when a run, or one that it was merged from, went on."""
    for name, info in {"the run": run.info, **run.info.get("merged", {})}.items():
        for session in info.get("resumed", []):
            if text := _limits(session.get("limits", {})):
                yield f"after {name} was resumed on {session['started'][:10]}: {text} for all"


def _limits(given: Mapping[str, Any]) -> str:
    """Write the limits that are given."""
    return ", ".join(f"{what} {given[name]}" for name, what in LIMITS.items() if given.get(name))


def _values(run: RunRecord, label: str) -> dict[str, list[Any]]:
    """Collect the values of each hyper-parameter: those named, and those seen in its trials."""
    values: dict[str, list[Any]] = {}
    for name, given in run.info["experiment"]["learners"][label]["params"].items():
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
