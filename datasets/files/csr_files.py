"""CSR matrices as NPY files: written piece by piece, in little memory, and mapped back.

Not for matrices in memory, which `oasis_bench.execution.rows_file` keeps.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse


class CsrWriter:
    """Writes ``NAME_data.npy``, ``NAME_indices.npy`` and ``NAME_indptr.npy`` row by row.

    A context manager: the files are whole, and on the disk, once it is left without an exception.

    Parameters
    ----------
    folder : Path
    name : str
    index : dtype
        Of the column numbers and of the starts of rows: scipy would copy arrays of unlike types.
    """

    def __init__(self, folder: Path, name: str, index: npt.DTypeLike) -> None:
        with ExitStack() as opened:
            self._data, self._indices, self._indptr = (
                opened.enter_context(_GrowingArray(folder / f"{name}_{part}.npy", dtype))
                for part, dtype in (("data", np.float32), ("indices", index), ("indptr", index))
            )
            self._stack = opened.pop_all()
        self._indptr.append(np.zeros(1))

    def append(
        self,
        data: npt.NDArray[np.float32],
        indices: npt.NDArray[np.integer],
        lengths: npt.NDArray[np.integer],
    ) -> None:
        """Add rows.

        Parameters
        ----------
        data, indices : ndarray of shape (n_entries,)
            The entries of the rows, one row after the other, in ascending order of columns.
        lengths : ndarray of shape (n_rows,)
            How many entries each row has.
        """
        self._indptr.append(self._data.size + np.cumsum(lengths))
        self._data.append(data)
        self._indices.append(indices)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def map_csr(folder: Path, name: str, n_columns: int) -> sparse.csr_array:
    """Map what `CsrWriter` wrote, read-only: no entry is read before it is used.

    Raises
    ------
    OSError, ValueError
        Where a file cannot be read, or the files do not fit each other.
    """
    data, indices, indptr = (
        np.asarray(np.load(folder / f"{name}_{part}.npy", mmap_mode="r", allow_pickle=False))
        for part in ("data", "indices", "indptr")
    )
    shape = (len(indptr) - 1, n_columns)
    return sparse.csr_array((data, indices, indptr), shape=shape, copy=False)


class _GrowingArray:
    """A one-dimensional NPY file that is written piece by piece; its header comes last."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.size = 0
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._write_header()

    def append(self, values: npt.NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.size += len(values)

    def _write_header(self) -> None:
        """Write the header, which NumPy gives the same length for any number of values."""
        self._file.seek(0)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None:
                self._write_header()
                self._file.flush()
                os.fsync(self._file.fileno())
