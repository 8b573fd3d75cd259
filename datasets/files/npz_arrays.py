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
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile

from oasis_bench.datasets.files.errors import first_dozen, reason_of
from oasis_bench.system import UsageError, require_memory


def open_npz(path: Path) -> NpzFile:
    """Open an npz file; close what is returned.

    Raises
    ------
    UsageError
        Where it is none; the message does not name the file.
    """
    if not zipfile.is_zipfile(path):
        raise UsageError("is not an npz file, or a truncated one: make it with numpy.savez")
    with broken("npz"):
        file: NpzFile = np.load(path, allow_pickle=False)
    return file


def load_array(file: NpzFile, name: str) -> npt.NDArray[Any]:
    """Read one array; raise UsageError where it is damaged, too large or holds Python objects."""
    hint = "corrupt, or Python objects, which are refused: save numbers or astype(str)"
    with broken(f"array {shown(name)}", hint):
        require_bytes(file, [name])
        return np.asarray(file[name])


def require_bytes(file: NpzFile, names: Sequence[str]) -> None:
    """Check that the arrays have the bytes that they claim, and that these can be had."""
    archive, total = file.zip, 0
    assert archive is not None  # as long as the file is open
    for entry in archive.infolist():
        if entry.filename.removesuffix(".npy") not in names:
            continue
        with archive.open(entry) as stream:
            version = npy.read_magic(stream)
            first = version == (1, 0)
            read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            shape, _, dtype = read_header(stream)
            claimed, held = math.prod(shape) * dtype.itemsize, entry.file_size - stream.tell()
        if claimed != held and not dtype.hasobject:
            raise UsageError(f"its header claims {claimed} bytes, and {held} follow")
        total += claimed
    require_memory(total, "it", "give fewer rows or columns")


@contextmanager
def broken(what: str, hint: str = "it is truncated, corrupt or of another kind") -> Iterator[None]:
    """Tell what a library says of a file's content as an error of the file."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # libraries raise nearly anything for a damaged file
        raise UsageError(f"{what} cannot be read ({reason_of(error)}): {hint}") from error


def listed(names: Sequence[str]) -> str:
    """List names, the first dozen of many."""
    return first_dozen([shown(name) for name in names]) or "none"
