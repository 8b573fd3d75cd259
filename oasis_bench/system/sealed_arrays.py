"""Arrays in a nameless file: other processes map it by its descriptor, and nobody can change it.

On Linux the file is in memory and sealed.  Elsewhere it is a temporary file without a name, opened
for reading only.  Either way nothing is left of it when the last process that has it ends.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.system import linux
from oasis_bench.system.errors import UsageError

ALIGNMENT = 64
"""Bytes; arrays begin at multiples of it, as kernels like it."""

Array = npt.NDArray[Any]


def seal(write: Callable[[Any], object]) -> int:
    """Let `write` fill a new nameless file; return a descriptor that can only be read.

    Raises
    ------
    UsageError
        Where there is no room for it.
    """
    try:
        descriptor = linux.memory_file()
        if descriptor is not None:
            with open(descriptor, "wb", closefd=False) as file:
                write(file)
            linux.seal_memory_file(descriptor)
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
    is_sealed = linux.is_sealed(descriptor)
    if is_sealed is None:
        return stat.S_ISREG(status.st_mode)
    return is_sealed and 512 * status.st_blocks >= status.st_size


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
