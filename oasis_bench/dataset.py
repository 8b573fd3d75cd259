"""What a data set is to the harness: rows, class labels and the names of the classes.

Not for reading files: each data set does that in its own module and is found by the registry.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.errors import UsageError

Rows: TypeAlias = "npt.NDArray[np.floating] | sparse.csr_array"
Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called as ``progress(what, done, total)`` in bytes; ``total`` is None where it is not known."""


def no_progress(what: str, done: int, total: int | None) -> None:
    """Ignore progress: for callers that show none."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The content of a data set.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        float32 or float64, finite.
    y : ndarray of shape (n_rows,), int64
        The number of each row's class, an index into `class_names`.
    class_names : tuple of str
        At least two; every class has at least one row.

    Raises
    ------
    UsageError
        Where the rows break one of these rules.
    """

    X: Rows
    y: npt.NDArray[np.int64]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        n_classes = len(self.class_names)
        if self.X.dtype not in (np.float32, np.float64):
            raise UsageError(f"rows of type {self.X.dtype}: float32 or float64 is needed")
        if self.X.shape[0] != self.y.shape[0]:
            raise UsageError(f"{self.X.shape[0]} rows but {self.y.shape[0]} labels: one each")
        if n_classes < 2:
            raise UsageError(
                f"only {n_classes} class ({', '.join(map(repr, self.class_names)) or 'none'}): "
                "metric learning compares classes, so at least 2 are needed"
            )
        if self.y.min() < 0 or self.y.max() >= n_classes:
            raise UsageError(
                f"class numbers from {self.y.min()} to {self.y.max()}: "
                f"0 to {n_classes - 1} for {n_classes} class names"
            )
        if not (counts := self.class_counts()).all():
            raise UsageError(
                f"class {self.class_names[int(counts.argmin())]!r} has no row: leave its name out"
            )
        values = self.X.data if sparse.issparse(self.X) else self.X
        if not np.isfinite(values).all():
            raise UsageError(
                f"{np.count_nonzero(~np.isfinite(values))} values are NaN or infinite: "
                "fill them in or leave those rows out"
            )

    def class_counts(self) -> npt.NDArray[np.int64]:
        """Count the rows of each class, in the order of `class_names`."""
        return np.bincount(self.y, minlength=len(self.class_names)).astype(np.int64)

    def content_hash(self) -> str:
        """Hash rows, labels and names (SHA-256), so that a trial's identity holds its data."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        parts: tuple[npt.NDArray[Any], ...]
        if isinstance(self.X, sparse.csr_array):  # the width of the indices is not content
            indices, indptr = (part.astype(np.int64) for part in (self.X.indices, self.X.indptr))
            parts = (self.X.data, indices, indptr, np.array(self.X.shape))
        else:
            parts = (self.X,)
        for array in (*parts, self.y):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


class Dataset(ABC):
    """A data set that the registry can find and the command line can name.

    Class attributes
    ----------------
    name : str
        What the user types.
    summary : str
        One line for `list`.
    citation, licence : str
        Shown where the data set is described.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]

    @abstractmethod
    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the data, downloading it first where it is not on disk.

        Parameters
        ----------
        progress : callable, default no_progress
            Told of long downloads.

        Raises
        ------
        UsageError
            Where the data cannot be had, with the remedy.
        """
