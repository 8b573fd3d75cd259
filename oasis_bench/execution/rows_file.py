"""Rows on disk, so that the processes of trials map one copy instead of loading their own."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from oasis_bench.data.rows import LabelledRows
from oasis_bench.system.errors import UsageError

ALIGNMENT = 64
"""Bytes: arrays begin at their multiples, as the allocators of NumPy and scipy have them."""


@dataclass(frozen=True)
class _Stored:
    """Where the arrays of a matrix are in a file: one, or values, columns and starts of CSR."""

    shape: Any
    arrays: tuple[tuple[np.dtype[Any], int, int], ...]  # type, length, first byte


@dataclass(frozen=True)
class RowsFile:
    """Rows and labels in a file; small, to be sent to other processes.

    Parameters
    ----------
    path : Path
    X, y : _Stored
    class_names : tuple of str
    """

    path: Path
    X: _Stored
    y: _Stored
    class_names: tuple[str, ...]

    def map(self) -> LabelledRows:
        """Map them, read-only; the pictures behind the rows stay behind."""
        with self.path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return LabelledRows(_mapped(self.X, buffer), _mapped(self.y, buffer), self.class_names)


@contextmanager
def rows_on_disk(rows: LabelledRows) -> Iterator[RowsFile]:
    """Keep rows and labels in a temporary file.

    Raises
    ------
    UsageError
        Where it cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oasis-bench-")))
            with (folder / "rows").open("xb") as file:
                X, y = _stored(rows.X, file), _stored(rows.y, file)
        except OSError as error:
            raise UsageError(
                f"cannot write the rows to {tempfile.tempdir or 'any folder'}: "
                f"{error.strerror or error}: free or correct it, or set TMPDIR to another folder"
            ) from error
        yield RowsFile(folder / "rows", X, y, tuple(rows.class_names))


def _stored(matrix: Any, file: BinaryIO) -> _Stored:
    """Write a matrix, dense or CSR, to the end of a file."""
    is_dense = not isinstance(matrix, sparse.csr_array)
    places = []
    for array in (matrix,) if is_dense else (matrix.data, matrix.indices, matrix.indptr):
        flat = np.ravel(array)  # row after row
        file.write(bytes(-file.tell() % ALIGNMENT))
        places.append((flat.dtype, flat.size, file.tell()))
        file.write(flat.view(np.uint8).data)
    return _Stored(matrix.shape, tuple(places))


def _mapped(stored: _Stored, buffer: mmap.mmap) -> Any:
    arrays = tuple(np.frombuffer(buffer, *place) for place in stored.arrays)
    if len(arrays) == 1:
        return arrays[0].reshape(stored.shape)
    return sparse.csr_array(arrays, shape=stored.shape, copy=False)
