"""Files from the network: downloaded whole or not at all, and checked.

Not for any one data set, and not for reading what was downloaded.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from ssl import SSLCertVerificationError
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from oasis_bench.datasets.files.errors import cannot_write, reason_of
from oasis_bench.datasets.files.folders import locked
from oasis_bench.system import Progress, UsageError, no_progress

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""

PAUSES = (1.0, 3.0, 9.0)
"""Seconds to wait before each further attempt."""

CHUNK_BYTES = 2**16

PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
TEMPORARY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class _DownloadError(Exception):
    """A download that failed; `temporary` where another attempt may succeed."""

    def __init__(self, reason: str, temporary: bool, status: int | None = None) -> None:
        super().__init__(reason)
        self.temporary = temporary
        self.status = status


def fetch(
    url: str,
    path: Path,
    checksum: str,
    progress: Progress = no_progress,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """Download a file over HTTP or HTTPS, unless `path` exists.

    The bytes go to ``<path>.part``, which is renamed to `path` once it is complete and its
    checksum is right.  A later call continues where an earlier one stopped.  If several processes
    want the file, one downloads it and the others wait.

    Parameters
    ----------
    checksum : str
        ``'md5:...'`` or ``'sha256:...'``, in lower-case hexadecimal digits.
    progress : callable
        Called with the bytes received so far.
    pauses : sequence of float
        Seconds to wait before each further attempt after an error of the network.

    Raises
    ------
    UsageError
        Where the file cannot be downloaded or written.
    """
    if path.exists():
        return
    try:
        with locked(path.parent):
            if not path.exists():  # another process may have downloaded it meanwhile
                _download(url, path, checksum, progress, pauses)
    except _DownloadError as error:
        raise UsageError(
            f"cannot download {url}: {error}: try again later, or get the file elsewhere and "
            f"put it at {path}, or in {path.parent.name}/ of the folder that OASIS_BENCH_DATA names"
        ) from error
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
            if fault := wrong_checksum(part, checksum):
                part.unlink()
                # What an earlier call left may be at fault: then the whole file is another attempt.
                raise _DownloadError(f"the file {fault}: it is another one", temporary=continued)
            os.replace(part, path)
            return
        except _DownloadError as error:
            if pause is None or not error.temporary:
                raise
        time.sleep(pause)


def _receive(url: str, part: Path, what: str, progress: Progress) -> None:
    """Append what `part` still lacks, or write it anew where the server sends the whole file."""
    done = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with _network_errors():
            response: HTTPResponse = urlopen(request, timeout=TIMEOUT)
    except _DownloadError as error:
        if done and error.status == RANGE_NOT_SATISFIABLE:
            return  # the server has no more bytes to send: now the checksum decides
        raise
    continues = response.status == PARTIAL_CONTENT
    with response, part.open("ab" if continues else "wb") as file:
        done = done if continues else 0
        total = None if response.length is None else done + response.length
        progress(what, done, total)
        while chunk := _read(response):
            done += file.write(chunk)
            progress(what, done, total)
        file.flush()
        os.fsync(file.fileno())
    if total is not None and done < total:
        raise _DownloadError(f"the connection ended after {done} of {total} bytes", temporary=True)


def _read(response: HTTPResponse) -> bytes:
    with _network_errors():
        return response.read(CHUNK_BYTES)


@contextmanager
def _network_errors() -> Iterator[None]:
    """Raise _DownloadError for an error of the network; errors of the disk are OSErrors too."""
    try:
        yield
    except HTTPError as error:
        error.close()
        raise _DownloadError(
            f"the server answers {error.code} {error.reason}",
            error.code in TEMPORARY_STATUS,
            error.code,
        ) from error
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        raise _DownloadError(
            reason_of(cause), temporary=not isinstance(cause, SSLCertVerificationError)
        ) from error
