"""Whether a run can go on: what decides its results must be what it was when it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oasis_bench.errors import UsageError
from oasis_bench.plan import TrialSpec

Identities = Mapping[str, Mapping[str, Any]]

WORDS = {
    "data": "the rows of the data set",
    "source": "the source code",
    "version": "the version of oasis-bench",
    "code": "the code of oasis-bench",
    "libraries": "the version of numpy, scipy or scikit-learn",
    "kernel": "OASIS_BENCH_KERNEL",
    "grid": "the hyper-parameters to try",
}


def identities(specs: Sequence[TrialSpec]) -> Identities:
    """Return what decides the results of a run, once for each learner and class subset."""
    return {cell_name(spec.learner, spec.subset): spec.identity for spec in reversed(specs)}


def cell_name(learner: str, subset: str) -> str:
    """Return the key of a learner's label and a class subset in `identities`."""
    return f"{learner}, classes {subset}"


def refuse_what_changed(before: Identities, now: Identities, folder: Path) -> None:
    """Raise a UsageError that names what has changed since a run began, if anything has."""
    changes = [
        f"{WORDS.get(key, key)} of {name}"
        for name, identity in before.items()
        for key, value in identity.items()
        if key != "partition" and now.get(name, {}).get(key) != value
    ]
    if changes or before.keys() != now.keys():
        what = changes[0] if changes else "the list of learners or class subsets"
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        raise UsageError(
            f"{folder} cannot go on: changed since it began: {what}{more}: results of both must "
            "not be mixed: change it back, or start a new run with another --output"
        )
