"""The names of learners, data sets, tasks and splits that are installed.

Our own learners and data sets are the classes in the doors of their wings.  Tasks, splits and the
plugins of other packages are entry points, which are not imported for this.  The names in plugin
files are known after their import: see `plugins.registry`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from oasis_bench.plugins.index import WINGS, remembered
from oasis_bench.system import UsageError, open_regular, quoted, unknown_name

FILE, FOLDER, TRIPLETS = "file", "images", "judged-triplets"
PATH_DATASETS = (FILE, FOLDER, TRIPLETS)
"""Registered data sets whose parameter `path` is the user's name of the data set."""

BASELINE = "Euclidean"
"""The learner that all others are compared and blended with."""

LONGEST_HEADER = 65_536
"""Bytes to read of the first line of a CSV file."""


def installed(kind: str) -> list[EntryPoint]:
    """Return the entry points of a kind, such as 'algorithm' or 'data set', sorted by name."""
    group = f"oasis_bench.{kind.replace('data set', 'dataset')}s"
    own = _wing(group) if group in WINGS else []
    return sorted({*own, *_entry_points(tuple(sys.path)).select(group=group)})


def find_dataset(name: str, known: Iterable[str]) -> tuple[str, Path | None]:
    """Find the data set that a user's name means: a known data set, or a path.

    A known data set has priority over a path of the same name.  A CSV file with the columns query,
    positive and negative has judged triplets; the same is true of a folder with such a file
    ``triplets.csv``.  Returns the name of the data set and, for `PATH_DATASETS`, the path to read.
    """
    if name in PATH_DATASETS:
        raise UsageError(
            f"data set {name} is your own data: give its path in place of {quoted(name)}"
        )
    if not name.strip() or "\0" in name:
        raise UsageError(f"data set {quoted(name)}: a name or a path is needed (. is this folder)")
    names = [one for one in known if one not in PATH_DATASETS]
    path = Path(name)
    if name in names:
        return name, None
    if _holds_triplets(path):
        return TRIPLETS, path
    if os.path.isdir(path):  # unlike Path.is_dir, it takes names that are too long
        return FOLDER, path
    if path.suffix or "/" in name or os.path.exists(path):
        return FILE, path
    problem = unknown_name("data set", name, names)
    raise UsageError(f"{problem}, or give the path of a file or a folder of pictures")


def _holds_triplets(path: Path) -> bool:
    """Tell whether a path is a CSV file of judged triplets, or a folder with one."""
    if os.path.isdir(path):
        path = path / "triplets.csv"
    if path.suffix.lower() != ".csv":
        return False
    try:
        with open_regular(path) as file:
            line = file.readline(LONGEST_HEADER)
    except OSError:  # the data set of a table reports it
        return False
    encoding = "utf-16" if line[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    names = re.split(r"[,;\t|]", line.decode(encoding, "replace"))
    return {"query", "positive", "negative"} <= {name.strip().strip('"') for name in names}


@cache
def _wing(group: str) -> list[EntryPoint]:
    """Return the learners or data sets in the door of a wing, which is imported if it has changed.

    One that cannot be imported has the name of its class; its use raises the error.
    """
    names = remembered(group.rpartition(".")[2], partial(_names, group))
    return [EntryPoint(called, f"{group}:{name}", group) for name, called in names.items()]


def _names(group: str) -> dict[str, str]:
    wing, found = import_module(group), {}
    for name in wing.__all__:
        try:
            called = getattr(getattr(wing, name), "name", None)
        except Exception:  # such as a kernel that is not built
            called = name
        if called:
            found[name] = called
    return found


@cache
def _entry_points(sys_path: tuple[str, ...]) -> Any:
    """Return the entry points of the distributions on `sys_path`.

    The cache saves 10 ms for each further call.  Their type, which has `select`, is different
    before Python 3.12.
    """
    return entry_points()
