"""Whether a run can go on: what decides its results must be what it was when it began."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from oasis_bench.plugins import MetricLearner
from oasis_bench.system import UsageError
from oasis_bench.tasks import named_unless_usual

Identities = Mapping[str, Mapping[str, Any]]
"""What decides the results of a run, by `cell_name`."""

DECIDING = (
    *("system", "data", "sampling", "tasks", "plugins", "experiment", "trial", "execution"),
    *("algorithms", "datasets"),
)
"""The packages whose code decides results."""

CODE = {".py", ".so"}

WORDS = {
    "data": "the rows of the data set",
    "source": "the source code",
    "version": "the version of oasis-bench",
    "code": "the code of oasis-bench",
    "libraries": "the version of numpy, scipy or scikit-learn",
    "kernel": "OASIS_BENCH_KERNEL",
    "grid": "the hyper-parameters to try",
    "model": "the model file",
}


def cell_name(learner: str, subset: str, split: str) -> str:
    """Return the key of a learner's label, a class subset and a split in `Identities`."""
    return ", ".join([f"{learner}, classes {subset}", *named_unless_usual(split)])


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


def source_hash(plugin: type[MetricLearner]) -> str:
    """Hash the source files of a learner and of its bases in its package and in oasis_bench."""
    package = plugin.__module__.partition(".")[0]
    files = {
        file
        for base in plugin.__mro__
        if base.__module__.partition(".")[0] in {package, "oasis_bench"}
        if (file := inspect.getsourcefile(base))
    }
    contents = sorted(hashlib.sha256(Path(file).read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(contents)).hexdigest()


def package_hash() -> str:
    """Hash the Python and compiled files of the packages in `DECIDING`."""
    folders = [Path(f) for name in DECIDING for f in import_module(f"oasis_bench.{name}").__path__]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in CODE]
    contents = sorted(hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(contents)).hexdigest()
