"""Where the files of data sets lie: in the user's own folder of data, or in the cache folder.

Not for fetching them: that is in `download` and `archives`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oasis_bench.system import UsageError, cache_home


def data_folder(name: str) -> Path | None:
    """Return the folder `name` of the folder that `OASIS_BENCH_DATA` names; None: there is none.

    Raises
    ------
    UsageError
        Where the environment variable is set and names no folder.
    """
    value = os.environ.get("OASIS_BENCH_DATA")
    if not value:
        return None
    home = Path(value).expanduser()
    if not home.is_dir():
        raise UsageError(f"OASIS_BENCH_DATA={value} is not a folder: correct it or unset it")
    folder = home / name
    return folder if folder.is_dir() else None


def dataset_folder(name: str) -> Path:
    """Return `data_folder`, or the folder in the cache folder, which need not exist."""
    return data_folder(name) or cache_home() / name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and keep it for this caller: other callers, of any process, wait.

    The operating system releases the lock when a process ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
