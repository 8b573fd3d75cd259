"""Files of data sets: their folders, downloads, archives, the cache, and arrays in files.

They are in the user's folder of data, or in the cache folder.  Nothing is unpickled.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from reprlib import repr as shown
from ssl import SSLError
from typing import Any, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from scipy import sparse

from oasis_bench.system import (
    ArrayArchive,
    Progress,
    UsageError,
    cache_home,
    no_progress,
    open_regular,
    printable,
    require_memory,
    short_path,
    whole_file,
)

LONGEST = 500
"""Characters of a library's message that are repeated: some quote the file."""

DOZEN = 12

FEWER = "give fewer rows or columns"

OF_SPARSE = {
    *("format", "_is_array", "shape", "data", "indices", "indptr"),
    *("row", "col", "coords", "offsets"),
}
"""Arrays that SciPy reads of a sparse matrix."""

OTHER_FOLDER = "free or correct it, or set OASIS_BENCH_CACHE to another folder"


def data_folder(name: str) -> Path | None:
    """Return the folder `name` in the folder `OASIS_BENCH_DATA`, or None if it does not exist."""
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
    """Return the message of an error on one line, or at least its type."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(" ".join(text.split()), longest=LONGEST)


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the error of a file or folder in the cache folder that cannot be written."""
    return UsageError(f"cannot write {path}: {reason_of(error)}: {OTHER_FOLDER}")


def first_dozen(texts: Sequence[str], between: str = ", ") -> str:
    """Join texts, the first dozen of many, and then say how many there are."""
    rest = f" ... ({len(texts)} in all)" if len(texts) > DOZEN else ""
    return between.join(texts[:DOZEN]) + rest


Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

LIBRARIES = ("numpy", "pillow", "scikit-learn")


def cache_key(code: Iterable[str], *parts: str) -> str:
    """Hash (SHA-256) what decides a result: the modules `code`, versions of libraries, and `parts`.

    The parts are parameters, and hashes of contents.
    """
    modules = [Path(path).read_text("utf-8") for path in code]
    libraries = [f"{name} {version(name)}" for name in LIBRARIES]
    digest = hashlib.sha256()
    for part in (*modules, *libraries, *parts):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


def cached(path: Path, compute: Callable[[], Arrays]) -> Arrays:
    """Read arrays from an npz file; if it is missing or damaged, compute and write them.

    The name of the file has the `cache_key` of the arrays.
    """
    try:
        with open_regular(path) as kept, ArrayArchive(kept) as archive:  # it holds checksums
            names = archive.namelist()
            return {name.removesuffix(".npy"): archive.read_array(name) for name in names}
    except Exception:  # zipfile and NumPy raise nearly anything for a damaged file
        pass
    arrays = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file, ArrayArchive(file, "w") as archive:
            for name, array in arrays.items():
                archive.write_array(f"{name}.npy", array)
    except OSError as error:
        raise cannot_write(path, error) from error
    return arrays


def refuse_empty(path: Path) -> None:
    """Raise UsageError if a file is empty, and OSError if it cannot be read."""
    with open_regular(path) as file:
        if not file.read(1):
            raise UsageError("is empty")


def open_npz(path: Path) -> NpzFile:
    """Open an npz file; close what is returned."""
    with path.open("rb") as file_start:  # numpy takes what begins otherwise for a pickle
        is_npz = file_start.read(2) == b"PK"
    if not (is_npz and zipfile.is_zipfile(path)):
        raise UsageError("is not an npz file, or a truncated one: make it with numpy.savez")
    with broken("npz"):
        file: NpzFile = np.load(path, allow_pickle=False)
    assert file.zip is not None  # as long as the file is open
    try:
        ArrayArchive.refuse_packed(file.zip, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if len(set(file.files)) < len(file.files):  # 'X' and 'X.npy': who checks one reads another
            raise UsageError("holds an array twice: make it with numpy.savez")
    except UsageError:
        file.close()
        raise
    return file


def load_array(file: NpzFile, name: str) -> npt.NDArray[Any]:
    """Read one array; raise UsageError if it is damaged, too large or has Python objects."""
    with broken(f"array {shown(name)}"):
        _refuse_too_large(file, name)
        return np.asarray(file[name])


def load_sparse(path: Path, file: NpzFile) -> sparse.csr_array:
    """Read an open file that `scipy.sparse.save_npz` wrote, as `load_array` reads an array."""
    with broken("the sparse matrix"):
        for name in OF_SPARSE.intersection(file.files):
            _refuse_too_large(file, name)
        matrix: Any = sparse.load_npz(path)
        require_memory(8 * matrix.shape[0], "it", FEWER)  # each row takes a number, if it is empty
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # wrong indices would crash what follows
        return sparse.csr_array(matrix)


def _refuse_too_large(file: NpzFile, name: str) -> None:
    """Raise an error for an array that is damaged, too large or has Python objects."""
    assert file.zip is not None
    entry = file.zip.getinfo(f"{name}.npy")
    with ArrayArchive.open_array(file.zip, entry.filename):
        require_memory(entry.file_size, "it", FEWER)


def load_npy(path: Path) -> npt.NDArray[Any]:
    """Read an npy file; raise UsageError if it is damaged, too large or has Python objects."""
    with open_regular(path) as file, broken("npy"):
        require_memory(os.fstat(file.fileno()).st_size, "it", FEWER)
        return npy.read_array(file, allow_pickle=False)


@contextmanager
def broken(what: str, hint: str = "it is truncated, corrupt or of another kind") -> Iterator[None]:
    """Report an error of a library about the content of a file as an error of the file."""
    try:
        yield
    except (ImportError, MemoryError, ArrayArchive.HoldsObjectsError):
        raise
    except Exception as error:  # libraries raise nearly anything for a damaged file
        raise UsageError(f"{what} cannot be read ({reason_of(error)}): {hint}") from error


@contextmanager
def named_in_errors(file: object) -> Iterator[None]:
    """Begin what is wrong with a file of the user with its name, as a UsageError."""
    called = short_path(file)
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{called}: {error}") from error
    except MemoryError as error:
        raise UsageError(f"{called}: does not fit into memory: {error}") from error
    except OSError as error:
        raise UsageError(f"{called}: {reason_of(error)}: give a file to read") from error


def listed(names: Sequence[str]) -> str:
    """List names, the first dozen of many."""
    return first_dozen([shown(name) for name in names]) or "none"


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


def fetch(url: str, path: Path, checksum: str, progress: Progress = no_progress) -> None:
    """Download a file over HTTP or HTTPS, unless `path` exists.

    The bytes are written to ``<path>.part``.  It is renamed to `path` when it is complete and has
    the right checksum, ``'md5:...'`` or ``'sha256:...'``.  A later call continues an interrupted
    download. If several processes need the file, one downloads it and the others wait.
    """
    if path.exists():
        return
    try:
        with locked(path.parent):
            if not path.exists():  # another process may have downloaded it meanwhile
                _download(url, path, checksum, progress)
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


def _download(url: str, path: Path, checksum: str, progress: Progress) -> None:
    """Make `path` from `url`, with another attempt after each temporary error."""
    part = path.with_name(path.name + ".part")
    for pause in (*PAUSES, None):
        continued = part.exists()
        try:
            _receive(url, part, path.name, progress)
            if (fault := wrong_checksum(part, checksum)) is None:
                os.replace(part, path)
                return
            part.unlink()
            # What an earlier call left may be at fault: then the whole file is another attempt.
            reason, temporary = f"the file {fault}, so it is another file", continued
        except OF_THE_NETWORK as error:
            reason, temporary = reason_of(error), True
            if isinstance(error, HTTPError):
                error.close()
                temporary = error.code in TEMPORARY_STATUS
        if pause is None or not temporary:
            raise UsageError(
                f"cannot download {url}: {reason}: try again later, or put the file at {path}, or "
                f"in {path.parent.name}/ of the folder that OASIS_BENCH_DATA names"
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

    `top` is the folder in the archive that becomes the data set's folder, or '' for the whole
    archive.  `inner` is an archive in the archive that has the data.  `checksum` is the same as for
    `fetch`.
    """

    url: str
    checksum: str
    top: str = ""
    inner: str | None = None

    @property
    def file_name(self) -> str:
        """The name of the archive's file."""
        return Path(self.url).name


def locate(name: str, archive: Archive, progress: Progress = no_progress) -> Path:
    """Return the folder `name` of a data set; download and unpack its archive if it is missing.

    The folder in `OASIS_BENCH_DATA` is used if it exists, and otherwise the one in the cache
    folder.  The latter is unpacked from the archive in ``archives`` of one of these places.  If
    both lack the archive, it is downloaded to ``archives`` of the cache folder.  If several
    processes need the folder, one makes it and the others wait.
    """
    folder = dataset_folder(name)
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
    """Check the archive, unpack it into a folder next to `folder`, and rename that folder."""
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
            raise UsageError(f"cannot use {path}: it has no folder {archive.top}: replace it")
        (content / archive.top).rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> None:
    shutil.unpack_archive(path, folder, filter=None if path.suffix == ".zip" else "data")
