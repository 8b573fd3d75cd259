"""The tuning jobs on inner folds, done in this process or in one process for each fold."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple, NoReturn, TypeAlias

import psutil

from oasis_bench.plugins import MetricLearner
from oasis_bench.system import die_with_parent, shared
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import Baselines, Values
from oasis_bench.trial.learner_side.inner_folds import InnerFolds
from oasis_bench.trial.learner_side.meter import Stopwatch

LONGEST_WAIT = 1.0
"""Seconds between two checks whether a fold's process has died."""

Timer = Callable[[str], AbstractContextManager[None]]


class FoldJob(NamedTuple):
    """The next part of a candidate's fit on an inner fold, and its validation."""

    number: int  # of the candidate
    lane: int  # the jobs of a lane run in turn
    fold: int
    scaling: str
    params: Mapping[str, Any]
    start: int | None  # None for an unfitted learner
    stop: int | None  # None: all steps of the learner
    is_winner: bool = False  # the ways to use it are validated


Done: TypeAlias = tuple[FoldJob, Values]
"""A finished job, and the values of the fitted learner."""


class FoldWork:
    """The work on inner folds in some scalings.

    `baselines` has the baselines of each fold; None: they use the data of the fold.
    """

    def __init__(
        self, folds: InnerFolds, scalings: Iterable[str], baselines: Sequence[Baselines] | None
    ) -> None:
        self._folds, self._baselines = folds, baselines
        self._fit_data = {scaling: [*folds.data(scaling)] for scaling in scalings}
        self.n_folds = len(next(iter(self._fit_data.values())))
        self._learners: dict[int, MetricLearner] = {}
        self._shared: dict[tuple[str, int], dict[Any, Any]] = {}

    def __call__(self, job: FoldJob, timer: Timer) -> Done:
        """Fit the learner of a lane and validate it."""
        if job.start is None:
            self._learners[job.lane] = self._folds.make(job.params, job.fold)
        learner, of_folds = self._learners[job.lane], self._fit_data[job.scaling]
        with timer(wall.LEARNING):
            where = job.scaling, job.fold
            if where not in self._shared:
                self._shared[where] = {}
                if learner.rotation_invariant:
                    of_folds[job.fold] = of_folds[job.fold].in_their_span()
            data = of_folds[job.fold]
            with shared.within(self._shared[where]):
                data.fit(learner, job.start or 0, job.stop)
        with timer(wall.VALIDATION), shared.within(self._shared[where]):
            if job.is_winner:
                baselines = None if self._baselines is None else self._baselines[job.fold]
                values = self._folds.values_of_ways(learner, data, baselines)
            else:
                values = self._folds.values(learner, data)
        return job, values


class InTurn:
    """Does the jobs in turn, in this process."""

    def __init__(self, work: FoldWork, timer: Timer) -> None:
        self._work, self._timer = work, timer

    def done(self, jobs: deque[FoldJob]) -> Iterator[Done]:
        """Do the jobs; the caller may add more meanwhile."""
        while jobs:
            yield self._work(jobs.popleft(), self._timer)

    def close(self) -> None:
        """Do nothing: there are no processes."""


class EndedError(Exception):
    """A fold's process has failed; its argument is the message, with the status and the reason."""


@dataclass
class _Fold:
    """The process of a lane, and its current state."""

    pid: int
    connection: Connection
    is_busy: bool = False
    phase: str = "the start"
    since: float = 0.0


class FoldProcesses:
    """Processes of the inner folds; at most `at_once` of them work at a time.

    The trial's process forks them before it has fitted anything.  If a fold's process crashes, this
    one ends with the same signal or status, which a pool of the standard library would hide.

    The `stopwatch` adds up the seconds of all folds.  ``ended(error)`` returns the message of a
    stage that ends with an error.  One phase of a fold may take `seconds`.
    """

    def __init__(
        self,
        work: FoldWork,
        at_once: int,
        stopwatch: Stopwatch,
        ended: Callable[[Exception], wall.Ended],
        seconds: float | None,
    ) -> None:
        self._at_once, self._stopwatch, self._seconds = at_once, stopwatch, seconds
        self._folds = [_forked(work, ended) for _ in range(work.n_folds)]

    def done(self, jobs: deque[FoldJob]) -> Iterator[Done]:
        """Do jobs and yield each when it is done; the caller may add more meanwhile.

        Raise EndedError if a job has failed, or takes too long.
        """
        while self._begin(jobs):
            busy = {fold.connection: fold for fold in self._folds if fold.is_busy}
            for fold in busy.values():  # a child of a dead one keeps its connection open
                if _has_ended(fold.pid) and not fold.connection.poll():
                    _end_with_status_of(fold.pid)
            for connection in wait([*busy], self._seconds_to_poll(busy.values())):
                assert isinstance(connection, Connection)
                if (done := self._receive(busy[connection])) is not None:
                    yield done
            self._hold_to_budget(busy.values())

    def close(self) -> None:
        """End the processes."""
        for fold in self._folds:
            with suppress(ProcessLookupError):
                os.kill(fold.pid, signal.SIGKILL)
            os.waitpid(fold.pid, 0)
            fold.connection.close()

    def _begin(self, jobs: deque[FoldJob]) -> bool:
        """Give jobs to idle processes, in order; return whether any process is busy."""
        n_busy = sum(fold.is_busy for fold in self._folds)
        for job in [*jobs]:
            fold = self._folds[job.lane]
            if n_busy < self._at_once and not fold.is_busy:
                fold.is_busy, fold.since = True, time.monotonic()
                jobs.remove(job)
                with suppress(OSError):  # it is dead: `_receive` ends the trial
                    fold.connection.send(job)
                n_busy += 1
        return n_busy > 0

    def _receive(self, fold: _Fold) -> Done | None:
        try:
            message = fold.connection.recv()
        except (EOFError, OSError):
            _end_with_status_of(fold.pid)
        if isinstance(message, str):
            fold.phase, fold.since = message, time.monotonic()
            self._stopwatch.begin(message)
            return None
        if isinstance(message, wall.Ended):
            raise EndedError(message)
        done: Done
        done, seconds = message
        for phase, taken in seconds.items():
            self._stopwatch.seconds[phase] += taken
        fold.is_busy = False
        return done

    def _seconds_to_poll(self, busy: Iterable[_Fold]) -> float:
        deadline = min(fold.since for fold in busy) + (self._seconds or math.inf)
        return max(0.0, min(LONGEST_WAIT, deadline - time.monotonic()))

    def _hold_to_budget(self, busy: Iterable[_Fold]) -> None:
        for fold in busy:
            late = self._seconds is not None and time.monotonic() > fold.since + self._seconds
            if late and fold.is_busy:
                reason = f"{fold.phase} took longer than the budget of {self._seconds:g} s"
                raise EndedError(wall.Ended("timeout", reason))


def _forked(work: FoldWork, ended: Callable[[Exception], wall.Ended]) -> _Fold:
    """Fork the process of a fold."""
    ours, theirs = Pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve(theirs, work, ended)
    theirs.close()
    return _Fold(pid, ours)


def _serve(line: Connection, work: FoldWork, ended: Callable[[Exception], wall.Ended]) -> NoReturn:
    """Do jobs in turn: the main function of a fold's process."""
    status = 1
    try:
        die_with_parent()
        while True:
            job = line.recv()
            stopwatch = Stopwatch(line.send)
            try:
                done = work(job, stopwatch)
            except Exception as error:
                line.send(ended(error))
            else:
                line.send((done, dict(stopwatch.seconds)))
            sys.stdout.flush()
    except (EOFError, OSError):  # the trial has ended
        status = 0
    except BaseException:  # SystemExit, as that of a trial's process
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended; it can still be waited for."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_with_status_of(pid: int) -> NoReturn:
    """End this process with the signal or the status of a fold's process."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
