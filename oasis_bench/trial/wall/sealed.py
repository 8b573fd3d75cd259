"""Items and models in sealed files: they have no name, and nobody can change them.

Other processes map them by their descriptors.  On Linux such a file lies in memory; elsewhere it
is a temporary file, opened for reading only.  It disappears when the last process that uses it
ends.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Judgements
from oasis_bench.system import UsageError

_IS_LINUX = sys.platform == "linux"

SEAL_SECONDS = 5.0
"""How long sealing is tried again while something uses a page of the file."""

ALIGNMENT = 64
"""Arrays begin at multiples of so many bytes, for fast kernels."""


class Items(NamedTuple):
    """The items of one side of a split: training items, or test items, which come without labels.

    `X` is an array, a CSR array or patches; `groups` has the group of each item, for inner folds.
    """

    X: Any
    y: Any = None
    judgements: Judgements | None = None
    groups: npt.NDArray[np.int64] | None = None

    @property
    def to_fit(self) -> tuple[Any, Any, Judgements | None]:
        """What a learner gets to fit on: all but the groups."""
        return self.X, self.y, self.judgements


def seal_items(items: Items) -> int:
    """Write items into a sealed file; return its descriptor.

    The raw numbers of all arrays follow a pickle of the objects that use them.
    """
    buffers: list[pickle.PickleBuffer] = []
    dense = Items(*map(_in_rows, items))
    whole = pickle.dumps(dense, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = pickle.dumps((whole, [view.nbytes for view in views]))

    def write(file: Any) -> None:
        for part in (len(head).to_bytes(8, "little") + head, *views):
            file.write(part)
            file.write(bytes(-len(part) % ALIGNMENT))

    return seal(write)


def map_items(descriptor: int) -> Items:
    """Map the items that `seal_items` wrote, read-only."""
    content = memoryview(map_bytes(descriptor))
    place = 8 + int.from_bytes(content[:8], "little")
    whole, sizes = pickle.loads(content[8:place])
    buffers = []
    for n_bytes in sizes:
        place += -place % ALIGNMENT
        buffers.append(content[place : place + n_bytes])
        place += n_bytes
    items: Items = pickle.loads(whole, buffers=buffers)
    return items


def _in_rows(part: Any) -> Any:
    """Return an array in row-major order; other parts unchanged."""
    return np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part


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
    """Tell whether a file of another process is sealed as by `seal`.

    Nobody can change such a file, and it uses as much memory as its length, so a copy cannot fill
    the disk because of a false length.  On systems other than Linux this only checks that it is a
    regular file.
    """
    status = os.fstat(descriptor)
    if not _IS_LINUX:
        return stat.S_ISREG(status.st_mode)
    try:
        has_seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() == _seals()
    except OSError:  # it is no file in memory
        return False
    return has_seals and 512 * status.st_blocks >= status.st_size


def map_bytes(descriptor: int) -> mmap.mmap:
    """Map a sealed file of at least one byte, for reading only."""
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def memory_file() -> int | None:
    """Make a file that lies in memory and has no name; return its descriptor."""
    if not _IS_LINUX:
        return None
    return os.memfd_create("oasis-bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal_memory_file(descriptor: int) -> None:
    """Forbid every process, for ever, to change the file or its length.

    The kernel refuses (EBUSY) while a process could still write to a page of the file, or while it
    uses a page itself, for instance to move memory.  So this tries again for `SEAL_SECONDS`.
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
