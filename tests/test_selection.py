"""Selection on learners whose validation score is known by construction."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from oasis_bench.datasets import Digits
from oasis_bench.experiment.plan import plan
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.experiment.splits import inner_folds
from oasis_bench.plugins.learner import BilinearLearner, IncrementalLearner
from oasis_bench.plugins.registry import load_registry
from oasis_bench.tasks.task import Truth
from oasis_bench.trial.choice import FIRST_CHECKPOINT, PATIENCE, checkpoints, choose
from oasis_bench.trial.lesson import Lesson

X, Y = np.arange(24.0)[:, None], np.arange(24) % 2
FOLDS = inner_folds(Y, 3, seed=0)
LESSONS = [
    Lesson(X[fold.learn], Y[fold.learn], None, 0, X[fold.validate], Truth(y=Y[fold.validate]))
    for fold in FOLDS
]


class Known(BilinearLearner):
    """A learner that learns nothing: the tests score it by its parameters."""

    def __init__(self, level=0, fold=0):
        self.level = level
        self.fold = fold
        self.rows = []

    def fit(self, X, y):
        self.rows.append(X[:, 0].tolist())
        return self


class KnownSteps(Known, IncrementalLearner):
    """The same, step by step."""

    steps = 0

    def partial_fit(self, X, y, n_steps=None):
        self.steps += n_steps
        return self.fit(X, y)


class Clock:
    """Stands for the stopwatch: notes what was timed."""

    def __init__(self):
        self.timed = []

    @contextmanager
    def __call__(self, what):
        self.timed.append(what)
        yield


def choose_by(score, cls=Known, levels=(0,), max_steps=4000, timer=None):
    made = []

    def make(params, fold):
        made.append(cls(**params, fold=fold))
        return made[-1]

    choice = choose(
        make,
        {"level": levels},
        LESSONS,
        lambda learner, lesson: score(learner),
        max_steps,
        timer or Clock(),
        lambda point: None,
    )
    return choice, made


def test_the_candidate_with_the_best_mean_is_chosen():
    scores = {10: (0.5, 0.5, 0.5), 20: (0.9, 0.2, 0.2), 30: (0.6, 0.6, 0.5), 40: (0.1, 0.1, 0.1)}
    choice, _ = choose_by(lambda learner: scores[learner.level][learner.fold], levels=tuple(scores))
    assert choice.params == {"level": 30}
    assert choice.n_steps is None
    seen = {(p["params"]["level"], p["fold"]): p["value"] for p in choice.points}
    assert seen == {(level, i): row[i] for level, row in scores.items() for i in range(3)}


def test_a_tie_goes_to_the_earlier_candidate():
    choice, _ = choose_by(lambda learner: 0.5, levels=(3, 1, 2))
    assert choice.params == {"level": 3}


def test_candidates_are_all_combinations_of_the_grid():
    tried = []

    class Two(Known):
        def __init__(self, a, b):
            super().__init__()
            tried.append((a, b))

    choice = choose(
        lambda params, fold: Two(**params),
        {"a": (1, 2), "b": (5, 6)},
        LESSONS,
        lambda learner, lesson: 0.0,
        1000,
        Clock(),
        lambda point: None,
    )
    assert set(tried) == {(1, 5), (1, 6), (2, 5), (2, 6)}
    assert len(choice.points) == 4 * 3


def test_the_step_with_the_best_mean_is_chosen():
    steps = checkpoints(4000)
    choice, _ = choose_by(lambda learner: 1 / (1 + abs(learner.steps - steps[3])), KnownSteps)
    assert choice.n_steps == steps[3] == 1414


def test_candidate_and_step_are_chosen_together():
    # Level 1 is best at the second checkpoint, level 2 better still at the fourth.
    steps = checkpoints(4000)
    peak = {1: (steps[1], 0.6), 2: (steps[3], 0.7), 3: (steps[0], 0.65)}

    def score(learner):
        best_step, best = peak[learner.level]
        return best - abs(learner.steps - best_step) / 1e5

    choice, _ = choose_by(score, KnownSteps, levels=(1, 2, 3))
    assert (choice.params, choice.n_steps) == ({"level": 2}, steps[3])


def test_a_tie_goes_to_fewer_steps():
    choice, _ = choose_by(lambda learner: min(learner.steps, 1000), KnownSteps)
    assert choice.n_steps == 1000


def test_learning_stops_when_patience_has_run_out():
    steps = checkpoints(400_000)
    choice, made = choose_by(lambda learner: -learner.steps, KnownSteps, max_steps=400_000)
    assert choice.n_steps == steps[0]
    assert {learner.steps for learner in made} == {steps[PATIENCE]}


def test_an_improvement_within_patience_goes_on():
    steps = checkpoints(400_000)
    good = {steps[0]: 0.5, steps[PATIENCE]: 0.6}
    choice, made = choose_by(
        lambda learner: good.get(learner.steps, 0.1), KnownSteps, max_steps=400_000
    )
    assert choice.n_steps == steps[PATIENCE]
    assert {learner.steps for learner in made} == {steps[2 * PATIENCE]}


def test_a_slow_candidate_is_not_stopped_by_a_faster_one_before_it():
    def score(learner):
        return 0.5 if learner.level == 1 else min(learner.steps / 20_000, 1)

    choice, _ = choose_by(score, KnownSteps, levels=(1, 2), max_steps=20_000)
    assert (choice.params, choice.n_steps) == ({"level": 2}, 20_000)


def test_without_a_choice_nothing_is_fitted():
    clock = Clock()
    choice, made = choose_by(lambda learner: 1 / 0, timer=clock)
    assert (choice.params, choice.n_steps, choice.points) == ({"level": 0}, None, [])
    assert not any(learner.rows for learner in made)
    assert clock.timed == []


def test_steps_go_on_from_where_they_were_on_the_learning_rows_of_one_fold():
    choice, made = choose_by(lambda learner: learner.steps, KnownSteps, max_steps=2000)
    assert len(made) == 3
    for learner, fold in zip(made, FOLDS, strict=True):
        assert learner.steps == 2000
        assert learner.rows == [X[fold.learn, 0].tolist()] * len(checkpoints(2000))
    assert [p["n_steps"] for p in choice.points if p["fold"] == 0] == checkpoints(2000)


def test_each_candidate_is_judged_on_each_fold():
    seen = []

    def score(learner, lesson):
        seen.append(lesson.queries[:, 0].tolist())
        return 0.0

    choose(
        lambda params, fold: Known(),
        {"level": (1, 2)},
        LESSONS,
        score,
        1000,
        Clock(),
        lambda point: None,
    )
    assert seen == [fold.validate.tolist() for fold in FOLDS] * 2


def test_learning_and_validation_are_timed_apart():
    clock = Clock()
    choose_by(lambda learner: 0.0, levels=(1, 2), timer=clock)
    assert clock.timed == ["learning on inner folds", "validation"] * 6


def test_checkpoints_grow_by_the_root_of_two_and_end_at_max_steps():
    steps = checkpoints(400_000)
    assert steps[0] == FIRST_CHECKPOINT
    assert steps[-1] == 400_000
    ratios = np.array(steps[1:-1]) / steps[:-2]
    np.testing.assert_allclose(ratios, np.sqrt(2), rtol=2e-3)
    assert 1 < steps[-1] / steps[-2] <= np.sqrt(2) * 1.002


@pytest.mark.parametrize(
    ("max_steps", "expected"),
    [(1, [1]), (500, [500]), (501, [500, 501]), (1000, [500, 707, 1000])],
)
def test_few_steps_have_few_checkpoints(max_steps, expected):
    assert checkpoints(max_steps) == expected


def test_test_images_are_shown_to_nothing_before_the_last_evaluation(
    numbered_rows, plugins, run_trial, tmp_path
):
    path, log = plugins / "spy.py", tmp_path / "shown"
    registry = load_registry([path])
    experiment = Experiment(
        title="Spied",
        dataset="numbered",
        learners={"Spy": LearnerSpec("Spy", {"log": str(log), "scale": [1.0, 2.0]})},
        classes=(3,),
        partitions=1,
        inner_folds=3,
        train_per_class=6,
        test_per_class=5,
        normalize="none",
        max_steps=1000,
        traces=False,
    )
    (spec,) = plan(experiment, Digits(), numbered_rows, registry, (path,))
    assert run_trial(spec, numbered_rows).columns["status"] == "ok"

    lines = map(json.loads, log.read_text().splitlines())
    shown = [(what, frozenset(rows)) for what, rows in lines]
    answer = next(
        number
        for number, (what, rows) in enumerate(shown)
        if what == "similarity" and len(rows) == 3 * 5
    )
    tested = shown[answer][1]
    before, after = shown[:answer], shown[answer + 1 :]
    assert not any(rows & tested for _, rows in before)
    # The process that answers for some test items alone warms up on training items, too.
    assert [what for what, rows in after if rows & tested] == ["similarity"]
    final_fit = next(item for item in reversed(before) if len(item[1]) == 3 * 6)
    assert final_fit[0] == "fit"
    in_selection = [
        (what, rows) for what, rows in before[: before.index(final_fit)] if what != "fit"
    ]
    assert {len(rows) for what, rows in in_selection if what == "partial_fit"} == {3 * 4}
    # Validation, and the warm-up on eight items of each of two classes, of which there are six.
    assert {len(rows) for what, rows in in_selection if what == "similarity"} == {3 * 2, 2 * 6}
    assert frozenset.union(*(rows for _, rows in in_selection)) == final_fit[1]
