"""The inner folds of a trial: their data, their learners, and the tuning measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray, apply_steps
from oasis_bench.plugins import (
    Blend,
    ExemplarLearner,
    MetricLearner,
    NoScaleError,
    Posterior,
    Registry,
    as_inner_product,
    baseline_scores,
    mixed_affinities,
    refusal_of_votes,
    sd_of_baseline,
    sd_of_learned,
    sds_of_affinity,
)
from oasis_bench.system import shared
from oasis_bench.tasks import NotSplittableError, Partition, Truth, kernel_ready, tie_order
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import Baselines, FitData, Values

KEPT_BYTES = 2**29
"""Folds in several scalings that would take more are not kept together."""


def make_learner(
    assignment: wall.Assignment, params: Mapping[str, Any], seed: int, n_steps: int | None = None
) -> MetricLearner:
    """Return the unfitted learner of a trial; `seed` is used if `params` has none."""
    learner: MetricLearner = assignment.learner()().set_params(**params)
    if "random_state" in learner.get_params() and "random_state" not in params:
        learner.set_params(random_state=seed)
    if n_steps is not None:
        learner.set_params(n_steps=n_steps)
    return learner


class _Votes(NamedTuple):
    """The votes of the training rows of a fold, by one tau, as points of `Posterior.embed`."""

    classes: npt.NDArray[Any]
    queries: npt.NDArray[np.float64]  # (n_queries, n_classes)
    training: npt.NDArray[np.float64]  # of the training rows, if a gallery has them
    sd: float  # of the affinity, on pairs of training rows

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """The class of most votes for each query."""
        predicted: npt.NDArray[np.int64] = self.classes[self.queries.argmax(axis=1)]
        return predicted


class InnerFolds:
    """The inner folds of a trial, split as the trial itself; `items` are its training items.

    Each fold is scaled with statistics of its training rows.

    Attributes
    ----------
    n_measures : int
        The number of measures that tune.
    baseline_scalings : tuple of str
        Scalings to try for the baseline of a blend; none if nothing is blended.
    ways : sequence of Way
        The ways to use a learner that are tried; the last direct one is the learner alone.
    use : str
        'posterior' if this use is to be selected where it is offered, else 'tuned' or 'direct'.
    keeps_all : bool
        Whether the data of all scalings are kept, not only those of the last one.
    """

    def __init__(self, assignment: wall.Assignment, items: wall.Items) -> None:
        registry = Registry.load(assignment.plugin_files)
        self._assignment, self._items = assignment, items
        self._learner = assignment.learner()
        self._tasks = [registry.tasks[by.task]() for by in assignment.chooses_by]
        self.n_measures = len(self._tasks)
        is_blended = assignment.is_blended(self._learner)
        self.baseline_scalings = assignment.scalings if is_blended else ()
        reason = refusal_of_votes(self._learner, items.y, items.judgements is not None)
        self.ways: Sequence[wall.Way] = assignment.ways(self._learner, with_votes=reason is None)
        self.use = assignment.use
        values = getattr(items.X, "data", None)  # of dense and of sparse rows
        n_bytes = getattr(values, "nbytes", 0) * len(assignment.scalings)
        self.keeps_all = n_bytes * assignment.inner_folds <= KEPT_BYTES
        self._kept: dict[str, list[FitData]] = {}

    def data(self, scaling: str) -> list[FitData]:
        """Return the data of each fold.

        Raise NotApplicableError if there are too few classes to split.
        """
        if scaling not in self._kept:
            if not self.keeps_all:
                self._kept.clear()
            self._kept[scaling] = self._data(scaling)
        return self._kept[scaling]

    @cached_property
    def _folds(self) -> Sequence[Partition]:
        known, (_, y, judgements, groups) = self._assignment, self._items
        split = Registry.load(known.plugin_files).splits[known.split](known.split_numbers)
        split.knows_classes = known.knows_classes
        try:
            return split.for_groups(groups).inner_folds(
                y, judgements, known.inner_folds, known.seeds.inner_split
            )
        except NotSplittableError as error:
            raise wall.NotApplicableError(str(error)) from error

    def _data(self, scaling: str) -> list[FitData]:
        known, (X, y, _, groups) = self._assignment, self._items
        found = []
        for fold in self._folds:
            train, queries = X[fold.train], X[fold.test]
            steps = wall.learn_preparation(self._learner, scaling, train, known.encoding)
            train, queries = (apply_steps(steps, rows) for rows in (train, queries))
            if fold.tested is None:
                of_queries = None if groups is None else groups[fold.test]
                truth = Truth(y=y[fold.test], training=y[fold.train], groups=of_queries)
            else:
                truth = Truth.of(fold.tested)
            data = FitData.of(train, y[fold.train], fold.training, known.seeds.judgements)
            found.append(replace(data, queries=queries, truth=truth))
        return found

    def make(self, params: Mapping[str, Any], fold: int) -> MetricLearner:
        """Return an unfitted learner."""
        seed = self._assignment.seeds.folds[fold]
        return make_learner(self._assignment, {**self._learner.inner_params, **params}, seed)

    def values(self, learner: MetricLearner, data: FitData) -> Values:
        """Return the value of a fitted learner by each measure."""
        return np.array([self._judged(place, learner, data) for place in range(self.n_measures)])

    def values_of_ways(
        self, learner: MetricLearner, data: FitData, baselines: Baselines | None
    ) -> Values:
        """Return the values of the `ways` to use a fitted learner; NaN if a way is not offered."""
        each = [data] * self.n_measures if baselines is None else baselines
        votes = self._votes(learner, data)
        learned_sd = sd_of_learned(learner, data.X, self._assignment.seeds.blend)
        return np.array(
            [
                self._of_blends(place, learner, data, rows, learned_sd)
                + self._of_votes(place, votes, data, rows)
                for place, rows in enumerate(each)
            ]
        )

    def _votes(self, learner: MetricLearner, data: FitData) -> dict[float, _Votes]:
        """Let the training rows vote for the classes of the queries; return the votes by tau."""
        taus = [*dict.fromkeys(way.tau for way in self.ways if way.tau is not None)]
        votes: dict[float, _Votes] = {}
        if not taus:
            return votes
        try:
            posterior = Posterior(learner, known_classes=self._assignment.knows_classes)
            posterior.fit(data.X, data.y)
        except NoScaleError:
            return votes
        of_queries = posterior.points(posterior.shares(data.queries, taus))
        of_training = of_queries
        if any(task.gallery == "training" for task in self._tasks):
            places = np.arange(data.X.shape[0])
            of_training = posterior.points(posterior.shares(data.X, taus, places))
        sds = sds_of_affinity(posterior, self._assignment.seeds.blend, taus)
        for tau, queries, training, sd in zip(taus, of_queries, of_training, sds, strict=True):
            votes[tau] = _Votes(posterior.classes_, queries, training, sd)
        return votes

    def baseline_values(self, data: FitData) -> Values:
        """Return the value of the Euclidean baseline by each measure."""
        asked = baseline_scores, data.queries, self._assignment.seeds.ties, data.X
        return np.array(
            [
                task.evaluate(data.truth, *asked, (by.measure,)).value(by.measure, by.k)
                for task, by in zip(self._tasks, self._assignment.chooses_by, strict=True)
            ]
        )

    def _of_blends(
        self, place: int, learner: MetricLearner, data: FitData, rows: FitData, learned_sd: float
    ) -> list[float]:
        """Return the values of the blends by a measure; the baseline takes these `rows`."""
        by, task = self._assignment.chooses_by[place], self._tasks[place]
        seeds = self._assignment.seeds
        gallery = rows.queries if task.gallery == "test" else rows.X
        ties = tie_order(seeds.ties, gallery.shape[0])
        sd = shared(sd_of_baseline, rows.X, seeds.blend)
        direct = [way for way in self.ways if way.use == "direct"]
        blends = [Blend(way.weight, sd, learned_sd) for way in direct[:-1]]
        evaluations = [task.evaluation(data.truth, ties, (by.measure,)) for _ in blends]

        def judge_blends(start: int, scores: FloatArray) -> None:
            baseline = baseline_scores(rows.queries[start : start + len(scores)], gallery)
            own = as_inner_product(type(learner), scores)
            for blend, evaluation in zip(blends, evaluations, strict=True):
                evaluation.add(start, blend.mix(baseline, own))

        own = self._judged(place, learner, data, judge_blends)
        return [*(one.value(by.measure, by.k) for one in evaluations), own]

    def _of_votes(
        self, place: int, votes: dict[float, _Votes], data: FitData, rows: FitData
    ) -> list[float]:
        """Return the values of the posterior ways by a measure; the baseline takes these `rows`."""
        ways = [(way.weight, way.tau) for way in self.ways if way.tau is not None]
        if not votes:
            return [math.nan] * len(ways)
        by, task = self._assignment.chooses_by[place], self._tasks[place]
        seeds, is_test = self._assignment.seeds, task.gallery == "test"
        others = rows.queries if is_test else rows.X
        ties = tie_order(seeds.ties, others.shape[0])
        evaluations = [task.evaluation(data.truth, ties, (by.measure,)) for _ in ways]
        if evaluations[0].takes_classes:
            for (_, tau), evaluation in zip(ways, evaluations, strict=True):
                evaluation.add_classes(votes[tau].predicted)
        else:
            sd = shared(sd_of_baseline, rows.X, seeds.blend)
            mixed = [
                (of.queries, of.queries if is_test else of.training, Blend(weight, sd, of.sd))
                for weight, tau in ways
                for of in [votes[tau]]
            ]
            for start, each in mixed_affinities(mixed, rows.queries, others):
                for evaluation, scores in zip(evaluations, each, strict=True):
                    evaluation.add(start, scores)
        return [one.value(by.measure, by.k) for one in evaluations]

    def _judged(
        self,
        place: int,
        learner: MetricLearner,
        data: FitData,
        also: Callable[[int, FloatArray], object] = lambda start, scores: None,
    ) -> float:
        """Return the value of a learner by a measure; ``also(start, scores)`` gets its scores."""
        by, task = self._assignment.chooses_by[place], self._tasks[place]
        similarity: Callable[[Any, Any], FloatArray] = learner.similarity
        training = data.X
        if task.gallery == "training" and isinstance(learner, ExemplarLearner):
            similarity = partial(_similarity_to_training, learner)
            training = np.arange(data.X.shape[0])  # the learner has the items
        asked = similarity, data.queries, self._assignment.seeds.ties, training, (by.measure,)
        return task.evaluate(data.truth, *asked, also=also).value(by.measure, by.k)


def _similarity_to_training(learner: ExemplarLearner, queries: Any, training: Any) -> FloatArray:
    """Return the scores of the training items, which the learner has stored."""
    shape = queries.shape[0], training.shape[0]
    return kernel_ready(learner.similarity_to_training(queries), shape, "similarity_to_training")
