"""Where data files are kept, and how a file is fetched from the network: whole or not at all.

Not for any one data set, and not for reading what was fetched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from io import BufferedRandom
from pathlib import Path
from ssl import SSLCertVerificationError
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from oasis_bench.system.errors import UsageError
from oasis_bench.system.progress import Progress, no_progress

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""

PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before each further attempt."""

CHUNK_BYTES = 2**16

PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class _DownloadError(Exception):
    """A download that went wrong; `passing` where another attempt may go right."""

    def __init__(self, reason: str, passing: bool, status: int | None = None) -> None:
        super().__init__(reason)
        self.passing = passing
        self.status = status


def data_folder(name: str) -> Path | None:
    """Find the folder of a data set that the user keeps at hand.

    Parameters
    ----------
    name : str
        The folder's name within the folder that the environment variable `OASIS_BENCH_DATA`
        names.

    Returns
    -------
    Path or None
        None where the variable is not set or its folder does not hold that one.

    Raises
    ------
    UsageError
        Where the variable is set and names no folder.
    """
    value = os.environ.get("OASIS_BENCH_DATA")
    if not value:
        return None
    home = Path(value).expanduser()
    if not home.is_dir():
        raise UsageError(f"OASIS_BENCH_DATA={value} is not a folder: correct it or unset it")
    folder = home / name
    return folder if folder.is_dir() else None


def fetch(
    url: str,
    path: Path,
    checksum: str,
    progress: Progress = no_progress,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """Download a file, unless it is there.

    What arrives is kept in ``<path>.part`` and gets its final name once it is complete and its
    checksum is right, so a file of that name is a good one.  A later call goes on from what an
    earlier one left there.  Of several processes one downloads and the others wait for it.

    Parameters
    ----------
    url : str
        What to download, over HTTP or HTTPS.
    path : Path
        The file to make, with its folders.
    checksum : str
        ``'md5:...'`` or ``'sha256:...'``, in lower-case hexadecimal digits.
    progress : callable, default no_progress
        Told of the bytes received so far.
    pauses : sequence of float, default (1, 3, 9)
        Seconds to wait before each further attempt where the network, not the request, is at
        fault; its length is the number of further attempts.

    Raises
    ------
    UsageError
        Where the file cannot be had, or cannot be written.
    """
    if path.exists():
        return
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened_alone(part) as file:
            if path.exists():  # another process has made it meanwhile
                return
            _download(url, file, path.name, checksum, progress, pauses)
            os.fsync(file.fileno())
            os.replace(part, path)
    except _DownloadError as error:
        raise UsageError(
            f"cannot download {url}: {error}: try again later, or get the file elsewhere and "
            f"put it at {path}, or in {path.parent.name}/ of the folder that OASIS_BENCH_DATA names"
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}: "
            "free or correct it, or set OASIS_BENCH_CACHE to another folder"
        ) from error


@contextmanager
def _opened_alone(path: Path) -> Iterator[BufferedRandom]:
    """Open a file to read and append, by one process at a time: the others wait."""
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_named(file, path):
                continue  # whoever held the lock has renamed or removed this file
            try:
                yield file
            finally:
                if os.fstat(file.fileno()).st_size == 0:
                    path.unlink(missing_ok=True)
            return


def _is_named(file: BufferedRandom, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _download(
    url: str,
    file: BufferedRandom,
    what: str,
    checksum: str,
    progress: Progress,
    pauses: Sequence[float],
) -> None:
    """Fill `file` from `url`, trying again after passing faults."""
    for pause in (*pauses, None):
        resumed = file.seek(0, os.SEEK_END) > 0
        try:
            _receive(url, file, what, progress)
            _verify(file, checksum, passing=resumed)
            return
        except _DownloadError as error:
            if pause is None or not error.passing:
                raise
        time.sleep(pause)


def _receive(url: str, file: BufferedRandom, what: str, progress: Progress) -> None:
    """Append what `file` still lacks, or begin it anew where the server sends it all."""
    done = file.tell()
    request = Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with _network_errors():
            response: HTTPResponse = urlopen(request, timeout=TIMEOUT)
    except _DownloadError as error:
        if done and error.status == RANGE_NOT_SATISFIABLE:
            return  # nothing is left to send: the checksum tells whether that is right
        raise
    with response:
        if response.status != PARTIAL_CONTENT:
            file.truncate(0)
            done = 0
        total = None if response.length is None else done + response.length
        progress(what, done, total)
        while chunk := _read(response):
            file.write(chunk)
            done += len(chunk)
            progress(what, done, total)
    file.flush()
    if total is not None and done < total:
        raise _DownloadError(f"the connection ended after {done} of {total} bytes", passing=True)


def _read(response: HTTPResponse) -> bytes:
    with _network_errors():
        return response.read(CHUNK_BYTES)


def _verify(file: BufferedRandom, checksum: str, passing: bool) -> None:
    """Compare the checksum; empty the file where it is wrong, so that nobody goes on from it."""
    algorithm, _, wanted = checksum.partition(":")
    file.seek(0)
    found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    if found.hexdigest() != wanted:
        file.truncate(0)
        raise _DownloadError(
            f"what came has {algorithm} {found.hexdigest()}, not {wanted}: it is not that file",
            passing,
        )


@contextmanager
def _network_errors() -> Iterator[None]:
    """Tell faults of the network from those of this machine's disk, which are OSErrors too."""
    try:
        yield
    except HTTPError as error:
        error.close()
        raise _DownloadError(
            f"the server answers {error.code} {error.reason}",
            error.code in PASSING_STATUS,
            error.code,
        ) from error
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        raise _DownloadError(
            " ".join(str(cause).split()) or type(cause).__name__,
            passing=not isinstance(cause, SSLCertVerificationError),
        ) from error
