"""The harness's clock, which no learner reaches: a lower bound on what a stage says it took."""

from __future__ import annotations

import os
import time

from oasis_bench.system import cpu_seconds_below

UNCLOCKED_SECONDS, UNCLOCKED_RATE = 1.0, 100e6
"""Seconds, and bytes a second, that a stage may take beyond what it reports."""


class HarnessClock:
    """A clock for what is timed of a stage, whose processes are all below the process `server`.

    A learner may replace the clocks of its process, or work there before they start.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self._cpu_start = cpu_seconds_below(server, but=os.getpid())
        self._start = time.monotonic()
        self._subtracted = UNCLOCKED_SECONDS

    def subtract(self, seconds: float = 0.0, n_bytes: int = 0) -> None:
        """Leave out time that the harness took, and the time to write so many bytes."""
        self._subtracted += seconds + n_bytes / UNCLOCKED_RATE

    def at_least(self, seconds: float, cpu_seconds: float = 0.0) -> tuple[float, float]:
        """Return what a stage says that it took, or what it took at least by this clock."""
        cpu = cpu_seconds_below(self._server, but=os.getpid()) - self._cpu_start
        wall = time.monotonic() - self._start
        return max(seconds, wall - self._subtracted), max(cpu_seconds, cpu - self._subtracted)
