"""How a run was made and what its measures are, in words: for the reader of its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oasis_bench.data import scaling_words
from oasis_bench.experiment import Search
from oasis_bench.reports.formatting import plural, series
from oasis_bench.reports.view import RunView

MEASURES = {
    "mAP": "Average precision is the mean, over the ranks of the relevant {items}, of the "
    "precision at that rank; mAP is its mean over queries.",
    "precision": "The share of relevant {items} among the first k. With R relevant {items} it "
    "cannot exceed R/k at a larger k.",
    "R-precision": "Precision at k = R, the number of relevant {items} of the query.",
    "MAP@R": "1/R times the sum, over the relevant {items} among the first R ranks, of "
    "the precision at that rank (Musgrave, Belongie and Lim 2020).",
    "recall": "The share of queries with one or more relevant {items} among the first k.",
    "nDCG": "The sum of 1/log₂(1 + rank) over the relevant {items}, over the largest possible.",
    "accuracy": "The share of test {items} whose class most of their k nearest training {items} "
    "have.",
    "accuracy by Frome's rule": "Accuracy where the class wins that is the first to be seen twice "
    "among the ten nearest training {items}, else the class of the nearest.",
    "mean recognition": "The mean over classes of the accuracy within the class.",
    "mean recognition by Frome's rule": "The mean over classes of the accuracy within the class, "
    "by that rule.",
    "similarity precision": "The share of judged triplets whose positive is more similar to the "
    "query than the negative; a tie counts a half.",
    "score at top K": "Over the triplets whose positive or negative is among the first k of the "
    "query's group: 1 where the positive comes first, else −1 (Wang et al. 2014, 6.3).",
    "agreement": "The mean over triplets of the share of the votes that the answer got.",
    "ceiling": "The largest agreement that any answers can have, as people differ.",
    "human level": "How well one person's judgements agree with those of the others.",
    "ROC AUC": "The probability that a pair of the same scores above a pair of different {items}.",
    "1 - equal error rate": "The share of pairs judged rightly by the threshold that refuses as "
    "large a share of the pairs of the same as it accepts of those of different {items}.",
    **{
        f"true accepts at {share} % false accepts": "The share of pairs of the same that is "
        f"accepted where at most {share} % of those of different {{items}} are."
        for share in ("1", "0.1")
    },
}
OF_TASK = {
    ("ratings", "precision"): "The mean share of raters that marked the first k candidates.",
}
"""Where a measure means something else in a task than in the others."""


def protocol_text(view: RunView) -> str:
    """Say for each learner which hyper-parameters were chosen by validation, and which given."""
    experiment = view.experiment
    chosen, fixed = [], []
    for label in experiment.learners:
        values = _values(view, label)
        if several := [name for name, held in values.items() if len(held) > 1]:
            chosen.append(f"{label} ({', '.join(several)})")
        single = [f"{name} = {held[0]}" for name, held in values.items() if len(held) == 1]
        if single:
            fixed.append(f"{label} {', '.join(single)}")
    parts = [
        f"Chosen on {experiment.inner_folds} inner folds of the training {view.info.items}, by "
        f"{_by(view)}: {', '.join(chosen)}."
        if chosen
        else "No hyper-parameter was searched."
    ]
    if chosen:
        parts.append(f"Each learner had the same budget of search: {_budget(experiment.search)}.")
    if view.is_blended:
        parts.append(
            "The weight of each learner of rows in its blend with the Euclidean baseline was tuned "
            "on the same folds, for the hyper-parameters that were chosen."
        )
    if fixed:
        parts.append(f"Fixed: {'; '.join(fixed)}.")
    parts.append("All else is at the learners' defaults.")
    names = [
        f"{spec.algorithm} was read from {Path(spec.model).name}"
        for spec in experiment.learners.values()
        if spec.model
    ]
    if names:
        parts = [f"Nothing was fitted: {series(names)}."]
    return " ".join([*parts, f"Limits of a fit: {'; '.join(_limits(view))}."])


def scaling_text(view: RunView) -> str:
    """Say how rows were scaled."""
    scalings = view.info.scaling
    if not scalings:
        return "Nothing is scaled: no learner takes rows."
    rows = f"Rows of {view.trials['n_features'].iloc[0]:,} features" if len(view.trials) else "Rows"
    if len(scalings) == 1:
        what = f"{rows} are scaled by {scalings[0]}: {scaling_words(scalings[0])}"
    else:
        what = f"{rows} are scaled as the inner folds chose among {', '.join(scalings)}"
    given = "" if view.experiment.scaling else " (as the data set says)"
    training = "all" if view.experiment.test_share == 1 else "the training"
    alone = "" if training == "all" else " alone"
    return f"{what}{given}. What scaling learns comes from {training} {view.info.items}{alone}."


def _budget(search: Search) -> str:
    """Write a budget of search."""
    if search.candidates is None:
        return "no limit"
    time = "" if search.seconds is None else f" and {search} of processor time a trial"
    return plural(search.candidates, "candidate") + time


def _by(view: RunView) -> str:
    """Say by what the inner folds chose."""
    return series([f"{measure} of the task {task}" for task, measure in view.chooser.values()])


def _limits(view: RunView) -> Iterator[str]:
    """Say how much time and memory a fit might take: all, some learners, and resumed sessions."""
    experiment = view.experiment
    yield _limits_text(experiment.budget, experiment.memory)
    for label, spec in experiment.learners.items():
        if text := _limits_text(spec.budget, spec.memory):
            yield f"{label} {text}"
    for session in view.info.resumed:
        if text := _limits_text(session.limits.get("budget"), session.limits.get("memory")):
            yield f"after the run was resumed on {session.started[:10]}: {text} for all"


def _limits_text(time: str | None, memory: str | None) -> str:
    """Write the limits that are given."""
    return ", ".join(f"{w} {given}" for w, given in (("time", time), ("memory", memory)) if given)


def _values(view: RunView, label: str) -> dict[str, list[Any]]:
    """Collect the values of each hyper-parameter: those named, and those seen in its trials."""
    values: dict[str, list[Any]] = {}
    for name, given in view.experiment.learners[label].params.items():
        values[name] = list(given) if isinstance(given, list) else [given]
    validated = view.validation[view.validation["learner"] == label]
    fitted = view.finished
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


def measure_words(view: RunView, task: str, measure: str) -> str | None:
    """Say what a measure of a task is; None for one of a plugin."""
    words = OF_TASK.get((task, measure), MEASURES.get(measure))
    return None if words is None else words.format(items=view.info.items)
