"""Arrays in files: npz files, and sealed files in memory that other processes map.

- An npz file is a zip of NPY arrays.  Nothing is unpickled, and sizes are checked before memory is
  taken.
- A sealed file has no name, and nobody can change it: other processes map it by its descriptor.
  On Linux it lies in memory; elsewhere it is a temporary file, opened for reading only.  Nothing is
  left of it when the last process that has it ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import mmap
import os
import stat
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from oasis_bench.system.errors import UsageError

# --- npz files

ARRAY_KINDS = "biufU"
"""numpy's kinds that our own files may hold: truth values, integers, floating values, strings."""


class HoldsObjectsError(UsageError):
    """An array of Python objects: reading it would run code."""


class ArrayHeader(NamedTuple):
    """What the NPY header of an array claims."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def write_array(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> None:
    """Write an array in pieces, never copied whole; it has no date: equal arrays, equal files."""
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as stream:
        npy.write_array(stream, array, version=(1, 0), allow_pickle=False)


def begin_array(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> IO[bytes]:
    """Write the header of an array; its values follow in pieces, and the caller closes it."""
    stream = archive.open(zipfile.ZipInfo(name), "w", force_zip64=True)
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    return stream


def open_stored(file: BinaryIO) -> zipfile.ZipFile:
    """Open a zip of our own, whose entries are not compressed; close what is returned.

    Damage raises an exception of nearly any type, here and below.
    """
    archive = zipfile.ZipFile(file)
    entries = archive.infolist()
    if len(set(archive.namelist())) < len(entries):
        raise UsageError("it holds an entry twice")
    claimed, size = sum(entry.file_size for entry in entries), file.seek(0, 2)
    if claimed > size:
        raise UsageError(f"its entries claim {claimed} bytes, and the file has {size}")
    return archive


@contextmanager
def open_array(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    """Open the entry of an array, to be read from its first value on."""
    entry = archive.getinfo(name)
    with archive.open(entry) as stream:
        first = npy.read_magic(stream) == (1, 0)
        read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        header = ArrayHeader(*read_header(stream))
        if header.dtype.hasobject:
            raise HoldsObjectsError(
                f"array {name.removesuffix('.npy')!r} holds Python objects, which are refused: "
                "save it as numbers or as text, such as by astype(str)"
            )
        claimed = math.prod(header.shape) * max(1, header.dtype.itemsize)  # strings may have none
        if claimed != (held := entry.file_size - stream.tell()):
            raise UsageError(f"its array {name!r} claims {claimed} bytes, and {held} follow")
        yield stream, header


def read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read an array of our own: NPY version 1.0, one of the `ARRAY_KINDS`."""
    with open_array(archive, name) as (stream, header):
        if header.dtype.kind not in ARRAY_KINDS or not header.dtype.isnative:
            raise UsageError(f"its array {name!r} has type {header.dtype}, which is not read")
        stream.seek(0)
        if npy.read_magic(stream) != (1, 0):
            raise UsageError(f"its entry {name!r} is no array of NPY version 1.0")
        stream.seek(0)
        return npy.read_array(stream, allow_pickle=False)


# --- sealed files

_IS_LINUX = sys.platform == "linux"

SEAL_SECONDS = 5.0
"""How long the kernel is asked to seal a file of which something holds a page."""

ALIGNMENT = 64
"""Bytes; arrays begin at multiples of it, as kernels like it."""

Array = npt.NDArray[Any]


def seal(write: Callable[[Any], object]) -> int:
    """Let `write` fill a new nameless file; return a descriptor that can only be read."""
    try:
        descriptor = memory_file()
        if descriptor is not None:
            with open(descriptor, "wb", closefd=False) as file:
                write(file)
            seal_memory_file(descriptor)
            return descriptor
        with tempfile.NamedTemporaryFile(prefix="oasis-bench-") as file:
            write(file)
            file.flush()
            return os.open(file.name, os.O_RDONLY)
    except OSError as error:
        raise UsageError(
            f"cannot keep the items of a trial in memory: {error.strerror or error}: free some"
        ) from error


def is_sealed(descriptor: int) -> bool:
    """Tell whether a file that came from elsewhere is one as `seal` makes them.

    Nobody can change such a file, and it takes as much memory as it is long: a copy of it cannot
    fill the disk because of a length that was only claimed.  On other systems than Linux this says
    only that it is a regular file.
    """
    status = os.fstat(descriptor)
    if not _IS_LINUX:
        return stat.S_ISREG(status.st_mode)
    try:
        has_seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() == _seals()
    except OSError:  # it is no file in memory
        return False
    return has_seals and 512 * status.st_blocks >= status.st_size


def seal_arrays(arrays: Mapping[str, Array]) -> int:
    """Write named arrays of numbers into a sealed file; return its descriptor."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    layout = [[name, a.dtype.str, a.shape] for name, a in contiguous.items()]
    head = json.dumps(layout).encode() + b"\n"

    def write(file: Any) -> None:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for array in contiguous.values():
            file.write(array.data.cast("B") if array.size else b"")
            file.write(bytes(-array.nbytes % ALIGNMENT))

    return seal(write)


def map_arrays(descriptor: int) -> dict[str, Array]:
    """Map what `seal_arrays` wrote; the arrays are read-only."""
    content = map_bytes(descriptor)
    end = content.find(b"\n") + 1
    place = end + -end % ALIGNMENT
    arrays = {}
    for name, kind, shape in json.loads(content[:end]):
        dtype, size = np.dtype(kind), int(np.prod(shape))
        arrays[name] = np.frombuffer(content, dtype, size, place).reshape(shape)
        place += dtype.itemsize * size
        place += -place % ALIGNMENT
    return arrays


def map_bytes(descriptor: int) -> mmap.mmap:
    """Map a sealed file of at least one byte, for reading only."""
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def memory_file() -> int | None:
    """Make a file that lies in memory and has no name; return its descriptor."""
    if not _IS_LINUX:
        return None
    return os.memfd_create("oasis-bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal_memory_file(descriptor: int) -> None:
    """Forbid for ever, to every process, to change the file or its length.

    The kernel refuses (EBUSY) while anybody could still write to a page of the file, and while it
    holds a page itself, as where it moves memory.  So it is asked again for `SEAL_SECONDS`.
    """
    deadline = time.monotonic() + SEAL_SECONDS
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _seals() -> int:
    return fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
