"""Where the files of data sets lie, and how errors of files are worded.

They lie in the user's own folder of data, or in the cache folder.  `download` fetches them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oasis_bench.system import UsageError, cache_home, cut, printable

LONGEST = 500
"""Characters of a library's message that are repeated: some quote the file."""

DOZEN = 12

OTHER_FOLDER = "free or correct it, or set OASIS_BENCH_CACHE to another folder"


def data_folder(name: str) -> Path | None:
    """Return the folder `name` of the folder that `OASIS_BENCH_DATA` names; None: there is none."""
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


def reason_of(error: object) -> str:
    """Return on one line what the system or a library says of an error; at least its type."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(cut(" ".join(text.split()), LONGEST))


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the error of a file or folder in the cache folder that cannot be written."""
    return UsageError(f"cannot write {path}: {reason_of(error)}: {OTHER_FOLDER}")


def first_dozen(texts: Sequence[str], between: str = ", ") -> str:
    """Join texts, the first dozen of many, and then say how many there are."""
    rest = f" ... ({len(texts)} in all)" if len(texts) > DOZEN else ""
    return between.join(texts[:DOZEN]) + rest
