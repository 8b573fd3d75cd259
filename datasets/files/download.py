"""Files and archives of data sets from the network: whole or not at all, checked, unpacked."""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from ssl import SSLCertVerificationError, SSLError
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from oasis_bench.datasets.files.local import (
    OTHER_FOLDER,
    cannot_write,
    data_folder,
    dataset_folder,
    locked,
    reason_of,
)
from oasis_bench.system import Progress, UsageError, cache_home, no_progress

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""

PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before each further attempt."""

CHUNK_BYTES = 2**16

PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
TEMPORARY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

OF_THE_NETWORK = (URLError, ConnectionError, TimeoutError, SSLError, HTTPException)
"""Other OSErrors are of the disk."""

UNREADABLE = (shutil.ReadError, tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError)

DELETE = "delete it, and it is downloaded again"


def fetch(
    url: str,
    path: Path,
    checksum: str,
    progress: Progress = no_progress,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """Download a file over HTTP or HTTPS, unless `path` exists.

    The bytes go to ``<path>.part``, which is renamed to `path` once it is complete and its
    checksum, ``'md5:...'`` or ``'sha256:...'``, is right.  A later call continues where an earlier
    one stopped. If several processes want the file, one downloads it and the others wait.  `pauses`
    are the seconds before each further attempt after an error of the network.
    """
    if path.exists():
        return
    try:
        with locked(path.parent):
            if not path.exists():  # another process may have downloaded it meanwhile
                _download(url, path, checksum, progress, pauses)
    except OSError as error:
        raise cannot_write(path, error) from error


def wrong_checksum(path: Path, checksum: str) -> str | None:
    """Say how a file differs from its checksum, as 'has md5 0123, not 4567'; None: it is right."""
    algorithm, _, wanted = checksum.partition(":")
    with path.open("rb") as file:
        # Some systems refuse MD5 unless it is said to guard nothing.
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    found = digest.hexdigest()
    return None if found == wanted else f"has {algorithm} {found}, not {wanted}"


def _download(
    url: str, path: Path, checksum: str, progress: Progress, pauses: Sequence[float]
) -> None:
    """Make `path` from `url`, with another attempt after each temporary error."""
    part = path.with_name(path.name + ".part")
    for pause in (*pauses, None):
        continued = part.exists()
        try:
            _receive(url, part, path.name, progress)
            if (fault := wrong_checksum(part, checksum)) is None:
                os.replace(part, path)
                return
            part.unlink()
            # What an earlier call left may be at fault: then the whole file is another attempt.
            reason, temporary = f"the file {fault}: it is another one", continued
        except HTTPError as error:
            error.close()
            reason = f"the server answers {error.code} {error.reason}"
            temporary = error.code in TEMPORARY_STATUS
        except OF_THE_NETWORK as error:
            cause = error.reason if isinstance(error, URLError) else error
            reason, temporary = reason_of(cause), not isinstance(cause, SSLCertVerificationError)
        if pause is None or not temporary:
            raise UsageError(
                f"cannot download {url}: {reason}: try again later, or get the file elsewhere and "
                f"put it at {path}, or in {path.parent.name}/ of the folder that OASIS_BENCH_DATA "
                "names"
            )
        time.sleep(pause)


def _receive(url: str, part: Path, what: str, progress: Progress) -> None:
    """Append what `part` still lacks, or write it anew where the server sends the whole file."""
    done = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if done and error.code == RANGE_NOT_SATISFIABLE:
            error.close()
            return  # the server has no more bytes to send: now the checksum decides
        raise
    continues = response.status == PARTIAL_CONTENT
    with response, part.open("ab" if continues else "wb") as file:
        done = done if continues else 0
        total = None if response.length is None else done + response.length
        progress(what, done, total)
        while chunk := response.read(CHUNK_BYTES):
            done += file.write(chunk)
            progress(what, done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


@dataclass(frozen=True)
class Archive:
    """A data set's archive on the network: tar, tar.gz or zip.

    `folder` is the name of the data set's folder, in `OASIS_BENCH_DATA` and in the cache folder;
    `top` the folder within the archive that becomes it, '' for all; `inner` the archive within the
    archive that holds the data.  `checksum` is as `fetch` takes it.
    """

    url: str
    checksum: str
    folder: str
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
    content, what = beside / "content", f"unpacking {path.name}"
    try:
        progress(what, 0, 1)
        _unpack(path, content)
        if archive.inner is not None:
            inner, content = content / archive.inner, beside / "inner"
            _unpack(inner, content)
        progress(what, 1, 1)
        if not (content / archive.top).is_dir():
            raise UsageError(f"cannot use {path}: it holds no folder {archive.top}: replace it")
        (content / archive.top).rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> None:
    shutil.unpack_archive(path, folder, filter=None if path.suffix == ".zip" else "data")
