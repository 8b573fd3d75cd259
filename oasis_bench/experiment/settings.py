"""An experiment: what is compared on what, from a TOML file, the command line or Python.

Each setting is said once, as a field of `Experiment`, and its value is typed where one is made.
"""

from __future__ import annotations

import tomllib
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from oasis_bench.experiment.setting import (
    CANDIDATES,
    OFF,
    ON,
    Duration,
    Limit,
    Search,
    Setting,
    Size,
    check_names,
    check_scalings,
    check_share,
    check_subsets,
    check_switch,
    names_of_text,
    setting,
    subsets_of_text,
)
from oasis_bench.system import (
    UsageError,
    check_value,
    error_line,
    open_regular,
    quoted,
    short_path,
    unknown_name,
)

if TYPE_CHECKING:  # their imports take a second, and mistakes of a command are told before
    from oasis_bench.plugins import Registry
    from oasis_bench.tasks import Task

BUILT_IN = Path(__file__).parent / "built_in"

DEFAULT_PARTITIONS, DEFAULT_TRAIN, DEFAULT_TEST = 5, 40, 25
"""Partitions of data sets without folds, training and test items a class (JMLR 2010, 5.3.2)."""

LEAST_FOR_UNSEEN = 7
"""Classes from which on inner folds can tune for unseen ones."""

TASK_OF_OPTION = {"pairs": "verification", "triplets": "judged-triplets"}
"""The default task if one of these options of the data set is given."""

MOST_TRIALS = 100_000
"""Of a run; more would take gigabytes before the first one begins."""

NOT_KEYS = {"dataset_options", "built_in"}
"""Fields of an experiment that a file does not have as keys."""


@dataclass(frozen=True)
class LearnerSpec:
    """A learner of an experiment, by its name in the registry.

    Attributes
    ----------
    params : dict
        Hyper-parameters: a value is fixed, a list is searched on the inner folds.  A parameter
        that is not here keeps the learner's own search space or default.
    budget, memory
        Its own limits; None: those of the experiment.
    model
        The path of a model file, which is evaluated in place of a fit.
    features
        Of a data set whose rows are several kinds of features, the kinds that it takes, joined by
        +; None: all.
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


NOT_HYPER_PARAMETERS = ("algorithm", "features", *LearnerSpec.LIMITS)
"""Keys of a learner's table in a file that are not its hyper-parameters."""


@dataclass(frozen=True)
class Experiment:
    """All that decides the results of a run, defaults as in the papers (JMLR 2010, 5.3.2).

    Each setting is an option of `run` and a key of an experiment file; its help is beside it.  A
    value may be given as a file or the command line has it: it is typed here, and nowhere else.

    Attributes
    ----------
    dataset
        A registered name, or the path of the user's own file, from the working folder.
    learners
        By the label that tables print.
    dataset_options
        Options of the data set (the keyword parameters of its `__init__`) that are not at their
        defaults.
    each
        A setting and a list of its values: a run for each of them (`one_for_each_value`).
    corpora
        Data sets of a suite, by name: a run for each of them.  The table of a corpus has its
        `dataset`, the names of its `learners` where they are not all, and settings.
    protocol
        The version of the rules by which learners are tuned, blended and compared, and of a suite
        its settings, too.  Results of different protocols cannot be compared.
    quick
        Settings of a quick run that are not the usual ones; of a suite also `corpora`, a list of
        names.
    built_in
        The name of the built-in experiment that it was made from, if it was.
    classes
        The class subsets; a number says how many classes to choose at random.
    """

    QUICK_REMARK: ClassVar = (
        "This is a quick run with few partitions and a short search. For the full run"
    )
    """What a report says of a quick run; what makes the whole one follows."""

    title: str
    dataset: str
    learners: Mapping[str, LearnerSpec]
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    each: Mapping[str, Any] = field(default_factory=dict)
    corpora: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: int = 1
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
        flag="--train",
    )
    test_per_class: int | None = setting(
        None,
        "test items a class",
        int,
        words=f"{DEFAULT_TEST}, or what the smallest class allows",
        least=2,
        flag="--test",
    )
    most_items: int | None = setting(
        None,
        "largest number of training items, and of test items, in a stratified split",
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
        "tuning budget of each trial: a number of candidates, such as 20; processor "
        f"time, such as 60s (at most {CANDIDATES} candidates); or off. The defaults are tried "
        "first, then random candidates. With more than 3 candidates the first inner fold "
        "validates all, and the other folds the best third",
        Search,
        words=f"{CANDIDATES} candidates",
        metavar="N,TIME",
        numbers_as_text=True,
    )
    blend: str = setting(
        ON,
        "blend the similarity of each learner of rows with that of the Euclidean baseline; the "
        "inner folds tune the weight",
        str,
        check=check_switch,
        metavar="on|off",
    )
    max_steps: int = setting(
        400_000, "the largest number of steps that the search tries", int, least=1
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
        for name, known in self.settings().items():
            object.__setattr__(self, name, known.typed(name, getattr(self, name)))
        tables = {"each": self.each, "quick": self.quick}
        tables |= {f"corpora.{name}": corpus for name, corpus in self.corpora.items()}
        for table, values in tables.items():
            others = {"quick": ["corpora"], "each": []}.get(table, ["dataset", "learners"])
            for name in values:
                if name not in self.settings() and name not in others:
                    names = sorted([*self.settings(), *others])
                    raise UsageError(f"[{table}]: {unknown_name('setting', name, names)}")
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
                "more --examples show them all"
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
                f"{MOST_TRIALS}: use fewer --partitions"
            )

    @property
    def per_class(self) -> tuple[int, int]:
        """Training and test items a class; those of the data set, once they are settled."""
        return self.train_per_class or DEFAULT_TRAIN, self.test_per_class or DEFAULT_TEST

    @property
    def n_partitions(self) -> int:
        """How many partitions there are; of a data set with folds, once they are settled."""
        return self.replicates or self.partitions or DEFAULT_PARTITIONS

    def limited(self, limits: Mapping[str, str]) -> Self:
        """Return it with other limits, 'budget' or 'memory', for all learners."""
        limits_of_run: dict[str, Any] = dict(limits)
        none_of_its_own: dict[str, Any] = dict.fromkeys(limits)
        learners = {
            label: replace(spec, **none_of_its_own) for label, spec in self.learners.items()
        }
        return replace(self, learners=learners, **limits_of_run)

    @classmethod
    def from_toml(cls, source: str) -> Self:
        """Read an experiment file, or a built-in one by its name."""
        path = Path(source)
        built_in = {name: BUILT_IN / f"{name}.toml" for name in built_in_names()}
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
            called = short_path(source)
            raise UsageError(f"cannot read experiment {called}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"experiment {source} is not TOML: {error_line(error)}") from error
        return cls(
            **_fields_of_file(values, source), built_in=source if source in built_in else None
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_dict` gave, also when JSON has turned tuples into lists."""
        learners = {label: LearnerSpec(**spec) for label, spec in values["learners"].items()}
        return cls(**{**values, "learners": learners})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for the store."""
        return asdict(self)

    @classmethod
    @cache
    def settings(cls) -> dict[str, Setting]:
        """Return what is known of each field that is a setting."""
        return {
            item.name: replace(one, flag=one.flag or f"--{item.name.replace('_', '-')}")
            for item in fields(cls)
            if (one := item.metadata.get("setting")) is not None
        }

    def one_for_each_value(self) -> dict[str, Self]:
        """Return an experiment for each corpus of a suite, or each value of a list of values.

        Each is a run as any other, in a folder of its own.
        """
        if self.corpora:
            return {name: self._on_corpus(name) for name in self.corpora}
        lists = self.lists_of_values
        if len(lists) > 1:
            raise UsageError(f"{' and '.join(lists)} have lists of values, a run for each: one may")
        found = {}
        for name, values in lists.items():
            words = [str(value) for value in values] if isinstance(values, list) else []
            if not words or [*dict.fromkeys(Path(word).name for word in words)] != words:
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
        """What has a list of values, a run for each: an option of the data set, or a setting.

        A setting has its list in the table `each` of the file.
        """
        options = self.dataset_options
        lists = {name: values for name, values in options.items() if isinstance(values, list)}
        return {**lists, **self.each}

    def _on_corpus(self, name: str) -> Self:
        """Return it on one corpus; what its table says comes before what all say."""
        changes: dict[str, Any] = dict(self.corpora[name])
        changes |= _dataset_of_file(changes.pop("dataset"), f"corpus {name}")
        if "learners" in changes:
            known = self.learners
            changes["learners"] = {it: known[it] for it in changes["learners"] if it in known}
        title = f"{self.title}: {name}"
        return replace(self, **{"title": title, "corpora": {}, "quick": {}, **changes})

    def changed(
        self,
        given: Mapping[str, Any],
        *,
        dataset: str | None = None,
        dataset_options: Mapping[str, Any] | None = None,
        learners: Mapping[str, LearnerSpec] | None = None,
        title: str | None = None,
        quick: bool = False,
        params: Sequence[str] = (),
    ) -> Self:
        """Return it with what a user has given in place of what it says.

        What it says of its own data set does not hold for another one: this has all its classes, a
        title of its own and no options, where these are not given; the default experiment asks
        unseen classes of its own data set alone, and of enough classes.  An option of the data set
        may say what is asked (`TASK_OF_OPTION`).  A `budget` or `memory` in `given` is that of all
        learners; with `quick` the settings of a quick run hold where none are given.  `params` are
        hyper-parameters, as in 'LMNN.pull_weight=0.5,0.9': one value, or a list to search.
        """
        changes = {name: value for name, value in given.items() if name not in LearnerSpec.LIMITS}
        if quick:
            changes = {**self.quick_settings(), **changes}
            if changes.get("replicates"):
                changes.pop("partitions", None)
            if names := self.quick.get("corpora"):
                changes["corpora"] = {name: self.corpora[name] for name in names}
        options = self.dataset_options
        if dataset is not None and dataset != self.dataset:
            if "classes" not in given:
                changes["classes"] = ("all",)
            changes |= {"dataset": dataset, "title": Path(dataset).name, "built_in": None}
            changes["corpora"] = {}
            options = {}
        if self.built_in == "default" and "tasks" not in given:
            classes = self.settings()["classes"].held(changes.get("classes", ()))
            sizes = [len(one) if isinstance(one, tuple) else one for one in classes]
            too_few = [isinstance(size, int) and size < LEAST_FOR_UNSEEN for size in sizes]
            if "dataset" in changes or (too_few and all(too_few)):
                changes["tasks"] = self.settings()["tasks"].default
        changes |= {} if "tasks" in given else tasks_by_option(dataset_options or {})
        changes["dataset_options"] = {**options, **(dataset_options or {})}
        changes["learners"] = _with_params(learners or self.learners, params)
        if title is not None:
            changes["title"] = title
        changes["each"] = {name: v for name, v in self.each.items() if name not in changes}
        limits = {name: given[name] for name in LearnerSpec.LIMITS if name in given}
        return replace(self, **changes).limited(limits)

    def quick_settings(self) -> dict[str, Any]:
        """Return 2 partitions, 2 inner folds, 4 candidates, few steps, no traces, a class subset.

        Of class sets it is 2 of these.  The subset is the first of at least seven classes, as many
        as unseen classes need; else the first.
        """
        numbers = [it for it in self.classes if isinstance(it, int) and it >= LEAST_FOR_UNSEEN]
        return {
            "replicates" if self.replicates else "partitions": 2,
            "inner_folds": 2,
            "search": "4",
            "max_steps": 64_000,
            "traces": False,
            "classes": tuple(numbers or self.classes)[:1],
            **{name: value for name, value in self.quick.items() if name != "corpora"},
        }

    def with_numbers(self, partitions: int, n_train: int, n_test: int) -> Self:
        """Return it with these numbers, and no more inner folds than two of a class allow."""
        return replace(
            self,
            partitions=partitions,
            train_per_class=n_train,
            test_per_class=n_test,
            inner_folds=min(self.inner_folds, max(2, n_train // 2)),
        )

    def settled_as(self, before: Experiment) -> Self:
        """Return it with the numbers that another one has settled on the same data set.

        Numbers that it sets itself stay.
        """
        partitions = self.replicates or self.partitions or before.n_partitions
        if before.train_per_class is None or before.test_per_class is None:
            return replace(self, partitions=partitions)
        n_train = self.train_per_class or before.train_per_class
        n_test = self.test_per_class or before.test_per_class
        return self.with_numbers(partitions, n_train, n_test)

    def find_tasks(self, registry: Registry) -> list[Task]:
        """Return its tasks, each with the split that it is evaluated on.

        Unknown tasks and splits, and a measure to choose by that none of them has, are refused.
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


def built_in_names() -> list[str]:
    """Name the experiment files that come with the package."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))


def tasks_by_option(dataset_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting `tasks` that options of a data set ask by default, if they do."""
    tasks = tuple(task for name, task in TASK_OF_OPTION.items() if name in dataset_options)
    return {"tasks": tasks} if tasks else {}


def _with_params(
    learners: Mapping[str, LearnerSpec], params: Sequence[str]
) -> dict[str, LearnerSpec]:
    """Put hyper-parameters that are given as text into the learners, or refuse one."""
    found = dict(learners)
    for text in params:
        key, sign, values = text.partition("=")
        label, _, name = key.rpartition(".")
        if not (label and name and sign and values):
            raise UsageError(f"--param {quoted(text)}: LEARNER.NAME=VALUE,VALUE is needed")
        if label not in found:
            raise UsageError(f"--param {quoted(text)}: {unknown_name('learner', label, found)}")
        read = [_value(part.strip()) for part in values.split(",")]
        own = {**found[label].params, name: read if len(read) > 1 else read[0]}
        found[label] = replace(found[label], params=own)
    return found


def _value(text: str) -> Any:
    """Read a number, True, False or None; else it is a text."""
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _dataset_of_file(dataset: Any, source: str) -> dict[str, Any]:
    """Return what a file says of a data set, a name or a table, as fields of `Experiment`."""
    if not isinstance(dataset, dict):
        return {"dataset": dataset, "dataset_options": {}}
    if "name" not in dataset:
        raise UsageError(f"{source}: the table [dataset] needs a name")
    options = {name: value for name, value in dataset.items() if name != "name"}
    return {"dataset": dataset["name"], "dataset_options": options}


def _fields_of_file(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return what a file says as the fields of `Experiment`, or refuse its keys and tables."""
    keys = {item.name for item in fields(Experiment)} - NOT_KEYS
    for key in values:
        if key not in keys:
            raise UsageError(f"{source}: {unknown_name('key', key, sorted(keys))}")
    for key in ("each", "quick", "corpora"):
        if not isinstance(values.get(key, {}), dict):
            raise UsageError(f"{source}: {key} must be a table, [{key}]")
    if corpora := values.get("corpora", {}):
        if not all(isinstance(corpus, dict) for corpus in corpora.values()):
            raise UsageError(f"{source}: corpora must be tables, such as [corpora.iris]")
        missing = next((name for name, corpus in corpora.items() if "dataset" not in corpus), None)
        if missing or "dataset" in values:
            raise UsageError(f"{source}: a dataset is needed in each of [corpora], and only there")
        values = {**values, "dataset": next(iter(corpora.values()))["dataset"]}
    for key in ("title", "dataset", "learners"):
        if key not in values:
            raise UsageError(f"{source}: the key {key!r} is missing")
    values = {**values, **_dataset_of_file(values["dataset"], source)}
    tables = values["learners"]
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise UsageError(f"{source}: learners must be tables, such as [learners.OASIS]")
    if comma := next((label for label in tables if "," in label), None):
        raise UsageError(f"{source}: learner {comma!r}: a label must not hold a comma")
    for label, table in tables.items():
        check_value(f"{source}: features of {label}", table.get("features", ""), str)
    lists = [("corpus", values.get("quick", {}).get("corpora", []), corpora)]
    lists += [("learner", one.get("learners", []), tables) for one in corpora.values()]
    for kind, names, known in lists:
        if not isinstance(names, list):
            raise UsageError(f"{source}: {quoted(names)}: a list of names is needed")
        for name in names:
            if name not in [*known]:
                raise UsageError(f"{source}: {unknown_name(kind, str(name), known)}")
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
    return {**values, "learners": learners}
