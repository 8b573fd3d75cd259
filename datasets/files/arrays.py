"""Arrays on disk: computed results in the cache folder, and CSR matrices that are mapped.

Not for the rows of a run, which `oasis_bench.execution.rows_file` keeps.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.datasets.files.errors import cannot_write
from oasis_bench.system import open_regular, open_stored, read_array, whole_file

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

    Raises
    ------
    UsageError
        Where the file cannot be written.
    """
    try:
        with open_regular(path) as kept, open_stored(kept) as archive:  # it holds checksums
            names = archive.namelist()
            return {name.removesuffix(".npy"): read_array(archive, name) for name in names}
    except Exception:  # zipfile and NumPy raise nearly anything for a damaged file
        pass
    arrays = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise cannot_write(path, error) from error
    return arrays


@contextmanager
def csr_writer(
    folder: Path, name: str, index: npt.DTypeLike
) -> Iterator[Callable[[sparse.csr_array], None]]:
    """Write a CSR matrix to three NPY files: ``NAME_data.npy`` and so on.

    Yields what appends rows, of canonical format and all of as many columns.  The files are
    complete, and on the disk, when the block ends without an exception.  `indices` and `indptr`
    have the type `index`: scipy would copy arrays of different types.
    """
    types = {"data": np.float32, "indices": index, "indptr": index}
    with ExitStack() as files:
        writers = data, indices, indptr = [
            _NpyWriter(files.enter_context((folder / f"{name}_{part}.npy").open("wb")), dtype)
            for part, dtype in types.items()
        ]
        indptr.append(np.zeros(1))

        def append(rows: sparse.csr_array) -> None:
            indptr.append(data.size + rows.indptr[1:])
            data.append(rows.data)
            indices.append(rows.indices)

        yield append
        for writer in writers:
            writer.finish()


def map_csr(folder: Path, name: str, n_columns: int) -> sparse.csr_array:
    """Map the files of `csr_writer`, read-only: an entry is read when it is used.

    Raises
    ------
    OSError, ValueError
        Where a file cannot be read, or the files do not fit each other.
    """
    data, indices, indptr = (
        np.asarray(np.lib.format.open_memmap(folder / f"{name}_{part}.npy", mode="r"))
        for part in ("data", "indices", "indptr")
    )
    shape = (len(indptr) - 1, n_columns)
    return sparse.csr_array((data, indices, indptr), shape=shape, copy=False)


class _NpyWriter:
    """A one-dimensional NPY file of a length that is not known before its end."""

    def __init__(self, file: BinaryIO, dtype: npt.DTypeLike) -> None:
        self.size = 0
        self._file = file
        self._dtype = np.dtype(dtype)
        self._write_header()

    def append(self, values: npt.NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.size += len(values)

    def finish(self) -> None:
        """Write the length into the header, and all to the disk."""
        self._file.seek(0)
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _write_header(self) -> None:
        """Write the header, to which NumPy gives the same length for any number of values."""
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, header)
