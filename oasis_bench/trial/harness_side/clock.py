"""The harness's clock, which no learner reaches: what a stage took, read from outside.

It also sees what its process does around the code that is timed.  So what that process says stands
where it is within a tolerance of this clock; else this clock is charged.
"""

from __future__ import annotations

import os
import time

from oasis_bench.system import Processes

SHARE, CPU_SECONDS, WALL_SECONDS = 0.1, 0.03, 0.3
"""The tolerance: a share of what is said, and seconds of processor time and of wall-clock time.

Messages wait for a core: on a busy machine wall-clock time is seen from outside less exactly.
"""

ROUGH_SECONDS = 1.0
"""In place of these for tuning, and for wall-clock time where trials share cores."""

UNCLOCKED_RATE = 100e6
"""Bytes a second that a stage copies for the harness."""

CLOCK_IN_WORDS = (
    "The harness reads the clocks of all processes of a learner from outside. What the learner’s "
    f"own process says stands where the harness reads at most {SHARE:.0%} more, and "
    f"{1000 * CPU_SECONDS:.0f} ms of processor time or {1000 * WALL_SECONDS:.0f} ms of wall-clock "
    f"time ({ROUGH_SECONDS:g} s of tuning, and of wall-clock time where trials share cores), and "
    f"{1e9 / UNCLOCKED_RATE:.0f} ms for each MB of the learner or of scores that it sends. Else "
    "what the harness reads is the cost, of both clocks where processor time is beyond."
)
"""For reports."""


class HarnessClock:
    """A clock for what is timed of a stage, whose processes are all below the process `server`.

    A learner may replace the clocks of its process, or work there before they start.
    """

    def __init__(
        self, server: int, wall_tolerance: float = WALL_SECONDS, tolerance: float = CPU_SECONDS
    ) -> None:
        self._server = server
        self._tolerance, self._wall_tolerance = tolerance, wall_tolerance
        self._cpu_start = Processes(server).cpu_seconds(but=os.getpid())
        self._start = time.monotonic()

    def subtract(self, seconds: float = 0.0, n_bytes: int = 0) -> None:
        """Leave out time that the harness took, and the time to copy so many bytes."""
        self._start += seconds + n_bytes / UNCLOCKED_RATE
        self._cpu_start += n_bytes / UNCLOCKED_RATE

    def charge(self, seconds: float, cpu_seconds: float) -> tuple[float, float]:
        """Return what a stage says that it took, or what it took by this clock; see above."""
        cpu = Processes(self._server).cpu_seconds(but=os.getpid()) - self._cpu_start
        wall = time.monotonic() - self._start
        if cpu > cpu_seconds * (1 + SHARE) + self._tolerance:
            return max(seconds, wall), cpu
        is_near = wall <= seconds * (1 + SHARE) + self._wall_tolerance
        return seconds if is_near else wall, cpu_seconds
