"""What is installed, remembered between commands: to import or to hash it all takes a second."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from oasis_bench.system import UsageError, cache_home, whole_file

WINGS = ("oasis_bench.algorithms", "oasis_bench.datasets")
SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".h", ".so", ".toml"}


def remembered(what: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, in a form that JSON has, from the cache if nothing has changed.

    The cache has one file for each `what`.  Where it cannot be read or written, `make` is called.
    """
    path = cache_home() / "index" / f"{what}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["installed"] == _installed():
            return kept["found"]
    found = make()
    with suppress(OSError, UsageError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(json.dumps({"installed": _installed(), "found": found}).encode())
    return found


@cache
def _installed() -> str:
    """Hash the times of our files and of installed packages; other files of the path may change."""
    digest = hashlib.sha256(sys.version.encode())
    for path in _watched():
        with suppress(OSError):
            digest.update(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}\n".encode())
    return digest.hexdigest()


def _watched() -> Iterator[Path]:
    for folder in map(Path, sys.path):  # one for each package; ours is on the path of some commands
        yield from sorted({*folder.glob("*-info")} - {*folder.glob("oasis_bench*")})
    for name in ("oasis_bench", *WINGS):
        for folder in map(Path, import_module(name).__path__):
            yield from sorted(one for one in folder.rglob("*.*") if one.suffix in SUFFIXES)
