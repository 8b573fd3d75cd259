"""Measures code beside the plugin: wall clock, processor time, waiting for a core, peak memory.

A learner could replace these clocks, so the harness compares them with its own clock
(`oasis_bench.trial.harness_side.inbox`).
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oasis_bench.system import PeakMemory, Processes


class Stopwatch:
    """Seconds spent on each phase; `on_begin` is called with its name when it begins."""

    def __init__(self, on_begin: Callable[[str], object]) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.begin = on_begin

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time of the block to phase `what`."""
        self.begin(what)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - start


@dataclass(frozen=True)
class Cost:
    """The costs of some code; None if not known."""

    seconds: float  # wall clock
    cpu_seconds: float  # of this process and of those below it, living or ended
    waiting_seconds: float | None  # of threads that were ready and had no core
    peak_bytes: int | None  # resident, above the start; None if it had child processes


class Meter:
    """Measures stretches of code, as a context manager that may be entered several times.

    Wall-clock time is that of the stretches.  Processor time and memory are those of this process
    from the beginning to `cost`, so that background work is charged, too.  Processor time of the
    trial's other processes, below `server`, is added even if nobody waits for them.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._seconds = self._start = 0.0
        self._memory = PeakMemory()
        self._cpu_of_others = Processes(server).cpu_seconds(but=os.getpid())
        self._scheduled = scheduled_seconds()
        self._cpu_start = cpu_seconds()

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self._seconds += time.perf_counter() - self._start

    def cost(self) -> Cost:
        """Return the costs so far."""
        own = cpu_seconds() - self._cpu_start
        waited = waiting_seconds(self._scheduled, scheduled_seconds(), own)
        others = Processes(self._server).cpu_seconds(but=os.getpid()) - self._cpu_of_others
        peak_bytes = self._memory.above_start()
        if peak_bytes is not None and _has_had_children():  # checked last: not all systems can tell
            peak_bytes = None
        return Cost(self._seconds, own + max(0.0, others), waited, peak_bytes)


def scheduled_seconds() -> tuple[float, float] | None:
    """Return how long the threads of this process have run, and have waited for a core."""
    try:
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/schedstat")]
    except OSError:
        return None
    times = [[int(number) / 1e9 for number in text.split()[:2]] for text in texts]
    return (sum(ran for ran, _ in times), sum(waited for _, waited in times)) if times else None


def waiting_seconds(
    before: tuple[float, float] | None, after: tuple[float, float] | None, cpu_seconds: float
) -> float | None:
    """Return how long threads were ready and had no core, or None if this is not known.

    `before` and `after` come from `scheduled_seconds`, which counts living threads only.
    `cpu_seconds` is the processor time between the two.  The result is None if ended threads
    took more than a twentieth of it plus 10 ms.
    """
    if before is None or after is None:
        return None
    ran, waited = (later - earlier for earlier, later in zip(before, after, strict=True))
    return waited if cpu_seconds - ran <= 0.05 * cpu_seconds + 0.01 else None


def cpu_seconds() -> float:
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
