"""Hyper-parameters and the early-stopping step, chosen on inner folds only (NIPS 2009, 4.2).

Not for fitting the model that is measured: `trial.stages` does that with what is chosen here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from oasis_bench.experiment import Candidate
from oasis_bench.plugins import IncrementalLearner, MetricLearner
from oasis_bench.system import LastResults, sharing
from oasis_bench.trial.fit_data import FitData

LEARNING, VALIDATION = "learning on inner folds", "validation"
"""The phases of choosing."""

FIRST_CHECKPOINT = 500
PATIENCE, LATE_PATIENCE = 4, 3
"""Learning has saturated after so many checkpoints without a better value: 4 times the steps, or
2.8 times as many where these cost more, from `LATE` steps on."""

LATE = 8000

Timer = Callable[[str], AbstractContextManager[None]]


@dataclass
class Choice:
    """What the inner folds chose.

    Attributes
    ----------
    scaling : str
        How rows are scaled.
    params : dict
        The hyper-parameters with the highest mean over the folds, by the measure that chooses.
    n_steps : int or None
        The checkpoint with the highest mean; None for a learner without steps, or where the
        candidates name `n_steps`.
    last_checkpoint : int or None
        The largest checkpoint that was validated with these parameters.
    """

    scaling: str
    params: Mapping[str, Any]
    n_steps: int | None = None
    last_checkpoint: int | None = None


def checkpoints(max_steps: int) -> list[int]:
    """Space the checkpoints by a factor of sqrt(2), from 500 steps to `max_steps`."""
    steps = (FIRST_CHECKPOINT * 2 ** (power / 2) for power in range(80))
    return [*(round(step) for step in steps if step < max_steps), max_steps]


def has_saturated(since_best: int, n_steps: int) -> bool:
    """Tell whether the search for the number of steps ends.

    Parameters
    ----------
    since_best : int
        Checkpoints without a better value than before them.
    n_steps : int
        Of the last of them.
    """
    return since_best >= (PATIENCE if n_steps < LATE else LATE_PATIENCE)


def n_in_any_case(steps: Sequence[int], since_best: int) -> int:
    """Return how many of the next checkpoints are validated even if none is better."""
    for count, n_steps in enumerate(steps, start=1):
        since_best += n_steps > 0
        if has_saturated(since_best, n_steps):
            return count
    return len(steps)


class FoldJob(NamedTuple):
    """What one inner fold is to learn next, before it is validated.

    Attributes
    ----------
    fold : int
    params : dict
    start, stop : int or None
        Steps; `start` is None for an unfitted learner, `stop` for one that learns all that it has.
    """

    fold: int
    params: Mapping[str, Any]
    start: int | None
    stop: int | None


class FoldWork:
    """The work on inner folds: a learner of each is fitted and validated.

    Parameters
    ----------
    make, score : callable
        See `choose`.
    folds_data : sequence of FitData
        One for each fold.
    """

    def __init__(
        self,
        make: Callable[[Mapping[str, Any], int], MetricLearner],
        folds_data: Sequence[FitData],
        score: Callable[[MetricLearner, FitData], float],
    ) -> None:
        self._make, self._fit_data, self._score = make, [*folds_data], score
        self._learners: dict[int, MetricLearner] = {}
        self._shared: dict[int, LastResults] = {}

    def __call__(self, job: FoldJob, timer: Timer) -> float:
        """Fit the learner of a fold and return its value."""
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

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[float]:
        """Do jobs, those of a fold in their order; yield their values in the order of all."""

    def close(self) -> None:
        """Forget the learners."""


class _InTurn:
    """One fold after the other, in this process."""

    def __init__(self, work: FoldWork, timer: Timer) -> None:
        self._work, self._timer = work, timer

    def values(self, jobs: Iterable[FoldJob]) -> Iterator[float]:
        return (self._work(job, self._timer) for job in jobs)

    def close(self) -> None:
        """Nothing is held beside this object."""


def choose(
    make: Callable[[Mapping[str, Any], int], MetricLearner],
    candidates: Sequence[Candidate],
    fit_data_of: Callable[[str], Sequence[FitData]],
    score: Callable[[MetricLearner, FitData], float],
    max_steps: int,
    timer: Timer,
    on_point: Callable[[Mapping[str, Any]], None],
    seconds: float | None = None,
    folds_of: Callable[[FoldWork, int], Folds] | None = None,
) -> Choice:
    """Choose a scaling, hyper-parameters, and the number of steps where the learner has steps.

    All folds go on together: memory holds one model a fold.  Where the candidates name
    `n_steps`, only their values are tried; else a learner with steps is also validated at 0 steps.
    Without steps and with one candidate nothing is fitted.

    Parameters
    ----------
    make : callable
        ``make(params, fold)`` gives an unfitted learner.
    candidates : sequence of Candidate
        What to try, in this order.
    fit_data_of : callable
        ``fit_data_of(scaling)`` gives the data of the inner folds, scaled so.
    score : callable
        ``score(learner, data)`` gives the measure that chooses, on the fold's queries.
    max_steps : int
    timer : callable
        ``timer('learning on inner folds')`` and ``timer('validation')`` are entered around these.
    on_point : callable
        Called with each value as soon as it is known: a dict of scaling, params, n_steps, fold and
        value.
    seconds : float, optional
        After these nothing further is begun; what has not been validated on all folds by then does
        not count.  Without any such result the first candidate is chosen.
    folds_of : callable, optional
        ``folds_of(work, n_folds)`` gives what does the work of the folds; by default this process,
        one after the other.
    """
    choice = Choice(*candidates[0])
    end = np.inf if seconds is None else time.monotonic() + seconds
    best = -np.inf
    incremental = (
        isinstance(make(candidates[0].params, 0), IncrementalLearner)
        and "n_steps" not in candidates[0].params
    )
    if not incremental and len(candidates) == 1:
        return choice
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
                steps: list[Any] = [0, *checkpoints(max_steps)] if incremental else [None]
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
                            return choice
                        values.append(next(validated))
                        point = {**candidate._asdict(), "n_steps": n_steps, "fold": fold}
                        on_point({**point, "value": values[-1]})
                    mean = float(np.mean(values))
                    if mean > best:
                        best, choice.n_steps = mean, n_steps
                        choice.scaling, choice.params = candidate
                    if candidate == (choice.scaling, choice.params):
                        choice.last_checkpoint = n_steps
                    if n_steps == 0:
                        # the unfitted learner does not count as a checkpoint without a gain
                        continue
                    if mean > best_here:
                        best_here, since_best = mean, 0
                    else:
                        since_best += 1
                    if incremental and has_saturated(since_best, n_steps):
                        break
        del folds_data, work, folds, validated  # the items of one scaling at a time
    return choice
