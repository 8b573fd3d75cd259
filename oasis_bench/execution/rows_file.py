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
    """Map what `write_rows` wrote, read-only."""
    arrays: dict[str, Any] = {
        path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.glob("*.npy")
    }
    X = arrays.get("X")
    if X is None:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = sparse.csr_array(parts, shape=tuple(arrays["shape"]), copy=False)
    return LabelledRows(X, np.asarray(arrays["y"]), tuple(arrays["class_names"].tolist()))


def _arrays(rows: LabelledRows) -> dict[str, Any]:
    common = {"y": rows.y, "class_names": np.array(rows.class_names)}
    if isinstance(rows.X, sparse.csr_array):
        X = rows.X
        return common | {
            "data": X.data,
            "indices": X.indices,
            "indptr": X.indptr,
            "shape": np.array(X.shape),
        }
    return common | {"X": rows.X}
