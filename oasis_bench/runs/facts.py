"""What a run says of itself; the store keeps each field of `RunFacts` as JSON under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, get_type_hints

from msgspec import ValidationError, convert

from oasis_bench.experiment import Experiment
from oasis_bench.system import UsageError, shown

LEARNER = tuple[str, dict[str, Any], str | None, str | None]
"""Types of what a store says of a learner: algorithm, hyper-parameters, model file, features."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a learner comes from, as its plugin says: for the report to cite."""

    summary: str
    citation: str


@dataclass(frozen=True, kw_only=True)
class DatasetSource(Source):
    """Where a data set comes from, as its plugin says."""

    name: str
    licence: str


@dataclass(frozen=True, kw_only=True)
class TaskSource(Source):
    """What a task is, as its plugin says."""

    split: str  # how items are divided for it
    gallery: str  # what queries are compared with (see `tasks.task.Task`)
    measures: Sequence[str]  # the first is that by which inner folds choose by default
    of_data: Sequence[str] = ()  # those of the data: no learner can be better or worse at them


@dataclass(frozen=True, kw_only=True)
class SplitSource(Source):
    """How items are divided, in the words of the split's plugin; and whether by items a class."""

    per_class: bool


@dataclass(frozen=True)
class Sources:
    """The sources of a run: its data set, learners by label, tasks and splits by name."""

    dataset: DatasetSource
    learners: Mapping[str, Source]
    tasks: Mapping[str, TaskSource]
    splits: Mapping[str, SplitSource]


@dataclass(frozen=True, kw_only=True)
class Session:
    """One call of the command that ran trials of a run."""

    started: str  # UTC, ISO 8601
    command: str | None  # the command line; None where the run was started from Python
    provenance: Mapping[str, Any]  # machine, versions and commit (see `system.machine`)
    load_at_start: float | None = None  # of the machine before the first trial; None: not known


@dataclass(frozen=True, kw_only=True)
class Resumption(Session):
    """A later session, which went on with the run."""

    trials: int  # that it set out to run
    limits: Mapping[str, str]  # 'budget' and 'memory' where not those of the experiment


@dataclass(frozen=True, kw_only=True)
class RunFacts(Session):
    """A run as a whole; the attributes of `Session` are those of its first session."""

    experiment: Experiment
    identities: Mapping[str, Mapping[str, Any]]  # what decides results, by learner and subset
    plugin_files: Sequence[str]
    sources: Sources
    planned_trials: int
    classes: Mapping[str, Sequence[str]]  # the names of each subset, or of its first class set
    multi_label: bool  # whether an item has several labels
    items: str  # what the data set calls its items, in the plural, such as 'images'
    scaling: Sequence[str]  # of rows; of several the inner folds chose; none: no learner takes rows
    remarks: Sequence[str]  # what of the data decided how the run is made, and what may mislead
    left_out: Sequence[str]  # what of the data set was not used, a line each
    notes: Mapping[str, str]  # what a reader of results on a subset must know, by the subset
    n_folds: int = 0  # that the data set is published with: the partitions; 0: there are none
    resumed: tuple[Resumption, ...] = ()  # the later sessions, in their order
    finished: str | None = None  # UTC, ISO 8601; None where the run was cut short
    load_at_end: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, without those that this run does not have."""
        optional = ("resumed", "finished", "load_at_end")
        nothing: tuple[Any, ...] = (None, (), [], {})
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in optional or value not in nothing
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_json` gave; what is of another type is refused."""
        types = get_type_hints(cls)
        try:
            parts = {key: convert(values[key], types[key]) for key in values if key != "experiment"}
            info = cls(experiment=Experiment.from_dict(values["experiment"]), **parts)
            for one in info.experiment.learners.values():
                convert((one.algorithm, one.params, one.model, one.features), LEARNER)
        except (KeyError, TypeError, AttributeError, ValidationError) as error:
            raise UsageError(f"what the store says of its run cannot be read: {error}") from error
        for cell, identity in info.identities.items():
            if not {"data", "classes"} <= identity.keys():
                raise UsageError(f"it does not say what decides {shown(cell)}")
        return info
