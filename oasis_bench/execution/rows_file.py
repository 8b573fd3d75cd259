"""Rows on disk, so that the processes of trials map one copy instead of loading their own."""

from __future__ import annotations

import mmap
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from oasis_bench.data.rows import LabelledRows
from oasis_bench.system.errors import UsageError

ALIGNMENT = 64
"""Bytes: arrays begin at their multiples, as the allocators of NumPy and scipy have them."""


@dataclass(frozen=True)
class RowsFile:
    """Rows and labels in a file; small, to be sent to other processes.

    Parameters
    ----------
    path : Path
        Holds the content of the arrays.
    pickled : bytes
        All but that, as pickle protocol 5 has it (PEP 574).
    places : tuple of slice
        Where in the file each array is.
    """

    path: Path
    pickled: bytes
    places: tuple[slice, ...]

    def map(self) -> LabelledRows:
        """Map the arrays, read-only, and make the rows of them, without pictures."""
        with self.path.open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        rows: LabelledRows = pickle.loads(
            self.pickled, buffers=[content[place] for place in self.places]
        )
        return rows


@contextmanager
def rows_on_disk(rows: LabelledRows) -> Iterator[RowsFile]:
    """Keep rows and labels in a temporary file.

    Raises
    ------
    UsageError
        Where it cannot be written.
    """
    X = rows.X if sparse.issparse(rows.X) else np.ascontiguousarray(rows.X)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(replace(rows, X=X, images=None), 5, buffer_callback=buffers.append)
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oasis-bench-")))
            with (folder / "rows").open("xb") as file:
                places = []
                for buffer in buffers:
                    file.write(bytes(-file.tell() % ALIGNMENT))
                    first = file.tell()
                    file.write(buffer.raw())
                    places.append(slice(first, file.tell()))
        except OSError as error:
            raise UsageError(
                f"cannot write the rows to {tempfile.tempdir or 'any folder'}: "
                f"{error.strerror or error}: free or correct it, or set TMPDIR to another folder"
            ) from error
        yield RowsFile(folder / "rows", pickled, tuple(places))
