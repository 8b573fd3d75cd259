"""Verification: measures against scikit-learn and hand cases, pairs, and splits of their rows."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score, roc_curve

from oasis_bench.data import LabelledRows, Ratings
from oasis_bench.system import UsageError
from oasis_bench.tasks import Calibration, Truth, verification
from oasis_bench.tasks.judged_splits import PairsSplit
from oasis_bench.tasks.verification import AUC, EQUAL_ERRORS, Verification, pairs_of_labels

AT_1, AT_01 = verification.ACCEPTS


def measured(scores, same, block=64):
    """Evaluate pairs (2 i, 2 i + 1), whose two directions have these scores in the mean."""
    n = 2 * len(scores)
    left = np.arange(0, n, 2)
    truth = Truth(ratings=Ratings(left, left + 1, np.asarray(same)[:, None]))
    evaluation = Verification().evaluation(truth, np.arange(n))
    both = np.repeat(scores, 2) + np.tile([3.0, -3.0], len(scores))
    for start in range(0, n, block):
        rows = np.arange(start, min(n, start + block))
        part = np.full((len(rows), n), 99.0)
        part[np.arange(len(rows)), rows ^ 1] = both[rows]
        evaluation.add(start, part)
    return {one.measure: one for one in evaluation.measurements()}


@pytest.mark.parametrize("n_values", [4, 40, 10**6])
@pytest.mark.parametrize("n_pairs", [31, 3000])
def test_measures_are_those_of_scikit_learn_with_ties(n_pairs, n_values):
    rng = np.random.default_rng(n_values)
    same = rng.random(n_pairs) < 0.3
    scores = rng.integers(0, n_values, n_pairs) + n_values // 3 * same
    value = {name: one.value for name, one in measured(scores, same).items()}
    false, true, _ = roc_curve(same, scores, drop_intermediate=False)
    assert value[AUC] == pytest.approx(roc_auc_score(same, scores))
    for name, share in verification.ACCEPTS.items():
        assert value[name] == true[false <= share + 1e-12].max()
    grid = np.linspace(0, 1, 200_001)  # where both errors are equal on the curve
    gap = np.abs(1 - np.interp(grid, false, true) - grid)
    assert value[EQUAL_ERRORS] == pytest.approx(1 - grid[gap.argmin()], abs=1e-4)


def test_a_case_worked_by_hand():
    # same: 8 5 3 2, different: 7 4 1: of 12 comparisons 8 are right
    found = measured([8, 5, 3, 2, 7, 4, 1], np.arange(7) < 4)
    assert found[AUC].value == pytest.approx((3 + 2 + 1 + 1) / 12)
    assert found[AT_1].value == found[AT_01].value == 1 / 4  # above 7
    # at 1/3 false accepts 1/2 is accepted, at 2/3 all but the share that 2 and 3 have after 4
    assert found[EQUAL_ERRORS].value == pytest.approx(0.5)
    assert (found[AUC].chance, found[EQUAL_ERRORS].chance) == (0.5, 0.5)
    assert found[AT_1].chance == 1 / 4  # of 3 different ones, 4 gaps


@pytest.mark.parametrize("same", [[True, False, True, False], [False, False, True, True]])
def test_tied_scores_are_one_threshold_also_without_end(same):
    with np.errstate(invalid="ignore"):
        assert measured(np.full(4, -np.inf), np.array(same))[AUC].value == 0.5


def test_chance_is_the_mean_over_random_orders():
    rng = np.random.default_rng(0)
    same = np.arange(260) < 60
    runs = [measured(rng.random(260), same, 520) for _ in range(300)]
    for name in (AUC, EQUAL_ERRORS, AT_1, AT_01):
        values = np.array([run[name].value for run in runs])
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - runs[0][name].chance) < 4 * error, name


@pytest.mark.parametrize("prior", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("n_values", [5, 10**6])
def test_a_prior_is_a_weight_of_the_isotonic_regression_of_scikit_learn(prior, n_values):
    rng = np.random.default_rng(0)
    same = rng.random(400) < 0.3
    scores = rng.integers(0, n_values, 400) + n_values // 3 * same
    all_scores, all_same = [*scores, scores.min(), scores.max()], np.array([*same, True, False])
    weights = np.where(all_same, prior / all_same.sum(), (1 - prior) / (~all_same).sum())
    expected = IsotonicRegression().fit(all_scores, all_same, weights).predict(scores)
    np.testing.assert_allclose(Calibration.of(scores, same, prior)(scores), expected, rtol=1e-6)
    np.testing.assert_allclose(Calibration.of(scores, same)(scores, prior), expected, rtol=1e-6)
    assert ((expected > 0) & (expected < 1)).all()


def test_no_score_is_sure():
    known = Calibration.of(np.arange(6.0), np.arange(6) > 2)  # 3 to 1 at either end
    at = np.array([-9, 0, 2, 2.5, 3, 9])
    np.testing.assert_allclose(known(at), [0.25, 0.25, 0.25, 0.5, 0.75, 0.75])


@pytest.mark.parametrize("prior", [0, 1, -0.1, np.nan])
def test_a_prior_is_above_0_and_below_1(prior):
    with pytest.raises(UsageError, match=r"^prior = .*above 0 and below 1"):
        Calibration(0.5, [0.0], [0.5])(np.zeros(1), prior)


def curve_of(y, scores):
    """Return the mean probability and the share of the same of ten parts of the pairs."""
    evaluation = Verification().evaluation(Truth(y=y), np.arange(len(y)))
    evaluation.add(0, scores)
    found = [one for one in evaluation.measurements() if one.measure == "reliability"]
    assert [one.k for one in found] in ([], list(range(1, 11)))
    return np.array([(one.chance, one.value) for one in found]).T


def test_reliability_is_the_curve_of_scikit_learn_where_scores_follow_a_known_law():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2  # about as many pairs of either kind
    scores = rng.normal(size=(400, 400)) + (y[:, None] == y)
    scores = (scores + scores.T) / 2  # of two normal laws, 1 apart and of variance 1/2
    expected, share = curve_of(y, scores)
    left, right = np.triu_indices(400, 1)
    true = 1 / (1 + np.exp(1 - 2 * scores[left, right]))
    own, p = calibration_curve(y[left] == y[right], true, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(expected, p, atol=0.02)
    np.testing.assert_allclose(share, own, atol=0.04)
    np.testing.assert_allclose(share, expected, atol=0.04)
    np.testing.assert_allclose(curve_of(y, np.exp(scores)), [expected, share], atol=1e-3)
    half = rng.permutation(400) < 200  # half of the items are less alike than the others
    moved = np.abs(np.subtract(*curve_of(y, scores - 2 * (half[:, None] ^ half))))
    assert moved.max() < 0.1  # in both halves the same


def test_reliability_is_bad_where_other_items_have_other_scores():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    scores = rng.normal(size=(400, 400)) + (y[:, None] == y)
    calibrates = np.random.default_rng(0).random(400) < 0.5  # as the evaluation draws them
    scores[~calibrates] -= 1
    expected, share = curve_of(y, scores + scores.T)
    assert (share[1:-1] > expected[1:-1] + 0.1).all()


def test_reliability_needs_ten_pairs_of_both_kinds_in_both_halves():
    assert curve_of(np.arange(12) % 3, np.random.default_rng(0).normal(size=(12, 12))).size == 0


def test_labels_give_all_pairs_or_as_many_of_either_kind(monkeypatch):
    y = np.random.default_rng(0).integers(0, 5, 60)
    left, right, same = pairs_of_labels(y)
    assert len({*zip(left.tolist(), right.tolist(), strict=True)}) == 60 * 59 / 2
    assert (left < right).all()
    np.testing.assert_array_equal(same, y[left] == y[right])
    monkeypatch.setattr(verification, "MOST_PAIRS", 1000)
    few_left, few_right, few_same = pairs_of_labels(y)
    assert few_same.sum() == 500
    assert (few_left != few_right).all()
    np.testing.assert_array_equal(few_same, y[few_left] == y[few_right])
    one_class = np.where(np.arange(60) < 57, 0, np.arange(60))
    for labels, n_same in ((one_class, 500), (np.arange(60), 0), (np.zeros(60, int), 500)):
        a, b, same_of_few = pairs_of_labels(labels)
        assert (len(same_of_few) - n_same, same_of_few.sum()) == (500 * (labels.max() > 0), n_same)
        assert (a != b).all()
    firsts, counts = np.unique(few_left[~few_same], return_counts=True)
    assert len(firsts) == 60  # each item is in about as many pairs
    assert counts.max() < 30
    scores = np.add.outer(y, -y)  # 0 for the same, and for others any difference
    of_all, of_few = (
        roc_auc_score(s, -np.abs(scores)[a, b] + 0.3 * np.sin(a * b))
        for a, b, s in ((left, right, same), (few_left, few_right, few_same))
    )
    assert of_few == pytest.approx(of_all, abs=0.05)


def test_pairs_of_one_kind_alone_are_refused():
    with pytest.raises(ValueError, match=r"^0 of 3 pairs among 3 items are 'same'"):
        Verification().evaluation(Truth(y=np.arange(3)), np.arange(3))


class Settings(NamedTuple):
    per_class: tuple = (2, 1)
    seed: int = 0
    test_share: float = 0.25


def labelled(pairs, n_rows):
    left, right = np.array(pairs).T
    marks = np.arange(len(left))[:, None] % 2 == 0
    ratings = Ratings(left, right, marks)
    return LabelledRows(np.ones((n_rows, 1)), np.arange(n_rows) % 2, ("a", "b"), ratings=ratings)


def test_rows_that_pairs_join_stay_together_and_no_pair_is_lost():
    chains = [(3 * g + i, 3 * g + i + 1) for g in range(20) for i in range(2)]
    rows = labelled(chains, 64)  # the last four are in no pair
    split = PairsSplit(Settings()).for_rows(rows)
    folds = [split.draw(rows, (0, 1), fold, fold) for fold in range(split.n_partitions(rows))]
    assert sorted(row for fold in folds for row in fold.test) == list(range(60))
    for fold in folds:
        assert not set(fold.train) & set(fold.test)
        assert len(fold.tested.queries) == 10
        assert len(fold.training.queries) == 30
        tested = fold.test[fold.tested.items]
        assert {*map(tuple, tested)} <= {*chains}
        inner = split.inner_folds(rows.y[fold.train], fold.training, 3, 0)
        assert sum(len(one.tested.queries) for one in inner) == 30
        assert not any(set(one.train) & set(one.test) for one in inner)


def test_few_groups_of_pairs_stay_together_too():
    rows = labelled([(2 * g, 2 * g + 1) for g in range(6)], 12)
    split = PairsSplit(Settings())
    folds = [split.draw(rows, (0, 1), fold, 0) for fold in range(4)]
    assert all(len(fold.training.queries) + len(fold.tested.queries) == 6 for fold in folds)
    assert sorted(len(fold.test) for fold in folds) == [2, 2, 4, 4]


def test_rows_that_hang_together_are_drawn_each_for_itself():
    rng = np.random.default_rng(0)
    pairs = list({tuple(sorted(rng.choice(40, 2, replace=False).tolist())) for _ in range(500)})
    rows = labelled(pairs, 40)
    split = PairsSplit(Settings()).for_rows(rows)
    fold = split.draw(rows, (0, 1), 1, 0)
    assert (len(fold.test), len(fold.train)) == (10, 30)
    expected = {pair for pair in pairs if {*pair} <= {*fold.test.tolist()}}
    assert {*map(tuple, fold.test[fold.tested.items].tolist())} == expected
    assert len(fold.training.queries) + len(expected) < len(pairs)
    every = PairsSplit(Settings(test_share=1)).draw(rows, (0, 1), 0, 0)
    assert (len(every.tested.queries), len(every.training.queries)) == (len(pairs), 0)


def test_without_pairs_whole_classes_test_and_few_rows_of_each():
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(24), 5))
    rows = LabelledRows(np.ones((120, 1)), y, tuple(map(str, range(24))))
    split = PairsSplit(Settings((4, 3))).for_rows(rows)
    assert split.knows_classes is False
    folds = [split.draw(rows, range(24), fold, fold) for fold in range(4)]
    assert sorted(label for fold in folds for label in set(y[fold.test])) == list(range(24))
    for train, test, *_ in folds:
        assert not set(y[train]) & set(y[test])
        assert set(np.bincount(y[train])) - {0} == {4}
        assert set(np.bincount(y[test])) - {0} == {3}
        inner = split.inner_folds(y[train], None, 3, 0)
        assert not any(set(y[train][one.train]) & set(y[train][one.test]) for one in inner)
    few = LabelledRows(np.ones((120, 1)), y % 5, tuple("abcde"))
    of_few = PairsSplit(Settings((4, 3))).for_rows(few)
    train, test, *_ = of_few.draw(few, range(5), 0, 0)  # of few classes rows are drawn
    assert of_few.knows_classes
    one_large = np.r_[np.zeros(450, int), np.repeat(np.arange(1, 41), 10)]
    rows = LabelledRows(np.ones((850, 1)), one_large, tuple(map(str, range(41))))
    rare = PairsSplit(Settings((40, 25))).for_rows(rows)
    learns = rare.draw(rows, range(41), 0, 0).train
    assert rare.knows_classes
    for fold in rare.inner_folds(one_large[learns], None, 3, 0):  # rows here, too
        assert set(one_large[learns][fold.train]) & set(one_large[learns][fold.test])
    assert set(few.y[train]) == set(few.y[test]) == set(range(5))
    every = PairsSplit(Settings((4, 3), test_share=1)).draw(few, range(5), 0, 0)
    assert np.bincount(few.y[every.test]).tolist() == [3] * 5
    several = LabelledRows(np.ones((2, 1)), sparse.csr_array(np.eye(2)), ("a", "b"))
    assert "several labels" in Verification().refusal(several)
    assert "several labels" in split.refusal(several)
