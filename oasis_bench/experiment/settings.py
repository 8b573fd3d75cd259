"""An experiment: what is compared on what, from a TOML file or the command line.

Each setting is said once, as a field of `Experiment`.  `oasis_bench.experiment.trials` makes the
trials.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from oasis_bench.experiment.budget import OFF, Budget, bytes_of, search_of, seconds_of
from oasis_bench.experiment.setting import (
    Setting,
    check_names,
    check_optional_count,
    check_optional_names,
    check_optional_text,
    check_scalings,
    check_share,
    check_subsets,
    names_of_text,
    setting,
    subsets_of_text,
)
from oasis_bench.system import (
    LONGEST_PATH,
    UsageError,
    check_value,
    cut,
    error_line,
    open_regular,
    unknown_name,
)

BUILT_IN = Path(__file__).parent / "built_in"

LIMITS = ("budget", "memory")
"""The settings that a run which goes on may change."""

DEFAULT_PARTITIONS, DEFAULT_TRAIN, DEFAULT_TEST = 5, 40, 25
"""Partitions of data sets without folds, training and test items a class (JMLR 2010, 5.3.2)."""

MOST_TRIALS = 100_000
"""Of a run; more would take gigabytes before the first one begins."""

NOT_HYPER_PARAMETERS = ("algorithm", "features", *LIMITS)
"""Keys of a learner's table in a file that are not its hyper-parameters."""


@dataclass(frozen=True)
class LearnerSpec:
    """A learner of an experiment.

    Attributes
    ----------
    algorithm : str
        Its name in the registry.
    params : dict
        Hyper-parameters: a value is fixed, a list is searched on the inner folds.  A parameter
        that is not here keeps the learner's own search space or default.
    budget, memory : str or None, default None
        Its own limits; None: those of the experiment.
    model : str or None, default None
        The path of a model file, which is judged in place of a fit.
    features : str or None, default None
        Of a data set whose rows are several kinds of features, the kinds that it takes, joined by
        +; None: all.
    """

    algorithm: str
    params: Mapping[str, Any] = field(default_factory=dict)
    budget: str | None = None
    memory: str | None = None
    model: str | None = None
    features: str | None = None


@dataclass(frozen=True)
class Experiment:
    """All that decides the results of a run, defaults as in the papers (JMLR 2010, 5.3.2).

    Each setting is an option of `run` and a key of an experiment file; its help is beside it.

    Attributes
    ----------
    title : str
    dataset : str
        A registered name, or the path of the user's own file, from the working folder.
    learners : dict of str to LearnerSpec
        By the label that tables print.
    dataset_options : dict
        Options of the data set (the keyword parameters of its `__init__`) that are not at their
        defaults.
    each : dict
        A setting and a list of its values: a run for each of them (`runner.several`).
    classes : tuple of int, str or tuple of str
        The class subsets; a number says how many classes to choose at random.

    Raises
    ------
    UsageError
        Where a value has the wrong type or is out of bounds.
    """

    title: str
    dataset: str
    learners: Mapping[str, LearnerSpec]
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    each: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[int | str | tuple[str, ...], ...] = setting(
        (2, 5, 10),
        "class subsets: numbers of classes, names of subsets, names joined by +, or all",
        tuple,
        words="2,5,10",
        read=subsets_of_text,
        check=check_subsets,
        metavar="N,NAME",
    )
    tasks: tuple[str, ...] = setting(
        ("retrieval",),
        "what is asked of each fitted learner, in the order of the report",
        tuple,
        words="retrieval",
        read=names_of_text,
        check=check_names,
        metavar="A,B",
    )
    split: str | None = setting(
        None,
        "how items are divided into those that train and those that test, for tasks that are asked "
        "on seen classes, such as stratified: a share of each class tests (see 'list splits')",
        str,
        words="the split of each task",
        check=check_optional_text,
        metavar="NAME",
    )
    choose_by: str | None = setting(
        None,
        "measure by which inner folds choose, such as mAP or accuracy@3",
        str,
        words="the first measure of the first task",
        check=check_optional_text,
        metavar="MEASURE",
    )
    partitions: int | None = setting(
        None,
        "random train/test draws of each subset, or, where the data set has folds, the first so "
        "many of these",
        int,
        words=f"{DEFAULT_PARTITIONS}, or all folds of the data set",
        check=check_optional_count,
    )
    inner_folds: int = setting(5, "folds that choose the hyper-parameters", int, least=2)
    train_per_class: int | None = setting(
        None,
        "training items a class",
        int,
        words=f"{DEFAULT_TRAIN}, or what the smallest class allows",
        check=partial(check_optional_count, least=2),
        flag="--train",
    )
    test_per_class: int | None = setting(
        None,
        "test items a class",
        int,
        words=f"{DEFAULT_TEST}, or what the smallest class allows",
        check=partial(check_optional_count, least=2),
        flag="--test",
    )
    test_share: float = setting(
        0.1,
        "share of the items that test, where items have several labels or the split is stratified, "
        "or of judged groups; 1, for a saved model: all judgements",
        float,
        check=check_share,
        metavar="P",
    )
    seed: int = setting(0, "decides all that is random", int, least=0, most=2**63 - 1)
    scaling: tuple[str, ...] | None = setting(
        None,
        "how rows are scaled, with statistics of the training rows: none, l2 (each to unit "
        "length), center+l2, l2+pca, standard, standard+l2, minmax, tfidf; if several are named, "
        "inner folds choose",
        tuple,
        words="as the data set says",
        read=names_of_text,
        check=check_scalings,
        metavar="A,B",
    )
    search: str = setting(
        "20",
        "the most that the search of each learner may try: candidates, such as 20, or a time, such "
        "as 60s, or off; where there are more, they are drawn at random, the defaults first",
        str,
        check=search_of,
        metavar="N,TIME",
        numbers_as_text=True,
    )
    max_steps: int = setting(
        400_000, "the largest number of steps that the search tries", int, least=1
    )
    traces: bool = setting(
        True,
        "after each fit also compute the selection measure on the training items, and repeat the "
        "fit to record that measure and the symmetry of W at each checkpoint",
        bool,
        words="yes",
        metavar="",
    )
    threads: int = setting(1, "threads of a fit", int, least=1, most=1024)
    examples: int = setting(
        8,
        "test pictures of the first partition whose neighbours the report shows; with 0 it does "
        "not draw the learned spaces either",
        int,
        least=0,
        most=10_000,
    )
    queries: tuple[str, ...] | None = setting(
        None,
        "the test pictures that these examples are drawn from: names of classes, or row numbers, "
        "which the report prints below its queries",
        tuple,
        words="all",
        read=names_of_text,
        check=check_optional_names,
        metavar="A,B",
        numbers_as_text=True,
    )
    budget: str = setting(
        "1h",
        "the longest that a fit, or another call of a learner, may take, such as 90s, 10m, 2h or "
        "off; a trial that takes longer is a row 'timeout'",
        str,
        check=seconds_of,
        metavar="TIME",
    )
    memory: str = setting(
        OFF,
        "the most memory that a trial may take, such as 500MiB, 4GiB or off",
        str,
        check=bytes_of,
        metavar="SIZE",
    )

    def __post_init__(self) -> None:
        for name in ("title", "dataset"):
            check_value(name, getattr(self, name), str)
        for name, known in known_settings().items():
            known.check(name, getattr(self, name))
        for name in self.each:
            if name not in known_settings():
                raise UsageError(
                    f"[each]: {unknown_name('setting', name, sorted(known_settings()))}"
                )
        if 2 * self.inner_folds > self.per_class[0]:
            raise UsageError(
                f"inner_folds = {self.inner_folds} but train_per_class = {self.per_class[0]}: "
                "each fold needs 2 items of each class to validate on"
            )
        if len(self.queries or ()) > self.examples:
            raise UsageError(
                f"queries names {len(self.queries or ())} and examples = {self.examples}: "
                "more --examples show them all"
            )
        if not self.learners:
            raise UsageError("no learners: name at least one")
        for label in self.learners:
            self.budget_of(label)
        n_trials = len(self.learners) * len(self.classes) * self.n_partitions
        if n_trials > MOST_TRIALS:
            raise UsageError(
                f"{len(self.learners)} learners, {len(self.classes)} class subsets and "
                f"{self.n_partitions} partitions are {n_trials} trials: a run has {MOST_TRIALS} at "
                "most: ask for fewer --partitions"
            )

    @property
    def per_class(self) -> tuple[int, int]:
        """Training and test items a class; those of the data set, once they are settled."""
        return self.train_per_class or DEFAULT_TRAIN, self.test_per_class or DEFAULT_TEST

    @property
    def n_partitions(self) -> int:
        """How many partitions there are; of a data set with folds, once they are settled."""
        return DEFAULT_PARTITIONS if self.partitions is None else self.partitions

    def limited(self, limits: Mapping[str, str]) -> Self:
        """Return it with other limits, 'budget' or 'memory', for all learners."""
        limits_of_run: dict[str, Any] = dict(limits)
        none_of_its_own: dict[str, Any] = dict.fromkeys(limits)
        learners = {
            label: replace(spec, **none_of_its_own) for label, spec in self.learners.items()
        }
        return replace(self, learners=learners, **limits_of_run)

    def budget_of(self, label: str) -> Budget:
        """Return the limits of a learner.

        Raises
        ------
        UsageError
            Where one is neither a number with a unit nor 'off'.
        """
        own = self.learners[label]
        return Budget(
            seconds_of("budget", self.budget if own.budget is None else own.budget),
            bytes_of("memory", self.memory if own.memory is None else own.memory),
        )

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
                with open_regular(path) as file:
                    text = file.read().decode("utf-8")
            else:
                raise UsageError(unknown_name("experiment", source, built_in))
            values = tomllib.loads(text)
        except OSError as error:
            called = cut(source, LONGEST_PATH)
            raise UsageError(f"cannot read experiment {called}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"experiment {source} is not TOML: {error_line(error)}") from error
        return cls._from_file(values, source)

    @classmethod
    def _from_file(cls, values: dict[str, Any], source: str) -> Self:
        keys = {item.name for item in fields(cls)} - {"dataset_options"}
        for key in values:
            if key not in keys:
                raise UsageError(f"{source}: {unknown_name('key', key, sorted(keys))}")
        for key in ("title", "dataset", "learners"):
            if key not in values:
                raise UsageError(f"{source}: the key {key!r} is missing")
        if isinstance(values["dataset"], dict):
            options = values["dataset_options"] = dict(values["dataset"])
            if "name" not in options:
                raise UsageError(f"{source}: the table [dataset] needs a name")
            values["dataset"] = options.pop("name")
        tables = values["learners"]
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            raise UsageError(f"{source}: learners must be tables, such as [learners.OASIS]")
        if comma := next((label for label in tables if "," in label), None):
            raise UsageError(f"{source}: learner {comma!r}: a label must not hold a comma")
        learners = {
            label: LearnerSpec(
                str(table.get("algorithm", label)),
                {name: v for name, v in table.items() if name not in NOT_HYPER_PARAMETERS},
                table.get("budget"),
                table.get("memory"),
                features=table.get("features"),
            )
            for label, table in tables.items()
        }
        return cls(**{**_held(values), "learners": learners})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_dict` gave, also when JSON has turned tuples into lists."""
        learners = {label: LearnerSpec(**spec) for label, spec in values["learners"].items()}
        return cls(**{**_held(values), "learners": learners})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for the store."""
        return asdict(self)


def known_settings() -> dict[str, Setting]:
    """Return what is known of each field of `Experiment` that is a setting."""
    return {
        item.name: item.metadata["setting"]
        for item in fields(Experiment)
        if "setting" in item.metadata
    }


def built_in_experiments() -> list[str]:
    """Name the experiment files that come with the package."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))


def _held(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file or a store with values as an experiment holds them."""
    known = known_settings()
    return {key: known[key].held(v) if key in known else v for key, v in values.items()}
