"""Rows on disk, so that the processes of trials map one copy instead of loading their own."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.dataset import LabelledRows
from oasis_bench.errors import UsageError


@contextmanager
def rows_on_disk(rows: LabelledRows) -> Iterator[Path]:
    """Keep rows and labels as NPY files in a temporary folder, for `map_rows`.

    Raises
    ------
    UsageError
        Where they cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oasis-bench-")))
            for name, array in _arrays(rows).items():
                _write(folder / f"{name}.npy", array)
        except OSError as error:
            raise UsageError(
                f"cannot write the rows to {tempfile.tempdir or 'any folder'}: "
                f"{error.strerror or error}: free or correct it, or set TMPDIR to another folder"
            ) from error
        yield folder


def map_rows(folder: Path) -> LabelledRows:
    """Map what `rows_on_disk` keeps, read-only; the pictures behind the rows stay behind."""
    arrays: dict[str, Any] = {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")
    }
    names = tuple(arrays["class_names"].tolist())
    return LabelledRows(_joined("X", arrays), _joined("y", arrays), names)


def _write(path: Path, array: Any) -> None:
    with path.open("xb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        # NumPy says nothing where the disk does not take the last bytes.
        if os.fstat(file.fileno()).st_size < file.tell():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _arrays(rows: LabelledRows) -> dict[str, Any]:
    names = {"class_names": np.array(rows.class_names)}
    return names | _parts("X", rows.X) | _parts("y", rows.y)


def _parts(name: str, array: Any) -> dict[str, Any]:
    """Name the arrays that make up one, which is dense or CSR."""
    if not isinstance(array, sparse.csr_array):
        return {name: array}
    return {
        f"{name}_data": array.data,
        f"{name}_indices": array.indices,
        f"{name}_indptr": array.indptr,
        f"{name}_shape": np.array(array.shape),
    }


def _joined(name: str, arrays: dict[str, Any]) -> Any:
    """Undo `_parts`."""
    if name in arrays:
        return np.asarray(arrays[name])
    parts = tuple(np.asarray(arrays[f"{name}_{part}"]) for part in ("data", "indices", "indptr"))
    return sparse.csr_array(parts, shape=tuple(arrays[f"{name}_shape"]), copy=False)
