"""Picture files: hashes of their contents, and threads that work on many of them.

Not for decoding (`decoding`), and not for what is computed from a picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from oasis_bench.data import Patches, Rows
from oasis_bench.datasets.features.decoding import TooSmallError, UnusableImageError
from oasis_bench.datasets.files.arrays import Arrays
from oasis_bench.datasets.files.errors import reason_of
from oasis_bench.system import Progress, available_cores, open_regular

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Picture:
    """A file and the hash of its content, which decides all that is computed from it."""

    path: Path
    content: str


class Fault(NamedTuple):
    """Why a picture cannot be used; `too_small` where only its size is the reason."""

    reason: str
    too_small: bool = False


class PictureRows(NamedTuple):
    """Rows of pictures: `X` of those numbered `kept`, ascending; the others with the reason.

    `patches` are there where rows are made of several kinds of features: one a picture and kind.
    """

    X: Rows
    kept: Sequence[int]
    left_out: Sequence[tuple[Path, Fault]]
    remarks: tuple[str, ...] = ()
    patches: Patches | None = None


@dataclass(frozen=True)
class Workers:
    """Threads that each take the next item; NumPy and Pillow release Python's lock.

    `progress` is called with the number of items done; `n_workers` is by default one for each core.
    """

    progress: Progress
    n_workers: int | None = None

    def map(
        self, function: Callable[[T], R], items: Iterable[T], what: str
    ) -> tuple[dict[T, R], dict[T, Fault]]:
        """Return the results of the items, and the faults of the items without a result."""
        results: dict[T, R] = {}
        faults: dict[T, Fault] = {}
        pool = ThreadPoolExecutor(self.n_workers or available_cores())
        try:
            futures = {item: pool.submit(function, item) for item in items}
            for done, (item, future) in enumerate(futures.items(), start=1):
                try:
                    results[item] = future.result()
                except UnusableImageError as error:
                    faults[item] = Fault(str(error), isinstance(error, TooSmallError))
                self.progress(what, done, len(futures))
        finally:
            pool.shutdown(cancel_futures=True)
        return results, faults


def hashed_pictures(paths: Sequence[Path], workers: Workers) -> list[Picture]:
    """Hash each file (SHA-256); a file that cannot be read has the reason in place of a hash."""
    hashes, faults = workers.map(_content_hash, dict.fromkeys(paths), "reading picture files")
    contents = hashes | {path: fault.reason for path, fault in faults.items()}
    return [Picture(path, contents[path]) for path in paths]


def arrays_of_faults(faults: Mapping[Picture, Fault]) -> Arrays:
    """Return faults as arrays, for a file."""
    return {
        "faulty": np.array([picture.content for picture in faults], str),
        "reasons": np.array([fault.reason for fault in faults.values()], str),
        "too_small": np.array([fault.too_small for fault in faults.values()], bool),
    }


def faults_of_arrays(arrays: Arrays) -> dict[str, Fault]:
    """Return the faults that `arrays_of_faults` made arrays of, by the pictures' contents."""
    parts = (arrays[name].tolist() for name in ("faulty", "reasons", "too_small"))
    return {content: Fault(*fault) for content, *fault in zip(*parts, strict=True)}


def fault_lines(left_out: Sequence[tuple[Path, Fault]], what: str) -> Iterator[str]:
    """Name each broken file with the reason; count those that are only too small."""
    small = [(path, fault.reason) for path, fault in left_out if fault.too_small]
    for path, fault in left_out:
        if not fault.too_small:
            yield f"{what}: {str(path)!r}: {fault.reason}"
    if small:
        path, reason = small[0]
        yield f"{what}: {len(small)} too small: such as {str(path)!r}: {reason}"


def _content_hash(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnusableImageError(reason_of(error)) from error
