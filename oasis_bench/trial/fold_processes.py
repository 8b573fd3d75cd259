"""The inner folds of a trial side by side: each in a process of its own, off the clock.

What a fold does is the same in whichever process; `oasis_bench.trial.choice` says what that is.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import NoReturn

from oasis_bench.system import die_with_parent
from oasis_bench.trial.choice import FoldJob, FoldWork
from oasis_bench.trial.clock import Stopwatch
from oasis_bench.trial.messages import Ended


class EndedError(Exception):
    """The work of a fold's process has not ended well; `message` says how."""

    def __init__(self, message: Ended) -> None:
        super().__init__(message.reason)
        self.message = message


@dataclass
class _Fold:
    """The process of a fold, and what it does now."""

    pid: int
    connection: Connection
    number: int | None = None  # of the job; None where it waits for one
    phase: str = "the start"
    since: float = 0.0


class FoldProcesses:
    """Processes of the inner folds, of which so many work at a time.

    The trial's process forks them before it has fitted anything.  Where a fold's process ends
    badly, this one ends with the same signal or status.

    Parameters
    ----------
    work : FoldWork
    n_folds : int
    at_once : int
        How many may work at a time.
    stopwatch : Stopwatch
        Gets the seconds that each fold took, as if one had followed the other.
    ended : callable
        ``ended(error)`` gives the message of a stage that ends by an error.
    seconds : float or None
        The longest that one phase of a fold may take.
    """

    def __init__(
        self,
        work: FoldWork,
        n_folds: int,
        at_once: int,
        stopwatch: Stopwatch,
        ended: Callable[[Exception], Ended],
        seconds: float | None,
    ) -> None:
        self._at_once, self._stopwatch, self._seconds = at_once, stopwatch, seconds
        self._folds = [_forked(work, ended) for _ in range(n_folds)]

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[float]:
        """Do jobs, those of a fold one after the other; yield the value of each in their order.

        Raises
        ------
        EndedError
            Where a job has failed, or takes too long.
        """
        waiting = dict(enumerate(jobs))
        n_jobs, values, n_yielded = len(waiting), dict[int, float](), 0
        while n_yielded < n_jobs:
            self._begin(waiting)
            busy = {fold.connection: fold for fold in self._folds if fold.number is not None}
            for connection in wait([*busy], self._seconds_to_poll(busy.values())):
                assert isinstance(connection, Connection)
                self._receive(busy[connection], values)
            self._hold_to_budget(busy.values())
            while n_yielded in values:
                yield values.pop(n_yielded)
                n_yielded += 1

    def close(self) -> None:
        """End the processes."""
        for fold in self._folds:
            with suppress(ProcessLookupError):
                os.kill(fold.pid, signal.SIGKILL)
            os.waitpid(fold.pid, 0)
            fold.connection.close()

    def _begin(self, waiting: dict[int, FoldJob]) -> None:
        """Give jobs to idle processes, the first ones first."""
        n_idle = self._at_once - sum(fold.number is not None for fold in self._folds)
        for number, job in [*waiting.items()]:
            fold = self._folds[job.fold]
            if n_idle and fold.number is None:
                fold.number, fold.since = number, time.monotonic()
                with suppress(OSError):  # it is dead, which is seen when its answer is read
                    fold.connection.send(waiting.pop(number))
                n_idle -= 1

    def _receive(self, fold: _Fold, values: dict[int, float]) -> None:
        try:
            message = fold.connection.recv()
        except (EOFError, OSError):
            _end_with_status_of(fold.pid)
        if isinstance(message, str):
            fold.phase, fold.since = message, time.monotonic()
            self._stopwatch.begin(message)
        elif isinstance(message, Ended):
            raise EndedError(message)
        else:
            assert fold.number is not None
            values[fold.number], seconds = message
            for phase, taken in seconds.items():
                self._stopwatch.seconds[phase] += taken
            fold.number = None

    def _seconds_to_poll(self, busy: Iterable[_Fold]) -> float | None:
        if self._seconds is None:
            return None
        return max(0.0, min(fold.since for fold in busy) + self._seconds - time.monotonic())

    def _hold_to_budget(self, busy: Iterable[_Fold]) -> None:
        for fold in busy:
            late = self._seconds is not None and time.monotonic() > fold.since + self._seconds
            if late and fold.number is not None:
                reason = f"{fold.phase} took longer than the budget of {self._seconds:g} s"
                raise EndedError(Ended("timeout", reason))


def _forked(work: FoldWork, ended: Callable[[Exception], Ended]) -> _Fold:
    """Fork the process of a fold."""
    ours, theirs = Pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve(theirs, work, ended)
    theirs.close()
    return _Fold(pid, ours)


def _serve(line: Connection, work: FoldWork, ended: Callable[[Exception], Ended]) -> NoReturn:
    """Do one job after the other: the main function of a fold's process."""
    status = 1
    try:
        die_with_parent()
        while True:
            job = line.recv()
            stopwatch = Stopwatch(line.send)
            try:
                value = work(job, stopwatch)
            except Exception as error:
                line.send(ended(error))
            else:
                line.send((value, dict(stopwatch.seconds)))
            sys.stdout.flush()
    except (EOFError, OSError):  # the trial has ended
        status = 0
    except BaseException:  # SystemExit, as that of a trial's process
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _end_with_status_of(pid: int) -> NoReturn:
    """End this process with the signal or the status of a fold's process."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
