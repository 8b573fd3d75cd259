"""Splits by classes that are held apart and by groups of judgements."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from oasis_bench.data import JudgedTriplets, LabelledRows, Ratings
from oasis_bench.system import UsageError
from oasis_bench.tasks import NotSplittableError
from oasis_bench.tasks.judged_splits import (
    PairsSplit,
    count_folds,
    draw_fold,
    group_folds,
    items_are_shared,
)
from oasis_bench.tasks.split import draw_unseen_classes, too_few_for_folds, unseen_class_folds

N_ITEMS = 200


def of_own_items(n_groups=30, n_bridges=2):
    """Groups of six items each and four triplets; a few triplets take an item of the next group."""
    rng = np.random.default_rng(0)
    items = [6 * g + rng.permutation(6)[:3] for g in range(n_groups) for _ in range(4)]
    for g in range(n_bridges):
        items[4 * g][2] = 6 * (g + 1)
    return JudgedTriplets(np.array(items), None, np.repeat(np.arange(n_groups), 4))


def of_shared_items(n_items=20):
    """Each item is the reference of 60 triplets, whose other two are any items."""
    rng = np.random.default_rng(0)
    items = np.stack([rng.permutation(n_items)[:3] for _ in range(60 * n_items)])
    return JudgedTriplets(items, None, items[:, 0].copy())


def whole(numbers, items):
    """Give renumbered judgements their item numbers back."""
    return items[numbers]


def test_unseen_classes_are_split_in_halves_of_the_sizes_asked_for():
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(12), 30))
    train, test, *_ = draw_unseen_classes(y, [0, 2, 3, 5, 7, 8, 11], 20, 10, seed=0)
    learned, n_learned = np.unique(y[train], return_counts=True)
    tested, n_tested = np.unique(y[test], return_counts=True)
    assert sorted([*learned, *tested]) == [0, 2, 3, 5, 7, 8, 11]
    assert (len(learned), len(tested)) == (4, 3)  # the larger half trains
    assert (set(n_learned), set(n_tested)) == ({20}, {10})
    assert len(set(train)) == 80
    halves = {
        tuple(np.unique(y[draw_unseen_classes(y, range(12), 5, 5, s).test])) for s in range(9)
    }
    assert len(halves) == 9
    again = draw_unseen_classes(y, [0, 2, 3, 5, 7, 8, 11], 20, 10, seed=0)
    np.testing.assert_array_equal(again.train, train)


def test_every_class_is_as_likely_to_be_unseen():
    y = np.repeat(np.arange(6), 3)
    times = np.zeros(6)
    for seed in range(600):
        times[np.unique(y[draw_unseen_classes(y, range(6), 2, 1, seed).test])] += 1
    assert times.sum() == 600 * 3
    assert np.abs(times - 300).max() < 5 * np.sqrt(600 / 4)


def test_three_classes_cannot_be_held_apart():
    with pytest.raises(UsageError, match=r"^3 classes: 4 are needed, 2 to learn from"):
        draw_unseen_classes(np.arange(9) % 3, range(3), 1, 1, seed=0)


@pytest.mark.parametrize(("n_classes", "n_folds", "expected"), [(4, 5, 2), (9, 5, 4), (25, 5, 5)])
def test_inner_folds_hold_two_or_more_classes_apart(n_classes, n_folds, expected):
    y = np.random.default_rng(0).permutation(np.repeat(3 * np.arange(n_classes), 6))
    folds = unseen_class_folds(y, n_folds, seed=0)
    assert len(folds) == expected
    validated = []
    for learn, validate, *_ in folds:
        learned, held = set(y[learn]), set(y[validate])
        assert min(len(learned), len(held)) >= 2
        assert not learned & held
        assert len(learn) + len(validate) == len(y)
        validated += held
    assert sorted(validated) == sorted(set(y))
    assert too_few_for_folds(n_classes) is None


def test_three_training_classes_are_too_few_to_choose():
    assert too_few_for_folds(3).startswith("3 training classes: 4 are needed")


@pytest.mark.parametrize("seed", range(5))
def test_no_item_of_a_test_triplet_trains(seed):
    judged = of_own_items()
    split = draw_fold(judged, N_ITEMS, 0.2, 0, seed)
    assert not items_are_shared(judged)
    assert not set(split.train) & set(split.test)
    assert len(split.train) + len(split.test) == N_ITEMS  # items of no triplet train
    tested = {tuple(row) for row in whole(split.tested.items, split.test)}
    trained = {tuple(row) for row in whole(split.training.items, split.train)}
    of_test = np.isin(judged.groups, np.unique(split.tested.groups))
    assert len(np.unique(split.tested.groups)) == 6
    assert tested == {tuple(row) for row in judged.items[of_test]}
    left = [tuple(row) for row in judged.items[~of_test]]
    expected = {row for row in left if not set(row) & set(split.test)}
    assert trained == expected


def test_a_triplet_that_shares_an_item_with_a_test_group_is_dropped():
    judged = of_own_items()
    splits = [draw_fold(judged, N_ITEMS, 0.2, 0, seed) for seed in range(30)]
    counts = [len(split.training.items) + len(split.tested.items) for split in splits]
    assert {len(judged.items) - count for count in counts} > {0, 1}


def test_where_all_items_are_shared_no_test_reference_trains():
    judged = of_shared_items()
    assert items_are_shared(judged)
    split = draw_fold(judged, 20, 0.2, 0, seed=0)
    references = {int(q) for q in split.test[split.tested.items[:, 0]]}
    assert len(references) == 4
    assert not references & set(split.train)
    assert len(split.train) == 16
    kept = [row for row in judged.items.tolist() if not references & set(row)]
    assert whole(split.training.items, split.train).tolist() == kept
    # Of triplets of other references, 15/19 * 14/18 have none of 4 in the other two places.
    n_others = len(judged.items) - len(split.tested.items)
    assert len(kept) / n_others == pytest.approx(15 * 14 / 19 / 18, abs=0.05)


def test_folds_of_groups_validate_each_group_once():
    for judged, n_items in ((of_own_items(), N_ITEMS), (of_shared_items(), 20)):
        split = draw_fold(judged, n_items, 0.2, 0, seed=1)
        folds = group_folds(split.training, len(split.train), 5, seed=2)
        assert len(folds) == 5
        groups = [group for fold in folds for group in np.unique(fold.tested.groups)]
        assert sorted(groups) == np.unique(split.training.groups).tolist()
        for fold in folds:
            queries = fold.test[fold.tested.items[:, 0]]
            assert not set(queries) & set(fold.train)


def test_a_fold_without_untied_votes_is_left_out():
    judged = of_own_items(n_groups=6, n_bridges=0)
    votes = np.full((24, 2), [2, 1])
    votes[judged.groups == 2] = 1
    folds = group_folds(replace(judged, votes=votes), 36, 6, seed=0)
    tested = [int(fold.tested.groups[0]) for fold in folds]
    assert sorted(tested) == [0, 1, 3, 4, 5]
    with pytest.raises(NotSplittableError, match="no inner fold has untied votes"):
        group_folds(replace(judged, votes=np.ones((24, 2), dtype=int)), 36, 6, seed=0)


@pytest.mark.parametrize(("share", "n_classes"), [(0.3, 12), (0.4, 8), (0.25, 16)])
def test_inner_folds_of_labels_hold_classes_apart_where_the_outer_ones_do(share, n_classes):
    y = np.repeat(np.arange(n_classes), 6)
    split = PairsSplit(SimpleNamespace(test_share=share, seed=0, per_class=(99, 99)))
    rows = LabelledRows(np.zeros((len(y), 1)), y, tuple(map(str, range(n_classes))))
    outer = split.draw(rows, None, 0, 0)
    assert not set(y[outer.test]) & set(y[outer.train])
    for fold in split.inner_folds(y[outer.train], None, 3, 0):
        own = y[outer.train]
        assert not set(own[fold.test]) & set(own[fold.train])


@pytest.mark.parametrize("share", [0.1, 0.2, 0.45, 0.9])
def test_each_group_tests_in_one_fold(share):
    judged = of_own_items()
    n_folds = count_folds(judged, share)
    folds = [draw_fold(judged, N_ITEMS, share, fold, seed=3) for fold in range(n_folds)]
    assert n_folds == {0.1: 10, 0.2: 5}.get(share, 2)
    assert sorted(g for fold in folds for g in np.unique(fold.tested.groups)) == list(range(30))


def test_rated_queries_are_split_with_their_candidates():
    queries = np.repeat(np.arange(10), 4)
    candidates = 10 + np.arange(40)
    ratings = Ratings(queries, candidates, np.ones((40, 3), dtype=bool))
    split = draw_fold(ratings, 60, 0.3, 0, seed=0)
    assert len(split.test) == 4 + 16  # of three folds the first has four queries of ten
    assert sorted([*split.train, *split.test]) == list(range(60))
    assert split.test[split.tested.candidates].tolist() == [
        10 + 4 * q + i for q in np.unique(split.test[split.tested.queries]) for i in range(4)
    ]
    assert len(split.training.queries) == 24  # none is dropped
    np.testing.assert_array_equal(split.test[split.tested.queries], split.tested.groups)


def test_candidates_of_all_queries_are_shared():
    queries, candidates = (part.ravel() for part in np.mgrid[0:5, 5:30])
    ratings = Ratings(queries, candidates, np.ones((125, 2), dtype=bool))
    split = draw_fold(ratings, 30, 0.2, 0, seed=0)
    assert items_are_shared(ratings)
    assert len(split.train) == 29
    assert len(split.test) == 26
    assert len(split.training.queries) == 100


def test_one_group_cannot_be_split_and_some_item_must_train():
    one = JudgedTriplets(np.array([[0, 1, 2], [0, 2, 1]]), None, np.zeros(2, dtype=np.int64))
    with pytest.raises(UsageError, match="all 2 judgements are of one text query or reference"):
        draw_fold(one, 5, 0.2, 0, seed=0)
    items = np.array([[0, 1, 2], [3, 4, 5], [0, 1, 2]])  # the first group has all six items
    judged = JudgedTriplets(items, None, np.array([0, 0, 1]))
    assert not items_are_shared(judged)
    with pytest.raises(UsageError, match="all 6 items are in the judgements that test"):
        group_folds(judged, 6, 2, seed=0)
