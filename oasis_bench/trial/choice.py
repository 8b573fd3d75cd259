"""Hyper-parameters and the early-stopping step, chosen on inner folds only (NIPS 2009, 4.2).

Not for fitting the model that is measured: `trial.stages` does that with what is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

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
    params : dict
        The hyper-parameters with the highest mean over the folds, by the measure that chooses.
    n_steps : int or None
        The checkpoint with the highest mean; None for a learner without steps, or where the
        grid names `n_steps`.
    points : list of dict
        One for each fit and checkpoint: params, n_steps, fold, value.
    """

    params: Mapping[str, Any]
    n_steps: int | None = None
    points: list[dict[str, Any]] = field(default_factory=list)


def checkpoints(max_steps: int) -> list[int]:
    """Space the checkpoints by a factor of sqrt(2), from 500 steps to `max_steps`."""
    steps = (FIRST_CHECKPOINT * 2 ** (power / 2) for power in range(80))
    return [*(round(step) for step in steps if step < max_steps), max_steps]


def choose(
    make: Callable[[Mapping[str, Any], int], MetricLearner],
    grid: Mapping[str, Sequence[Any]],
    lessons: Sequence[Lesson],
    score: Callable[[MetricLearner, Lesson], float],
    max_steps: int,
    timer: Timer,
    on_point: Callable[[Mapping[str, Any]], None],
) -> Choice:
    """Choose hyper-parameters, and the number of steps where the learner has steps.

    All folds go on side by side: memory holds one model a fold.  Where `grid` names `n_steps`,
    only its values are tried.  Without steps and with one candidate nothing is fitted.

    Parameters
    ----------
    make : callable
        ``make(params, fold)`` gives an unfitted learner.
    grid : mapping of str to sequence
        Hyper-parameters and the values to try, in every combination.
    lessons : sequence of Lesson
        Those of the inner folds.
    score : callable
        ``score(learner, lesson)`` gives the measure that chooses, on the lesson's queries.
    max_steps : int
    timer : callable
        ``timer('learning on inner folds')`` and ``timer('validation')`` are entered around these.
    on_point : callable
        Told of each point as soon as it is there.
    """
    candidates = [dict(params) for params in ParameterGrid(dict(grid))]
    choice = Choice(candidates[0])
    best = -np.inf
    for params in candidates:
        learner = make(params, 0)
        incremental = isinstance(learner, IncrementalLearner) and "n_steps" not in grid
        if not incremental and len(candidates) == 1:
            return choice
        learners = [learner, *(make(params, fold) for fold in range(1, len(lessons)))]
        best_here, since_best, done = -np.inf, 0, 0
        for n_steps in checkpoints(max_steps) if incremental else [None]:
            values = []
            for number, (learner, lesson) in enumerate(zip(learners, lessons, strict=True)):
                with timer(LEARNING):
                    lesson.teach(learner, done, n_steps)
                with timer(VALIDATION):
                    values.append(score(learner, lesson))
                choice.points.append(
                    {
                        "params": params,
                        "n_steps": n_steps,
                        "fold": number,
                        "value": values[-1],
                    }
                )
                on_point(choice.points[-1])
            done = n_steps or 0
            mean = float(np.mean(values))
            if mean > best:
                best, choice.params, choice.n_steps = mean, params, n_steps
            if mean > best_here:
                best_here, since_best = mean, 0
            else:
                since_best += 1
            if since_best == PATIENCE:
                break
        del learners, learner  # their matrices, before those of the next candidate
    return choice
