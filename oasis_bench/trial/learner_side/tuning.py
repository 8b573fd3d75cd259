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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from itertools import chain, pairwise, product
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from oasis_bench.experiment import Candidate
from oasis_bench.plugins import Blend, IncrementalLearner, MetricLearner
from oasis_bench.system import Processes, shared
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import FitData
from oasis_bench.trial.learner_side.meter import Stopwatch, cpu_seconds

PATIENCE, LATE_PATIENCE = 4, 3
"""Learning has saturated after so many checkpoints without a better value: 4 times the steps, or
2.8 times as many where these cost more, from `LATE` steps on."""

LATE = 8000

MOST_ON_ALL_FOLDS = 3
"""Candidates that all folds validate; of more, the first fold does and the best third go on."""

FIRST_SHARE = 0.5
"""Of a limit of processor time, what the first fold may take of it."""

LONGEST_WAIT = 1.0
"""Seconds between two looks at whether a fold's process has died."""

Timer = Callable[[str], AbstractContextManager[None]]

Values = npt.NDArray[np.float64]
"""Of shape (n_measures, n_weights): a row for each measure that tunes; the last value of a row is
of the learner alone, those before it are of blends."""

Baselines = Sequence[FitData]
"""For each measure, the rows of a fold as its baseline takes them."""


def has_saturated(since_best: int, n_steps: int) -> bool:
    """Tell whether the search for the number of steps ends.

    The last `since_best` checkpoints, to `n_steps`, had no better value than those before them.
    """
    return since_best >= (PATIENCE if n_steps < LATE else LATE_PATIENCE)


def n_in_any_case(steps: Sequence[int | None], since_best: int) -> int:
    """Return how many of the next checkpoints are validated even if none is better."""
    for count, n_steps in enumerate(steps, start=1):
        since_best += 1
        if has_saturated(since_best, n_steps or 0):
            return count
    return len(steps)


class FoldJob(NamedTuple):
    """What a candidate is to learn next on an inner fold, before it is validated."""

    number: int  # of the candidate
    lane: int  # of several, in each of which one job follows the other
    fold: int
    params: Mapping[str, Any]
    start: int | None  # None for an unfitted learner
    stop: int | None  # None for one that learns all its steps


Done: TypeAlias = tuple[FoldJob, Values, float]
"""A job that is done, the values of the fitted learner, and the processor time that it took."""


class FoldWork:
    """The work on inner folds, with the `make` and `score` of `tune`, and the data of each fold.

    `baselines` has those of each fold, None where they are the data of the fold.
    """

    def __init__(
        self,
        make: Callable[[Mapping[str, Any], int], MetricLearner],
        folds_data: Sequence[FitData],
        score: Callable[[MetricLearner, FitData, Baselines | None], Values],
        baselines: Sequence[Baselines] | None = None,
    ) -> None:
        self._make, self._fit_data, self._score = make, [*folds_data], score
        self._baselines = baselines
        self._learners: dict[int, MetricLearner] = {}
        self._shared: dict[int, dict[Any, Any]] = {}

    def __call__(self, job: FoldJob, timer: Timer) -> Done:
        """Fit the learner of a lane and validate it."""
        before = cpu_seconds()
        if job.start is None:
            self._learners[job.lane] = self._make(job.params, job.fold)
        learner = self._learners[job.lane]
        with timer(wall.LEARNING):
            if job.fold not in self._shared:
                self._shared[job.fold] = {}
                if learner.rotation_invariant:
                    self._fit_data[job.fold] = self._fit_data[job.fold].in_their_span()
            data = self._fit_data[job.fold]
            with shared.within(self._shared[job.fold]):
                data.fit(learner, job.start or 0, job.stop)
        baselines = None if self._baselines is None else self._baselines[job.fold]
        with timer(wall.VALIDATION), shared.within(self._shared[job.fold]):
            values = self._score(learner, data, baselines)
        return job, values, cpu_seconds() - before


class _InTurn:
    """One job after the other, in this process."""

    def __init__(self, work: FoldWork, timer: Timer) -> None:
        self._work, self._timer = work, timer

    def done(self, jobs: deque[FoldJob]) -> Iterator[Done]:
        while jobs:
            yield self._work(jobs.popleft(), self._timer)

    def close(self) -> None:
        """Nothing is held beside this object."""


class _Course:
    """A candidate under way: its values by checkpoint and fold, and which jobs come next."""

    def __init__(self, candidate: Candidate, steps: Sequence[int | None]) -> None:
        self.candidate, self._steps = candidate, steps
        self._values: dict[tuple[int | None, int], Values] = {}

    def begin(self, number: int, lanes: Mapping[int, int]) -> None:
        """Begin with folds, each in its lane, as far as the folds before them went."""
        if before := min(lanes):
            self._steps = [*self.means(before)]
        self._number, self._lanes, self._n_begun = number, lanes, 0

    def add(self, job: FoldJob, values: Values) -> None:
        """Take the values of a fold at a checkpoint."""
        self._values[job.stop, job.fold] = values

    def means(self, n_folds: int) -> dict[int | None, npt.NDArray[np.float64]]:
        """Return the means over the first folds at each checkpoint to which all of them came.

        They are of the learner alone, one for each measure.
        """
        found = {}
        for n_steps in self._steps:
            if not all((n_steps, fold) in self._values for fold in range(n_folds)):
                break
            found[n_steps] = self._of_folds(n_steps, n_folds).mean(axis=0)[:, -1]
        return found

    def tuned(self, measure: int, n_steps: int | None, n_folds: int) -> wall.Tuned:
        """Return it as tuned by one of the measures; of equal blends that of the largest weight."""
        scaling, params = self.candidate
        tuned = wall.Tuned(scaling, dict(params), n_steps, [*self.means(n_folds)][-1])
        of_folds = self._of_folds(n_steps, n_folds)[:, measure]
        if of_folds.shape[1] > 1:
            _, tuned.blend, place = max(
                zip(of_folds.mean(axis=0), Blend.WEIGHTS, range(len(Blend.WEIGHTS)), strict=True)
            )
            tuned.blend_values = of_folds[:, place].tolist()
        return tuned

    def _of_folds(self, n_steps: int | None, n_folds: int) -> npt.NDArray[np.float64]:
        return np.array([self._values[n_steps, fold] for fold in range(n_folds)])

    def jobs(self) -> Iterator[list[FoldJob]]:
        """Yield the jobs that are to begin, as far as the values tell; none while some are out."""
        parts = [*pairwise([None, *self._steps])]
        while True:
            means = self.means(max(self._lanes) + 1)
            jobs: list[FoldJob] = []
            if len(means) == self._n_begun:
                since_best = _since_best(means)
                if means and has_saturated(since_best, [*means][-1] or 0):
                    return
                n_more = n_in_any_case(self._steps[self._n_begun :], since_best)
                if not n_more:
                    return
                of_them = parts[self._n_begun : self._n_begun + n_more]
                self._n_begun += n_more
                jobs = [
                    FoldJob(self._number, lane, fold, self.candidate.params, *part)
                    for part, (fold, lane) in product(of_them, self._lanes.items())
                ]
            yield jobs


def _since_best(means: Mapping[int | None, npt.NDArray[np.float64]]) -> int:
    """Count the checkpoints since the best by the measure whose best is the latest."""
    values = [*means.values()]
    return len(values) - 1 - int(np.argmax(values, axis=0).max()) if values else 0


def tune(
    make: Callable[[Mapping[str, Any], int], MetricLearner],
    candidates: Sequence[Candidate],
    fit_data_of: Callable[[str], Sequence[FitData]],
    score: Callable[[MetricLearner, FitData, Baselines | None], Values],
    max_steps: int,
    timer: Timer,
    on_point: Callable[[Mapping[str, Any]], None],
    seconds: float | None = None,
    folds_of: Callable[[FoldWork, int], FoldProcesses] | None = None,
    n_measures: int = 1,
    baseline: tuple[Sequence[str], Callable[[FitData], npt.NDArray[np.float64]]] | None = None,
    on_all_folds: bool = False,
) -> list[wall.Tuned]:
    """Tune the scaling, hyper-parameters, and the number of steps where the learner has steps.

    All learners are tuned by the same successive halving: of more than `MOST_ON_ALL_FOLDS`
    candidates each is validated on the first fold, and the best third of them on the others, as
    far as the first fold went; the best mean over all folds wins.  Each of the `n_measures`
    measures has its own third and its own winner, of the same fits: the winners are returned.

    Where the candidates name `n_steps`, only their values are tried.  Memory holds one model a
    fold.

    ``make(params, fold)`` gives an unfitted learner, ``fit_data_of(scaling)`` the data of the inner
    folds, ``score(learner, data, baselines)`` the values, ``folds_of(work, n_folds)`` what does
    the work of the folds: by default this process, one after the other.  Where the learner is
    blended, each measure has a value for each of `Blend.WEIGHTS`.  The last one, the learner's own,
    tunes; of the winner the best of them all gives the weight.  `baseline` has the scalings, and
    what gives the baseline's value by each measure: its scaling is tuned apart, on all folds, so
    that each learner may fall back on the same baseline.  The `timer` is entered with each phase;
    `on_point` gets the learner's own values when they are known, with the fields of `Validated`.

    With `on_all_folds` each candidate is validated on all of them, without a limit: the baseline,
    as `_tune_baselines` does.

    After `seconds` of processor time nothing further is begun, on the first fold after half of
    them; each scaling has its share.  Where no candidate has been validated on all folds by then,
    the best one on the first fold is taken, and without any the first candidate.
    """
    incremental = (
        isinstance(make(candidates[0].params, 0), IncrementalLearner)
        and "n_steps" not in candidates[0].params
    )
    steps = wall.checkpoints(max_steps) if incremental else [None]
    courses = [_Course(candidate, steps) for candidate in candidates]
    limit = math.inf if seconds is None or on_all_folds else seconds
    spent, n_folds = 0.0, 1
    baseline_scalings: list[str | None] = [None] * n_measures
    baselines: list[Baselines] | None = None
    if baseline is not None:
        with timer(wall.VALIDATION):
            baseline_scalings, baselines = _tune_baselines(*baseline, fit_data_of, n_measures)

    def validate(some: Sequence[_Course], part: slice, until: float) -> None:
        nonlocal spent, n_folds
        start, n_seen = spent, 0
        for scaling in dict.fromkeys(course.candidate.scaling for course in some):
            group = [course for course in some if course.candidate.scaling == scaling]
            n_seen += len(group)
            end = start + (until - start) * n_seen / len(some)
            folds_data = fit_data_of(scaling)
            work, n_folds = FoldWork(make, folds_data, score, baselines), len(folds_data)
            if not (numbers := range(n_folds)[part]):
                continue
            with closing(
                _InTurn(work, timer) if folds_of is None else folds_of(work, n_folds)
            ) as folds:
                for job, values, taken in _together(group, numbers, n_folds, incremental, folds):
                    point = {**group[job.number].candidate._asdict(), "n_steps": job.stop}
                    on_point({**point, "fold": job.fold, "values": values[:, -1].tolist()})
                    spent += taken
                    if spent > end:
                        break
            del folds_data, work, folds  # the items of one scaling at a time

    if on_all_folds or len(courses) <= MOST_ON_ALL_FOLDS:
        validate(courses, slice(None), limit)
    else:
        validate(courses, slice(1), FIRST_SHARE * limit)
        seen = [one for one in courses if one.means(1)]
        best = np.array([np.max([*one.means(1).values()], axis=0) for one in seen], ndmin=2)
        # The best place of each by any measure: the first candidate of equal values goes first.
        first = np.argsort(np.argsort(-best, axis=0, kind="stable"), axis=0).min(axis=-1)
        order = [i for i in np.argsort(first, kind="stable") if first[i] < len(seen) / 3]
        validate([seen[i] for i in order], slice(1, None), limit)
    winners = [wall.Tuned(candidates[0].scaling, dict(candidates[0].params))] * n_measures
    for n_validated in (n_folds, 1):
        found = {
            (course, n_steps): means
            for course in courses
            for n_steps, means in course.means(n_validated).items()
        }
        if found:
            # Of ties the first.
            best_of = [max(found, key=lambda of: found[of][i]) for i in range(n_measures)]
            winners = [one.tuned(i, n, n_validated) for i, (one, n) in enumerate(best_of)]
            break
    return [
        msgspec.structs.replace(one, baseline_scaling=scaling)
        for one, scaling in zip(winners, baseline_scalings, strict=True)
    ]


def _tune_baselines(
    scalings: Sequence[str],
    values: Callable[[FitData], npt.NDArray[np.float64]],
    fit_data_of: Callable[[str], Sequence[FitData]],
    n_measures: int,
) -> tuple[list[str | None], list[Baselines] | None]:
    """Return the baseline's best scaling by each measure, and its rows by fold and measure.

    None where there is one scaling: the baseline takes the rows of the learner.
    """
    if len(scalings) == 1:
        return [scalings[0]] * n_measures, None
    means = [np.mean([values(data) for data in fit_data_of(one)], axis=0) for one in scalings]
    best = np.argmax(np.nan_to_num(means, nan=-math.inf), axis=0)  # of ties the first
    data = {place: fit_data_of(scalings[place]) for place in np.unique(best).tolist()}
    by_measure = [data[place] for place in best.tolist()]
    return [scalings[place] for place in best.tolist()], [*zip(*by_measure, strict=True)]


def _together(
    group: Sequence[_Course],
    folds: range,
    n_lanes: int,
    incremental: bool,
    place: _InTurn | FoldProcesses,
) -> Iterator[Done]:
    """Validate candidates on some folds, as many side by side as there are lanes for."""
    n_abreast = n_lanes // len(folds)
    for number, course in enumerate(group):
        first = number % n_abreast * len(folds)
        course.begin(number, {fold: first + lane for lane, fold in enumerate(folds)})
    # A learner that goes on step by step keeps its lanes; others need not wait for one another.
    n_queues = n_abreast if incremental else len(group)
    queues = [
        chain.from_iterable(course.jobs() for course in group[first::n_queues])
        for first in range(n_queues)
    ]
    jobs = deque(chain.from_iterable(next(queue, []) for queue in queues))
    for done in place.done(jobs):
        job, values, _ = done
        group[job.number].add(job, values)
        yield done
        jobs.extend(next(queues[job.number % n_queues], []))


class EndedError(Exception):
    """The work of a fold's process has not ended well; `message` says how."""

    def __init__(self, message: wall.Ended) -> None:
        super().__init__(message.reason)
        self.message = message


@dataclass
class _Fold:
    """The process of a lane, and what it does now."""

    pid: int
    connection: Connection
    is_busy: bool = False
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
        ended: Callable[[Exception], wall.Ended],
        seconds: float | None,
    ) -> None:
        self._at_once, self._stopwatch, self._seconds = at_once, stopwatch, seconds
        self._folds = [_forked(work, ended) for _ in range(n_folds)]

    def done(self, jobs: deque[FoldJob]) -> Iterator[Done]:
        """Take jobs, to which more may be added meanwhile; yield each when it is done.

        Raise EndedError where a job has failed, or takes too long.
        """
        while self._begin(jobs):
            busy = {fold.connection: fold for fold in self._folds if fold.is_busy}
            for fold in busy.values():  # a process that it leaves keeps its connection open
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
        """Give jobs to idle processes, the first ones first; tell whether one is at work."""
        n_busy = sum(fold.is_busy for fold in self._folds)
        for job in [*jobs]:
            fold = self._folds[job.lane]
            if n_busy < self._at_once and not fold.is_busy:
                fold.is_busy, fold.since = True, time.monotonic()
                jobs.remove(job)
                with suppress(OSError):  # it is dead, which is seen when its answer is read
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
    """Do one job after the other: the main function of a fold's process."""
    status = 1
    try:
        Processes.die_with_parent()
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
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_with_status_of(pid: int) -> NoReturn:
    """End this process with the signal or the status of a fold's process."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
