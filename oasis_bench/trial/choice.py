"""Hyper-parameters and the early-stopping step, chosen on inner folds only (NIPS 2009, 4.2).

Not for fitting the model that is measured: `trial.stages` does that with what is chosen here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oasis_bench.experiment.search import Candidate
from oasis_bench.plugins.learner import IncrementalLearner, MetricLearner
from oasis_bench.trial.lesson import Lesson

LEARNING, VALIDATION = "learning on inner folds", "validation"
"""The phases of choosing."""

FIRST_CHECKPOINT = 500
PATIENCE = 4
"""Learning has saturated after so many checkpoints without a better value: 4 times the steps."""

Timer = Callable[[str], AbstractContextManager[None]]


@dataclass
class Choice:
    """What the inner folds chose, and what they saw.

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
    points : list of dict
        One for each fit and checkpoint: scaling, params, n_steps, fold, value.
    """

    scaling: str
    params: Mapping[str, Any]
    n_steps: int | None = None
    last_checkpoint: int | None = None
    points: list[dict[str, Any]] = field(default_factory=list)


def checkpoints(max_steps: int) -> list[int]:
    """Space the checkpoints by a factor of sqrt(2), from 500 steps to `max_steps`."""
    steps = (FIRST_CHECKPOINT * 2 ** (power / 2) for power in range(80))
    return [*(round(step) for step in steps if step < max_steps), max_steps]


def choose(
    make: Callable[[Mapping[str, Any], int], MetricLearner],
    candidates: Sequence[Candidate],
    lessons_of: Callable[[str], Sequence[Lesson]],
    score: Callable[[MetricLearner, Lesson], float],
    max_steps: int,
    timer: Timer,
    on_point: Callable[[Mapping[str, Any]], None],
    seconds: float | None = None,
) -> Choice:
    """Choose a scaling, hyper-parameters, and the number of steps where the learner has steps.

    All folds go on side by side: memory holds one model a fold.  Where the candidates name
    `n_steps`, only their values are tried; else a learner with steps is also judged before its
    first one, as it is at 0 steps.  Without steps and with one candidate nothing is fitted.

    Parameters
    ----------
    make : callable
        ``make(params, fold)`` gives an unfitted learner.
    candidates : sequence of Candidate
        What to try, in this order.
    lessons_of : callable
        ``lessons_of(scaling)`` gives those of the inner folds, scaled so.
    score : callable
        ``score(learner, lesson)`` gives the measure that chooses, on the lesson's queries.
    max_steps : int
    timer : callable
        ``timer('learning on inner folds')`` and ``timer('validation')`` are entered around these.
    on_point : callable
        Told of each point as soon as it is there.
    seconds : float, optional
        After these nothing further is begun; what has not been validated on all folds by then does
        not count.  Without any such result the first candidate is chosen.
    """
    choice = Choice(*candidates[0])
    end = np.inf if seconds is None else time.monotonic() + seconds
    best = -np.inf
    scaling: str | None = None
    lessons: Sequence[Lesson] = ()
    for candidate in candidates:
        learner = make(candidate.params, 0)
        incremental = isinstance(learner, IncrementalLearner) and "n_steps" not in candidate.params
        if not incremental and len(candidates) == 1:
            return choice
        if candidate.scaling != scaling:
            lessons = ()  # the items of one scaling at a time
            scaling, lessons = candidate.scaling, lessons_of(candidate.scaling)
        learners = [learner, *(make(candidate.params, fold) for fold in range(1, len(lessons)))]
        best_here, since_best, done = -np.inf, 0, 0
        for n_steps in [0, *checkpoints(max_steps)] if incremental else [None]:
            values = []
            for number, (learner, lesson) in enumerate(zip(learners, lessons, strict=True)):
                if time.monotonic() > end:
                    return choice
                with timer(LEARNING):
                    lesson.teach(learner, done, n_steps)
                with timer(VALIDATION):
                    values.append(score(learner, lesson))
                point = {**candidate._asdict(), "n_steps": n_steps, "fold": number}
                choice.points.append({**point, "value": values[-1]})
                on_point(choice.points[-1])
            done = n_steps or 0
            mean = float(np.mean(values))
            if mean > best:
                best, choice.n_steps = mean, n_steps
                choice.scaling, choice.params = candidate
            if candidate == (choice.scaling, choice.params):
                choice.last_checkpoint = n_steps
            if n_steps == 0:
                continue  # what has not begun has not saturated
            if mean > best_here:
                best_here, since_best = mean, 0
            else:
                since_best += 1
            if since_best == PATIENCE:
                break
        del learners, learner  # their matrices, before those of the next candidate
    return choice
