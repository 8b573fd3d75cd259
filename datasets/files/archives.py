"""Archives of data sets: fetched, and unpacked whole or not at all, whatever they hold.

Not for reading what was unpacked.  Only files and folders are ever made from an archive, each
below the folder it is unpacked to: no links, no devices, no more than it is allowed.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import lzma
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase, BufferedReader
from pathlib import Path, PurePosixPath
from reprlib import repr as shown
from typing import IO, Any
from urllib.parse import urlsplit

from oasis_bench.datasets.files.download import data_folder, fetch
from oasis_bench.system.errors import UsageError
from oasis_bench.system.files import cache_home
from oasis_bench.system.progress import Progress, no_progress

CHUNK_BYTES = 2**16

MAX_READ = 2**20
"""Bytes read at once: what `tarfile` takes into memory whole are headers, which are short."""

MAX_LINK_TARGET = 4096

# What tarfile, gzip and zipfile raise for damaged archives.
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,  # zipfile: an encrypted member, or a kind of compression it does not know
    ValueError,  # numbers in a header that make no sense
)


@dataclass(frozen=True)
class Archive:
    """A data set's archive on the network.

    Parameters
    ----------
    url : str
        Where it lies; its last part is the name of the file: tar, tar.gz or zip.
    checksum : str
        As `oasis_bench.datasets.files.download.fetch` takes it.
    folder : str
        The name of the data set's folder, in `OASIS_BENCH_DATA` and in the cache folder.
    max_members, max_bytes : int
        What it may hold when unpacked; more is refused.
    top : str, default ''
        The folder within the archive that becomes `folder`; '' for all of it.
    inner : str, optional
        The archive within the archive that holds the data.
    """

    url: str
    checksum: str
    folder: str
    max_members: int
    max_bytes: int
    top: str = ""
    inner: str | None = None

    @property
    def file_name(self) -> str:
        """The name of the archive's file."""
        return posixpath.basename(urlsplit(self.url).path)


class _RefusedError(Exception):
    """What an archive holds is not to be unpacked."""


@dataclass(frozen=True)
class _Member:
    """An entry of an archive; `open` is None where it is no file, and then it is left out."""

    name: str
    size: int
    open: Callable[[], IO[bytes]] | None


def at_hand(name: str) -> str | None:
    """Return the path of a data set's folder, or None where there is none.

    Parameters
    ----------
    name : str
        The folder's name, in `OASIS_BENCH_DATA` and in the cache folder.

    Raises
    ------
    UsageError
        Where `OASIS_BENCH_DATA` is set and names no folder.
    """
    folder = data_folder(name) or cache_home() / name
    return str(folder) if folder.is_dir() else None


def locate(archive: Archive, progress: Progress = no_progress) -> Path:
    """Return the folder of a data set, downloading and unpacking its archive where needed.

    That is the folder in `OASIS_BENCH_DATA` where there is one, else the one in the cache
    folder, which is made from the archive in ``archives`` of either; an archive that is in
    neither is downloaded to the cache and stays there.  Of several processes one unpacks and
    the others wait for it.

    Parameters
    ----------
    archive : Archive
        What to find.
    progress : callable, default no_progress
        Told of the bytes downloaded, then of the bytes unpacked.

    Raises
    ------
    UsageError
        Where the archive cannot be had, is damaged, or holds what it may not: names that lead
        out of its folder, links that do, devices, too many members or too many bytes.
    """
    folder = data_folder(archive.folder) or cache_home() / archive.folder
    if folder.is_dir():
        return folder
    kept = data_folder("archives")
    path = kept / archive.file_name if kept else None
    if path is None or not path.is_file():
        path = cache_home() / "archives" / archive.file_name
        fetch(archive.url, path, archive.checksum, progress)
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not folder.is_dir():  # else another process has made it meanwhile
                _verify(file, path, archive.checksum)
                _make(folder, path, archive, progress)
    except OSError as error:
        raise UsageError(
            f"cannot unpack {path} to {folder}: {error.strerror or error}: "
            "free or correct it, or set OASIS_BENCH_CACHE to another folder"
        ) from error
    return folder


def _verify(file: BufferedReader, path: Path, checksum: str) -> None:
    """Refuse another file of that name, or a part of it: tarfile takes a part for a whole."""
    algorithm, _, wanted = checksum.partition(":")
    found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    if found.hexdigest() != wanted:
        raise UsageError(
            f"{path} has {algorithm} {found.hexdigest()}, not {wanted}: it is another file or not "
            "complete: delete it, and it is downloaded again"
        )


def _make(folder: Path, path: Path, archive: Archive, progress: Progress) -> None:
    """Unpack beside `folder`, then give the content its name."""
    beside = folder.with_name(f"{folder.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)  # what a process that was killed left
    content = beside / "content"
    try:
        content.mkdir(parents=True)
        if archive.inner is None:
            _unpack(path, content, archive, progress)
        else:
            outer = beside / "outer"
            outer.mkdir()
            _unpack(path, outer, archive, progress, only=archive.inner)
            _unpack(outer / archive.inner, content, archive, progress)
        if not (content / archive.top).is_dir():
            raise UsageError(f"cannot use {path}: it holds no folder {archive.top}: replace it")
        (content / archive.top).rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(
    path: Path, folder: Path, archive: Archive, progress: Progress, only: str | None = None
) -> None:
    """Write the files of an archive, or one of them, below an empty folder."""
    done = 0
    try:
        with _opened(path) as (members, total):
            for number, member in enumerate(members, start=1):
                target = folder / _safe(member.name)
                if number > archive.max_members:
                    raise _RefusedError(f"it holds more than {archive.max_members} members")
                if member.open is None or only not in (None, member.name):
                    continue
                done += member.size
                if done > archive.max_bytes:
                    raise _RefusedError(
                        f"it unpacks to {done} bytes or more, and {archive.max_bytes} are allowed"
                    )
                target.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as source:
                    _copy(source, target, member)
                progress(f"unpacking {path.name}", done, total)
        if only is not None and not (folder / only).is_file():
            raise _RefusedError(f"it holds no {only}")
    except (_RefusedError, *DAMAGED) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"cannot unpack {path}: {reason}: delete it, and it is downloaded again"
        ) from error


def _copy(source: IO[bytes], target: Path, member: _Member) -> None:
    """Write a member, not trusting the size that the archive states."""
    written = 0
    with target.open("wb") as file:
        while written <= member.size and (chunk := source.read(CHUNK_BYTES)):
            written += file.write(chunk)
    if written != member.size:
        raise _RefusedError(
            f"{shown(member.name)} is not of the {member.size} bytes that are stated"
        )


def _safe(name: str) -> PurePosixPath:
    """Return the path of a member, which stays below the folder it is joined to."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise _RefusedError(f"{shown(name)} leads out of its folder")
    return path


def _check_link(name: str, target: str) -> None:
    """Refuse a link out of the archive; `target` counts from the archive's root."""
    path = posixpath.normpath(target)
    if path.startswith("/") or path.split("/")[0] == "..":
        raise _RefusedError(f"{shown(name)} is a link out of its folder, to {shown(target)}")


def _opened(path: Path) -> AbstractContextManager[tuple[Iterator[_Member], int | None]]:
    """Open an archive: its members, and the bytes they unpack to where that is stated."""
    return _opened_zip(path) if path.suffix == ".zip" else _opened_tar(path)


@contextmanager
def _opened_tar(path: Path) -> Iterator[tuple[Iterator[_Member], int | None]]:
    zipped = path.suffix in (".gz", ".tgz")
    with gzip.open(path) if zipped else path.open("rb") as raw:
        file: Any = _ShortReads(raw)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            yield (_tar_member(tar, info) for info in tar), None


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    if info.issym():
        _check_link(info.name, posixpath.join(posixpath.dirname(info.name), info.linkname))
    elif info.islnk():
        _check_link(info.name, info.linkname)
    elif not (info.isreg() or info.isdir()):
        raise _RefusedError(f"{shown(info.name)} is a device or of an unknown kind")
    return _Member(info.name, info.size, partial(_open_in_tar, tar, info) if info.isreg() else None)


def _open_in_tar(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info)
    assert file is not None  # it is None for what is no file
    return file


@contextmanager
def _opened_zip(path: Path) -> Iterator[tuple[Iterator[_Member], int | None]]:
    with zipfile.ZipFile(path) as file:
        infos = file.infolist()
        total = sum(info.file_size for info in infos)
        yield (_zip_member(file, info) for info in infos), total


def _zip_member(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    is_link = stat.S_ISLNK(info.external_attr >> 16)
    if is_link:
        with file.open(info) as source:
            target = os.fsdecode(source.read(MAX_LINK_TARGET))
        _check_link(info.filename, posixpath.join(posixpath.dirname(info.filename), target))
    is_file = not (is_link or info.is_dir())
    return _Member(info.filename, info.file_size, partial(file.open, info) if is_file else None)


class _ShortReads:
    """A file that refuses to be read in long pieces, such as a header of gigabytes."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        if size > MAX_READ:
            raise _RefusedError(f"it has a header of {size} bytes, and {MAX_READ} are allowed")
        return self._file.read(size)
