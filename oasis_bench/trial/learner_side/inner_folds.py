"""The inner folds of a trial: their data, their learners, and the tuning measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oasis_bench.data import FloatArray, apply_steps
from oasis_bench.plugins import (
    Blend,
    ExemplarLearner,
    MetricLearner,
    Registry,
    as_inner_product,
    baseline_scores,
    sd_of_baseline,
    sd_of_learned,
)
from oasis_bench.system import shared
from oasis_bench.tasks import NotSplittableError, Truth, kernel_ready, tie_order
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import FitData
from oasis_bench.trial.learner_side.fold_processes import Baselines, Values


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


class InnerFolds:
    """The inner folds of a trial, split as the trial itself; `items` are its training items.

    Each fold is scaled with statistics of its training rows.
    """

    def __init__(self, assignment: wall.Assignment, items: wall.Items) -> None:
        registry = Registry.load(assignment.plugin_files)
        self._assignment, self._items = assignment, items
        self._learner = assignment.learner()
        self._tasks = [registry.tasks[by.task]() for by in assignment.chooses_by]
        self.n_measures = len(self._tasks)
        is_blended = assignment.is_blended(self._learner)
        self.baseline_scalings = assignment.scalings if is_blended else ()

    def data(self, scaling: str) -> list[FitData]:
        """Return the data of each fold.

        Raise NotApplicableError if there are too few classes to split.
        """
        known, items = self._assignment, self._items
        X, y, judgements = items
        try:
            folds = known.make_split().inner_folds(
                y, judgements, known.inner_folds, known.seeds.inner_split
            )
        except NotSplittableError as error:
            raise wall.NotApplicableError(str(error)) from error
        return [
            self._scaled(
                replace(
                    FitData.of(X[fold.train], y[fold.train], fold.training, known.seeds.judgements),
                    queries=X[fold.test],
                    truth=Truth(y=y[fold.test], training=y[fold.train])
                    if fold.tested is None
                    else Truth.of(fold.tested),
                ),
                scaling,
            )
            for fold in folds
        ]

    def _scaled(self, data: FitData, scaling: str) -> FitData:
        steps = wall.learn_preparation(self._learner, scaling, data.X, self._assignment.encoding)
        X, queries = (apply_steps(steps, rows) for rows in (data.X, data.queries))
        return replace(data, X=X, queries=queries)

    def make(self, params: Mapping[str, Any], fold: int) -> MetricLearner:
        """Return an unfitted learner."""
        seed = self._assignment.seeds.folds[fold]
        return make_learner(self._assignment, {**self._learner.inner_params, **params}, seed)

    def values(self, learner: MetricLearner, data: FitData) -> Values:
        """Return the value of a fitted learner by each measure."""
        return np.array([self._judged(place, learner, data) for place in range(self.n_measures)])

    def blend_values(
        self, learner: MetricLearner, data: FitData, baselines: Baselines | None
    ) -> Values:
        """Return the values of the blends of a fitted learner, one for each of `Blend.WEIGHTS`."""
        each = [data] * self.n_measures if baselines is None else baselines
        learned_sd = sd_of_learned(learner, data.X, self._assignment.seeds.blend)
        return np.array(
            [
                self._of_blends(place, learner, data, rows, learned_sd)
                for place, rows in enumerate(each)
            ]
        )

    def baseline_values(self, data: FitData) -> Values:
        """Return the value of the Euclidean baseline by each measure."""
        assert data.truth is not None
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
        assert data.truth is not None
        by, task = self._assignment.chooses_by[place], self._tasks[place]
        seeds = self._assignment.seeds
        gallery = rows.queries if task.gallery == "test" else rows.X
        ties = tie_order(seeds.ties, gallery.shape[0])
        sd = shared(sd_of_baseline, rows.X, seeds.blend)
        blends = [Blend(weight, sd, learned_sd) for weight in Blend.WEIGHTS[:-1]]
        evaluations = [task.evaluation(data.truth, ties, (by.measure,)) for _ in blends]

        def judge_blends(start: int, scores: FloatArray) -> None:
            baseline = baseline_scores(rows.queries[start : start + len(scores)], gallery)
            own = as_inner_product(type(learner), scores)
            for blend, evaluation in zip(blends, evaluations, strict=True):
                evaluation.add(start, blend.mix(baseline, own))

        own = self._judged(place, learner, data, judge_blends)
        return [*(one.value(by.measure, by.k) for one in evaluations), own]

    def _judged(
        self,
        place: int,
        learner: MetricLearner,
        data: FitData,
        also: Callable[[int, FloatArray], object] = lambda start, scores: None,
    ) -> float:
        """Return the value of a learner by a measure; ``also(start, scores)`` gets its scores."""
        assert data.truth is not None
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
