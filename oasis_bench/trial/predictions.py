"""The scores of a trial in a file, written as they come and read back a block at a time.

The file is an uncompressed .npz: ``numpy.load(path)["scores_test"]`` gives the scores of all test
items (rows) against all test items, ``["test_rows"]`` the row numbers of these in the data set.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from oasis_bench.system import (
    LONGEST_REASON,
    UsageError,
    begin_array,
    cut,
    error_line,
    open_array,
    open_regular,
    open_stored,
    read_array,
    slices,
    write_array,
)
from oasis_bench.trial.items import TrialItems
from oasis_bench.trial.messages import MOST_SCORE_BYTES, Scores

GALLERIES = ("test", "training")


class ScoresFile:
    """Writes the scores of one trial.

    Parameters
    ----------
    path : Path
    items : TrialItems
        Their row numbers and the order within ties are written beside the scores.
    """

    def __init__(self, path: Path, items: TrialItems) -> None:
        self._items = items
        self._file = zipfile.ZipFile(path, "w")
        self._array: IO[bytes] | None = None
        self._gallery = ""
        self._dtype = np.dtype(np.float64)

    def add(self, message: Scores, content: bytes | bytearray) -> None:
        """Write the next block; the scores of one gallery come after those of the other."""
        if message.gallery != self._gallery:
            self._begin(message.gallery, np.dtype(message.dtype))
        assert self._array is not None
        if message.dtype != self._dtype:  # the first block decides
            content = np.frombuffer(content, message.dtype).astype(self._dtype).tobytes()
        self._array.write(content)

    def finish(self) -> None:
        """Write what the scores are of, and close the file."""
        self._end_array()
        for name, array in what_was_scored(self._items).items():
            write_array(self._file, f"{name}.npy", array)
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        self._end_array()
        self._file.close()

    def _begin(self, gallery: str, dtype: np.dtype[Any]) -> None:
        self._end_array()
        self._gallery, self._dtype = gallery, dtype
        shape = len(self._items.test_rows), len(self._items.ties[gallery])
        self._array = begin_array(self._file, f"scores_{gallery}.npy", dtype, shape)

    def _end_array(self) -> None:
        if self._array is not None:
            self._array.close()
            self._array = None


def what_was_scored(items: TrialItems) -> dict[str, npt.NDArray[np.intp]]:
    """Return the row numbers of the items, and the order within ties, by their names in a file."""
    rows = {"test_rows": items.test_rows, "training_rows": items.train_rows}
    return rows | {f"ties_{gallery}": items.ties[gallery] for gallery in GALLERIES}


@dataclass(frozen=True)
class Predictions:
    """The kept scores of one trial.

    Attributes
    ----------
    path : Path
    galleries : tuple of str
        Those whose scores were kept: 'test', 'training'.
    arrays : dict of str to ndarray
        `test_rows`, `training_rows`, `ties_test`, `ties_training`.
    """

    path: Path
    galleries: tuple[str, ...]
    arrays: Mapping[str, npt.NDArray[np.intp]]

    @classmethod
    def open(cls, path: Path, items: TrialItems) -> Predictions:
        """Read what the scores are of; `items` are those of the trial, as they are drawn now.

        Raises
        ------
        UsageError
            Where the file is damaged, or its scores are of other items.
        """
        arrays = what_was_scored(items)
        with (
            _damage_as_usage_error(path),
            open_regular(path) as file,
            open_stored(file) as archive,
        ):
            kept = {name: read_array(archive, f"{name}.npy") for name in arrays}
            names = archive.namelist()
            scored = tuple(gallery for gallery in GALLERIES if f"scores_{gallery}.npy" in names)
        if not all(np.array_equal(kept[name], array) for name, array in arrays.items()):
            raise UsageError(
                f"{path}: its scores are of other items than this oasis-bench draws: put it back, "
                "use the version that ran it, or start a new run"
            )
        return cls(path, scored, arrays)

    def blocks(self, gallery: str) -> Iterator[tuple[Scores, bytes]]:
        """Read the scores against a gallery in blocks, as they once came.

        Raises
        ------
        UsageError
            Where the file is damaged, or a score is NaN.
        """
        shape = n_queries, n_gallery = tuple(
            len(self.arrays[name]) for name in ("test_rows", f"ties_{gallery}")
        )
        with (
            _damage_as_usage_error(self.path),
            open_regular(self.path) as file,
            open_stored(file) as archive,
            open_array(archive, f"scores_{gallery}.npy") as (stream, header),
        ):
            dtype = header.dtype
            if header != (shape, False, dtype) or dtype not in (np.float32, np.float64):
                raise UsageError(
                    f"its scores have shape {header.shape} and type {dtype}: {shape} of float32 or "
                    "float64, row after row, are needed"
                )
            row_bytes = n_gallery * dtype.itemsize
            for part in slices(n_queries, max(1, MOST_SCORE_BYTES // row_bytes)):
                n_rows = part.stop - part.start
                content = stream.read(n_rows * row_bytes)
                if len(content) < n_rows * row_bytes:
                    raise UsageError("it ends early")
                if np.isnan(np.frombuffer(content, dtype)).any():
                    raise UsageError("it holds scores that are NaN")
                yield Scores(gallery, n_rows, dtype.name), content


@contextmanager
def _damage_as_usage_error(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # libraries raise nearly anything for a damaged file
        reason = str(error) if isinstance(error, UsageError) else error_line(error)
        raise UsageError(
            f"{path}: cannot be read as kept scores ({cut(reason, LONGEST_REASON)}): "
            "put it back, or run the trials again into a new folder"
        ) from error
