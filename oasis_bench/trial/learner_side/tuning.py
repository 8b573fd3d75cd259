"""Tuning: hyper-parameters and the early-stopping step, on inner folds only (NIPS 2009, 4.2).

Fits here are not timed one by one, so folds run in parallel on idle cores.  The measured model is
fitted by `oasis_bench.trial.learner_side.stages`, with the tuned values.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, pairwise, product

import numpy as np
import numpy.typing as npt

from oasis_bench.experiment import Candidate
from oasis_bench.plugins import IncrementalLearner
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import Baselines, Values
from oasis_bench.trial.learner_side.fold_processes import (
    Done,
    FoldJob,
    FoldProcesses,
    FoldWork,
    InTurn,
    Timer,
)
from oasis_bench.trial.learner_side.inner_folds import InnerFolds

PATIENCE = 2
"""Learning has saturated after so many checkpoints without a better value: 4 times the best steps.
To learn on up to `max_steps` would take most of the time of the search."""

MOST_ON_ALL_FOLDS = 3
"""Up to so many candidates go to all folds; of more, only the best third on the first fold."""


class _Course:
    """A candidate in progress: its values by checkpoint and fold, and its next jobs."""

    def __init__(self, candidate: Candidate, steps: Sequence[int | None]) -> None:
        self.candidate, self._steps = candidate, steps
        self._values: dict[tuple[int | None, int], Values] = {}

    def begin(self, number: int, lanes: Mapping[int, int]) -> None:
        """Begin on folds, each in its lane, up to the last checkpoint of earlier folds."""
        if before := min(lanes):
            self._steps = [*self.means(before)]
        self._number, self._lanes, self._n_begun = number, lanes, 0

    def add(self, job: FoldJob, values: Values) -> None:
        """Take the values of a fold at a checkpoint."""
        self._values[job.stop, job.fold] = values

    def means(self, n_folds: int) -> dict[int | None, npt.NDArray[np.float64]]:
        """Return the means over the first folds, at each checkpoint that all of them reached.

        Each measure has its own mean.
        """
        found = {}
        for n_steps in self._steps:
            if not all((n_steps, fold) in self._values for fold in range(n_folds)):
                break
            of_folds = [self._values[n_steps, fold] for fold in range(n_folds)]
            found[n_steps] = np.mean(of_folds, axis=0)
        return found

    def tuned(self, n_steps: int | None, n_folds: int) -> wall.Tuned:
        """Return the candidate as a winner after `n_steps`, validated on the first folds."""
        scaling, params = self.candidate
        last = None if n_steps is None else [*self.means(n_folds)][-1]
        return wall.Tuned(scaling, dict(params), n_steps, last)

    def jobs(self) -> Iterator[list[FoldJob]]:
        """Yield the next jobs that the values allow; none while some are unfinished."""
        parts = [*pairwise([None, *self._steps])]
        while True:
            means = self.means(max(self._lanes) + 1)
            jobs: list[FoldJob] = []
            if len(means) == self._n_begun:
                # So many more are validated, even if none is better.
                end = self._n_begun + PATIENCE - _since_best(means)
                if not (of_them := parts[self._n_begun : end]):
                    return
                self._n_begun += len(of_them)
                jobs = [
                    FoldJob(self._number, lane, fold, *self.candidate, *part)
                    for part, (fold, lane) in product(of_them, self._lanes.items())
                ]
            yield jobs


def _since_best(means: Mapping[int | None, npt.NDArray[np.float64]]) -> int:
    """Count the checkpoints since any measure last improved."""
    values = [*means.values()]
    return len(values) - 1 - int(np.argmax(values, axis=0).max()) if values else 0


Fits = list[tuple[_Course, int | None]]
"""For each measure, the winning course and its number of steps."""


class Tuning:
    """Tunes the scaling, the hyper-parameters and, if the learner has steps, their number.

    All learners are tuned by the same successive halving.  If there are more than
    `MOST_ON_ALL_FOLDS` candidates, each is validated on the first fold, and the best third on the
    other folds, up to the same step.  The best mean over all folds wins.  Each measure has its own
    third and its own winner; measures share the fits.

    If the candidates give `n_steps`, only their values are tried.  Memory holds one model per
    fold.  The workers of the folds serve the whole search, or one scaling after the other if the
    rows are large.

    The ways to use a learner (blends, and votes of the training rows) are validated for the winners
    alone, after the search, by one more fit on each fold.  The best way of each use wins, and then
    the better use.  The scaling of the baseline is tuned separately, on all folds, so that all
    learners fall back on the same baseline.

    Parameters
    ----------
    folds : InnerFolds
    candidates : sequence of Candidate
    max_steps : int
    timer : Timer
        Entered with each phase.
    on_point : callable
        Called with each new set of the learner's own values.
    workers : callable, optional
        Returns the workers of the folds.  Default: this process does the jobs in turn.
    """

    def __init__(
        self,
        folds: InnerFolds,
        candidates: Sequence[Candidate],
        max_steps: int,
        timer: Timer,
        on_point: Callable[[wall.Validated], None],
        *,
        workers: Callable[[FoldWork], FoldProcesses] | None = None,
    ) -> None:
        self._folds, self._timer, self._on_point = folds, timer, on_point
        self._workers = workers
        first = candidates[0].params
        is_incremental = isinstance(folds.make(first, 0), IncrementalLearner)
        self._by_steps = is_incremental and "n_steps" not in first
        steps = wall.checkpoints(max_steps) if self._by_steps else [None]
        self._courses = [_Course(candidate, steps) for candidate in candidates]
        self._n_folds = 1  # known with the first scaling
        self._baselines: list[Baselines] | None = None
        self._open: dict[str, InTurn | FoldProcesses] = {}  # the same workers, by scaling
        self._until_closed = ExitStack()

    def winners(self, on_all_folds: bool = False) -> list[wall.Tuned]:
        """Tune, and return the winner by each measure.

        With `on_all_folds` each candidate is validated on all folds.  The baseline is tuned so, as
        in `_tune_baselines`.
        """
        courses, n_measures = self._courses, self._folds.n_measures
        scalings: list[str | None] = [None] * n_measures
        if self._folds.baseline_scalings:
            with self._timer(wall.VALIDATION):
                scalings, self._baselines = _tune_baselines(self._folds)
        has_ways = len(self._folds.ways) > 1
        is_searched = len(courses) > 1 or self._by_steps or not has_ways
        fits: Fits = [(courses[0], None)] * n_measures
        with self._until_closed:
            if is_searched:
                fits = self._search(on_all_folds)
            winners = [one.tuned(n_steps, self._n_folds) for one, n_steps in fits]
            if has_ways:
                self._tune_ways(fits, winners, is_searched)
        for won, of_baseline in zip(winners, scalings, strict=True):
            won.baseline_scaling = of_baseline
        return winners

    def _search(self, on_all_folds: bool) -> Fits:
        """Return the best course and number of steps by each measure."""
        courses = self._courses
        if on_all_folds or len(courses) <= MOST_ON_ALL_FOLDS:
            self._validate(courses, slice(None))
        else:
            self._validate(courses, slice(1))
            self._validate(self._best_third(), slice(1, None))
        found = {
            (course, n_steps): means
            for course in courses
            for n_steps, means in course.means(self._n_folds).items()
        }
        measures = range(self._folds.n_measures)  # of ties the first
        return [max(found, key=lambda of: found[of][i]) for i in measures]

    def _tune_ways(self, fits: Fits, winners: Sequence[wall.Tuned], is_searched: bool) -> None:
        """Find the best way of each use of the winners, on all folds.

        Without a search before, report the learner's own values.
        """
        alone = sum(way.use == "direct" for way in self._folds.ways) - 1
        for fit in dict.fromkeys(fits):
            (scaling, params), n_steps = fit[0].candidate, fit[1]
            place, of_folds = self._place(scaling), {}
            jobs = deque(
                FoldJob(
                    number=0,
                    lane=fold,
                    fold=fold,
                    scaling=scaling,
                    params=params,
                    start=None,
                    stop=n_steps,
                    is_winner=True,
                )
                for fold in range(self._n_folds)
            )
            for job, values in place.done(jobs):
                of_folds[job.fold] = values
                if not is_searched:
                    own = values[:, alone].tolist()
                    self._on_point(wall.Validated(scaling, dict(params), None, job.fold, own))
            by_fold = np.array([of_folds[fold] for fold in sorted(of_folds)])
            for measure, won in enumerate(winners):
                if fits[measure] == fit:
                    self._choose_ways(won, by_fold[:, measure])

    def _choose_ways(self, won: wall.Tuned, values: Values) -> None:
        """Write the best way of each use, and the use, by values of shape (n_folds, n_ways)."""
        ways, means = self._folds.ways, values.mean(axis=0)

        def best_of(use: wall.Use) -> int | None:  # of ties, the largest weight, then tau
            offered = [i for i, way in enumerate(ways) if way.use == use and means[i] == means[i]]
            return max(offered, key=lambda i: (means[i], *ways[i][1:]), default=None)

        direct, posterior = best_of("direct"), best_of("posterior")
        assert direct is not None
        if self._folds.baseline_scalings:
            won.blend = ways[direct].weight
        won.blend_values = values[:, direct].tolist()
        if posterior is not None:
            won.tau, won.posterior_blend = ways[posterior].tau, ways[posterior].weight
            won.posterior_values = values[:, posterior].tolist()
            if means[posterior] > means[direct] or self._folds.use == "posterior":
                won.use = "posterior"

    def _place(self, scaling: str) -> InTurn | FoldProcesses:
        """Return the workers of the folds in a scaling: those of before, or new ones."""
        if scaling not in self._open:
            self._until_closed.close()
            self._open.clear()  # before the next rows are scaled
            every = [course.candidate.scaling for course in self._courses]
            scalings = every if self._folds.keeps_all else [scaling]
            work = FoldWork(self._folds, scalings, self._baselines)
            self._n_folds = work.n_folds
            place = InTurn(work, self._timer) if self._workers is None else self._workers(work)
            self._until_closed.callback(place.close)
            self._open = dict.fromkeys(scalings, place)
        return self._open[scaling]

    def _best_third(self) -> list[_Course]:
        """Return the candidates in the best third on the first fold by any measure."""
        best = np.array([np.max([*one.means(1).values()], axis=0) for one in self._courses])
        # The best rank of each by any measure; of equal values, the first candidate goes first.
        first = np.argsort(np.argsort(-best, axis=0, kind="stable"), axis=0).min(axis=-1)
        order = [i for i in np.argsort(first, kind="stable") if first[i] < len(first) / 3]
        return [self._courses[i] for i in order]

    def _validate(self, some: Sequence[_Course], part: slice) -> None:
        """Validate candidates on some of the folds, scaling by scaling."""
        for scaling in dict.fromkeys(course.candidate.scaling for course in some):
            group = [course for course in some if course.candidate.scaling == scaling]
            place = self._place(scaling)
            if not (numbers := range(self._n_folds)[part]):
                continue
            for job, values in _together(group, numbers, self._n_folds, self._by_steps, place):
                params, own = group[job.number].candidate.params, values.tolist()
                self._on_point(wall.Validated(scaling, dict(params), job.stop, job.fold, own))


def _tune_baselines(folds: InnerFolds) -> tuple[list[str | None], list[Baselines] | None]:
    """Return the baseline's best scaling by each measure, and its rows by fold and measure.

    The rows are None if there is one scaling: the baseline uses the learner's rows.
    """
    scalings = folds.baseline_scalings
    if len(scalings) == 1:
        return [scalings[0]] * folds.n_measures, None
    means = [
        np.mean([folds.baseline_values(data) for data in folds.data(one)], axis=0)
        for one in scalings
    ]
    best = np.argmax(np.nan_to_num(means, nan=-math.inf), axis=0)  # of ties the first
    by_measure = [folds.data(scalings[place]) for place in best.tolist()]
    return [scalings[place] for place in best.tolist()], [*zip(*by_measure, strict=True)]


def _together(
    group: Sequence[_Course],
    folds: range,
    n_lanes: int,
    incremental: bool,
    place: InTurn | FoldProcesses,
) -> Iterator[Done]:
    """Validate candidates on some folds, as many in parallel as there are lanes."""
    n_abreast = n_lanes // len(folds)
    for number, course in enumerate(group):
        first = number % n_abreast * len(folds)
        course.begin(number, {fold: first + lane for lane, fold in enumerate(folds)})
    # An incremental learner keeps its lanes; other learners need not wait for one another.
    n_queues = n_abreast if incremental else len(group)
    queues = [
        chain.from_iterable(course.jobs() for course in group[first::n_queues])
        for first in range(n_queues)
    ]
    jobs = deque(chain.from_iterable(next(queue, []) for queue in queues))
    for done in place.done(jobs):
        job, values = done
        group[job.number].add(job, values)
        yield done
        jobs.extend(next(queues[job.number % n_queues], []))
