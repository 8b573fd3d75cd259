"""Tuning: hyper-parameters and the early-stopping step, on inner folds only (NIPS 2009, 4.2).

Nothing here is timed fit by fit, so that folds work side by side where cores are idle.  The model
that is measured is fitted by `oasis_bench.trial.learner_side.stages`, with what is tuned here.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from multiprocessing.connection import Connection, Pipe, wait
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from oasis_bench.experiment import Candidate
from oasis_bench.plugins import WEIGHTS, IncrementalLearner, MetricLearner
from oasis_bench.system import LastResults, die_with_parent, sharing
from oasis_bench.trial.learner_side.fit_data import FitData
from oasis_bench.trial.learner_side.meter import Stopwatch
from oasis_bench.trial.wall import LEARNING, VALIDATION, Ended, Tuned, checkpoints

PATIENCE, LATE_PATIENCE = 4, 3
"""Learning has saturated after so many checkpoints without a better value: 4 times the steps, or
2.8 times as many where these cost more, from `LATE` steps on."""

LATE = 8000

LONGEST_WAIT = 1.0
"""Seconds between two looks at whether a fold's process has died."""

Timer = Callable[[str], AbstractContextManager[None]]


def has_saturated(since_best: int, n_steps: int) -> bool:
    """Tell whether the search for the number of steps ends.

    The last `since_best` checkpoints, to `n_steps`, had no better value than those before them.
    """
    return since_best >= (PATIENCE if n_steps < LATE else LATE_PATIENCE)


def n_in_any_case(steps: Sequence[int], since_best: int) -> int:
    """Return how many of the next checkpoints are validated even if none is better."""
    for count, n_steps in enumerate(steps, start=1):
        since_best += 1
        if has_saturated(since_best, n_steps):
            return count
    return len(steps)


class FoldJob(NamedTuple):
    """What one inner fold is to learn next, before it is validated."""

    fold: int
    params: Mapping[str, Any]
    start: int | None  # None for an unfitted learner
    stop: int | None  # None for one that learns all its steps


class FoldWork:
    """The work on inner folds, with the `make` and `score` of `tune`, and the data of each fold."""

    def __init__(
        self,
        make: Callable[[Mapping[str, Any], int], MetricLearner],
        folds_data: Sequence[FitData],
        score: Callable[[MetricLearner, FitData], npt.ArrayLike],
    ) -> None:
        self._make, self._fit_data, self._score = make, [*folds_data], score
        self._learners: dict[int, MetricLearner] = {}
        self._shared: dict[int, LastResults] = {}

    def __call__(self, job: FoldJob, timer: Timer) -> npt.ArrayLike:
        """Fit the learner of a fold and return its value, or its values."""
        if job.start is None:
            self._learners[job.fold] = self._make(job.params, job.fold)
        learner = self._learners[job.fold]
        with timer(LEARNING):
            if job.fold not in self._shared:
                self._shared[job.fold] = {}
                if learner.rotation_invariant:
                    self._fit_data[job.fold] = self._fit_data[job.fold].in_their_span()
            data = self._fit_data[job.fold]
            with sharing(self._shared[job.fold]):
                data.fit(learner, job.start or 0, job.stop)
        with timer(VALIDATION):
            return self._score(learner, data)


class Folds(Protocol):
    """Where the work of the folds is done."""

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[npt.ArrayLike]:
        """Do jobs, those of a fold in their order; yield their values in the order of all."""

    def close(self) -> None:
        """Forget the learners."""


class _InTurn:
    """One fold after the other, in this process."""

    def __init__(self, work: FoldWork, timer: Timer) -> None:
        self._work, self._timer = work, timer

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[npt.ArrayLike]:
        return (self._work(job, self._timer) for job in jobs)

    def close(self) -> None:
        """Nothing is held beside this object."""


def tune(
    make: Callable[[Mapping[str, Any], int], MetricLearner],
    candidates: Sequence[Candidate],
    fit_data_of: Callable[[str], Sequence[FitData]],
    score: Callable[[MetricLearner, FitData], npt.ArrayLike],
    max_steps: int,
    timer: Timer,
    on_point: Callable[[Mapping[str, Any]], None],
    seconds: float | None = None,
    folds_of: Callable[[FoldWork, int], Folds] | None = None,
) -> Tuned:
    """Choose a scaling, hyper-parameters, and the number of steps where the learner has steps.

    All folds go on together: memory holds one model a fold.  Where the candidates name
    `n_steps`, only their values are tried.

    ``make(params, fold)`` gives an unfitted learner, ``fit_data_of(scaling)`` the data of the inner
    folds, ``score(learner, data)`` the measure that chooses, ``folds_of(work, n_folds)`` what does
    the work of the folds: by default this process, one after the other.  Where the learner is
    blended, the measure has a value for each of `WEIGHTS`.  The last one, the learner's own,
    chooses; of the winner the best of them all gives the weight.  The `timer` is entered with each
    phase; `on_point` gets each own value when it is known, with the fields of `Validated`.

    After `seconds` nothing further is begun; what has not been validated on all folds by then does
    not count.  Without any such result the first candidate is chosen.
    """
    tuned = Tuned(candidates[0].scaling, dict(candidates[0].params))
    end = np.inf if seconds is None else time.monotonic() + seconds
    best = -np.inf
    incremental = (
        isinstance(make(candidates[0].params, 0), IncrementalLearner)
        and "n_steps" not in candidates[0].params
    )
    for scaling, of_scaling in groupby(candidates, attrgetter("scaling")):
        folds_data, group = fit_data_of(scaling), [*of_scaling]
        work, n_folds = FoldWork(make, folds_data, score), len(folds_data)
        with closing(
            _InTurn(work, timer) if folds_of is None else folds_of(work, n_folds)
        ) as folds:
            validated = folds.values(
                FoldJob(fold, candidate.params, None, None)
                for candidate, fold in product([] if incremental else group, range(n_folds))
            )
            for candidate in group:
                best_here, since_best, n_begun = -np.inf, 0, 0
                steps: list[Any] = checkpoints(max_steps) if incremental else [None]
                for number, n_steps in enumerate(steps):
                    if incremental and number == n_begun:
                        n_begun += n_in_any_case(steps[number:], since_best)  # no fold waits
                        parts = pairwise([None, *steps][number : n_begun + 1])
                        validated = folds.values(
                            FoldJob(fold, candidate.params, start, stop)
                            for (start, stop), fold in product(parts, range(n_folds))
                        )
                    values = []
                    for fold in range(n_folds):
                        if time.monotonic() > end:
                            return tuned
                        values.append(np.atleast_1d(next(validated)))
                        point = {**candidate._asdict(), "n_steps": n_steps, "fold": fold}
                        on_point({**point, "value": float(values[-1][-1])})
                    means = np.mean(values, axis=0)
                    mean = float(means[-1])
                    if mean > best:
                        best, tuned.n_steps, tuned.blend = mean, n_steps, best_weight(means)
                        tuned.scaling, tuned.params = candidate.scaling, dict(candidate.params)
                    if candidate == (tuned.scaling, tuned.params):
                        tuned.last_checkpoint = n_steps
                    if mean > best_here:
                        best_here, since_best = mean, 0
                    else:
                        since_best += 1
                    if incremental and has_saturated(since_best, n_steps):
                        break
        del folds_data, work, folds, validated  # the items of one scaling at a time
    return tuned


def best_weight(values: npt.NDArray[np.float64]) -> float | None:
    """Return the weight of the highest value, of equal ones the largest; None of one value."""
    return max(zip(values, WEIGHTS, strict=True))[1] if len(values) > 1 else None


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
    """Processes of the inner folds, of which `at_once` work at a time.

    The trial's process forks them before it has fitted anything.  Where a fold's process ends
    badly, this one ends with the same signal or status: a pool of the standard library hides it.

    The `stopwatch` gets the seconds that each fold took, as if one had followed the other.
    ``ended(error)`` gives the message of a stage that ends by an error; one phase of a fold may
    take `seconds`.
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

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[npt.ArrayLike]:
        """Do jobs, those of a fold one after the other; yield the value of each in their order.

        Raise EndedError where a job has failed, or takes too long.
        """
        waiting = dict(enumerate(jobs))
        n_jobs, values, n_yielded = len(waiting), dict[int, npt.ArrayLike](), 0
        while n_yielded < n_jobs:
            self._begin(waiting)
            busy = {fold.connection: fold for fold in self._folds if fold.number is not None}
            for fold in busy.values():  # a process that it leaves keeps its connection open
                if _has_ended(fold.pid) and not fold.connection.poll():
                    _end_with_status_of(fold.pid)
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

    def _receive(self, fold: _Fold, values: dict[int, npt.ArrayLike]) -> None:
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

    def _seconds_to_poll(self, busy: Iterable[_Fold]) -> float:
        deadline = min(fold.since for fold in busy) + (self._seconds or math.inf)
        return max(0.0, min(LONGEST_WAIT, deadline - time.monotonic()))

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


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended; it can still be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_with_status_of(pid: int) -> NoReturn:
    """End this process with the signal or the status of a fold's process."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
