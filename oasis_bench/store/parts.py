"""Which run a trial of a merged run came from, and on which processor it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oasis_bench.store.run_file import RunRecord


@dataclass(frozen=True)
class Part:
    """A run that was merged.

    Attributes
    ----------
    name : str
        Its folder, as the user named it.
    info : dict
        All that its store said of it: settings, provenance, times.
    trial_ids : sequence of str
        The trials that were taken from it.
    """

    name: str
    info: Mapping[str, Any]
    trial_ids: Sequence[str]


def parts_of(run: RunRecord, name: str) -> list[Part]:
    """Return the runs that a run was merged from: itself where it was not."""
    if "merged" in run.info:
        return [Part(**part) for part in run.info["merged"]]
    return [Part(name, run.info, run.trials["trial_id"].tolist())]


def processors(run: RunRecord) -> dict[str, str | None]:
    """Return the processor that each trial ran on, by trial_id; None where it is not known."""
    found: dict[str, str | None] = {}
    for part in parts_of(run, ""):
        used = _processors(part.info)
        found.update(dict.fromkeys(part.trial_ids, used.pop() if len(used) == 1 else None))
    return found


def several_processors(run: RunRecord) -> bool:
    """Tell whether the trials of a run were not all run on one kind of processor."""
    return len(set().union(*(_processors(part.info) for part in parts_of(run, "")))) > 1


def _processors(info: Mapping[str, Any]) -> set[str | None]:
    """Return the processors of a run's sessions: of this machine, or a cluster's workers."""
    found = set()
    for session in (info, *info.get("resumed", [])):
        here = session.get("provenance", {})
        found |= {machine.get("processor") for machine in here.get("workers", {"": here}).values()}
    return found
