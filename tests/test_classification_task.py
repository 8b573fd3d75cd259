"""Nearest-neighbour votes against scikit-learn and hand cases; their chance by enumeration."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

from oasis_bench.algorithms import Euclidean
from oasis_bench.data import LabelledRows
from oasis_bench.tasks import Truth, tie_order, vote
from oasis_bench.tasks.chance import first_seen_twice_of_chance, vote_of_chance
from oasis_bench.tasks.classification import (
    Classification,
    KNeighborsClassification,
    first_seen_twice,
)


def ask(scores, y, training, seed=0, measures=None):
    """Judge a table of scores of test items (rows) against training items."""
    truth = Truth(y=np.asarray(y), training=np.asarray(training))
    ties = tie_order(seed, len(training))
    evaluation = Classification().evaluation(truth, ties, measures)
    evaluation.add(0, np.asarray(scores, dtype=float))
    return evaluation


def vote_by_counting(ranked):
    """Return the class of the most votes; of several, that of whoever of them comes first."""
    votes = Counter(ranked)
    return next(c for c in ranked if votes[c] == max(votes.values()))


def frome_by_counting(ranked):
    seen = set()
    for c in ranked:
        if c in seen:
            return c
        seen.add(c)
    return ranked[0]


@pytest.mark.parametrize(
    ("ranked", "voted", "by_frome"),
    [
        ([2, 1, 1], 1, 1),
        ([2, 1, 0], 2, 2),  # one vote each: the nearest
        ([0, 1, 1, 2, 2], 1, 1),  # two votes each for 1 and 2: 1 is nearer
        ([3, 2, 2, 3, 3], 3, 2),  # 2 is seen twice first, 3 has more votes
        ([4, 4, 1, 1, 1], 1, 4),
        ([4], 4, 4),
    ],
)
def test_hand_cases_of_both_rules(ranked, voted, by_frome):
    rows = np.array([ranked])
    assert (vote(rows)[0], vote_by_counting(ranked)) == (voted, voted)
    assert (first_seen_twice(rows)[0], frome_by_counting(ranked)) == (by_frome, by_frome)


def test_frome_looks_at_ten_items_and_no_further():
    nine = list(range(9))
    found = ask(-np.arange(12) * np.ones((1, 1)), [3], [*nine, 3, 5, 5])
    assert found.value("accuracy by Frome's rule") == 1  # the tenth is the second of class 3
    found = ask(-np.arange(12) * np.ones((1, 1)), [0], [*nine, 9, 5, 5])
    assert found.value("accuracy by Frome's rule") == 1  # class 5 is seen again after the tenth


def test_votes_are_those_of_scikit_learn_where_no_two_classes_have_equally_many():
    rng = np.random.default_rng(0)
    X, training = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    y, y_training = rng.integers(2, size=300), rng.integers(2, size=200)  # odd k: no tied votes
    learner = Euclidean().fit(training, y_training)
    truth = Truth(y=y, training=y_training)
    found = Classification().evaluate(truth, learner.similarity, X, 0, training=training)
    for k in (1, 3, 5, 7):
        theirs = KNeighborsClassifier(k).fit(training, y_training)
        np.testing.assert_array_equal(found.predictions(k), theirs.predict(X))
        assert found.value("accuracy", k) == pytest.approx(theirs.score(X, y))
    one = KNeighborsClassifier(1).fit(training, y_training).predict(X)
    np.testing.assert_array_equal(found.predicted(), one)


def test_tied_votes_of_its_own_task_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    X, training = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    y, y_training = rng.integers(5, size=300), rng.integers(5, size=200)
    learner = Euclidean().fit(training, y_training)
    truth = Truth(y=y, training=y_training)
    tasks = Classification(), KNeighborsClassification()
    nearer, found = (
        task.evaluate(truth, learner.similarity, X, 0, training=training) for task in tasks
    )
    for k in (1, 3, 5, 7):
        theirs = KNeighborsClassifier(k).fit(training, y_training)
        np.testing.assert_array_equal(found.predictions(k), theirs.predict(X))
        assert found.value("accuracy", k) == pytest.approx(theirs.score(X, y))
        assert (k == 1) == bool((nearer.predictions(k) == found.predictions(k)).all())
    assert {m.chance for m in found.measurements()} == {None}


def test_mean_recognition_is_the_mean_of_the_classes():
    # three items of class 0, of which two find it; one of class 1, which finds class 0
    scores = [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    found = ask(scores, [0, 0, 0, 1], [0, 0, 1])
    assert found.value("accuracy", 1) == pytest.approx(2 / 4)
    assert found.value("mean recognition", 1) == pytest.approx((2 / 3 + 0) / 2)
    assert found.predicted().tolist() == [0, 1, 0, 0]
    assert [m.k for m in found.measurements() if m.measure == "accuracy"] == [1, 3]
    assert (found.n_queries, found.n_left_out) == (4, 0)


def test_classes_are_predicted_by_the_rule_of_the_measure_that_is_asked_for():
    # Training items of classes 0 0 0 1 1 2 2.  Down its ranking, the test item of class 0 sees the
    # classes 2 1 0 0 1 2 0, that of class 1 0 1 1 0 0 2 2, and that of class 2 1 2 2 1 0 0 0.
    scores = [[5, 4, 1, 6, 3, 7, 2], [7, 4, 3, 6, 5, 2, 1], [3, 2, 1, 7, 4, 6, 5]]
    found = ask(scores, [0, 1, 2], [0, 0, 0, 1, 1, 2, 2])
    nearest = [2, 0, 1]
    assert found.predicted().tolist() == nearest
    assert found.predicted("accuracy", 1).tolist() == nearest
    of_three = [2, 1, 2]  # one vote each for 2, 1 and 0: the nearest
    assert found.predicted("mean recognition", 3).tolist() == of_three
    for measure in ("accuracy by Frome's rule", "mean recognition by Frome's rule"):
        assert found.predicted(measure).tolist() == [0, 1, 2]


def test_equal_scores_are_ordered_by_the_seed_not_by_the_row():
    y, training = np.zeros(40, dtype=int), np.repeat([0, 1], 10)
    seeds = [ask(np.zeros((40, 20)), y, training, seed) for seed in range(60)]
    assert {found.value("accuracy", 1) for found in seeds} == {0.0, 1.0}


@pytest.mark.parametrize("counts", [(4, 2, 1), (3, 3, 1), (5, 1, 1), (2, 2, 2), (1, 2, 3), (6, 1)])
def test_the_chance_of_a_vote_is_its_mean_over_all_orders(counts):
    training = np.repeat(np.arange(len(counts)), counts)
    orders = [training[list(order)].tolist() for order in permutations(range(len(training)))]
    for k in (1, 3, 5):
        winners = np.bincount([vote_by_counting(o[:k]) for o in orders], minlength=len(counts))
        np.testing.assert_allclose(
            vote_of_chance(np.array(counts), k), winners / len(orders), rtol=1e-12
        )
    for depth in (1, 2, 4, len(training)):
        winners = np.bincount([frome_by_counting(o[:depth]) for o in orders], minlength=len(counts))
        found = first_seen_twice_of_chance(np.array(counts), depth)
        np.testing.assert_allclose(found, winners / len(orders), rtol=1e-12)


def test_chances_of_many_uneven_classes_sum_to_one():
    counts = np.random.default_rng(0).integers(1, 3000, size=250)
    for k in (1, 3, 5, 7):
        chances = vote_of_chance(counts, k)
        assert chances.sum() == pytest.approx(1, rel=1e-9)
        assert chances.min() > 0
    assert first_seen_twice_of_chance(counts, 10).sum() == pytest.approx(1, rel=1e-9)


def test_random_scores_come_to_chance_in_each_measure():
    rng = np.random.default_rng(1)
    training = np.repeat([0, 1, 2, 3], [20, 8, 3, 1])
    y = np.repeat([0, 1, 2, 5], 500)  # the last class is not in the gallery: it is never found
    found = [ask(rng.random((2000, 32)), y, training, seed) for seed in range(20)]
    for i, measured in enumerate(found[0].measurements()):
        mean = np.mean([evaluation.measurements()[i].value for evaluation in found])
        assert mean == pytest.approx(measured.chance, abs=0.01), measured


def test_what_has_no_single_class_is_refused():
    labels = sparse.csr_array(np.eye(4))
    rows = LabelledRows(np.eye(4), labels, tuple("abcd"))
    assert "several labels" in Classification().refusal(rows)
    assert Classification().refusal(LabelledRows(np.eye(4), np.arange(4), tuple("abcd"))) is None
