"""The only clock of a trial: wall clock, processor time, waiting for a core, peak memory."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oasis_bench.system import PeakMemory, cpu_seconds_below, scheduled_seconds

UNCLOCKED_SECONDS, UNCLOCKED_RATE = 1.0, 100e6
"""Seconds, and bytes a second, that a stage may take beyond what it reports."""


class Stopwatch:
    """Seconds spent on each phase; `on_begin` is called with the name of a phase that begins."""

    def __init__(self, on_begin: Callable[[str], object]) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.begin = on_begin

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time within to `what`."""
        self.begin(what)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - start


@dataclass(frozen=True)
class Cost:
    """What some code took.

    Attributes
    ----------
    seconds : float
        Wall clock.
    cpu_seconds : float
        Processor time of this process and of those below it, living or ended.
    waiting_seconds : float or None
        How long threads were ready and had no core; None where this is not known.
    peak_bytes : int or None
        Resident memory at the peak above the start; None where this is not known, or where child
        processes may have taken more.
    """

    seconds: float
    cpu_seconds: float
    waiting_seconds: float | None
    peak_bytes: int | None


class Meter:
    """Measures stretches of code, as a context manager that may be entered several times.

    Wall clock is that of the stretches.  Processor time and memory are those of this process from
    the beginning to `cost`, so that work in the background is charged, too.

    Parameters
    ----------
    server : int
        All processes of the trial are below this one.  What they take is charged as well, also
        where nobody waits for them.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._seconds = self._start = 0.0
        self._memory = PeakMemory()
        self._cpu_of_others = cpu_seconds_below(server, but=os.getpid())
        self._scheduled = scheduled_seconds()
        self._cpu_start = _cpu_seconds()

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self._seconds += time.perf_counter() - self._start

    def cost(self) -> Cost:
        """Return what has been taken so far."""
        own = _cpu_seconds() - self._cpu_start
        waited = waiting_seconds(self._scheduled, scheduled_seconds(), own)
        others = cpu_seconds_below(self._server, but=os.getpid()) - self._cpu_of_others
        peak_bytes = self._memory.above_start()
        if peak_bytes is not None and _has_had_children():  # asked last: not all systems can tell
            peak_bytes = None
        return Cost(self._seconds, own + max(0.0, others), waited, peak_bytes)


class HarnessClock:
    """The harness's clock for a stage: a lower bound on the cost that the stage reports.

    A learner may replace the clocks of its process, or work there before they start.

    Parameters
    ----------
    server : int
        All processes of the stage are below this one.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._cpu_start = cpu_seconds_below(server, but=os.getpid())
        self._start = time.monotonic()
        self._subtracted = UNCLOCKED_SECONDS

    def subtract(self, seconds: float = 0.0, n_bytes: int = 0) -> None:
        """Leave out time that the harness took, and the time to write so many bytes."""
        self._subtracted += seconds + n_bytes / UNCLOCKED_RATE

    def at_least(self) -> tuple[float, float]:
        """Return the least that the stage has taken since: wall clock and processor time."""
        cpu = cpu_seconds_below(self._server, but=os.getpid()) - self._cpu_start
        return time.monotonic() - self._start - self._subtracted, cpu - self._subtracted


def waiting_seconds(
    before: tuple[float, float] | None, after: tuple[float, float] | None, cpu_seconds: float
) -> float | None:
    """Return how long threads were ready and had no core, or None where this is not known.

    `before` and `after` come from `scheduled_seconds`, which counts living threads only.
    `cpu_seconds` is the processor time between the two.  The result is None where ended threads
    took more of it than a twentieth plus 10 ms.
    """
    if before is None or after is None:
        return None
    ran, waited = (later - earlier for earlier, later in zip(before, after, strict=True))
    return waited if cpu_seconds - ran <= 0.05 * cpu_seconds + 0.01 else None


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _has_had_children() -> bool:
    """Tell whether this process has a child process, or has had one that ended."""
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt:  # every process has page faults
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError within the block when the time is over.

    It is raised between two steps of Python: a call of compiled code is not interrupted.  For the
    main thread only.
    """

    def interrupt(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
