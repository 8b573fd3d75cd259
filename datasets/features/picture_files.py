"""Picture files: their contents' hashes, and threads that work through many of them.

Not for decoding (`blocks`), and not for what is computed from a picture.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from oasis_bench.datasets.features.blocks import TooSmallError, UnusableImageError
from oasis_bench.system.progress import Progress

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Picture:
    """A file; its content decides all that is computed from it."""

    path: Path
    content: str


class Fault(NamedTuple):
    """Why a picture cannot be used, and whether it is whole and only too small."""

    reason: str
    too_small: bool = False


@dataclass(frozen=True)
class Workers:
    """Threads that each take the next item: NumPy and Pillow let go of Python's lock.

    `n_workers` is their number; None stands for one for each core that the process may use.
    """

    n_workers: int | None
    progress: Progress

    def map(
        self, function: Callable[[T], R], items: Iterable[T], what: str
    ) -> tuple[dict[T, R], dict[T, Fault]]:
        """Return the result of each item, and for the others the reason why there is none."""
        results: dict[T, R] = {}
        faults: dict[T, Fault] = {}
        pool = ThreadPoolExecutor(self.n_workers or _n_cores())
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


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hashed_pictures(paths: Sequence[Path], workers: Workers) -> list[Picture]:
    """Hash each file (SHA-256); for one that cannot be read the reason stands for its hash."""
    hashes, faults = workers.map(_content_hash, dict.fromkeys(paths), "reading picture files")
    contents = hashes | {path: fault.reason for path, fault in faults.items()}
    return [Picture(path, contents[path]) for path in paths]


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnusableImageError(error.strerror or str(error)) from error
