"""Metadata of a run; the store keeps each field as JSON under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from oasis_bench.experiment.settings import Experiment
from oasis_bench.system import UsageError, shown


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
    """What a task is, as its plugin says.

    Attributes
    ----------
    split, gallery : str
        How items are divided for it, and what queries are compared with (see `tasks.task.Task`).
    measures : sequence of str
        Their names; the first is that by which inner folds choose by default.
    of_data : sequence of str
        Those of the data, which no learner can be better or worse at.
    """

    split: str
    gallery: str
    measures: Sequence[str]
    of_data: Sequence[str] = ()


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
    """One call of the command that ran trials of a run.

    Attributes
    ----------
    started : str
        UTC, ISO 8601.
    command : str or None
        The command line; None where the run was started from Python.
    provenance : dict
        Machine, versions and commit, in plain words (see `oasis_bench.system.machine`).
    load_at_start : float or None
        The load of the machine before the first trial; None where it is not known, as of a merged
        run.
    """

    started: str
    command: str | None
    provenance: Mapping[str, Any]
    load_at_start: float | None = None


@dataclass(frozen=True, kw_only=True)
class Resumption(Session):
    """A later session, which went on with the run.

    Attributes
    ----------
    trials : int
        How many it set out to run.
    limits : dict
        'budget' and 'memory' where they were not those of the experiment.
    """

    trials: int
    limits: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MergedRun:
    """What a merged run keeps of one of the runs that it was made of."""

    started: str
    commit: str | None
    resumed: Sequence[Resumption] = ()


@dataclass(frozen=True, kw_only=True)
class RunFacts(Session):
    """A run as a whole; the attributes of `Session` are those of its first session.

    Attributes
    ----------
    experiment : Experiment
    identities : dict of str to dict
        What decides the results, by learner and class subset (see `experiment.identity`).
    plugin_files : sequence of str
    sources : Sources
    planned_trials : int
    classes : dict of str to sequence of str
        The class names of each subset.
    multi_label : bool
        Whether an item has several labels.
    items : str
        What the data set calls its items, in the plural, such as 'images'.
    n_folds : int
        Folds that the data set is published with, which are the partitions; 0: there are none.
    scaling : sequence of str
        How rows were scaled; of several the inner folds chose.  Empty: no learner takes rows.
    remarks : sequence of str
        What of the data decided how the run was made, and what may mislead, a line each.
    left_out : sequence of str
        What of the data set was not used, a line each.
    notes : dict of str to str
        What a reader of results on a subset must know, by the subset.
    resumed : sequence of Resumption
        The later sessions, in their order.
    finished : str or None
        UTC, ISO 8601; None where the run was cut short.
    load_at_end : float or None
    merged : dict of str to MergedRun
        The runs that this one was merged from, by name; empty where it was not.
    planned_partitions : dict of str to int
        Of a merged run: the partitions planned for each key of `identities`.
    """

    experiment: Experiment
    identities: Mapping[str, Mapping[str, Any]]
    plugin_files: Sequence[str]
    sources: Sources
    planned_trials: int
    classes: Mapping[str, Sequence[str]]
    multi_label: bool
    items: str
    scaling: Sequence[str]
    remarks: Sequence[str]
    left_out: Sequence[str]
    notes: Mapping[str, str]
    n_folds: int = 0
    resumed: Sequence[Resumption] = ()
    finished: str | None = None
    load_at_end: float | None = None
    merged: Mapping[str, MergedRun] = field(default_factory=dict)
    planned_partitions: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, without those that this run does not have."""
        optional = ("resumed", "finished", "load_at_end", "merged", "planned_partitions")
        nothing: tuple[Any, ...] = (None, (), [], {})
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in optional or value not in nothing
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_json` gave.

        Raises
        ------
        UsageError
            Where a key is missing or unknown.
        """
        try:
            sources = values["sources"]
            parts = {
                "experiment": Experiment.from_dict(values["experiment"]),
                "sources": Sources(
                    DatasetSource(**sources["dataset"]),
                    {label: Source(**one) for label, one in sources["learners"].items()},
                    {name: TaskSource(**one) for name, one in sources["tasks"].items()},
                    {name: SplitSource(**one) for name, one in sources["splits"].items()},
                ),
                "resumed": _resumptions(values),
                "merged": {
                    name: MergedRun(**{**one, "resumed": _resumptions(one)})
                    for name, one in values.get("merged", {}).items()
                },
            }
            info = cls(**{**values, **parts})
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"what the store says of its run cannot be read: {error}") from error
        parts_of_it = [*info.resumed, *info.merged.values(), *info.sources.learners.values()]
        parts_of_it += [*info.sources.tasks.values(), *info.sources.splits.values()]
        parts_of_it += [*info.experiment.learners.values()]
        for part in (info, info.sources.dataset, *parts_of_it):
            _refuse_wrong_types(part)
        for cell, identity in info.identities.items():
            if not {"data", "classes"} <= identity.keys():
                raise UsageError(f"it does not say what decides {shown(cell)}")
        return info


def _refuse_wrong_types(part: Any) -> None:
    for name, hint in get_type_hints(type(part)).items():
        if not _is_of(value := getattr(part, name), hint):
            raise UsageError(f"what it says of its {name} is {shown(value)}")


def _is_of(value: object, hint: Any) -> bool:
    """Tell whether a value that was read from JSON is of the type that an annotation says."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind is UnionType:
        return any(_is_of(value, part) for part in parts)
    if kind is Mapping and isinstance(value, Mapping):
        return all(_is_of(k, parts[0]) and _is_of(v, parts[1]) for k, v in value.items())
    if kind is Sequence and isinstance(value, list | tuple):
        return all(_is_of(item, parts[0]) for item in value)
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _resumptions(values: Mapping[str, Any]) -> tuple[Resumption, ...]:
    return tuple(Resumption(**one) for one in values.get("resumed", ()))
