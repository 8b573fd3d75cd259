"""Archives of data sets: downloaded, checked, and unpacked whole or not at all.

Not for reading what was unpacked.
"""

from __future__ import annotations

import posixpath
import shutil
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from oasis_bench.datasets.files.download import fetch, wrong_checksum
from oasis_bench.datasets.files.errors import OTHER_FOLDER, reason_of
from oasis_bench.datasets.files.folders import data_folder, dataset_folder, locked
from oasis_bench.system import Progress, UsageError, cache_home, no_progress

# What tarfile and zipfile raise for an archive that is damaged or refused.
UNREADABLE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)

DELETE = "delete it, and it is downloaded again"


@dataclass(frozen=True)
class Archive:
    """A data set's archive on the network.

    Parameters
    ----------
    url : str
        Its address; the last part is the name of the file: tar, tar.gz or zip.
    checksum : str
        As `oasis_bench.datasets.files.download.fetch` takes it.
    folder : str
        The name of the data set's folder, in `OASIS_BENCH_DATA` and in the cache folder.
    max_members, max_bytes : int
        The largest number of members and of unpacked bytes; an archive of more is refused.
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


def locate(archive: Archive, progress: Progress = no_progress) -> Path:
    """Return the folder of a data set; download and unpack its archive where it is missing.

    The folder in `OASIS_BENCH_DATA` is used where it exists, else the one in the cache folder.
    The latter is made from the archive, which is looked for in ``archives`` of both places and
    downloaded to ``archives`` of the cache folder where it is in neither.  If several processes
    want the folder, one makes it and the others wait.

    Raises
    ------
    UsageError
        Where the archive cannot be downloaded or unpacked, has another checksum, or holds too
        many members, too many bytes or a path out of its folder.
    """
    folder = dataset_folder(archive.folder)
    if folder.is_dir():
        return folder
    own = data_folder("archives")
    path = own / archive.file_name if own else None
    if path is None or not path.is_file():
        path = cache_home() / "archives" / archive.file_name
        fetch(archive.url, path, archive.checksum, progress)
    try:
        with locked(folder.parent):
            if not folder.is_dir():  # another process may have made it meanwhile
                _make(folder, path, archive, progress)
    except UNREADABLE as error:
        raise UsageError(f"cannot unpack {path}: {reason_of(error)}: {DELETE}") from error
    except OSError as error:
        raise UsageError(
            f"cannot unpack {path} to {folder}: {reason_of(error)}: {OTHER_FOLDER}"
        ) from error
    return folder


def _make(folder: Path, path: Path, archive: Archive, progress: Progress) -> None:
    """Check the archive, unpack it into a folder beside `folder`, and rename that."""
    if fault := wrong_checksum(path, archive.checksum):
        raise UsageError(f"{path} {fault}: it is another file or not complete: {DELETE}")
    beside = folder.with_name(f"{folder.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)  # left by a process that was killed
    content = beside / "content"
    try:
        _unpack(path, content, archive, progress)
        if archive.inner is not None:
            inner, content = content / archive.inner, beside / "inner"
            _unpack(inner, content, archive, progress)
        if not (content / archive.top).is_dir():
            raise UsageError(f"cannot use {path}: it holds no folder {archive.top}: replace it")
        (content / archive.top).rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(path: Path, folder: Path, archive: Archive, progress: Progress) -> None:
    """Unpack an archive into a new folder, within the bounds of `archive`."""
    n_members = n_bytes = 0

    def count(size: int) -> None:
        nonlocal n_members, n_bytes
        n_members, n_bytes = n_members + 1, n_bytes + size
        if n_members > archive.max_members or n_bytes > archive.max_bytes:
            raise UsageError(
                f"cannot unpack {path}: it holds {n_members} members and {n_bytes} bytes or more, "
                f"and at most {archive.max_members} and {archive.max_bytes} are allowed: {DELETE}"
            )
        progress(f"unpacking {path.name}", n_bytes, None)

    def admit(member: tarfile.TarInfo, destination: str) -> tarfile.TarInfo:
        count(member.size)
        return tarfile.data_filter(member, destination)

    folder.mkdir(parents=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as file:
            for info in file.infolist():
                count(info.file_size)  # no more bytes are read, whatever the member holds
                file.extract(info, folder)
    else:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter=admit)
