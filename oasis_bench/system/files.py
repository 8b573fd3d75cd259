"""Files and folders that a reader sees whole or not at all, and where the cache is."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePath
from tempfile import TemporaryFile
from typing import BinaryIO, Literal

from oasis_bench.system.errors import OutputError, UsageError, quoted, spelled


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file to read it in binary: a FIFO or a device could be read without an end."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_kind(mode)}, not a regular file", str(path))
    return path.open("rb")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a FIFO" if stat.S_ISFIFO(mode) else "a device or a socket"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new binary file, which replaces `path` when the block ends without an exception.

    Until then, and after an exception, `path` is what it was before.
    """
    part = _part_of(path)
    new = part.open("xb")  # before 'try': a file that is not ours is not removed
    try:
        with new as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def refuse_input(output: Path | None, inputs: Iterable[object]) -> None:
    """Raise UsageError where what is to be written is one of the inputs, by this or another path.

    Links count.  Inputs that are no paths, or are not there, are passed over.
    """
    for path in inputs:
        if output is not None and isinstance(path, str | Path) and _is_same(output, path):
            raise UsageError(
                f"{spelled('output')} {output} is an input too, and would replace it: choose "
                f"another {spelled('output')}"
            )


def _is_same(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them is not there, or no path
        return False


class Folder:
    """A folder: files below it, which never lead out of it, and whether it can be written."""

    EXPORT = "export"
    """The folder in a run's for files of an export that was given none."""

    MODELS, PREDICTIONS, UNFINISHED = "models", "predictions", ".unfinished"
    """The folders in a run's for files of its trials, and where they are until these end well."""

    OUTPUT_LOG = "output.log"
    """The file of a run with what its learners printed, one trial after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Return the path of a file or a folder below it, which need not exist.

        What a run's folder links to is not of the run: a run may come from a stranger.
        """
        path, parts = self.root, PurePath(name).parts
        for part in parts:
            if part in ("/", ".."):
                raise UsageError(
                    f"{quoted(name)} is not below {self.root}: give it a name without '..'"
                )
            path /= part
            with suppress(FileNotFoundError, NotADirectoryError):
                mode = path.lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise UsageError(
                        f"{path} is {_kind(mode)}: only regular files and folders below "
                        f"{self.root} are read and written: remove it, or put what it stands for "
                        "in its place"
                    )
        return path

    def open(self, name: str, mode: Literal["rb", "ab"] = "rb") -> BinaryIO:
        """Open a regular file below it, to read it or to append to it."""
        path = self.path(name)
        if mode == "ab" and path.exists() and path.stat().st_nlink > 1:
            wrong = "it is a hard link, and another file would grow too: put a copy in its place"
            raise OSError(errno.EINVAL, wrong, str(path))
        return path.open(mode)

    def write(self, name: str, content: bytes) -> None:
        """Write a file below it by `whole_file`; a missing folder between is made."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(content)

    def append(self, name: str, content: bytes) -> None:
        """Append to a file of a run; raise OutputError where that is not possible."""
        with OutputError.at(self.root / name), self.open(name, "ab") as file:
            file.write(content)

    def make_writable(self) -> None:
        """Make the folder, if it is missing, before hours of work: it must take a file."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            is_other = self.root.exists() and not self.root.is_dir()
            reason = "is no folder" if is_other else error.strerror
            raise UsageError(
                f"cannot write to {self.root}: {reason}: choose another {spelled('output')}, or "
                "correct what is in the way"
            ) from error

    @contextmanager
    def exporting(self) -> Iterator[None]:
        """Make the folder of an export, if it is missing, and word what is in the way of files."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise UsageError(
                f"cannot export to {self.root}: {error.strerror}; choose another "
                f"{spelled('output')}, or free or change what is in the way"
            ) from error

    @contextmanager
    def whole(self) -> Iterator[Path]:
        """Make it anew: it gets its name when the block ends without an exception.

        Yields its temporary name.  After an exception the new folder and its content are removed.
        """
        part = _part_of(self.root)
        part.mkdir()
        try:
            yield part
            os.replace(part, self.root)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _part_of(path: Path) -> Path:
    """Return a name beside `path` that no other writer uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def cache_home() -> Path:
    """Return the folder for downloads, which need not exist.

    `OASIS_BENCH_CACHE`, else ``oasis-bench`` in `XDG_CACHE_HOME`, else ``~/.cache/oasis-bench``.
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
