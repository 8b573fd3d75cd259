"""Arrays on disk: computed results in the cache, CSR matrices that are mapped, users' npz files.

Nothing is unpickled.  Not for the rows of a run, which `oasis_bench.trial` seals in memory.
"""

from __future__ import annotations

import hashlib
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from reprlib import repr as shown
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile
from scipy import sparse

from oasis_bench.datasets.files.folders import cannot_write, first_dozen, reason_of
from oasis_bench.system import (
    HoldsObjectsError,
    UsageError,
    open_array,
    open_regular,
    open_stored,
    read_array,
    require_memory,
    whole_file,
    write_array,
)

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
        with open_regular(path) as kept, open_stored(kept) as archive:  # it holds checksums
            names = archive.namelist()
            return {name.removesuffix(".npy"): read_array(archive, name) for name in names}
    except Exception:  # zipfile and NumPy raise nearly anything for a damaged file
        pass
    arrays = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                write_array(archive, f"{name}.npy", array)
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
    """Map the files of `csr_writer`, read-only: an entry is read when it is used."""
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
