"""Spreads and paired comparisons, against hand cases and SciPy."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from oasis_bench.statistics import compare_to_best, interval_reach, paired_interval, summarise

N_TRAIN, N_TEST = 400, 250


def test_summary_of_a_hand_case():
    summary = summarise([1.0, 2.0, 3.0, 4.0])
    assert (summary.mean, summary.n) == (2.5, 4)
    assert summary.sd == pytest.approx(math.sqrt(5 / 3))
    assert summary.standard_error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_too_few_values_have_no_spread_and_give_no_warning():
    one, none = summarise([0.5]), summarise([])
    assert one.mean == 0.5
    assert math.isnan(one.sd)
    assert math.isnan(one.standard_error)
    assert none.n == 0
    assert math.isnan(none.mean)
    assert math.isnan(none.standard_error)


def test_reach_uses_the_tabled_quantile_and_the_corrected_variance():
    assert interval_reach(5, N_TRAIN, N_TEST) == pytest.approx(
        2.776445 * math.sqrt(1 / 5 + 250 / 400), rel=1e-6
    )


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_without_overlap_the_interval_is_student_s(confidence):
    differences = np.random.default_rng(0).normal(size=7)
    ours = paired_interval(differences, n_train=100, n_test=0, confidence=confidence)
    theirs = stats.ttest_1samp(differences, 0).confidence_interval(confidence)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_interval_of_a_hand_case_is_wider_than_student_s_and_includes_zero():
    differences = [0.01, 0.02, 0.03, 0.04, 0.05]
    interval = paired_interval(differences, N_TRAIN, N_TEST)
    half = 2.776445 * math.sqrt(0.00025) * math.sqrt(0.825)
    assert (interval.low, interval.high) == pytest.approx((0.03 - half, 0.03 + half), rel=1e-6)
    assert interval.includes_zero
    assert not paired_interval(differences, N_TRAIN, n_test=0).includes_zero


def test_an_interval_needs_two_differences():
    with pytest.raises(ValueError, match="1 differences: an interval needs at least 2"):
        paired_interval([0.1], N_TRAIN, N_TEST)


def verdicts(scores):
    return compare_to_best(pd.DataFrame(scores), N_TRAIN, N_TEST).verdicts


def test_the_best_the_tied_and_the_worse_are_told_apart():
    noise = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    scores = pd.DataFrame({"low": 0.5 + noise, "near": 0.80 - noise / 2, "top": 0.80 + noise / 2})
    comparison = compare_to_best(scores, N_TRAIN, N_TEST)
    assert comparison.verdicts == {"low": "worse", "near": "tied", "top": "best"}
    assert comparison.best == "top"
    assert comparison.n_shared == {"low": 5, "near": 5, "top": 5}


def test_a_steady_difference_is_told_apart_however_small():
    base = np.array([0.1, 0.9, 0.3, 0.7, 0.5])
    assert verdicts({"a": base, "b": base + 0.001}) == {"a": "worse", "b": "best"}


def test_equal_learners_are_tied():
    base = [0.1, 0.2, 0.3]
    assert verdicts({"a": base, "b": base}) == {"a": "best", "b": "tied"}


def test_two_easy_partitions_neither_win_nor_shorten_the_other_comparisons():
    noise = np.array([0.01, -0.01, 0.0, 0.01, -0.01])
    few = [np.nan, np.nan, np.nan, 0.9, 0.9]
    scores = {"a": 0.7 + noise, "b": 0.6 - noise, "few": few}
    scores["a"][3:] += 0.2
    scores["b"][3:] += 0.2
    comparison = compare_to_best(pd.DataFrame(scores), N_TRAIN, N_TEST)
    assert comparison.best == "a"
    assert comparison.n_shared == {"a": 5, "b": 5, "few": 2}
    # a - b is 0.1 + 2 noise: mean 0.1, sd 0.02; 0.02 * 2.776 * sqrt(0.825) is 0.05 on five
    # partitions, and beyond 0.1 on any two.  a - few is 0.01 and -0.01.
    assert comparison.verdicts == {"a": "best", "b": "worse", "few": "tied"}


def test_a_learner_above_the_best_wherever_both_finished_is_not_called_worse():
    base = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    above = np.where(np.arange(5) < 4, base + 0.1, np.nan)
    assert verdicts({"a": base, "b": above, "c": base - 0.1}) == {
        "a": "best",
        "b": "better",
        "c": "worse",
    }


def test_who_shares_fewer_than_two_partitions_with_the_best_is_not_compared():
    scores = {"a": [0.9, 0.9, 0.9], "b": [0.1, 0.1, 0.1], "c": [0.95, np.nan, np.nan]}
    assert verdicts(scores) == {"a": "best", "b": "worse", "c": ""}


@pytest.mark.parametrize(
    "scores",
    [
        {"a": [0.9], "b": [0.1]},
        {"a": [0.9, 0.8, 0.7, np.nan], "b": [np.nan, np.nan, 0.1, 0.2]},
        {"a": [np.nan], "b": [np.nan]},
        {"a": [0.9, 0.8, 0.7]},
    ],
    ids=["one partition", "one shared", "no result", "one learner"],
)
def test_with_nothing_shared_to_compare_nothing_is_told_apart(scores):
    assert set(verdicts(scores).values()) == {""}
