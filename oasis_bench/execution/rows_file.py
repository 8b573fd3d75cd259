"""Rows on disk, so that the processes of trials map one copy instead of loading their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.dataset import LabelledRows


def write_rows(rows: LabelledRows, folder: Path) -> None:
    """Write rows and labels as NPY files into an empty folder."""
    for name, array in _arrays(rows).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def map_rows(folder: Path) -> LabelledRows:
    """Map what `write_rows` wrote, read-only; the pictures behind the rows stay behind."""
    arrays: dict[str, Any] = {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")
    }
    names = tuple(arrays["class_names"].tolist())
    return LabelledRows(_joined("X", arrays), _joined("y", arrays), names)


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
