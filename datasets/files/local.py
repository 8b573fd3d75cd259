"""Files of data sets on this machine: where they lie, arrays in them, the wording of errors.

They lie in the user's own folder of data, or in the cache folder.  Nothing is unpickled.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from reprlib import repr as shown
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from oasis_bench.system import (
    ArrayArchive,
    Text,
    UsageError,
    cache_home,
    open_regular,
    require_memory,
    whole_file,
)

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
    return Text.printable(Text.cut(" ".join(text.split()), LONGEST))


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
    """Read arrays from an npz file; where it is missing or damaged, compute and write them.

    The name of the file holds the `cache_key` of the arrays.
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
    """Raise UsageError where a file is empty, and OSError where it is no file to read."""
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
    return file


def load_array(file: NpzFile, name: str) -> npt.NDArray[Any]:
    """Read one array; raise UsageError where it is damaged, too large or holds Python objects."""
    with broken(f"array {shown(name)}"):
        require_bytes(file, [name])
        return np.asarray(file[name])


def load_npy(path: Path) -> npt.NDArray[Any]:
    """Read an npy file; raise UsageError where it is damaged, too large or holds Python objects."""
    with open_regular(path) as file, broken("npy"):
        require_memory(os.fstat(file.fileno()).st_size, "it", "give fewer rows or columns")
        return np.asarray(np.load(file, allow_pickle=False))


def require_bytes(file: NpzFile, names: Sequence[str]) -> None:
    """Check that arrays hold no Python objects, and have the bytes that they claim, and fit."""
    archive, total = file.zip, 0
    assert archive is not None  # as long as the file is open
    for entry in archive.namelist():
        if entry.removesuffix(".npy") in names:
            with ArrayArchive.open_array(archive, entry) as (_, header):
                total += math.prod(header.shape) * header.dtype.itemsize
    require_memory(total, "it", "give fewer rows or columns")


@contextmanager
def broken(what: str, hint: str = "it is truncated, corrupt or of another kind") -> Iterator[None]:
    """Tell what a library says of a file's content as an error of the file."""
    try:
        yield
    except (ImportError, MemoryError, ArrayArchive.HoldsObjectsError):
        raise
    except Exception as error:  # libraries raise nearly anything for a damaged file
        raise UsageError(f"{what} cannot be read ({reason_of(error)}): {hint}") from error


def listed(names: Sequence[str]) -> str:
    """List names, the first dozen of many."""
    return first_dozen([shown(name) for name in names]) or "none"
