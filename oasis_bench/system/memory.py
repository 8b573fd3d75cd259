"""Memory of this process: its peak during a stretch of code, and how much more it may take."""

from __future__ import annotations

import gc

import psutil

from oasis_bench.system import linux

SMALL_BYTES = 64 * 2**20
"""The figures of free memory are not exact enough to refuse an array of at most this size."""


class PeakMemory:
    """Measures resident memory above a start, to some hundred kilobytes; on Linux only."""

    def __init__(self) -> None:
        # Memory that is free but resident would hide what the next code takes.
        gc.collect()
        linux.return_free_memory()
        resident = linux.resident_bytes() if linux.reset_peak() else None
        self._start = None if resident is None else resident[0]

    def peak(self) -> int | None:
        """Return the bytes resident at the peak since the start, or None."""
        resident = None if self._start is None else linux.resident_bytes()
        return None if resident is None else resident[1]

    def above_start(self) -> int | None:
        """Return bytes at the peak since the start above those at the start, or None."""
        peak = self.peak()
        return None if self._start is None or peak is None else max(0, peak - self._start)


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Check that so much memory can be had, before the system kills the process for it.

    Parameters
    ----------
    n_bytes : int
        What is about to be allocated.
    what : str
        What takes it, the subject of the message.
    remedy : str
        What the user can do, the end of the message.

    Raises
    ------
    MemoryError
        Where `n_bytes` exceeds both `SMALL_BYTES` and `available_bytes`.
    """
    if n_bytes <= SMALL_BYTES:
        return
    free = available_bytes()
    if n_bytes > free:
        raise MemoryError(f"{what} needs {_size(n_bytes)}, but {_size(free)} are free: {remedy}")


def available_bytes() -> int:
    """Return how much more memory this process may take.

    The least of what these leave: the memory of the machine and, on Linux, the limits of the
    process (RLIMIT_AS, RLIMIT_DATA) and of its control groups.  File cache counts as free, swap
    space does not.
    """
    of_machine: int = psutil.virtual_memory().available
    return max(0, min([of_machine, *linux.limits_left()]))


def _size(n_bytes: int) -> str:
    if n_bytes < 2**30:
        return f"{n_bytes / 2**20:.0f} MiB"
    return f"{n_bytes / 2**30:,.1f} GiB"
