"""An experiment: its learners, data set and settings, from a TOML file, a command or Python.

Each setting is defined once, as a field of `Experiment`, which also converts its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from oasis_bench.experiment.setting import (
    CANDIDATES,
    OFF,
    ON,
    USES,
    Duration,
    Limit,
    Search,
    Setting,
    Size,
    check_choice,
    check_names,
    check_scalings,
    check_share,
    check_subsets,
    names_of_text,
    setting,
    subsets_of_text,
)
from oasis_bench.system import UsageError, check_value, spelled

if TYPE_CHECKING:  # imported late: they take a second, and a wrong command fails before
    from oasis_bench.plugins import Registry
    from oasis_bench.tasks import Task

DEFAULT_PARTITIONS, DEFAULT_TRAIN, DEFAULT_TEST = 5, 40, 25
"""Partitions of data sets without folds, training and test items a class (JMLR 2010, 5.3.2)."""

FIT_SETTINGS = (
    *("scaling", "search", "budget", "seed", "choose_by", "inner_folds", "max_steps", "threads"),
    *("classes", "blend", "use", "memory"),
)
"""The settings that decide how one learner is fitted on all rows."""

MOST_TRIALS = 100_000
"""Limit for a run; more would take gigabytes before the first one begins."""


def names_folder(word: str) -> bool:
    """Tell whether a word can name a folder in that of the output."""
    return Path(word).name == word and word not in ("", "..")


@dataclass(frozen=True)
class LearnerSpec:
    """A learner of an experiment, by its name in the registry.

    Attributes
    ----------
    params : dict
        Hyper-parameters: a value is fixed, a list is searched on the inner folds.  Any other
        parameter keeps the learner's search space or default.
    budget, memory
        The learner's limits; None: those of the experiment.
    model
        The path of a model file, which is evaluated without a fit.
    features
        The kinds of features that the learner takes, joined by +, if the data set has several
        kinds; None: all.
    """

    LIMITS: ClassVar[Mapping[str, type[Limit]]] = {"budget": Duration, "memory": Size}
    """Settings that a continued run may change, and that may be given for each learner."""

    algorithm: str
    params: Mapping[str, Any] = field(default_factory=dict)
    budget: Duration | None = None
    memory: Size | None = None
    model: str | None = None
    features: str | None = None

    def __post_init__(self) -> None:
        for name, kind in self.LIMITS.items():
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, kind.of(name, given))


@dataclass(frozen=True)
class Experiment:
    """All settings that decide the results of a run, with the papers' defaults (JMLR 2010, 5.3.2).

    Each setting is an option of `run` and a key of an experiment file; its help is beside it.
    Values may come in the form of a file or the command line; only this class converts them.

    Attributes
    ----------
    dataset
        A registered name, or the path of a user's file, relative to the working folder.
    learners
        By their labels in tables.
    dataset_options
        Options of the data set (the keyword parameters of its `__init__`) that are not at their
        defaults.
    each
        A setting and a list of its values; each value has its own run (`one_for_each_value`).
    corpora
        The data sets of a suite, by name; each has its own run.  The table of a corpus has its
        `dataset`, the names of its `learners` if not all, and settings.
    protocol
        The version of the rules for tuning, blending and comparing learners; for a suite, also of
        its settings.  Results of different protocols cannot be compared.
    quick
        Settings of a quick run that differ from the usual ones; for a suite also `corpora`, a list
        of names.
    built_in
        The name of the built-in experiment that it comes from, if any.
    classes
        The class subsets; a number says how many classes to choose at random.
    """

    QUICK_REMARK: ClassVar = (
        "This is a quick run with few partitions and a short search. For the full run"
    )
    """The remark on a quick run in a report, before the command of the full run."""

    title: str
    dataset: str
    learners: Mapping[str, LearnerSpec]
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    each: Mapping[str, Any] = field(default_factory=dict)
    corpora: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: int = 2
    quick: Mapping[str, Any] = field(default_factory=dict)
    built_in: str | None = None
    classes: tuple[int | str | tuple[str, ...], ...] = setting(
        (2, 5, 10),
        "numbers of classes or class subsets: names of subsets, names joined by +, or all",
        tuple,
        words="2,5,10",
        read=subsets_of_text,
        check=check_subsets,
        metavar="N,NAME",
    )
    tasks: tuple[str, ...] = setting(
        ("retrieval",),
        "tasks that each fitted learner is evaluated on, in the order of the report",
        tuple,
        words="retrieval",
        read=names_of_text,
        check=check_names,
        metavar="A,B",
    )
    split: str | None = setting(
        None,
        "how items are split into training and test items, for tasks on seen "
        "classes; stratified keeps the class frequencies (see 'list splits')",
        str,
        words="the split of each task",
        metavar="NAME",
    )
    choose_by: str | None = setting(
        None,
        "measure by which hyper-parameters are tuned for all tasks, such as mAP or accuracy@3",
        str,
        words="the first measure of each task",
        metavar="MEASURE",
    )
    partitions: int | None = setting(
        None,
        "number of random train/test splits of each subset; if the data set has folds, its first "
        "folds are used",
        int,
        words=f"{DEFAULT_PARTITIONS}, or all folds of the data set",
        least=1,
    )
    replicates: int | None = setting(
        None,
        "number of disjoint random sets of classes, used in place of partitions: results then "
        "generalise to other classes",
        int,
        words="none",
        least=2,
    )
    inner_folds: int = setting(5, "number of folds for tuning", int, least=2)
    train_per_class: int | None = setting(
        None,
        "training items a class",
        int,
        words=f"{DEFAULT_TRAIN}, or what the smallest class allows",
        least=2,
    )
    test_per_class: int | None = setting(
        None,
        "test items a class",
        int,
        words=f"{DEFAULT_TEST}, or what the smallest class allows",
        least=2,
    )
    most_items: int | None = setting(
        None,
        "largest number of training items, and of test items, in a stratified split or given folds",
        int,
        words="all",
        least=4,
    )
    test_share: float = setting(
        0.1,
        "share of test items if items have several labels or the split is stratified; with "
        "judgements, the share of their groups, where 1 with a saved model means all",
        float,
        check=check_share,
        metavar="P",
    )
    label_budget: int | None = setting(
        None,
        "so many training items of each class are kept, or where test classes are new so many "
        "training classes; the test items stay",
        int,
        words="all",
        least=2,
        metavar="N",
    )
    seed: int = setting(0, "seed of all random numbers", int, least=0, most=2**63 - 1)
    scaling: tuple[str, ...] | None = setting(
        None,
        "how rows are scaled (several are tuned on the inner folds), with statistics of the "
        "training rows: none, l2 (each to unit length), center+l2, standard, standard+l2, minmax, "
        "tfidf; +pca and a number of principal components may follow, as in l2+pca256",
        tuple,
        words="as the data set says",
        read=names_of_text,
        check=check_scalings,
        metavar="A,B",
    )
    search: Search = setting(
        str(CANDIDATES),
        "tuning budget of each trial: a number of candidates, such as 20, or off. The defaults are "
        "tried first, then others, spread evenly over the search space. With more than 3 "
        "candidates the first inner fold validates all, and the other folds the best third",
        Search,
        words=f"{CANDIDATES} candidates",
        metavar="N",
        numbers_as_text=True,
    )
    blend: str = setting(
        ON,
        "blend the similarity of each learner of rows with that of the Euclidean baseline; the "
        "inner folds tune the weight",
        str,
        check=partial(check_choice, known=(ON, OFF)),
        metavar="on|off",
    )
    use: str | None = setting(
        None,
        "how a fitted learner of rows is used: direct, by its similarity; posterior: the training "
        "rows vote for the class of an item by their similarity to it, and two items are as "
        "similar as their votes; tuned: the inner folds select. Only direct computes no votes",
        str,
        words="tuned; without blends direct",
        check=partial(check_choice, known=USES),
        metavar="|".join(USES),
    )
    max_steps: int = setting(
        400_000, "the largest number of steps that the search tries", int, least=1
    )
    margin: float | None = setting(
        None,
        "for measures that are not between 0 and 1: the largest difference from the best with "
        "which a learner is still as good (between 0 and 1 it is always 0.01)",
        float,
        least=0,
        words="none",
        metavar="X",
    )
    traces: bool = setting(
        True,
        "after each fit compute the tuning measure on the training items too, and repeat the fit "
        "to record this measure and the symmetry of W at each checkpoint",
        bool,
        words="yes",
        metavar="",
    )
    threads: int = setting(1, "threads of a fit", int, least=1, most=1024)
    examples: int = setting(
        8,
        "number of test pictures whose neighbours the report shows, from the first partition; 0 "
        "also leaves out the figures of the learned spaces",
        int,
        least=0,
        most=10_000,
    )
    queries: tuple[str, ...] | None = setting(
        None,
        "choose these examples from: names of classes, or row numbers (the report prints them "
        "below its queries)",
        tuple,
        words="all",
        read=names_of_text,
        check=check_names,
        metavar="A,B",
        numbers_as_text=True,
    )
    budget: Duration = setting(
        "1h",
        "time limit of a fit, or of another call of a learner, such as 90s, 10m, 2h or off; a "
        "trial that takes longer is reported as 'timeout'",
        Duration,
        metavar="TIME",
    )
    memory: Size = setting(
        OFF,
        "memory limit of a trial, such as 500MiB, 4GiB or off",
        Size,
        metavar="SIZE",
    )

    def __post_init__(self) -> None:
        for name in ("title", "dataset"):
            check_value(name, getattr(self, name), str)
        check_value("protocol", self.protocol, int, least=1)
        for name, known in self.settings().items():
            object.__setattr__(self, name, known.typed(name, getattr(self, name)))
        if self.replicates and self.partitions not in (None, self.replicates):
            raise UsageError(
                f"replicates = {self.replicates}, partitions = {self.partitions}: each set of "
                "classes is a partition: leave partitions out"
            )
        if self.replicates and not all(isinstance(item, int) for item in self.classes):
            raise UsageError(
                f"replicates = {self.replicates}: sets of classes are chosen at random, so classes "
                "must be numbers, such as 10"
            )
        if 2 * self.inner_folds > self.per_class[0]:
            raise UsageError(
                f"inner_folds = {self.inner_folds} but train_per_class = {self.per_class[0]}: "
                "each fold needs 2 items of each class to validate on"
            )
        if len(self.queries or ()) > self.examples:
            raise UsageError(
                f"queries names {len(self.queries or ())} and examples = {self.examples}: "
                f"more {spelled('examples')} show them all"
            )
        if not self.learners:
            raise UsageError("no learners: name at least one")
        if len(self.learners) > 1 and any(one.model for one in self.learners.values()):
            raise UsageError(
                "a run with a saved model has no other learners: evaluate it separately"
            )
        n_trials = len(self.learners) * len(self.classes) * self.n_partitions
        if n_trials > MOST_TRIALS:
            raise UsageError(
                f"{len(self.learners)} learners, {len(self.classes)} class subsets and "
                f"{self.n_partitions} partitions make {n_trials} trials, but a run has at most "
                f"{MOST_TRIALS}: use fewer {spelled('partitions')}"
            )

    @property
    def per_class(self) -> tuple[int, int]:
        """Training and test items per class; fitted to the data set once settled."""
        return self.train_per_class or DEFAULT_TRAIN, self.test_per_class or DEFAULT_TEST

    @property
    def n_partitions(self) -> int:
        """The number of partitions; with folds in the data set, only once settled."""
        return self.replicates or self.partitions or DEFAULT_PARTITIONS

    def limited(self, limits: Mapping[str, str]) -> Self:
        """Return a copy with other limits, 'budget' or 'memory', for all learners."""
        limits_of_run: dict[str, Any] = dict(limits)
        none_of_its_own: dict[str, Any] = dict.fromkeys(limits)
        learners = {
            label: replace(spec, **none_of_its_own) for label, spec in self.learners.items()
        }
        return replace(self, learners=learners, **limits_of_run)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make an experiment from `dataclasses.asdict`, also after JSON, where tuples are lists."""
        learners = {label: LearnerSpec(**spec) for label, spec in values["learners"].items()}
        return cls(**{**values, "learners": learners})

    @classmethod
    @cache
    def settings(cls) -> dict[str, Setting]:
        """Return the `Setting` of each field that is one."""
        own = (item for item in fields(cls) if "setting" in item.metadata)
        return {item.name: item.metadata["setting"] for item in own}

    def one_for_each_value(self) -> dict[str, Self]:
        """Return an experiment for each corpus of a suite, or each value of a list of values.

        Each is a separate run in its own folder.
        """
        if self.corpora:
            of_each = {name: self._on_corpus(name) for name in self.corpora}
            if not self.each:
                return of_each
            return {
                f"{name}-{word}": found
                for name, one in of_each.items()
                for word, found in one.one_for_each_value().items()
            }
        lists = self.lists_of_values
        if len(lists) > 1:
            raise UsageError(
                "only one option may have a list of values, a run for each; here several do: "
                f"{' and '.join(lists)}"
            )
        found = {}
        for name, values in lists.items():
            words = [str(value) for value in values] if isinstance(values, list) else []
            if not words or len({*words}) < len(words) or not all(map(names_folder, words)):
                raise UsageError(
                    f"{name} = {values}: different values that can name folders are needed"
                )
            for word, value in zip(words, values, strict=True):
                of_data = {"dataset_options": {**self.dataset_options, name: value}}
                change: dict[str, Any] = {name: value} if self.each else of_data
                title = f"{self.title}: {f'{name} = ' if self.each else ''}{word}"
                found[word] = replace(self, each={}, title=title, **change)
        return found

    @property
    def lists_of_values(self) -> dict[str, Any]:
        """The options of the data set, and settings, that have a list of values.

        A setting has its list in the table `each` of the file.
        """
        options = self.dataset_options
        lists = {name: values for name, values in options.items() if isinstance(values, list)}
        return {**lists, **self.each}

    def _on_corpus(self, name: str) -> Self:
        """Return the experiment on one corpus, whose table overrides the common settings."""
        changes: dict[str, Any] = {**self.corpora[name], "title": f"{self.title}: {name}"}
        if "learners" in changes:
            known = self.learners
            changes["learners"] = {it: known[it] for it in changes["learners"] if it in known}
        return replace(self, corpora={}, quick={}, **changes)

    def with_numbers(self, partitions: int, n_train: int, n_test: int) -> Self:
        """Return a copy with these numbers, and inner folds of at least two items per class."""
        return replace(
            self,
            partitions=partitions,
            train_per_class=n_train,
            test_per_class=n_test,
            inner_folds=min(self.inner_folds, max(2, n_train // 2)),
        )

    def settled_as(self, before: Experiment) -> Self:
        """Return a copy with the numbers that `before` has settled on the same data set.

        Numbers that this experiment sets stay.
        """
        partitions = self.replicates or self.partitions or before.n_partitions
        if before.train_per_class is None or before.test_per_class is None:
            return replace(self, partitions=partitions)
        n_train = self.train_per_class or before.train_per_class
        n_test = self.test_per_class or before.test_per_class
        return self.with_numbers(partitions, n_train, n_test)

    def find_tasks(self, registry: Registry) -> list[Task]:
        """Return the tasks, each with the split that it is evaluated on.

        Unknown tasks and splits, and a tuning measure that no task has, are refused.
        """
        tasks = [registry.tasks[name]() for name in self.tasks]
        if self.split is not None:
            split = registry.splits[self.split]
            for task in tasks:
                if task.split in split.in_place_of:
                    task.split = split.name
        if (text := self.choose_by) is not None:
            for task in [task for task in tasks if task.has_measure(text)] or tasks[:1]:
                task.parse_measure(text)  # raises if there is no such measure
        return tasks
