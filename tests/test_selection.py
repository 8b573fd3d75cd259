"""Selection on learners whose validation score is known by construction."""

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from oasis_bench.datasets import Digits
from oasis_bench.experiment import Candidate, Experiment, LearnerSpec, Plan, Search
from oasis_bench.experiment.trials import candidates
from oasis_bench.plugins import BilinearLearner, Blend, IncrementalLearner, Registry
from oasis_bench.system import UsageError
from oasis_bench.tasks import SeenClassesSplit, Truth
from oasis_bench.trial import FitData
from oasis_bench.trial.learner_side.tuning import PATIENCE, Tuning
from oasis_bench.trial.wall.assignment import FIRST_CHECKPOINT, MOST_CHECKPOINTS, Way, checkpoints

X, Y = np.arange(24.0)[:, None], np.arange(24) % 2
FOLDS = SeenClassesSplit(None).inner_folds(Y, None, 3, seed=0)
FIT_DATA = [
    FitData(X[fold.train], Y[fold.train], None, None, 0, X[fold.test], Truth(y=Y[fold.test]))
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


class KnownFolds:
    """Inner folds whose learners have values that are known by construction."""

    n_measures, baseline_scalings, use, keeps_all = 1, (), "tuned", True

    @property
    def ways(self):
        return [Way("direct", b) for b in (Blend.WEIGHTS if self.baseline_scalings else (1.0,))]

    def __init__(self, score, cls=Known, folds_of=lambda scaling: FIT_DATA):
        self.score, self.cls, self.data, self.made = score, cls, folds_of, []

    def make(self, params, fold):
        self.made.append(self.cls(**params, fold=fold))
        return self.made[-1]

    def values(self, learner, data):
        return self.values_of_ways(learner, data, None)[:, -1]

    def values_of_ways(self, learner, data, baselines):
        return np.array(self.score(learner), ndmin=2)


def choose_by(
    score,
    cls=Known,
    levels=(0,),
    max_steps=4000,
    timer=None,
    on_point=lambda point: None,
    baselines=(),
):
    folds = KnownFolds(score, cls)
    folds.baseline_scalings = baselines
    candidates = [Candidate("none", {"level": level}) for level in levels]
    [choice] = Tuning(folds, candidates, max_steps, timer or Clock(), on_point).winners()
    return choice, folds.made[1:]  # the first one only tells whether it has steps


def test_the_candidate_with_the_best_mean_is_chosen():
    scores = {10: (0.5, 0.5, 0.5), 20: (0.9, 0.2, 0.2), 30: (0.6, 0.6, 0.5)}
    points = []
    choice, _ = choose_by(
        lambda learner: scores[learner.level][learner.fold],
        levels=tuple(scores),
        on_point=points.append,
    )
    assert choice.params == {"level": 30}
    assert choice.n_steps is None
    seen = {(p.params["level"], p.fold): p.values[0] for p in points}
    assert seen == {(level, i): row[i] for level, row in scores.items() for i in range(3)}


@pytest.mark.parametrize(("n_candidates", "n_kept"), [(4, 2), (6, 2), (7, 3), (20, 7)])
def test_of_many_candidates_the_best_third_on_the_first_fold_goes_on(n_candidates, n_kept):
    # On the first fold a candidate is as good as its level; on the others, the reverse.
    levels, points = [*np.random.default_rng(0).permutation(n_candidates).tolist()], []
    choice, _ = choose_by(
        lambda learner: learner.level if learner.fold == 0 else -learner.level,
        levels=levels,
        on_point=points.append,
    )
    on = [[p.params["level"] for p in points if p.fold == fold] for fold in range(3)]
    kept = range(n_candidates - n_kept, n_candidates)
    assert on[0] == levels
    assert sorted(on[1]) == sorted(on[2]) == [*kept]
    assert choice.params == {"level": kept[0]}  # of those the best mean over all folds


def test_of_many_candidates_with_steps_the_other_folds_go_as_far_as_the_first():
    # The first fold is at its best at 1000 steps times the level, the others go on to rise.
    def score(learner):
        peak = 1000 * learner.level if learner.fold == 0 else 10**6
        return learner.level - abs(learner.steps - peak) / 1e6

    choice, made = choose_by(score, KnownSteps, (1, 2, 4, 8), max_steps=64_000)
    last = {1: 4000, 2: 8000, 4: 16_000, 8: 32_000}
    by_fold = [{one.level: one.steps for one in made if one.fold == fold} for fold in range(3)]
    assert by_fold[0] == last
    assert by_fold[1] == by_fold[2] == {level: last[level] for level in (4, 8)}
    assert (choice.params, choice.n_steps) == ({"level": 8}, 32_000)
    assert choice.last_checkpoint == 32_000


def test_a_tie_goes_to_the_earlier_candidate():
    choice, _ = choose_by(lambda learner: 0.5, levels=(3, 1, 2))
    assert choice.params == {"level": 3}


GRID = {"a": (1, 2), "b": (5, 6)}


def tried(text, scalings=("l2", "none"), defaults=None, seed=0):
    search, defaults = Search.of("search", text), defaults or {"a": 2, "b": 5, "c": 0}
    found = candidates(GRID, scalings, defaults, search, seed, "Two")
    return [(one.scaling, one.params["a"], one.params["b"]) for one in found]


def test_candidates_are_all_combinations_of_scalings_and_grid():
    everything = list(product(("l2", "none"), (1, 2), (5, 6)))
    assert tried("off") == tried("8") == everything


def test_where_the_budget_is_smaller_the_defaults_come_first_and_others_are_drawn_once_each():
    drawn = [tried("3", seed=seed) for seed in range(200)]
    assert all(one[0] == ("l2", 2, 5) for one in drawn)
    assert all(len(set(one)) == 3 for one in drawn)
    assert len({candidate for one in drawn for candidate in one[1:]}) == 7
    n_values = [sum(len(set(axis)) == 2 for axis in zip(*one, strict=True)) for one in drawn]
    assert np.mean(n_values) > 2.8  # of the three axes both values are tried


@pytest.mark.parametrize("given", ["20s", "5m", "0", "-3", "1.5", "many"])
def test_a_budget_is_a_number_of_candidates_and_never_a_time(given):
    with pytest.raises(UsageError, match="a number of candidates above 0, such as 20, or off"):
        Search.of("search", given)


def test_a_learner_that_becomes_worse_with_each_step_learns_up_to_the_first_checkpoint():
    choice, _ = choose_by(lambda learner: -learner.steps, KnownSteps)
    assert choice.n_steps == FIRST_CHECKPOINT  # no learner abstains by learning nothing
    assert choice.last_checkpoint == checkpoints(4000)[PATIENCE]


def test_the_own_value_chooses_and_the_best_weight_is_that_of_the_winner():
    # At the weights 0, .25, .5, .75 and 1; the mean of level 2 is highest at .5.
    values = {
        (1, 0): (0.9, 0.9, 0.9, 0.9, 0.4),
        (2, 0): (0.1, 0.7, 0.5, 0.3, 0.6),
        (2, 1): (0.1, 0.3, 0.9, 0.3, 0.4),
        (2, 2): (0.1, 0.3, 0.6, 0.3, 0.4),
    }
    points = []
    choice, _ = choose_by(
        lambda learner: np.array(values.get((learner.level, learner.fold), values[1, 0])),
        levels=(1, 2),
        on_point=points.append,
        baselines=("none",),
    )
    assert (choice.params, choice.blend) == ({"level": 2}, 0.5)
    assert [point.values for point in points] == [[v] for v in (0.4, 0.4, 0.4, 0.6, 0.4, 0.4)]


def test_where_blending_does_not_help_the_learner_is_taken_as_it_is():
    points = []
    for own, weight in ((0.5, 1), (0.2, 0.5)):  # of equal weights the larger one
        choice, made = choose_by(
            lambda learner, own=own: np.array([0.5, 0.4, 0.5, 0.3, own]),
            on_point=points.append,
            baselines=("none",),
        )
        assert choice.blend == weight
        assert len(made) == 3  # without a search one fit on each fold tells all
    assert [point.values for point in points] == [[0.5]] * 3 + [[0.2]] * 3
    choice, _ = choose_by(lambda learner: 0.5)
    assert choice.blend is None


def test_each_measure_has_its_own_winner_of_the_same_fits():
    # By the first measure high levels are the better ones, by the second low ones; each also has
    # its own steps, and its own weight of a blend.
    def score(learner):
        one = learner.level - abs(learner.steps - 1000) / 1e6
        other = -learner.level - abs(learner.steps - 2000) / 1e6
        return [[0, one - 1, one + 1, 0, one], [9, 0, 0, 0, other]]

    points, folds = [], KnownFolds(score, KnownSteps)
    folds.n_measures, folds.baseline_scalings = 2, ("none",)
    levels = [Candidate("none", {"level": level}) for level in (3, 1, 5, 2, 4, 6)]
    tuned = Tuning(folds, levels, 64_000, Clock(), points.append).winners()
    assert [(one.params["level"], one.n_steps, one.blend) for one in tuned] == [
        (6, 1000, 0.5),
        (1, 2000, 0.0),
    ]
    assert [one.blend_values for one in tuned] == [[7.0] * 3, [9.0] * 3]
    on = [{p.params["level"] for p in points if p.fold == fold} for fold in range(3)]
    assert on == [{1, 2, 3, 4, 5, 6}, {1, 2, 5, 6}, {1, 2, 5, 6}]  # a third for each measure
    # The winner is fitted anew for its blends.
    assert {one.steps for one in folds.made if one.fold == 0 and one.level == 6} == {8000, 1000}


def test_the_baseline_is_tuned_apart_and_blended_in_its_own_scaling():
    # The learner prefers the rows as they are; the baseline, by the second measure, others.
    scaled = [replace(data, X=data.X / 10, queries=data.queries / 10) for data in FIT_DATA]
    folds_of = {"none": FIT_DATA, "tenth": scaled}
    seen = []

    class Blended(KnownFolds):
        n_measures, baseline_scalings = 2, ("none", "tenth")

        def values_of_ways(self, learner, data, baselines):
            if baselines is not None:  # the blends of the winner
                seen.append([rows.X.max() / data.X.max() for rows in baselines])
            return np.array([[0.5, 0, 0, 0, data.X.max()], [0.5, 0, 0, 0, data.X.max()]])

        def baseline_values(self, data):
            return np.array([data.X.max(), -data.X.max()])

    folds = Blended(None, lambda fold: Known(), folds_of.get)
    candidates = [Candidate("none", {}), Candidate("tenth", {})]
    tuned = Tuning(folds, candidates, 1000, Clock(), lambda point: None).winners()
    assert [(one.scaling, one.baseline_scaling) for one in tuned] == [
        ("none", "none"),
        ("none", "tenth"),
    ]
    np.testing.assert_allclose(seen, [[1, 0.1]] * 3)


@pytest.mark.parametrize("search", ["1", "4"])
def test_euclidean_tries_each_scaling_in_order_on_all_folds_as_the_others_baseline_does(search):
    learners = {name: LearnerSpec(name) for name in ("LDA", "Euclidean")}
    scaling = ("standard", "minmax", "l2", "none")
    e = Experiment("Fair", "digits", learners, classes=(3,), partitions=1, scaling=scaling)
    rows = Digits().load()
    lda, euclidean = Plan.of(replace(e, search=search), Digits(), rows, Registry.load()).trials
    assert [one.scaling for one in euclidean.candidates] == [*scaling] == [*lda.scalings]
    points = []
    folds = KnownFolds(lambda learner: 0.5, lambda fold: Known())
    how = euclidean.candidates, 1000, Clock(), points.append
    Tuning(folds, *how).winners(on_all_folds=True)
    assert Counter(point.scaling for point in points) == dict.fromkeys(scaling, 3)


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


@pytest.mark.parametrize(("best", "last"), [(500, 2000), (8000, 32_000), (32_000, 64_000)])
def test_learning_goes_on_to_four_times_the_best_steps(best, last):
    choice, made = choose_by(lambda learner: -abs(learner.steps - best), KnownSteps, (0,), 64_000)
    assert choice.n_steps == best
    assert {learner.steps for learner in made} == {last}


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


def test_steps_go_on_from_where_they_were_on_the_learning_rows_of_one_fold():
    points = []
    _, made = choose_by(
        lambda learner: learner.steps, KnownSteps, max_steps=2000, on_point=points.append
    )
    assert len(made) == 3
    for learner, fold in zip(made, FOLDS, strict=True):
        assert learner.steps == 2000
        assert learner.rows == [X[fold.train, 0].tolist()] * len(checkpoints(2000))
    assert [p.n_steps for p in points if p.fold == 0] == checkpoints(2000)


def test_learning_and_validation_are_timed_apart():
    clock = Clock()
    choose_by(lambda learner: 0.0, levels=(1, 2), timer=clock)
    assert clock.timed == ["learning on inner folds", "validation"] * 6


@pytest.mark.parametrize("max_steps", [64_000, 400_000, 800_000, 6_400_000, 10**9 + 1])
def test_checkpoints_are_eight_and_grow_by_two_up_to_max_steps(max_steps):
    steps = checkpoints(max_steps)
    assert len(steps) == MOST_CHECKPOINTS == 8
    assert steps[-1] == max_steps
    np.testing.assert_allclose(np.array(steps[1:]) / steps[:-1], 2, rtol=2e-3)


@pytest.mark.parametrize(
    ("max_steps", "expected"),
    [(1, [1]), (500, [500]), (999, [999]), (1000, [500, 1000]), (3000, [750, 1500, 3000])],
)
def test_few_steps_have_few_checkpoints(max_steps, expected):
    assert checkpoints(max_steps) == expected


def test_test_images_are_shown_to_nothing_before_the_last_evaluation(
    numbered_rows, plugins, run_trial, tmp_path
):
    path, log = plugins / "spy.py", tmp_path / "shown"
    registry = Registry.load([path])
    experiment = Experiment(
        title="Spied",
        dataset="numbered",
        learners={"Spy": LearnerSpec("Spy", {"log": str(log), "scale": [1.0, 2.0]})},
        classes=(3,),
        partitions=1,
        inner_folds=3,
        train_per_class=6,
        test_per_class=5,
        scaling=("none",),
        max_steps=1000,
        traces=False,
    )
    (spec,) = Plan.of(experiment, Digits(), numbered_rows, registry, (path,)).trials
    assert run_trial(spec, numbered_rows).row.status == "ok"

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
