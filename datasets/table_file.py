"""The user's own file of rows and class labels: npz, CSV, Parquet or svmlight.

Not for the data sets that have a name: each of those has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data.rows import LabelledRows, Rows
from oasis_bench.datasets.files.tables import NUMBER, LabelValues, read_table
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.system.errors import UsageError
from oasis_bench.system.progress import Progress, no_progress


class TableFile(Dataset):
    """A file of the user's: a row for each example, with a class label.

    ``.npz`` holds arrays `X` (n, d) and `y` (n,), or just one array of 2 dimensions and one of 1,
    or what `scipy.sparse.save_npz` writes, joined by `y`.  ``.csv`` is UTF-8 with commas, its
    first line names the columns.  ``.parquet`` needs pyarrow; pandas' index is no feature.
    ``.svmlight``, ``.libsvm`` and ``.svm``, also with ``.gz``, hold sparse rows, the label first.

    Features are float64, or float32 where the file has float32; sparse ones stay sparse (CSR).
    True and false are 1 and 0.
    Labels are strings or whole numbers; the classes are in numerical order where all of them are
    numbers, else in the order of their characters.

    Parameters
    ----------
    path : Path
        The file.
    label : str, optional
        The column of the labels (CSV, Parquet) or their array (npz).  Default: the column
        'label', else the one of 'class', 'target' and 'y' that is there; the array `y`.
    """

    name = "file"
    summary = "rows and labels of a file of yours: --dataset PATH [--label COLUMN]"
    citation = "none"
    licence = "not known: the file is yours"
    home = "the file that you name: .npz, .csv, .parquet or .svmlight"
    scaling = "standard+l2"

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path = path
        self.label = label

    def location(self) -> str | None:
        """Return the path of the file."""
        return str(self.path)

    def default_scaling(self, rows: LabelledRows) -> str:
        """Return 'standard+l2', or 'l2' for sparse rows, which a mean would fill."""
        return "l2" if sparse.issparse(rows.X) else self.scaling

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read and check the file.

        Raises
        ------
        UsageError
            Where the file cannot be read or does not hold rows of finite numbers, each with a
            label, of two classes or more.  Its rows and columns count from 1, without the header.
        """
        try:
            table = read_table(self.path, self.label)
            X = _as_features(table.X, table.columns)
            y, class_names = _as_classes(table.labels)
            return LabelledRows(X, y, class_names)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from error
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}: give a file to read") from error


def _as_features(X: Any, columns: Sequence[str] | None) -> Rows:
    """Convert to float rows, CSR in canonical form or C order, and check that all are finite."""
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise UsageError(
            f"features of shape {X.shape} and type {X.dtype}: numbers of shape "
            "(n_rows, n_features) are needed, at least one of each"
        )
    dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64
    if isinstance(X, sparse.csr_array):
        X = X.astype(dtype)
        X.sum_duplicates()
        X.eliminate_zeros()
    else:
        X = np.ascontiguousarray(X, dtype=dtype)
    is_sparse = isinstance(X, sparse.csr_array)
    bad = np.flatnonzero(~np.isfinite(X.data if is_sparse else X))
    if bad.size:
        row, column = (
            [place[bad[0]] for place in X.tocoo().coords]
            if is_sparse
            else divmod(bad[0], X.shape[1])
        )
        name = shown(columns[column]) if columns else column + 1
        raise UsageError(
            f"{bad.size} values are NaN, missing or infinite, the first in row {row + 1}, "
            f"column {name}: fill them in or leave those rows out"
        )
    return X  # type: ignore[no-any-return]


def _as_classes(labels: LabelValues) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each row's class, and the names of the classes."""
    if isinstance(labels, list):
        _refuse_missing(np.array([not label for label in labels], dtype=bool))
        names = sorted(set(labels))
        if all(NUMBER.fullmatch(name) for name in names):
            names.sort(key=float)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[label] for label in labels], dtype=np.int64), tuple(names)
    _refuse_missing(np.isnan(labels))
    fractions = labels[np.isinf(labels) | (np.trunc(labels) != labels)]
    if fractions.size:
        raise UsageError(
            f"the labels are not classes: {fractions[0]} is not a whole number "
            f"({fractions.size} such labels): choose another column with --label, or bin them"
        )
    values, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), tuple(str(int(value)) for value in values)


def _refuse_missing(missing: npt.NDArray[np.bool_]) -> None:
    if missing.any():
        raise UsageError(
            f"{np.count_nonzero(missing)} labels are missing, the first in row "
            f"{int(missing.argmax()) + 1}: fill them in or leave those rows out"
        )
