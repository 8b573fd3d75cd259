"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from oasis_bench.system.errors import UsageError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing, but not the folders above that.
    content : bytes

    Raises
    ------
    OSError
        Where it cannot be written; the old file is there still.
    """
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def cache_home() -> Path:
    """Return the folder for downloads; it need not exist.

    That is `OASIS_BENCH_CACHE` where it is set, else ``oasis-bench`` in `XDG_CACHE_HOME`, which
    is ``~/.cache`` where it is not set.

    Raises
    ------
    UsageError
        Where the user has no home folder and none of the variables is set.
    """
    try:
        if value := os.environ.get("OASIS_BENCH_CACHE"):
            return Path(value).expanduser()
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification: a relative path is not valid and is to be ignored.
        return (base if base.is_absolute() else Path.home() / ".cache") / "oasis-bench"
    except RuntimeError as error:
        raise UsageError(
            "no home folder to keep downloads in: set OASIS_BENCH_CACHE to a folder"
        ) from error
