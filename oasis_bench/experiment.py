"""An experiment: what is compared on what, from a TOML file or the command line, as trials.

Not for running them: `oasis_bench.run` does that.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from oasis_bench import __version__
from oasis_bench.dataset import LabelledRows
from oasis_bench.errors import UsageError
from oasis_bench.registry import Registry, source_hash, unknown_name
from oasis_bench.seeds import derive_seed
from oasis_bench.splits import choose_classes

NORMALISATIONS = ("l2", "none")
BUILT_IN = files("oasis_bench.experiments")


@dataclass(frozen=True)
class LearnerSpec:
    """A learner of an experiment.

    Attributes
    ----------
    algorithm : str
        Its name in the registry.
    params : dict
        Hyper-parameters: a value is fixed, a list is searched on the inner folds.  What is not
        named keeps the learner's own search space or default.
    """

    algorithm: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """All that decides the results of a run, defaults as in the papers (JMLR 2010, 5.3.2).

    Attributes
    ----------
    title : str
    dataset : str
        A registered name, or the path of the user's own file.
    learners : dict of str to LearnerSpec
        By the label that tables print.
    label : str or None, default None
        The label column of the user's own file.
    classes : tuple of int
        Sizes of the class subsets.
    partitions : int, default 5
        Outer partitions, each a random draw of training and test images.
    inner_folds : int, default 5
    train_per_class, test_per_class : int, defaults 40 and 25
    seed : int, default 0
    normalize : {'l2', 'none'}, default 'l2'
        Whether each row is divided by its Euclidean length.
    max_steps : int, default 400000
        Where the search for the number of steps ends at the latest.
    traces : bool, default True
        Whether mAP along the steps is replayed after each fit of an incremental learner.
    threads : int, default 1
        Threads of a fit.
    """

    title: str
    dataset: str
    learners: Mapping[str, LearnerSpec]
    label: str | None = None
    classes: tuple[int, ...] = (2, 5, 10)
    partitions: int = 5
    inner_folds: int = 5
    train_per_class: int = 40
    test_per_class: int = 25
    seed: int = 0
    normalize: str = "l2"
    max_steps: int = 400_000
    traces: bool = True
    threads: int = 1

    def __post_init__(self) -> None:
        for name, least in (
            ("partitions", 1),
            ("inner_folds", 2),
            ("train_per_class", 2),
            ("test_per_class", 2),
            ("seed", 0),
            ("max_steps", 1),
            ("threads", 1),
        ):
            _check_int(name, getattr(self, name), least)
        kinds = {"title": str, "dataset": str, "traces": bool}
        if self.label is not None:
            kinds["label"] = str
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise UsageError(f"{name} = {getattr(self, name)!r}: a {kind.__name__} is needed")
        if not isinstance(self.classes, tuple) or not self.classes:
            raise UsageError(f"classes = {self.classes!r}: a list of class counts is needed")
        for count in self.classes:
            _check_int("classes", count, 2)
        if len(set(self.classes)) < len(self.classes):
            raise UsageError(f"classes = {list(self.classes)}: name each class count once")
        if self.normalize not in NORMALISATIONS:
            raise UsageError(unknown_name("normalization", str(self.normalize), NORMALISATIONS))
        if self.inner_folds > self.train_per_class:
            raise UsageError(
                f"inner_folds = {self.inner_folds} but train_per_class = {self.train_per_class}: "
                "each fold needs an image of each class to validate on"
            )
        if not self.learners:
            raise UsageError("no learners: name at least one")

    @classmethod
    def from_toml(cls, source: str) -> Self:
        """Read an experiment file, or a built-in one by its name.

        Raises
        ------
        UsageError
            Where there is no such file, or it is not an experiment.
        """
        path = Path(source)
        built_in = {name: BUILT_IN / f"{name}.toml" for name in built_in_experiments()}
        try:
            if source in built_in:
                text = built_in[source].read_text("utf-8")
            elif path.is_file() or path.suffix == ".toml":
                text = path.read_text("utf-8")
            else:
                raise UsageError(unknown_name("experiment", source, built_in))
            values = tomllib.loads(text)
        except OSError as error:
            raise UsageError(f"cannot read experiment {source}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"experiment {source} is not TOML: {error}") from error
        return cls._from_values(values, source)

    @classmethod
    def _from_values(cls, values: dict[str, Any], source: str) -> Self:
        known = {item.name for item in fields(cls)}
        for key in values:
            if key not in known:
                raise UsageError(f"{source}: {unknown_name('key', key, sorted(known))}")
        for key in ("title", "dataset", "learners"):
            if key not in values:
                raise UsageError(f"{source}: the key {key!r} is missing")
        if isinstance(values.get("classes"), list):
            values["classes"] = tuple(values["classes"])
        tables = values["learners"]
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            raise UsageError(f"{source}: learners must be tables, such as [learners.OASIS]")
        values["learners"] = {
            label: LearnerSpec(
                str(table.get("algorithm", label)),
                {name: value for name, value in table.items() if name != "algorithm"},
            )
            for label, table in tables.items()
        }
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for the store; tuples become lists."""
        values = asdict(self)
        values["classes"] = list(self.classes)
        return values


@dataclass(frozen=True)
class TrialSpec:
    """One learner on one class subset and one outer partition, complete and picklable.

    Attributes
    ----------
    trial_id : str
        Hash of all that decides the result.
    learner, algorithm : str
        The label and the registered name.
    grid : dict of str to list
        Hyper-parameters and the values to try; of length one where there is no choice.
    classes : tuple of int
        Class numbers of the subset.
    partition : int
        From 0.
    experiment : Experiment
    plugin_files : tuple of Path
        Where the learner may come from, besides installed packages.
    shares_cores : bool
        Whether other trials run at the same time, so that its timing is marked.
    """

    trial_id: str
    learner: str
    algorithm: str
    grid: Mapping[str, Sequence[Any]]
    classes: tuple[int, ...]
    partition: int
    experiment: Experiment
    plugin_files: tuple[Path, ...] = ()
    shares_cores: bool = False

    @property
    def subset(self) -> str:
        """The name of the class subset: its number of classes."""
        return str(len(self.classes))

    def seed_for(self, purpose: str, *, of_learner: bool = False) -> int:
        """Derive a seed from the run's, the subset, the partition and the purpose."""
        names = (self.experiment.seed, purpose, self.subset, self.partition)
        return derive_seed(*names, *((self.learner,) if of_learner else ()))


def built_in_experiments() -> list[str]:
    """Name the experiment files that come with the package."""
    return sorted(
        item.name.removesuffix(".toml")
        for item in BUILT_IN.iterdir()
        if item.name.endswith(".toml")
    )


@dataclass(frozen=True)
class _Candidates:
    """A learner's hyper-parameters to try, and the hash of its source."""

    spec: LearnerSpec
    grid: Mapping[str, Sequence[Any]]
    source: str


def find_candidates(experiment: Experiment, registry: Registry) -> dict[str, _Candidates]:
    """Look up each learner of an experiment, and the values of its hyper-parameters.

    Raises
    ------
    UsageError
        For an unknown learner or hyper-parameter, or a value that TOML has and none takes.
    """
    return {
        label: _candidates(label, spec, registry) for label, spec in experiment.learners.items()
    }


def _candidates(label: str, spec: LearnerSpec, registry: Registry) -> _Candidates:
    learner = registry.algorithms[spec.algorithm]
    known = learner().get_params()
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
            if not isinstance(choice, str | int | float):
                raise UsageError(
                    f"learner {label!r}: {name} = {choice!r}: a number, a text or true/false "
                    "is needed, or a list of them"
                )
    return _Candidates(spec, grid, source_hash(learner))


def plan(
    experiment: Experiment,
    rows: LabelledRows,
    registry: Registry,
    plugin_files: tuple[Path, ...] = (),
) -> list[TrialSpec]:
    """List the trials of an experiment, partition by partition within a subset.

    Raises
    ------
    UsageError
        For an unknown learner or hyper-parameter, or too few classes or images.
    """
    e = experiment
    candidates = find_candidates(e, registry)
    data_hash = rows.content_hash()
    trials = []
    for count in e.classes:
        classes = choose_classes(
            rows.class_counts(),
            count,
            e.train_per_class,
            e.test_per_class,
            derive_seed(e.seed, "classes"),
        )
        for partition in range(e.partitions):
            for label, candidate in candidates.items():
                identity = {
                    **{name: getattr(e, name) for name in _IDENTITY},
                    "learner": label,
                    "algorithm": candidate.spec.algorithm,
                    "grid": candidate.grid,
                    "classes": classes.tolist(),
                    "partition": partition,
                    "data": data_hash,
                    "source": candidate.source,
                    "version": __version__,
                }
                text = json.dumps(identity, sort_keys=True)
                trials.append(
                    TrialSpec(
                        trial_id=hashlib.sha256(text.encode()).hexdigest()[:24],
                        learner=label,
                        algorithm=candidate.spec.algorithm,
                        grid=candidate.grid,
                        classes=tuple(classes.tolist()),
                        partition=partition,
                        experiment=e,
                        plugin_files=plugin_files,
                    )
                )
    return trials


# What decides a trial's result; titles, the other learners and the other subsets do not.
_IDENTITY = (
    "inner_folds",
    "train_per_class",
    "test_per_class",
    "seed",
    "normalize",
    "max_steps",
    "threads",
)


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} = {value!r}: a whole number of at least {least} is needed")
