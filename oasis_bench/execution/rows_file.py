"""Rows on disk, so that the processes of trials map one copy instead of loading their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np
from scipy import sparse

from oasis_bench.data.rows import LabelledRows
from oasis_bench.system.errors import UsageError


@dataclass(frozen=True)
class RowsFile:
    """The file that holds rows and labels."""

    path: Path

    def map(self) -> LabelledRows:
        """Map the arrays, read-only, and make the rows of them, without pictures."""
        rows: LabelledRows = joblib.load(self.path, mmap_mode="r")
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
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="oasis-bench-"))
            path = Path(folder, "rows")
            with path.open("xb") as file:
                joblib.dump(replace(rows, X=X, images=None), file)
        except OSError as error:
            raise UsageError(
                f"cannot write the rows to {tempfile.tempdir or 'any folder'}: "
                f"{error.strerror or error}: free or correct it, or set TMPDIR to another folder"
            ) from error
        yield RowsFile(path)
