"""The trials of an experiment: its learners, class subsets and partitions, each with an identity.

`oasis_bench.runs` runs them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.model_selection import ParameterGrid
from sklearn.utils._param_validation import validate_parameter_constraints

from oasis_bench import __version__
from oasis_bench.data import Encoding, LabelledRows, Scaling, Schema, unlike_ranges
from oasis_bench.experiment import saved_model
from oasis_bench.experiment.data_use import (
    choose_subsets,
    class_set,
    is_changed,
    named_queries,
    refuse_unknown_subsets,
    refuse_untested_queries,
    settle,
    size_remarks,
)
from oasis_bench.experiment.identity import package_hash, source_hash
from oasis_bench.experiment.setting import OFF, Duration, Search, Size
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.plugins import Dataset, MetricLearner, Registry, is_the_baseline
from oasis_bench.system import Progress, UsageError, derive_seed, printable, spelled, unknown_name
from oasis_bench.tasks import (
    NotSplittableError,
    Partition,
    SameClassesSplit,
    Split,
    Task,
    possible_folds,
)

NOT_IN_IDENTITY = (
    *("margin", "traces", "examples", "queries", "budget", "memory"),
    *("classes", "tasks", "split", "choose_by", "partitions", "replicates", "scaling"),
)
"""Settings left out of the identity: they change no result, or it stores them in another form.

All other settings decide results, including new ones."""

LIBRARIES = ("numpy", "scipy", "scikit-learn")
"""Other versions may give other results."""


STRATIFIED, SHOWN_CLASSES = "stratified", 12
"""The split whose class counts are shown, for so many classes at most."""


class Candidate(NamedTuple):
    """A scaling of the rows and hyper-parameters, to be compared on inner folds."""

    scaling: str
    params: Mapping[str, Any]


class ChooseBy(NamedTuple):
    """A tuning measure of a task, with its k if it has one."""

    task: str
    measure: str
    k: int | None


@dataclass(frozen=True)
class Where:
    """The place of a trial in its experiment: the items on which all learners are compared.

    It is a class subset with its class numbers, and a partition, from 0.  With judgements,
    `n_train` and `n_test` are upper limits.  For `rho` and `knows_classes` see `tasks.Split`.
    """

    split: str
    subset: str
    classes: tuple[int, ...]
    partition: int
    n_train: int
    n_test: int
    rho: float
    knows_classes: bool | None


@dataclass(frozen=True)
class TrialSpec:
    """One learner on one class subset and one outer partition, complete and picklable.

    Attributes
    ----------
    learner
        Its label in the experiment.
    candidates
        Scalings and hyper-parameters in the order in which they are tried; only one if there is
        nothing to tune.
    tasks
        The tasks of the split.
    chooses_by
        The tuning measures: one for all tasks, or one for the tasks of each gallery.  If their
        tuned values are equal, one fit is evaluated on all tasks.
    scalings
        The scalings of rows to try for the learner, the default first.
    identity
        All that decides the result, as JSON: data, split, seed, learner, its parameters and
        source, the code of oasis-bench and the versions of its libraries.  The processor and the
        other imports of a plugin are not part of it, but of the provenance.
    examples, queries
        For pictures of the report: the number of test items that keep their nearest neighbours, and
        the rows that they are drawn from; None: all test items.
    projection
        Whether the positions of some test items in a plane are kept.
    keeps_model, keeps_scores
        Whether the fitted learner, and all scores, are kept in files.
    plugin_files
        Files that may define the learner, besides installed packages.
    shares_cores
        Whether other trials run at the same time; the timing is then marked.
    encoding
        The kinds of the columns of a table (see `Prepare`); None: rows are used as they are.
    """

    IDENTITY_IN_WORDS: ClassVar = {
        "data": "the rows of the data set",
        "source": "the source code",
        "version": "the version of oasis-bench",
        "code": "the code of oasis-bench",
        "libraries": "the version of numpy, scipy or scikit-learn",
        "grid": "the hyper-parameters to try",
        "model": "the model file",
    }
    """Names of keys of the identity in messages; the other keys are clear themselves."""

    experiment: Experiment
    learner: str
    where: Where
    candidates: tuple[Candidate, ...]
    tasks: tuple[str, ...]
    chooses_by: tuple[ChooseBy, ...]
    scalings: tuple[str, ...]
    identity: Mapping[str, Any]
    examples: int = 0
    queries: Sequence[int] | None = None
    projection: bool = False
    keeps_model: bool = False
    keeps_scores: bool = False
    plugin_files: tuple[Path, ...] = ()
    shares_cores: bool = False
    encoding: Encoding | None = None

    @cached_property
    def trial_id(self) -> str:
        """Hash of the identity."""
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def cell(self) -> str:
        """The name of its learner, class subset and split, the cell of this trial."""
        return cell_name(self.learner, self.where.subset, self.where.split)

    @property
    def _of_learner(self) -> LearnerSpec:
        return self.experiment.learners[self.learner]

    @property
    def algorithm(self) -> str:
        """The registered name of the learner."""
        return self._of_learner.algorithm

    @property
    def model(self) -> Path | None:
        """The saved model that replaces the fit."""
        path = self._of_learner.model
        return None if path is None else Path(path)

    @property
    def features(self) -> str | None:
        """The kinds of features that the learner takes, if not all."""
        return self._of_learner.features

    @property
    def budget(self) -> Duration:
        """The limit of each fit, each stage of a fit by steps and each ranking."""
        return self._of_learner.budget or self.experiment.budget

    @property
    def memory(self) -> Size:
        """The memory limit of the trial's processes and rows, above the use at its start."""
        return self._of_learner.memory or self.experiment.memory

    def has_source(self, learner: type[MetricLearner]) -> bool:
        """Tell whether the source of a learner is the one in the identity."""
        return bool(source_hash(learner) == self.identity["source"])

    @property
    def split(self) -> Split:
        """Its split; `for_rows` adapts it to the rows."""
        return Registry.load(self.plugin_files).splits[self.where.split](self.experiment)

    def drawn(self, rows: LabelledRows) -> Partition:
        """Draw its training and test items."""
        seed, where, budget = self.seed_for("partition"), self.where, self.experiment.label_budget
        split = self.split.for_rows(rows)
        return split.draw_within(budget, rows, where.classes, where.partition, seed)

    def seed_for(self, purpose: str, *, of_learner: bool = False) -> int:
        """Derive a seed from the run's seed, the subset, the partition and the purpose.

        With `of_learner` also from the algorithm, but not from the label: two learners that differ
        only in their settings get the same seed, so only the settings make their results differ.
        """
        names = (self.experiment.seed, purpose, self.where.subset, self.where.partition)
        return derive_seed(*names, *((self.algorithm,) if of_learner else ()))


def cell_name(learner: str, subset: str, split: str) -> str:
    """Name a learner's label, a class subset and a split, the key of their identity."""
    name = f"{learner}, classes {subset}"
    return name if split == Split.USUAL else f"{name}, {split}"


def find_grids(experiment: Experiment, registry: Registry) -> dict[str, dict[str, list[Any]]]:
    """Return the hyper-parameters of each learner, with the values to try, or refuse one."""
    return {label: _grid(label, spec, registry) for label, spec in experiment.learners.items()}


def _grid(label: str, spec: LearnerSpec, registry: Registry) -> dict[str, list[Any]]:
    if spec.model is not None:
        return saved_model.grid(spec.model, registry)
    learner = registry.algorithms[spec.algorithm]
    known = learner().get_params()
    parts = {name: value for name, value in spec.params.items() if isinstance(value, str)}
    made = learner().set_params(**{name: parts[name] for name in parts if name in known})
    known, bounds = made.get_params(), getattr(made, "_parameter_constraints", {})
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


class LearnerPlan(NamedTuple):
    """The common part of a learner's trials: identity, scalings and candidates."""

    identity: Mapping[str, Any]
    scalings: tuple[str, ...]
    candidates: tuple[Candidate, ...]


class SplitPlan(NamedTuple):
    """The common part of a split's trials: the names of the tasks, and the tuning measures."""

    split: Split
    tasks: tuple[str, ...]
    chooses_by: tuple[ChooseBy, ...]


@dataclass(frozen=True)
class Plan:
    """An experiment on its data set, and its trials; unfit settings are refused.

    Attributes
    ----------
    asked, experiment
        The experiment of the user, and the same with numbers that fit the data set.
    splits
        By their registered names, in the order of their tasks.
    """

    asked: Experiment
    experiment: Experiment
    dataset: Dataset
    rows: LabelledRows
    registry: Registry
    plugin_files: tuple[Path, ...]
    splits: Mapping[str, SplitPlan]

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        dataset: Dataset,
        rows: LabelledRows,
        registry: Registry,
        plugin_files: tuple[Path, ...] = (),
        is_settled: bool = False,
    ) -> Self:
        """Fit an experiment to the items of its data set.

        With `is_settled`, for a stored run, the numbers stay, also with other tasks.
        """
        tasks = _tasks_by_split(experiment, rows, registry)
        of_rows = {name: _split(name, experiment, rows, registry) for name in tasks}
        e = experiment if is_settled else settle(experiment, dataset, rows, of_rows.values())
        splits = {
            name: SplitPlan(
                _split(name, e, rows, registry),
                tuple(task.name for task in own),
                _chooses_by(e, own, rows),
            )
            for name, own in tasks.items()
        }
        return cls(experiment, e, dataset, rows, registry, plugin_files, splits=splits)

    @classmethod
    def load(
        cls,
        experiment: Experiment,
        plugin_files: Sequence[Path],
        progress: Progress,
        table: Schema | None = None,
        is_settled: bool = False,
    ) -> Self:
        """Load the rows of an experiment, and fit it to them.

        `table` is the schema of a table when its run began; `is_settled` is as for `of`.
        """
        e, registry = experiment, Registry.load(plugin_files)
        if not is_settled:
            refuse_unknown_names(e, registry)  # before a download
        dataset = registry.open_dataset(e.dataset, e.dataset_options).read_as(table)
        rows = saved_model.load_rows(e, registry, dataset, progress)
        plugins = tuple(path.resolve() for path in plugin_files)
        return cls.of(e, dataset, rows, registry, plugins, is_settled)

    @cached_property
    def trials(self) -> list[TrialSpec]:
        """The trials, partition by partition within a subset."""
        named = named_queries(self.experiment, self.rows)
        queries = None if named is None else np.unique(np.concatenate([*named.values()])).tolist()
        found = [spec for name in self.splits for spec in self._trials(name, queries)]
        if named is not None:
            first = {spec.where.subset: spec for spec in found if spec.examples}
            draws = [spec.drawn(self.rows).test for spec in first.values()]
            refuse_untested_queries(named, np.unique(np.concatenate(draws)))
        return found

    def _trials(self, name: str, queries: list[int] | None) -> Iterator[TrialSpec]:
        """Yield the trials of a split; `queries` are the rows to choose examples from."""
        e, rows, learners, by_run = self.experiment, self.rows, self._learners, self._identity
        split, tasks, chooses_by = self.splits[name]
        others = [other for other, *_ in self.splits.values()]
        subsets = choose_subsets(e, self.dataset, rows, split, others)
        if any(len(one.candidates) > 1 for one in learners.values()):
            large = {
                name: own
                for name, own in subsets.items()
                if split.can_tune(len(own) // (e.replicates or 1))
            }
            subsets = large or subsets  # if all are too small, trials say why
        largest = max(subsets, key=lambda name: len(subsets[name]))
        for (subset, of_subset), partition in product(subsets.items(), range(e.n_partitions)):
            classes = class_set(e, of_subset, partition)
            n_train, n_test = split.sizes(rows, classes, partition)
            if e.label_budget is not None:
                with suppress(NotSplittableError):  # the trial says so
                    drawn = split.draw_within(e.label_budget, rows, classes, partition, 0)
                    n_train = len(drawn.train)
            rho = 0.0 if e.replicates else split.rho(rows, classes, partition)
            if isinstance(split, SameClassesSplit):
                n_folds = possible_folds(e.inner_folds, e.label_budget or n_train)
                _refuse_large_k(chooses_by, subset, n_train // n_folds - 1)
            of_place = {
                "subset": subset,
                "classes": classes,
                "sizes": (n_train, n_test),
                "split": name,
                "tasks": tasks,
                "chooses_by": chooses_by,
                "partition": partition,
                "replicates": e.replicates is not None,
            }
            shows = name == next(iter(self.splits)) and partition == 0 and e.examples > 0
            where = Where(
                name,
                subset,
                classes,
                partition,
                n_train=n_train,
                n_test=n_test,
                rho=rho,
                knows_classes=split.knows_classes,
            )
            for label, learner in learners.items():
                yield TrialSpec(
                    experiment=e,
                    learner=label,
                    where=where,
                    candidates=learner.candidates,
                    tasks=tasks,
                    chooses_by=chooses_by,
                    scalings=learner.scalings,
                    identity=json.loads(json.dumps({**by_run, **learner.identity, **of_place})),
                    examples=e.examples if shows and rows.images is not None else 0,
                    projection=shows and subset == largest,
                    plugin_files=self.plugin_files,
                    encoding=rows.encoding,
                    queries=queries,
                )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The part of the identity that all trials share."""
        e = self.experiment
        return {
            **{name: getattr(e, name) for name in e.settings() if name not in NOT_IN_IDENTITY},
            "data": self.rows.content_hash(),
            "version": __version__,
            "code": package_hash(),
            "libraries": {name: version(name) for name in LIBRARIES},
        }

    @cached_property
    def _learners(self) -> dict[str, LearnerPlan]:
        grids = find_grids(self.experiment, self.registry)
        found = {label: self._learner(label, grid) for label, grid in grids.items()}
        saved_model.refuse_nothing_to_learn_from(self.experiment)
        return found

    def _learner(self, label: str, grid: Mapping[str, Sequence[Any]]) -> LearnerPlan:
        e, rows, spec = self.experiment, self.rows, self.experiment.learners[label]
        learner = self.registry.algorithms[spec.algorithm]
        scalings = self.scalings if learner.takes == "rows" else ("none",)
        for scaling in scalings:
            Scaling(scaling).refuse(rows.X)
        if spec.model is not None and len(scalings) > 1:
            raise UsageError(
                f"{spelled('scaling', ','.join(scalings))}: a saved model takes one: name that "
                "of its fit"
            )
        # The baseline tries every scaling, because other learners fall back on the best of them.
        search = Search.of("search", OFF) if is_the_baseline(learner) else e.search
        defaults = learner().get_params()
        tried = candidates(grid, scalings, defaults, search, e.seed, spec.algorithm)
        self.dataset.refuse_unless_taken_by(learner, rows, spec.features)
        identity = {
            "learner": label,
            "algorithm": spec.algorithm,
            "grid": grid,
            "scaling": ", ".join(scalings),
            "source": source_hash(learner),
        }
        if spec.features is not None:
            identity["features"] = spec.features
        if spec.model is not None:  # its file holds its hyper-parameters
            saved_model.refuse_unlike_rows(spec.model, self.registry, rows)
            identity |= {"model": saved_model.content_hash(spec.model), "grid": {}}
        return LearnerPlan(identity, scalings, tried)

    @cached_property
    def scalings(self) -> tuple[str, ...]:
        """The scalings of rows; several are tuned on the inner folds."""
        default = self.dataset.default_scaling(self.rows)
        return self.asked.scaling or ((default,) if isinstance(default, str) else default)

    def remarks(self) -> Iterator[str]:
        """Yield a line for each choice made from the data, and for each possible error."""
        asked, rows, specs = self.asked, self.rows, self.trials
        yield from rows.remarks
        draws_equally = any(spec.where.split == Split.USUAL for spec in specs)
        yield from size_remarks(asked, self.experiment, rows, self.dataset.items, draws_equally)
        takes = {self.registry.algorithms[one.algorithm].takes for one in asked.learners.values()}
        ranges = unlike_ranges(rows.X) if "rows" in takes else None
        kinds = {kind.partition(Scaling.PCA)[0] for kind in self.scalings}
        if ranges is not None and not kinds & set(Scaling.OF_COLUMNS):
            least, most = ranges
            yield (
                f"warning: columns have ranges from {least:.3g} to {most:.3g}: the widest dominate "
                f"the distance; {spelled('scaling', 'standard+l2')} gives all the same scale"
            )
        for name, (split, *_) in self.splits.items():
            if few := {*range(len(rows.class_names))}.difference(split.usable(rows)):
                names = ", ".join(printable(rows.class_names[i]) for i in sorted(few))
                what = f"classes of fewer than {split.least_groups} groups are left out"
                yield f"{what} ({name}): {names}"
        yield from _class_counts(specs, rows)
        yield from _judgement_counts(specs, rows)
        yield from saved_model.seen_remarks(asked, self.registry, rows)


def _class_counts(specs: Sequence[TrialSpec], rows: LabelledRows) -> Iterator[str]:
    """Yield the training and test items of each class of stratified splits."""
    first: dict[str, TrialSpec] = {}
    for spec in specs:
        if spec.where.split == STRATIFIED:
            first.setdefault(spec.where.subset, spec)
    for subset, spec in first.items():
        train, test, *_ = spec.drawn(rows)
        y, n = np.asarray(rows.y), len(rows.class_names)  # rows of several labels are refused
        counts = [np.bincount(y[part], minlength=n) for part in (train, test)]
        each = [
            f"{printable(rows.class_names[i])} {counts[0][i]}+{counts[1][i]}"
            for i in spec.where.classes[:SHOWN_CLASSES]
        ]
        more = f" ... ({len(spec.where.classes)} classes)" * (len(spec.where.classes) > len(each))
        yield f"rows of each class that train + test ({subset}): {', '.join(each)}{more}"


def _judgement_counts(specs: Sequence[TrialSpec], rows: LabelledRows) -> Iterator[str]:
    """Yield the number of test judgements in a partition."""
    if rows.ratings is None and rows.judged is None:
        return
    counts: dict[str, list[int]] = {}
    at = {(spec.where.split, spec.where.partition): spec for spec in specs}
    for (split, partition), spec in at.items():
        tested = spec.split.for_rows(rows).draw(rows, spec.where.classes, partition, 0).tested
        if tested is not None:
            counts.setdefault(split, []).append(len(tested.groups))
    for split, found in counts.items():
        least, most = min(found), max(found)
        n = f"{least}" if least == most else f"{least} to {most}"
        yield f"judgements that test in a partition ({split}): {n}"


def candidates(
    grid: Mapping[str, Sequence[Any]],
    scalings: Sequence[str],
    defaults: Mapping[str, Any],
    search: Search,
    seed: int,
    learner: str,
) -> tuple[Candidate, ...]:
    """List the candidates of a learner in the order in which they are tried.

    They are all combinations of scalings, the default first, and of values of the grid.  If there
    are more than the search allows, the first is the one closest to the learner's defaults.
    `_evenly` then draws others that fill the space evenly.  They are the same for all partitions.
    """
    all_of_them = [Candidate(s, p) for s in scalings for p in ParameterGrid(dict(grid))]
    if search.candidates is None or search.candidates >= len(all_of_them):
        return tuple(all_of_them)
    axes = [[*scalings], *([*grid[name]] for name in sorted(grid))]
    usual = [scalings[0], *(defaults.get(name) for name in sorted(grid))]
    first = [axis.index(it) if it in axis else 0 for axis, it in zip(axes, usual, strict=True)]
    rng = np.random.default_rng(derive_seed(seed, "search", learner))
    places = _evenly([*map(len, axes)], first, search.candidates, rng)
    return tuple(all_of_them[place] for place in places)


def _evenly(
    sizes: Sequence[int], first: Sequence[int], n: int, rng: np.random.Generator
) -> list[int]:
    """Draw n different places of a grid of these sizes, the given one first.

    Each axis is cut into n parts, and each part has one place, at random in it (a Latin hypercube:
    McKay, Beckman & Conover, Technometrics 21, 1979).  Random other places replace repeated ones.
    """
    columns = []
    for size, at in zip(sizes, first, strict=True):
        own = int((at + rng.random()) * n / size)
        left = rng.permutation([part for part in range(n) if part != own])
        columns.append([at, *((left + rng.random(n - 1)) * size / n).astype(int).tolist()])
    places = [int(np.ravel_multi_index(place, sizes)) for place in zip(*columns, strict=True)]
    others = rng.permutation(int(np.prod(sizes))).tolist()
    return [*dict.fromkeys([*places, *others])][:n]


def refuse_unknown_names(experiment: Experiment, registry: Registry) -> None:
    """Raise UsageError for unknown names in an experiment, before its data set is loaded.

    These are hyper-parameters, tasks and class subsets, and a split that is unknown or that no task
    can use.
    """
    e = experiment
    refuse_unknown_subsets(e, registry.open_dataset(e.dataset, e.dataset_options))
    find_grids(experiment, registry)
    tasks = experiment.find_tasks(registry)
    if experiment.split is None or not is_changed(experiment, "split"):
        return
    split = registry.splits[experiment.split]
    if split.name not in [task.split for task in tasks]:
        takes = f"takes the place of {' or '.join(split.in_place_of) or 'none'}"
        own = ", ".join(f"{task.name} is asked on {task.split}" for task in tasks)
        raise UsageError(
            f"{spelled('split', split.name)}: it {takes}, and {own}: leave {spelled('split')} out, "
            f"or ask other {spelled('tasks')}"
        )


def _split(name: str, e: Experiment, rows: LabelledRows, registry: Registry) -> Split:
    """Return a split for the rows of an experiment, or refuse the rows."""
    split = registry.splits[name](e).for_rows(rows)
    if reason := split.refusal(rows):
        raise UsageError(f"{e.dataset} {reason}")
    return split


def _tasks_by_split(e: Experiment, rows: LabelledRows, registry: Registry) -> dict[str, list[Task]]:
    """Return the tasks of each split, in their order."""
    by_split: dict[str, list[Task]] = {}
    for task in e.find_tasks(registry):
        if reason := task.refusal(rows):
            raise UsageError(f"{e.dataset} cannot be asked for {task.name}: {reason}")
        by_split.setdefault(task.split, []).append(task)
    return by_split


def _chooses_by(e: Experiment, tasks: Sequence[Task], rows: LabelledRows) -> tuple[ChooseBy, ...]:
    """Return the tuning measures: the one that the experiment names, for all tasks.

    Without one, the first task of each gallery tunes with its first measure.
    """
    first_of = {task.gallery: task for task in reversed(tasks)}
    usual = [(task, task.measures[0]) for task in tasks if task is first_of[task.gallery]]
    having = [(task, e.choose_by) for task in tasks if task.has_measure(e.choose_by or "")]
    chosen = []
    for task, text in having[:1] or usual:
        measure, k = task.parse_measure(text or "")
        if measure not in (possible := task.measures_of(rows)):
            raise UsageError(
                f"{e.dataset} has nothing to compute {measure} from: choose by "
                f"{' or '.join(name for name in possible if name not in task.of_data)}"
            )
        chosen.append(ChooseBy(task.name, measure, k))
    return tuple(chosen)


def _refuse_large_k(chooses_by: Sequence[ChooseBy], subset: str, most: int) -> None:
    """Raise UsageError if an inner fold ranks fewer items than the k of its tuning measure."""
    for by in chooses_by:
        if by.measure == "precision" and (by.k or 0) > most:
            raise UsageError(
                f"{spelled('choose_by', f'precision@{by.k}')}: an inner fold of the class subset "
                f"{subset} ranks {most} other items: precision@{most} at most, or more training "
                "items"
            )
