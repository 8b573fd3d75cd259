"""Files and folders that a reader sees whole or not at all, and where the cache is."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file, which gets its name when the block ends without an exception.

    Until then `path` is what it was before, and after an exception it stays so.

    Parameters
    ----------
    path : Path
        In a folder that exists; a file of this name is replaced.

    Yields
    ------
    file object
        Binary, for writing; `seek` works.

    Raises
    ------
    OSError
        Where the file cannot be written.
    """
    part = _part_of(path)
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Make a new folder, which gets its name when the block ends without an exception.

    After an exception the new folder and its content are removed.

    Parameters
    ----------
    path : Path
        In a folder that exists; there is nothing of this name, or an empty folder.

    Yields
    ------
    Path
        The new folder under its temporary name.

    Raises
    ------
    OSError
        Where the folder cannot be made, or `path` is not free.
    """
    part = _part_of(path)
    part.mkdir()
    try:
        yield part
        os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _part_of(path: Path) -> Path:
    """Return a name beside `path` that no other writer uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


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
