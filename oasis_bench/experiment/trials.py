"""The trials of an experiment: its learners, class subsets and partitions, each with an identity.

Not for running them: `oasis_bench.runs.run` does that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.utils._param_validation import validate_parameter_constraints

from oasis_bench import __version__
from oasis_bench.data import LabelledRows, refuse_scaling
from oasis_bench.experiment import saved_model
from oasis_bench.experiment.budget import Budget, search_of
from oasis_bench.experiment.identity import (
    SEEN_CLASSES,
    Identities,
    cell_name,
    package_hash,
    source_hash,
)
from oasis_bench.experiment.queries import Queries, find_queries
from oasis_bench.experiment.search import Candidate, candidates
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.experiment.sizes import settle, sizes_of_fold
from oasis_bench.experiment.subsets import choose_subsets
from oasis_bench.plugins import Dataset, Registry, refuse_unlike_inputs
from oasis_bench.system import UsageError, derive_seed, unknown_name
from oasis_bench.tasks import Task, has_measure, parse_measure

DECIDING_SETTINGS = (
    "inner_folds",
    "train_per_class",
    "test_per_class",
    "seed",
    "max_steps",
    "test_share",
    "threads",
    "search",
)
"""The settings that decide a trial's result; titles, other learners and other subsets do not."""

LIBRARIES = ("numpy", "scipy", "scikit-learn")
"""Other versions may give other results."""


class ChooseBy(NamedTuple):
    """A measure of a task, with its k where it has one."""

    task: str
    measure: str
    k: int | None


@dataclass(frozen=True)
class TrialSpec:
    """One learner on one class subset and one outer partition, complete and picklable.

    Attributes
    ----------
    trial_id : str
        Hash of what decides the result: data, split, seed, learner, its parameters and source, the
        code of oasis-bench and the versions of the libraries that it uses.  The processor and the
        other imports of a plugin are not part of the hash; the provenance names them.
    learner, algorithm : str
        The label and the registered name.
    candidates : tuple of Candidate
        Scalings and hyper-parameters in the order in which they are tried; one where there is no
        choice.
    subset : str
        The name of the class subset.
    classes : tuple of int
        Its class numbers.
    n_train, n_test : int
        Items of a partition.
    partition : int
        From 0.
    experiment : Experiment
    identity : dict
        What `trial_id` is the hash of, as JSON holds it.
    split : str
        How the items are divided into training and test items.
    tasks : tuple of str
        The tasks of that split, all asked of one fit.
    chooses_by : ChooseBy
        The measure by which inner folds choose.
    plugin_files : tuple of Path
        Where the learner may come from, besides installed packages.
    shows_examples : bool
        Whether the trial records what some queries retrieve, so that the report can show pictures.
    queries : Queries, optional
        What these queries are drawn from; None: all test items.
    projects : bool
        Whether it records where some test items lie in a plane, so that the report can draw them.
    shares_cores : bool
        Whether other trials run at the same time, so that its timing is marked.
    saves_model, keeps_scores : bool
        Whether the fitted learner, and all scores, are kept in files.
    columns : tuple of str, optional
        The names of the features, which a saved model keeps.
    """

    trial_id: str
    learner: str
    algorithm: str
    candidates: tuple[Candidate, ...]
    subset: str
    classes: tuple[int, ...]
    n_train: int
    n_test: int
    partition: int
    experiment: Experiment
    identity: Mapping[str, Any]
    split: str
    tasks: tuple[str, ...]
    chooses_by: ChooseBy
    plugin_files: tuple[Path, ...] = ()
    shows_examples: bool = False
    queries: Queries | None = None
    projects: bool = False
    shares_cores: bool = False
    saves_model: bool = False
    keeps_scores: bool = False
    columns: tuple[str, ...] | None = None

    @property
    def model(self) -> Path | None:
        """The saved model that takes the place of a fit."""
        path = self.experiment.learners[self.learner].model
        return None if path is None else Path(path)

    @property
    def features(self) -> str | None:
        """The kinds of features that the learner takes, where it does not take all."""
        return self.experiment.learners[self.learner].features

    @property
    def budget(self) -> Budget:
        """Limits of each call of the learner; not part of the identity."""
        return self.experiment.budget_of(self.learner)

    def seed_for(self, purpose: str, *, of_learner: bool = False) -> int:
        """Derive a seed from the run's seed, the subset, the partition and the purpose.

        With `of_learner` also from the algorithm, but not from the label: two learners that differ
        only in their settings get the same seed, so only the settings make their results differ.
        """
        names = (self.experiment.seed, purpose, self.subset, self.partition)
        return derive_seed(*names, *((self.algorithm,) if of_learner else ()))


def find_grids(experiment: Experiment, registry: Registry) -> dict[str, dict[str, list[Any]]]:
    """Return the hyper-parameters of each learner of an experiment, with the values to try.

    Raises
    ------
    UsageError
        For an unknown learner or hyper-parameter, or a value of a type that none takes.
    """
    return {label: _grid(label, spec, registry) for label, spec in experiment.learners.items()}


def _grid(label: str, spec: LearnerSpec, registry: Registry) -> dict[str, list[Any]]:
    if spec.model is not None:
        return saved_model.grid(spec.model, registry)
    learner = registry.algorithms[spec.algorithm]
    known, bounds = learner().get_params(), getattr(learner, "_parameter_constraints", {})
    grid = {
        name: list(value) if isinstance(value, list | tuple) else [value]
        for name, value in {**learner.search_space, **spec.params}.items()
    }
    for name, choices in grid.items():
        if name not in known:
            problem = unknown_name("hyper-parameter", name, known)
            raise UsageError(f"learner {label!r}: {problem}")
        if not choices:
            raise UsageError(f"learner {label!r}: {name} is an empty list: name a value to try")
        for choice in choices:
            if not isinstance(choice, str | int | float | None):
                raise UsageError(
                    f"learner {label!r}: {name} = {choice!r}: a number, a text or true/false "
                    "is needed, or a list of them"
                )
            try:
                validate_parameter_constraints(bounds, {name: choice}, learner.name)
            except ValueError as error:
                raise UsageError(f"learner {label!r}: {error}") from error
    return grid


def identities(specs: Sequence[TrialSpec]) -> Identities:
    """Return what decides the results of a run, for each learner, class subset and split."""
    return {
        cell_name(spec.learner, spec.subset, spec.split): spec.identity for spec in reversed(specs)
    }


def plan(
    experiment: Experiment,
    dataset: Dataset,
    rows: LabelledRows,
    registry: Registry,
    plugin_files: tuple[Path, ...] = (),
) -> list[TrialSpec]:
    """List the trials of an experiment, partition by partition within a subset.

    Raises
    ------
    UsageError
        For an unknown learner, hyper-parameter or class, or too few classes or items.
    """
    e = settle(experiment, dataset, rows)
    grids = find_grids(e, registry)
    run_identity = {
        **{name: getattr(e, name) for name in DECIDING_SETTINGS},
        "data": rows.content_hash(),
        "version": __version__,
        "code": package_hash(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "kernel": os.environ.get("OASIS_BENCH_KERNEL"),
    }
    scalings = {label: _scalings(label, e, dataset, rows, registry) for label in grids}
    learner_identities = {
        label: _learner_identity(label, e, grid, scalings[label], registry)
        for label, grid in grids.items()
    }
    tried = {
        label: _candidates(e, e.learners[label].algorithm, grid, scalings[label], registry)
        for label, grid in grids.items()
    }
    trials, queries = [], find_queries(e, rows)
    for spec in e.learners.values():
        refuse_unlike_inputs(registry.algorithms[spec.algorithm], dataset, rows, spec.features)
        if spec.model is not None:
            saved_model.refuse_unlike_rows(spec.model, registry, rows)
    tasks = _tasks_by_split(e, rows, registry)
    saved_model.refuse_nothing_to_learn_from(e, tasks, rows)
    for split, asked in tasks.items():
        names, chooses_by = tuple(task.name for task in asked), _chooses_by(e, asked, rows)
        subsets = _subsets(split, e, dataset, rows)
        largest = max(subsets, key=lambda name: len(subsets[name]))
        is_first = split == next(iter(tasks)) and e.examples > 0
        for (subset, classes), partition, (label, learner_identity) in product(
            subsets.items(), range(e.n_partitions), learner_identities.items()
        ):
            n_train, n_test = _sizes(split, e, rows, classes, partition)
            if split == SEEN_CLASSES and not rows.multi_label:
                _refuse_large_k(e, chooses_by, subset, n_train)
            identity = {
                **run_identity,
                **learner_identity,
                "subset": subset,
                "classes": classes,
                "sizes": [n_train, n_test],
                "split": split,
                "tasks": names,
                "chooses_by": chooses_by,
                "partition": partition,
            }
            text = json.dumps(identity, sort_keys=True)
            trials.append(
                TrialSpec(
                    trial_id=hashlib.sha256(text.encode()).hexdigest()[:24],
                    learner=label,
                    algorithm=e.learners[label].algorithm,
                    candidates=tried[label],
                    subset=subset,
                    classes=classes,
                    n_train=n_train,
                    n_test=n_test,
                    partition=partition,
                    experiment=e,
                    identity=json.loads(text),
                    split=split,
                    tasks=names,
                    chooses_by=chooses_by,
                    plugin_files=plugin_files,
                    shows_examples=rows.images is not None and is_first and partition == 0,
                    queries=queries,
                    projects=is_first and partition == 0 and subset == largest,
                )
            )
    return trials


def scalings_of(e: Experiment, dataset: Dataset, rows: LabelledRows) -> tuple[str, ...]:
    """Return how the rows of an experiment are scaled; of several the inner folds choose."""
    return e.scaling or (dataset.default_scaling(rows),)


def _scalings(
    label: str, e: Experiment, dataset: Dataset, rows: LabelledRows, registry: Registry
) -> tuple[str, ...]:
    """Return the scalings of a learner's items; those that are no rows are not scaled."""
    spec = e.learners[label]
    if registry.algorithms[spec.algorithm].takes != "rows":
        return ("none",)
    scalings = scalings_of(e, dataset, rows)
    refuse_scaling(scalings, rows.X)
    if spec.model is not None and len(scalings) > 1:
        raise UsageError(f"--scaling {','.join(scalings)}: a saved model takes one: name it")
    return scalings


def _learner_identity(
    label: str,
    e: Experiment,
    grid: Mapping[str, Any],
    scalings: tuple[str, ...],
    registry: Registry,
) -> dict[str, Any]:
    """Return what decides the results of one learner, besides data and protocol."""
    spec = e.learners[label]
    identity = {
        "learner": label,
        "algorithm": spec.algorithm,
        "grid": grid,
        "scaling": ", ".join(scalings),
        "source": source_hash(registry.algorithms[spec.algorithm]),
    }
    if spec.features is not None:
        identity["features"] = spec.features
    if spec.model is None:
        return identity
    # the model file holds its hyper-parameters
    return identity | {"model": saved_model.content_hash(spec.model), "grid": {}}


def _candidates(
    e: Experiment,
    algorithm: str,
    grid: Mapping[str, Sequence[Any]],
    scalings: tuple[str, ...],
    registry: Registry,
) -> tuple[Candidate, ...]:
    """Return what the inner folds try of a learner, in this order."""
    defaults = registry.algorithms[algorithm]().get_params()
    return candidates(grid, scalings, defaults, search_of("search", e.search), e.seed, algorithm)


def find_tasks(experiment: Experiment, registry: Registry) -> list[Task]:
    """Return the tasks that an experiment asks.

    Raises
    ------
    UsageError
        For an unknown task, or a measure to choose by that none of them has.
    """
    tasks = [registry.tasks[name]() for name in experiment.tasks]
    if (text := experiment.choose_by) is not None:
        for task in [task for task in tasks if has_measure(task, text)] or tasks[:1]:
            parse_measure(text, task)  # raises where there is no such measure
    return tasks


def _tasks_by_split(e: Experiment, rows: LabelledRows, registry: Registry) -> dict[str, list[Task]]:
    """Return the tasks of each split, in their order."""
    by_split: dict[str, list[Task]] = {}
    for task in find_tasks(e, registry):
        if reason := task.refusal(rows):
            raise UsageError(f"{e.dataset} cannot be asked for {task.name}: {reason}")
        if rows.n_folds and task.split != SEEN_CLASSES:
            raise UsageError(
                f"{e.dataset} has folds of its own, and {task.name} divides items otherwise: "
                "leave out the task, or the folds"
            )
        by_split.setdefault(task.split, []).append(task)
    return by_split


def _chooses_by(e: Experiment, tasks: Sequence[Task], rows: LabelledRows) -> ChooseBy:
    """Return the measure that the experiment names, or the first one of the first task."""
    having = [task for task in tasks if has_measure(task, e.choose_by or "")]
    task, text = (having[0], e.choose_by) if having else (tasks[0], tasks[0].measures[0])
    measure, k = parse_measure(text or "", task)
    if measure not in (possible := task.measures_of(rows)):
        raise UsageError(
            f"{e.dataset} has nothing to compute {measure} from: choose by "
            f"{' or '.join(name for name in possible if name not in task.of_data)}"
        )
    return ChooseBy(task.name, measure, k)


def _refuse_large_k(e: Experiment, by: ChooseBy, subset: str, n_train: int) -> None:
    """Raise UsageError where an inner fold has too few items for the k by which it chooses."""
    most = n_train // e.inner_folds - 1
    if by.measure == "precision" and by.k is not None and by.k > most:
        raise UsageError(
            f"--choose-by precision@{by.k}: an inner fold of the class subset {subset} has {most} "
            f"other items to rank: precision@{most} at most, or more --train"
        )


def _subsets(
    split: str, e: Experiment, dataset: Dataset, rows: LabelledRows
) -> dict[str, tuple[int, ...]]:
    """Return the class subsets of a split: judgements are split by groups, not by class."""
    if split in ("judged", "rated"):
        return {"all": tuple(range(len(rows.class_names)))}
    return choose_subsets(e, dataset, rows)


def _sizes(
    split: str, e: Experiment, rows: LabelledRows, classes: Sequence[int], partition: int
) -> tuple[int, int]:
    """Count the training and test items of a partition; of judgements the most there can be."""
    n_rows, n_classes = rows.y.shape[0], len(classes)
    if rows.folds is not None:
        return sizes_of_fold(rows, rows.folds, classes, partition)
    if split in ("judged", "rated"):
        return n_rows, n_rows
    if rows.multi_label:
        n_test = max(2, round(e.test_share * n_rows))
        return n_rows - n_test, n_test
    n_test_classes = n_classes // 2 if split == "unseen-classes" else n_classes
    n_train_classes = n_classes - n_test_classes if split == "unseen-classes" else n_classes
    n_train, n_test = e.per_class
    return n_train_classes * n_train, n_test_classes * n_test
