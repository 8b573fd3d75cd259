"""The evaluation of a saved model, without a fit: its experiment, and checks of its file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from oasis_bench.data import LabelledRows, Patches, Prepare, ReadTable, Scaling, row_hashes
from oasis_bench.experiment.file import tasks_by_option
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.plugins import (
    Dataset,
    ExemplarLearner,
    MetricLearner,
    Posterior,
    Registry,
    learner_of,
    load_model_of,
    training_rows_of,
    without_votes,
)
from oasis_bench.system import Progress, UsageError, no_progress, open_regular, quoted, spelled

MOST_COMPARED = 2000
"""Rows whose nearest training row is searched, at most, drawn at random."""


def grid(path: str, registry: Registry) -> dict[str, list[Any]]:
    """Return the model's hyper-parameters, for the record: there is nothing to tune."""
    params = _learner_of(load_model_of(registry, path)).get_params(deep=False)
    return {
        name: [value]
        for name, value in params.items()
        if isinstance(value, str | int | float | None)
    }


def _learner_of(model: Any) -> MetricLearner:
    """Return the learner of a model, also where training rows vote by its similarity."""
    return without_votes(learner_of(model, [])[0])


def content_hash(path: str) -> str:
    """Hash a model file (SHA-256)."""
    with open_regular(Path(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_experiment(
    model: Path, dataset: str, plugin_files: Sequence[Path] = (), **settings: Any
) -> Experiment:
    """Return the experiment that evaluates a saved model on a data set, given by name or path.

    The learner's label is the file name of the model without its extension.  `settings` are fields
    of `Experiment`; the others have their defaults, but `classes` is all, and the scaling is that
    of the model file, if it has one.  If all tasks use judgements, and neither `partitions` nor
    `test_share` is given, each judgement is tested once.
    """
    registry = Registry.load(plugin_files)
    name = _learner_of(load_model_of(registry, model)).name
    learner = LearnerSpec(name, model=str(model.resolve()))
    title = f"{name} of {model.name} on {Path(dataset).name}"
    # Inner folds are not used; a small number needs fewer training items.
    defaults: dict[str, Any] = {"classes": ("all",), "inner_folds": 2}
    settings = {**tasks_by_option(settings.get("dataset_options", {})), **settings}
    splits = [registry.splits[registry.tasks[task].split] for task in settings.get("tasks", ())]
    if splits and "split" not in settings and all(split.all_may_test for split in splits):
        if "partitions" not in settings and settings.get("test_share", 1.0) == 1:
            defaults |= {"partitions": 1, "test_share": 1.0}
        elif settings.get("test_share") == 1 and settings["partitions"] != 1:
            raise UsageError(
                f"partitions = {settings['partitions']} of all judgements are the same: leave "
                "partitions out, or give a smaller test_share"
            )
    experiment = Experiment(title, dataset, {model.stem: learner}, **{**defaults, **settings})
    steps = saved_steps(model, registry)
    own = None if steps is None else Scaling.of(steps)
    if own is None or experiment.scaling == (own.name,):
        return experiment
    if experiment.scaling is not None:
        raise UsageError(f"{model} has its own scaling, {own.name}: leave {spelled('scaling')} out")
    return replace(experiment, scaling=(own.name,))


def refuse_unlike_rows(path: str, registry: Registry, rows: LabelledRows) -> None:
    """Raise UsageError if a model cannot score the items of a data set."""
    model = load_model_of(registry, path)
    learner = _learner_of(model)
    if isinstance(learner, ExemplarLearner):
        raise UsageError(
            f"{path}: {learner.name} knows how similar an item is to its own training items alone: "
            "it cannot be evaluated on other data"
        )
    if learner.takes == "rows" and model.n_features_in_ != rows.X.shape[1]:
        raise UsageError(
            f"{path}: this {learner.name} was fitted on {model.n_features_in_} features and the "
            f"data set has {rows.X.shape[1]}: choose data of the same features"
        )


def saved_steps(path: Path | None, registry: Registry) -> list[Any] | None:
    """Return the transformers that scale rows for a saved model; None if its file has none.

    Also None without a model.
    """
    if path is None:
        return None
    model = load_model_of(registry, path)
    if not isinstance(model, Pipeline):
        return None
    return [step for _, step in model.steps[:-1] if not isinstance(step, ReadTable)]


def load_rows(
    e: Experiment, registry: Registry, dataset: Dataset, progress: Progress = no_progress
) -> LabelledRows:
    """Load the rows of a data set, as the saved model reads them if there is one."""
    label, spec = next(iter(e.learners.items()))
    if spec.model is None or registry.algorithms[spec.algorithm].takes != "rows":
        return dataset.load_checked(progress)
    model = load_model_of(registry, spec.model)
    schema = ReadTable.of_model(model)
    rows = dataset.read_as(schema).load_checked(progress)
    if (rows.columns is None) != (schema.names is None):
        of = "the model" if schema.names is None else "the data"
        remark = f"{label}: {of} has no names of columns, which are taken in their order"
        rows = replace(rows, remarks=(*rows.remarks, remark))
    try:
        rows = rows.read_as(schema)
    except UsageError as error:
        raise UsageError(f"{spec.model}: {error}") from error
    takes_missing = any(isinstance(step, Prepare) for _, step in getattr(model, "steps", ()))
    if rows.encoding is not None and not takes_missing:
        raise UsageError(
            f"{spec.model}: it was fitted on complete numbers, and the data has missing values: "
            "fill them in or leave those rows out"
        )
    return rows


def seen_remarks(e: Experiment, registry: Registry, rows: LabelledRows) -> Iterator[str]:
    """Yield a remark on how many of the rows a saved model was fitted on."""
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
    yield from _drift(label, load_model_of(registry, spec.model), items)


def _drift(label: str, model: Any, items: Any) -> Iterator[str]:
    """Yield how items differ from those that a model was fitted on, as far as its file tells."""
    from sklearn.neighbors import NearestNeighbors  # here: it is slow to import

    schema, read = ReadTable.of_model(model), ReadTable.taken_from(model)
    for i, column in enumerate(schema.columns or ()):
        if column.kind == "category" and (share := (items[:, i] == len(column.texts)).mean()):
            name = quoted(column.name)
            yield f"{label}: {share:.0%} of column {name} are categories that no training row has"
    (used, (X,)), steps = learner_of(read, [items]), dict(getattr(read, "steps", []))
    if isinstance(used, Posterior):
        few, known = np.random.default_rng(0).permutation, NearestNeighbors().fit(used.rows_)
        own, new = (rows[few(rows.shape[0])[:MOST_COMPARED]] for rows in (used.rows_, X))
        usual = np.quantile(known.kneighbors(own, 2)[0][:, 1], 0.95)
        share = (known.kneighbors(new, 1)[0] > usual).mean()
        is_alike = share <= max(0.1, 0.05 + 2 * np.sqrt(0.05 * 0.95 / new.shape[0]))
        advice = "they are alike" if is_alike else "fit it anew with some of these rows"
        yield (
            f"{label}: {share:.0%} of the rows are farther from the nearest training row than 95 % "
            f"of the training rows are from theirs (5 % are expected): {advice}"
        )
    elif getattr(steps.get("standardscaler"), "with_std", False):
        scaled = read[: [*steps].index("standardscaler") + 1].transform(items)
        moved = np.abs(scaled.mean(axis=0)).max()
        advice = "they are alike" if moved <= 0.5 else "check its unit, or fit the model anew"
        yield (
            f"{label}: the mean of a column is up to {moved:.2g} standard deviations from that of "
            f"the training rows: {advice}"
        )


def refuse_nothing_to_learn_from(e: Experiment) -> None:
    """Raise UsageError if all judgements are for testing, but a learner needs some."""
    fitted = [label for label, spec in e.learners.items() if spec.model is None]
    if e.test_share == 1 and fitted:
        raise UsageError(
            f"test_share = 1: {fitted[0]} has nothing to learn from: give a number below 1"
        )
