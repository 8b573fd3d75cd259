"""A saved model in place of a learner to fit: checks of its file before anything runs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from oasis_bench.data import LabelledRows, Patches, Prepare, row_hashes
from oasis_bench.experiment.settings import Experiment
from oasis_bench.plugins import (
    ExemplarLearner,
    Registry,
    learner_of,
    load_model_of,
    training_rows_of,
)
from oasis_bench.system import Text, UsageError, open_regular

MOST_NAMED = 6
"""Columns that a message names."""


def grid(path: str, registry: Registry) -> dict[str, list[Any]]:
    """Return the model's hyper-parameters, for the record: there is nothing to tune."""
    learner, _ = learner_of(load_model_of(registry, path), [])
    params = learner.get_params(deep=False)
    return {
        name: [value]
        for name, value in params.items()
        if isinstance(value, str | int | float | None)
    }


def content_hash(path: str) -> str:
    """Hash a model file (SHA-256)."""
    with open_regular(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_unlike_rows(path: str, registry: Registry, rows: LabelledRows) -> None:
    """Raise UsageError where a model cannot score the items of a data set."""
    model = load_model_of(registry, path)
    learner, _ = learner_of(model, [])
    if isinstance(learner, ExemplarLearner):
        raise UsageError(
            f"{path}: {learner.name} knows how similar an item is to its own training items alone: "
            "it cannot be evaluated on other data"
        )
    n_features = model.n_features_in_ if learner.takes == "rows" else rows.X.shape[1]
    if n_features != rows.X.shape[1]:
        raise UsageError(
            f"{path}: this {learner.name} was fitted on {n_features} features and the data set has "
            f"{rows.X.shape[1]}: choose data of the same features"
        )


def saved_steps(path: Path | None, registry: Registry) -> list[Any] | None:
    """Return the transformers that scale rows for a saved model; None where its file has none.

    None without a model, too.
    """
    if path is None:
        return None
    model = load_model_of(registry, path)
    if not isinstance(model, Pipeline):
        return None
    steps = [step for _, step in model.steps[:-1]]
    for step in steps[:1]:
        step.__dict__.pop("feature_names_in_", None)  # matched already: rows have no names
    return steps


def match_columns(e: Experiment, registry: Registry, rows: LabelledRows) -> LabelledRows:
    """Return the rows with their columns in the order of a saved model's, matched by name.

    Without names on either side they stay as they are; where they are not the same, it is refused.
    """
    label, spec = next(iter(e.learners.items()))
    if spec.model is None or registry.algorithms[spec.algorithm].takes != "rows":
        return rows
    model = load_model_of(registry, spec.model)
    prepare, known = Prepare.of_model(model), getattr(model, "feature_names_in_", None)
    if (known is None) != (rows.columns is None):
        of = "the data" if rows.columns is None else "the model"
        remark = f"{label}: {of} has no names of columns, which are taken in their order"
        rows = replace(rows, remarks=(*rows.remarks, remark))
    elif known is not None:
        names = tuple(known)
        if prepare is not None:
            rows = _with_left_out(rows, set(names).difference(prepare.needed(names)))
        if rows.columns is not None and rows.columns != names:
            order = _places_of(names, rows.columns, spec.model, e.dataset_options.get("drop"))
            of_each = rows.encoding and tuple(rows.encoding[i] for i in order)
            rows = replace(rows, X=rows.X[:, order], columns=names, encoding=of_each)
    return _encoded_as(model, spec.model, rows)


def _with_left_out(rows: LabelledRows, names: set[str]) -> LabelledRows:
    """Return rows with columns that the model leaves out, where they are not there."""
    added = sorted(names.difference(rows.columns or ()))
    if not added:
        return rows
    X: Any = rows.X
    X = np.column_stack([X, np.full((len(X), len(added)), np.nan)])
    known = rows.encoding or (("number",),) * rows.X.shape[1]
    encoding = (*known, *[("constant",)] * len(added))
    return replace(rows, X=X, columns=(*(rows.columns or ()), *added), encoding=encoding)


def _encoded_as(model: Any, path: str, rows: LabelledRows) -> LabelledRows:
    """Return rows with the codes of the model's preparation; refuse what it cannot take."""
    prepare, columns = Prepare.of_model(model), rows.columns or range(rows.X.shape[1])
    if prepare is None and rows.encoding is not None:
        if np.isfinite(rows.X.sum()) and not any(texts for _, *texts in rows.encoding):
            return replace(rows, encoding=None)
        raise UsageError(
            f"{path}: it takes complete rows of numbers, and the data has missing values, texts or "
            "dates: --prepare none says in which columns; leave those out or fit it anew"
        )
    if prepare is None or len(columns) != len(prepare.encoding):
        return rows  # another number of columns is refused later
    X = Prepare.encode(
        Prepare.frame_of(rows.X, [*map(str, columns)], rows.encoding), prepare.encoding
    )
    return replace(rows, X=X, encoding=prepare.encoding)


def _places_of(
    names: Sequence[str], columns: Sequence[str], path: str, dropped: str | None
) -> list[int]:
    """Return the place of each name among the columns, which must be the same."""
    missing = [name for name in names if name not in columns]
    extra = [name for name in columns if name not in names]
    problems, remedies = [], []
    if missing:
        problems.append(f"the data lacks {_listed(missing)}, which it was fitted on")
        remedies.append("give each column the name that it had")
    if extra:
        problems.append(f"the data has {_listed(extra)}, which it was not fitted on")
        options = ",".join(filter(None, [dropped, *extra[:MOST_NAMED]]))
        remedies.append(f"leave others out with --drop {shlex.quote(options)}")
    if not problems and len(set(columns)) < len(columns):
        problems, remedies = ["two columns have one name"], ["give each a name of its own"]
    if problems:
        raise UsageError(Text.printable(f"{path}: {'; '.join(problems)}: {', or '.join(remedies)}"))
    return [columns.index(name) for name in names]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
    what = "the columns" if len(names) > 1 else "the column"
    return f"{what} {', '.join(map(Text.shown, names[:MOST_NAMED]))}{more}"


def seen_remarks(e: Experiment, registry: Registry, rows: LabelledRows) -> Iterator[str]:
    """Say of a saved model how many of the rows are among those that it was fitted on."""
    label, spec = next(iter(e.learners.items()))
    if spec.model is None:
        return
    items = rows.items(registry.algorithms[spec.algorithm].takes, spec.features)
    known, n_rows = training_rows_of(Path(spec.model)), rows.y.shape[0]
    if known is None or isinstance(items, Patches):
        yield (
            f"{label}: the model's file does not say which items it was fitted on: if some of "
            "these are among them, its values are too high"
        )
    elif n_seen := int(np.isin(row_hashes(items), known).sum()):
        yield (
            f"warning: {n_seen} of the {n_rows} rows are training rows of the model {label}: its "
            "values are too high"
        )


def refuse_nothing_to_learn_from(e: Experiment) -> None:
    """Raise UsageError where all judgements are to test, and a learner needs some."""
    fitted = [label for label, spec in e.learners.items() if spec.model is None]
    if e.test_share == 1 and fitted:
        raise UsageError(
            f"test_share = 1: {fitted[0]} has nothing to learn from: give a number below 1"
        )
