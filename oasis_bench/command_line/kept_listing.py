"""What `list` prints, kept in the cache folder: to make it all plugins are imported, for a second.

It is shown again as long as the same packages and names are there, and no file is changed or gone
that was imported for it.  Nothing is kept of plugin files, nor where a plugin is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import oasis_bench
from oasis_bench.experiment import BUILT_IN, built_in_experiments
from oasis_bench.plugins import installed
from oasis_bench.system import UsageError, cache_home, open_regular, whole_file

BROKEN = "BROKEN: "
"""What stands before the error of a plugin."""

_BEGAN = time.time_ns()
"""When this process had imported no plugin yet: a newer file may not be what it imported."""


def kept_listing(options: argparse.Namespace) -> str | None:
    """Return the text that is kept for these options of `list`, if it still holds."""
    if options.plugin or options.dataset is not None:
        return None
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        with open_regular(_path(options)) as file:
            kept = json.load(file)
        files, text = kept["files"], kept["text"]
        if kept["key"] == _key() and files == _state(files) and isinstance(text, str):
            return text
    return None


def keep_listing(options: argparse.Namespace, text: str) -> None:
    """Keep the text that was made for these options, where it can be kept."""
    if options.plugin or BROKEN in text:
        return
    modules = [getattr(module, "__dict__", {}) for module in [*sys.modules.values()]]
    imported = {name for module in modules if isinstance(name := module.get("__file__"), str)}
    files = _state(sorted(imported) + [str(path) for path in sorted(BUILT_IN.glob("*.toml"))])
    if max(changed for changed, _ in files.values()) > _BEGAN:
        return
    with suppress(OSError, UsageError):
        _path(options).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(_path(options)) as file:
            file.write(json.dumps({"key": _key(), "files": files, "text": text}).encode())


def _path(options: argparse.Namespace) -> Path:
    return cache_home() / "listings" / f"{options.what or 'all'}.json"


def _key() -> list[Any]:
    """Return what decides which files are imported: versions, packages, and registered names."""
    # The folder that one stands in is left out: 'python -m' puts it first, wherever that is.
    folders = {os.path.abspath(folder) for folder in sys.path} - {os.getcwd()}
    names = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    packages = {name for name in names if name.endswith((".dist-info", ".egg-info"))}
    points = [point for kind in ("algorithm", "data set", "task") for point in installed(kind)]
    return [
        *(oasis_bench.__version__, oasis_bench.__file__, sys.version, sorted(packages)),
        sorted({f"{point.group} {point.name} {point.value}" for point in points}),
        built_in_experiments(),
    ]


def _state(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return when each file was changed, in nanoseconds, and its size in bytes."""
    found = {path: os.stat(path) for path in paths if os.path.exists(path)}
    return {path: [state.st_mtime_ns, state.st_size] for path, state in found.items()}
