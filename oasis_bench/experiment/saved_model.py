"""A saved model in place of a learner to fit: checks of its file before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.settings import Experiment
from oasis_bench.plugins import ExemplarLearner, Registry, load_model_of
from oasis_bench.system import UsageError, open_regular


def grid(path: str, registry: Registry) -> dict[str, list[Any]]:
    """Return the model's hyper-parameters, for the record: there is nothing to choose."""
    params = load_model_of(registry, path).get_params(deep=False)
    return {
        name: [value]
        for name, value in params.items()
        if isinstance(value, str | int | float | None)
    }


def content_hash(path: str) -> str:
    """Hash a model file (SHA-256)."""
    with open_regular(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_changed_model(path: Path, content: bytes, expected: str) -> None:
    """Raise UsageError where a model file is not what it was when the run began."""
    if hashlib.sha256(content).hexdigest() != expected:
        raise UsageError(
            f"{path} has changed since the run began: put it back and run this trial again with "
            "--resume and --retry failed, or start a new run"
        )


def refuse_unlike_rows(path: str, registry: Registry, rows: LabelledRows) -> None:
    """Raise UsageError where a model cannot score the items of a data set."""
    learner = load_model_of(registry, path)
    if isinstance(learner, ExemplarLearner):
        raise UsageError(
            f"{path}: {learner.name} knows how similar an item is to its own training items alone: "
            "it cannot be evaluated on other data"
        )
    n_features = learner.n_features_in_ if learner.takes == "rows" else rows.X.shape[1]
    if n_features != rows.X.shape[1]:
        raise UsageError(
            f"{path}: this {learner.name} was fitted on {n_features} features and the data set has "
            f"{rows.X.shape[1]}: choose data of the same features"
        )


def refuse_nothing_to_learn_from(e: Experiment, splits: Iterable[str], rows: LabelledRows) -> None:
    """Raise UsageError where all judgements are to test, and a learner or a task needs others."""
    if e.test_share < 1:
        return
    fitted = [label for label, spec in e.learners.items() if spec.model is None]
    others = rows.multi_label and not {"judged", "rated"}.issuperset(splits)
    if fitted or others:
        needs = f"{fitted[0]} has nothing to learn from" if fitted else "no item is left to train"
        raise UsageError(f"test_share = 1: {needs}: give a number below 1")
