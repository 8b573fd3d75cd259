"""What a run tells of itself as a whole; the store keeps each field as JSON under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from oasis_bench.experiment.settings import Experiment
from oasis_bench.system.errors import UsageError


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


@dataclass(frozen=True)
class Sources:
    """The sources of a run's data set, and of its learners by label."""

    dataset: DatasetSource
    learners: Mapping[str, Source]


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
        Machine, versions and commit, in plain words (see `oasis_bench.system.provenance`).
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
    run : str or None
        In a merged run: the run that went on.
    """

    trials: int
    limits: Mapping[str, str]
    run: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; without `run` where the run is not merged."""
        return {name: v for name, v in asdict(self).items() if (name, v) != ("run", None)}


@dataclass(frozen=True, kw_only=True)
class RunInfo(Session):
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
    normalize : str
        How rows were scaled.
    left_out : sequence of str
        What of the data set was not used, a line each.
    notes : dict of str to str
        What a reader of results on a subset must know, by the subset.
    resumed : sequence of Resumption
        The later sessions, in their order.
    finished : str or None
        UTC, ISO 8601; None where the run was cut short.
    load_at_end : float or None
    """

    experiment: Experiment
    identities: Mapping[str, Mapping[str, Any]]
    plugin_files: Sequence[str]
    sources: Sources
    planned_trials: int
    classes: Mapping[str, Sequence[str]]
    multi_label: bool
    normalize: str
    left_out: Sequence[str]
    notes: Mapping[str, str]
    resumed: Sequence[Resumption] = ()
    finished: str | None = None
    load_at_end: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, without what is not known before the run has ended."""
        values = {
            **asdict(self),
            "experiment": self.experiment.to_dict(),
            "resumed": [session.to_json() for session in self.resumed],
        }
        later = ("resumed", "finished", "load_at_end")
        return {name: v for name, v in values.items() if v not in (None, []) or name not in later}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_json` gave; further keys, as those of a merged run, are left out.

        Raises
        ------
        UsageError
            Where a key is missing or unknown within a part.
        """
        known = {item.name for item in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        try:
            given["experiment"] = Experiment.from_dict(values["experiment"])
            sources = values["sources"]
            given["sources"] = Sources(
                DatasetSource(**sources["dataset"]),
                {label: Source(**one) for label, one in sources["learners"].items()},
            )
            given["resumed"] = tuple(Resumption(**one) for one in values.get("resumed", ()))
            return cls(**given)
        except (KeyError, TypeError) as error:
            raise UsageError(f"what the store says of its run cannot be read: {error}") from error
