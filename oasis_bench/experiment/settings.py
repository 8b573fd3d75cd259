"""An experiment: what is compared on what, from a TOML file or the command line.

Not for its trials: `oasis_bench.experiment.plan` lists them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from oasis_bench.data.scaling import NORMALISATIONS
from oasis_bench.experiment.budget import OFF, Budget
from oasis_bench.system.errors import UsageError, unknown_name

BUILT_IN = files("oasis_bench.experiment.built_in")

OF_LEARNER = ("algorithm", "budget", "memory")
"""Keys of a learner's table that are not hyper-parameters."""


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
    budget, memory : str or None, default None
        Its own limits, as those of the experiment; None is those.
    """

    algorithm: str
    params: Mapping[str, Any] = field(default_factory=dict)
    budget: str | None = None
    memory: str | None = None


@dataclass(frozen=True)
class Experiment:
    """All that decides the results of a run, defaults as in the papers (JMLR 2010, 5.3.2).

    Attributes
    ----------
    title : str
    dataset : str
        A registered name, or the path of the user's own file, from the working folder.
    learners : dict of str to LearnerSpec
        By the label that tables print.
    label : str or None, default None
        The label column of the user's own file.
    visterms : int or None, default None
        Visual words of a data set of pictures; None is its own default.
    block : int or None, default None
        The side, in pixels, of the blocks of a data set of pictures; None is its own default.
    classes : tuple of int, str or tuple of str
        The class subsets: a number of classes to choose at random, the name of a subset of the
        data set, a tuple of class names, or 'all'.
    partitions : int, default 5
        Outer partitions, each a random draw of training and test images.
    inner_folds : int, default 5
    train_per_class, test_per_class : int, defaults 40 and 25
    test_share : float, default 0.1
        Share of the images that test, where images have several labels; there the numbers of
        images a class have no meaning.
    seed : int, default 0
    normalize : {'l2', 'none', 'tfidf'} or None, default None
        What is done to rows (see `oasis_bench.data.scaling`); None is what the data set says.
    max_steps : int, default 400000
        Where the search for the number of steps ends at the latest.
    traces : bool, default True
        Whether mAP, and the symmetry of W, along the steps are replayed after each fit of an
        incremental learner.
    threads : int, default 1
        Threads of a fit.
    examples : int, default 8
        Test pictures of the first partition, drawn at random, whose neighbours the report shows.
    budget : str, default '1h'
        The longest that a fit, or another call of a learner, may take, such as '10m'; or 'off'.
    memory : str, default 'off'
        The most memory that a trial may take, such as '4GiB'; or 'off'.
    """

    title: str
    dataset: str
    learners: Mapping[str, LearnerSpec]
    label: str | None = None
    visterms: int | None = None
    block: int | None = None
    classes: tuple[int | str | tuple[str, ...], ...] = (2, 5, 10)
    partitions: int = 5
    inner_folds: int = 5
    train_per_class: int = 40
    test_per_class: int = 25
    test_share: float = 0.1
    seed: int = 0
    normalize: str | None = None
    max_steps: int = 400_000
    traces: bool = True
    threads: int = 1
    examples: int = 8
    budget: str = "1h"
    memory: str = OFF

    def __post_init__(self) -> None:
        for name, least in (
            ("partitions", 1),
            ("inner_folds", 2),
            ("train_per_class", 2),
            ("test_per_class", 2),
            ("seed", 0),
            ("max_steps", 1),
            ("threads", 1),
            ("examples", 0),
        ):
            _check_int(name, getattr(self, name), least)
        for name in ("visterms", "block"):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), 2)
        kinds = {"title": str, "dataset": str, "traces": bool}
        if self.label is not None:
            kinds["label"] = str
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise UsageError(f"{name} = {getattr(self, name)!r}: a {kind.__name__} is needed")
        if not isinstance(self.classes, tuple) or not self.classes:
            raise UsageError(f"classes = {self.classes!r}: a list of class subsets is needed")
        for subset in self.classes:
            _check_subset(subset)
        if len(set(self.classes)) < len(self.classes):
            raise UsageError(f"classes = {list(self.classes)}: name each class subset once")
        if not isinstance(self.test_share, float) or not 0 < self.test_share < 1:
            raise UsageError(
                f"test_share = {self.test_share!r}: a number between 0 and 1 is needed"
            )
        if self.normalize is not None and self.normalize not in NORMALISATIONS:
            raise UsageError(unknown_name("normalization", str(self.normalize), NORMALISATIONS))
        if 2 * self.inner_folds > self.train_per_class:
            raise UsageError(
                f"inner_folds = {self.inner_folds} but train_per_class = {self.train_per_class}: "
                "each fold needs 2 images of each class to validate on"
            )
        if not self.learners:
            raise UsageError("no learners: name at least one")
        for label in self.learners:
            self.budget_of(label)

    def limited(self, limits: Mapping[str, str]) -> Self:
        """Return it with other limits, 'budget' or 'memory', for all learners."""
        learners = {
            label: replace(
                spec,
                budget=None if "budget" in limits else spec.budget,
                memory=None if "memory" in limits else spec.memory,
            )
            for label, spec in self.learners.items()
        }
        budget, memory = limits.get("budget", self.budget), limits.get("memory", self.memory)
        return replace(self, learners=learners, budget=budget, memory=memory)

    def budget_of(self, label: str) -> Budget:
        """Return the limits of a learner.

        Raises
        ------
        UsageError
            Where they are not written as limits.
        """
        own = self.learners[label]
        return Budget.parse(own.budget or self.budget, own.memory or self.memory)

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
            values["classes"] = tuple(
                tuple(item) if isinstance(item, list) else item for item in values["classes"]
            )
        tables = values["learners"]
        if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
            raise UsageError(f"{source}: learners must be tables, such as [learners.OASIS]")
        if comma := next((label for label in tables if "," in label), None):
            raise UsageError(f"{source}: learner {comma!r}: a label must not hold a comma")
        values["learners"] = {
            label: LearnerSpec(
                str(table.get("algorithm", label)),
                {name: value for name, value in table.items() if name not in OF_LEARNER},
                table.get("budget"),
                table.get("memory"),
            )
            for label, table in tables.items()
        }
        return cls(**values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_dict` gave, also when JSON has turned tuples into lists."""
        learners = {label: LearnerSpec(**spec) for label, spec in values["learners"].items()}
        classes = tuple(
            tuple(item) if isinstance(item, list) else item for item in values["classes"]
        )
        return cls(**{**values, "learners": learners, "classes": classes})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for the store."""
        return asdict(self)


def built_in_experiments() -> list[str]:
    """Name the experiment files that come with the package."""
    return sorted(
        item.name.removesuffix(".toml")
        for item in BUILT_IN.iterdir()
        if item.name.endswith(".toml")
    )


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} = {value!r}: a whole number of at least {least} is needed")


def _check_subset(subset: object) -> None:
    if isinstance(subset, str):
        return
    if not isinstance(subset, tuple):
        _check_int("classes", subset, 2)
    elif len(set(subset)) < 2 or not all(isinstance(name, str) for name in subset):
        raise UsageError(f"classes = {list(subset)!r}: at least 2 names of classes are needed")
