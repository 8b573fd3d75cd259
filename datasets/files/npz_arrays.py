"""Arrays of a user's npz file: read as they are, or refused with the reason; nothing is unpickled.

Not for the cache's own files (`arrays`).
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from oasis_bench.datasets.files.errors import first_dozen, reason_of
from oasis_bench.system import HoldsObjectsError, UsageError, open_array, require_memory


def open_npz(path: Path) -> NpzFile:
    """Open an npz file; close what is returned.

    Raises
    ------
    UsageError
        Where it is none; the message does not name the file.
    """
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


def require_bytes(file: NpzFile, names: Sequence[str]) -> None:
    """Check that arrays hold no Python objects, and have the bytes that they claim, and fit."""
    archive, total = file.zip, 0
    assert archive is not None  # as long as the file is open
    for entry in archive.namelist():
        if entry.removesuffix(".npy") in names:
            with open_array(archive, entry) as (_, header):
                total += math.prod(header.shape) * header.dtype.itemsize
    require_memory(total, "it", "give fewer rows or columns")


@contextmanager
def broken(what: str, hint: str = "it is truncated, corrupt or of another kind") -> Iterator[None]:
    """Tell what a library says of a file's content as an error of the file."""
    try:
        yield
    except (ImportError, MemoryError, HoldsObjectsError):
        raise
    except Exception as error:  # libraries raise nearly anything for a damaged file
        raise UsageError(f"{what} cannot be read ({reason_of(error)}): {hint}") from error


def listed(names: Sequence[str]) -> str:
    """List names, the first dozen of many."""
    return first_dozen([shown(name) for name in names]) or "none"
