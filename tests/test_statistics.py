"""Spreads and paired comparisons, against hand cases and SciPy."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from oasis_bench.analysis import compare_to_best, detectable_difference, holm
from oasis_bench.analysis.statistics import MARGIN, cluster_interval, paired_interval

RHO = 250 / 650
"""Of 400 training and 250 test items that use a pool whole."""


def test_without_overlap_the_interval_is_student_s():
    differences = np.random.default_rng(0).normal(size=7)
    ours = paired_interval(differences, rho=0)
    test = stats.ttest_1samp(differences, 0)
    theirs = test.confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.p_value == pytest.approx(test.pvalue)


def test_interval_of_a_hand_case_is_wider_than_student_s_and_includes_zero():
    differences = [0.01, 0.02, 0.03, 0.04, 0.05]
    interval = paired_interval(differences, RHO)
    half = 2.776445 * math.sqrt(0.00025) * math.sqrt(0.825)
    assert (interval.low, interval.high) == pytest.approx((0.03 - half, 0.03 + half), rel=1e-6)
    assert interval.low < 0 < paired_interval(differences, rho=0).low


def test_the_p_value_is_the_level_where_the_interval_ends_at_zero():
    differences = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    half = 0.03 - paired_interval(differences, RHO).low
    at_the_end = paired_interval(differences - 0.03 + half, RHO)
    assert at_the_end.low == pytest.approx(0, abs=1e-12)
    assert at_the_end.p_value == pytest.approx(0.05)


@pytest.mark.parametrize("differences", [[0.0, 0.0], [-0.25, -0.25], [0.3 - 0.2, 0.1, 0.9 - 0.8]])
def test_differences_without_spread_have_neither_interval_nor_p(differences):
    found = paired_interval(differences, RHO)
    assert found.mean == pytest.approx(differences[0])
    assert np.isnan([found.low, found.high, found.p_value]).all()


def test_an_interval_ends_where_differences_of_the_measure_do():
    """0.9 and 0.1: half an interval is 12.7 x 0.57 / sqrt(2), beyond what two shares can differ."""
    wide = paired_interval([0.9, 0.1], 0)
    assert (wide.low, wide.high) == pytest.approx((0.5 - 12.7062 * 0.4, 0.5 + 12.7062 * 0.4))
    within = paired_interval([0.9, 0.1], 0, reach=1.0)
    assert (within.low, within.high, within.p_value) == (-1, 1, wide.p_value)
    scores = pd.DataFrame({"a": [0.95, 0.2], "b": [0.05, 0.1]})
    for shift, reach in ((0, 1), (-0.9, 2), (1, math.inf)):
        (found,) = compare_to_best(scores + shift, RHO).differences.values()
        assert (found.reach, found.high == reach) == (reach, reach < math.inf)


def test_a_detectable_difference_that_cannot_be_is_none():
    wild = paired_interval([0.9, 0.1], RHO, reach=1.0)
    assert wild.sd * detectable_difference(2, RHO) > 1
    assert math.isnan(wild.detectable)
    assert math.isnan(paired_interval([0.1, 0.1], 0.5).detectable)
    tame = paired_interval([0.03, 0.02, 0.04], RHO, reach=1.0)
    assert tame.detectable == pytest.approx(0.01 * detectable_difference(3, RHO))


def test_equal_partitions_show_no_difference():
    interval = paired_interval([0.1, 0.2, 0.3], rho=1.0, reach=1.0)
    assert (interval.low, interval.high, interval.p_value) == (-1.0, 1.0, 1.0)


def test_a_single_difference_has_a_mean_and_no_interval():
    single = paired_interval([0.1], RHO)
    assert single.mean == 0.1
    assert np.isnan([single.low, single.high, single.sd, single.p_value]).all()


def verdicts(scores):
    return compare_to_best(pd.DataFrame(scores), RHO).verdicts


def test_the_best_the_unclear_and_the_worse_are_told_apart():
    noise = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    scores = pd.DataFrame({"low": 0.5 + noise, "near": 0.80 - noise / 2, "top": 0.80 + noise / 2})
    comparison = compare_to_best(scores, RHO)
    assert comparison.verdicts == {"low": "worse", "near": "unclear", "top": "best"}
    assert comparison.best == "top"


def test_a_steady_difference_is_told_apart_but_not_one_without_spread():
    base = np.array([0.1, 0.9, 0.3, 0.7, 0.5])
    steady = base + np.array([0.02, 0.0202, 0.02, 0.0202, 0.02])
    assert verdicts({"a": base, "b": steady}) == {"a": "worse", "b": "best"}
    assert verdicts({"a": base, "b": base + 0.02}) == {"a": "untested", "b": "best"}


@pytest.mark.parametrize(("sd", "verdict"), [(0.001, "as good"), (0.008, "unclear")])
def test_as_good_is_whose_90_percent_interval_lies_within_the_margin(sd, verdict):
    """The interval is .002 +- 2.132 sd sqrt(.825): .0039 and .0175 for these deviations."""
    noise = np.array([-1, -1, 0, 1, 1]) * sd
    best = np.array([0.5, 0.6, 0.7, 0.6, 0.5])
    found = compare_to_best(pd.DataFrame({"best": best, "it": best - 0.002 - noise}), RHO)
    assert found.verdicts == {"best": "best", "it": verdict}
    half = 2.13185 * sd * math.sqrt(0.2 + RHO / (1 - RHO))
    within = found.differences["it"].within(0, 0)
    assert (within["low"], within["high"]) == pytest.approx((0.002 - half, 0.002 + half), abs=1e-6)
    # Of a measure that is not from 0 to 1 only the user knows the margin.
    wide = pd.DataFrame({"best": best + 1, "it": best + 0.998 - noise})
    assert compare_to_best(wide, RHO).verdicts["it"] in ("unclear", "worse")
    narrow, enough = (0.002 + half) * 0.99, (0.002 + half) * 1.01
    assert compare_to_best(wide, RHO, margin=narrow).verdicts["it"] in ("unclear", "worse")
    assert compare_to_best(wide, RHO, margin=enough).verdicts["it"] == "as good"
    assert compare_to_best(wide - 1, RHO, margin=enough).margin == MARGIN  # of 0 to 1: always


def test_what_was_not_tested_is_no_part_of_the_family():
    noise = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    scores = {"top": 0.8 + noise, "low": 0.7 + noise / 2, "same": 0.5 + noise}
    found = compare_to_best(pd.DataFrame(scores), RHO)
    assert found.p_values["low"] == found.differences["low"].p_value
    assert math.isnan(found.p_values["same"])


def test_two_easy_partitions_neither_win_nor_shorten_the_other_comparisons():
    noise = np.array([0.01, -0.01, 0.0, 0.01, -0.01])
    few = [np.nan, np.nan, np.nan, 0.9, 0.9]
    scores = {"a": 0.7 + noise, "b": 0.6 - noise, "few": few}
    scores["a"][3:] += 0.2
    scores["b"][3:] += 0.2
    comparison = compare_to_best(pd.DataFrame(scores), RHO)
    assert comparison.best == "a"
    # a - b is 0.1 + 2 noise: mean 0.1, sd 0.02; 0.02 * 2.776 * sqrt(0.825) is 0.05 on five
    # partitions, and beyond 0.1 on any two.  a - few is 0.01 and -0.01.
    assert comparison.verdicts == {"a": "best", "b": "worse", "few": "unclear"}


def test_a_learner_above_the_best_wherever_both_finished_is_not_called_worse():
    base = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    noise = np.array([0.001, 0.002, 0.001, 0.002, 0.001])
    above = np.where(np.arange(5) < 4, base + 0.1 + noise, np.nan)
    assert verdicts({"a": base, "b": above, "c": base - 0.1 - noise}) == {
        "a": "best",
        "b": "better",
        "c": "worse",
    }


def test_who_shares_fewer_than_two_partitions_with_the_best_is_not_compared():
    scores = {"a": [0.9, 0.9, 0.9], "b": [0.1, 0.1, 0.11], "c": [0.95, np.nan, np.nan]}
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


def draw_differences(true, n_draws, n_partitions, rng):
    """Differences of partitions whose correlation is RHO, of unit variance.

    The sample variance estimates what is not shared, so a difference in its standard deviations is
    smaller by sqrt(1 - RHO).
    """
    own = rng.normal(scale=math.sqrt(1 - RHO), size=(n_draws, n_partitions))
    common = rng.normal(scale=math.sqrt(RHO), size=(n_draws, 1))
    return true * math.sqrt(1 - RHO) + own + common


@pytest.mark.parametrize("n_partitions", [2, 5, 20])
def test_the_detectable_difference_is_told_apart_in_four_simulations_of_five(n_partitions):
    rng = np.random.default_rng(0)
    true = detectable_difference(n_partitions, RHO)
    error = math.sqrt(1 / n_partitions + 250 / 400)
    reach = stats.t.ppf(0.975, df=n_partitions - 1) * error
    for difference, probability in ((true, 0.8), (0.0, 0.025)):
        drawn = draw_differences(difference, 20_000, n_partitions, rng)
        seen = drawn.mean(axis=1) > reach * drawn.std(axis=1, ddof=1)
        assert np.mean(seen) == pytest.approx(probability, abs=0.01)


def test_without_overlap_half_a_standard_deviation_takes_34_pairs():
    """Cohen's and G*Power's number for a paired t-test: d = 0.5, two-sided 0.05, power 0.8."""
    assert detectable_difference(34, 0) < 0.5 < detectable_difference(33, 0)


def test_more_partitions_show_less_but_never_less_than_their_overlap():
    seen = [detectable_difference(n, RHO) for n in (2, 5, 20, 1000, 10**8)]
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == pytest.approx((1.959964 + 0.841621) * math.sqrt(250 / 400), rel=1e-6)
    assert seen[-2] == pytest.approx(seen[-1], rel=5e-3)


def of_groups(n=60, gain=0.0):
    """Return means of groups of unequal sizes, and the sizes."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, n)
    return pd.Series(gain + rng.normal(scale=0.2, size=n)), pd.Series(sizes.astype(float))


def test_the_interval_of_judgements_is_near_scipy_s_bootstrap_of_their_groups():
    values, sizes = of_groups(gain=0.05)

    def mean(sums, counts, axis):
        return sums.sum(axis=axis) / counts.sum(axis=axis)

    data = (values * sizes).to_numpy(), sizes.to_numpy()
    theirs = stats.bootstrap(data, mean, paired=True, method="percentile", random_state=0)
    ours = cluster_interval(values, sizes)
    interval = theirs.confidence_interval
    assert ours.mean == pytest.approx(np.average(values, weights=sizes))
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), abs=5e-3)
    assert ours.sd / math.sqrt(60) == pytest.approx(theirs.standard_error, rel=0.05)
    assert cluster_interval(values - ours.low, sizes).p_value == pytest.approx(0.05)
    equal = paired_interval(values, 0)  # with groups of one size the jackknife is Student's test
    jackknife = cluster_interval(values, np.full(60, 3.0))
    assert (jackknife.low, jackknife.high) == pytest.approx((equal.low, equal.high))
    assert jackknife.p_value == pytest.approx(equal.p_value)


@pytest.mark.parametrize("n", [10, 20, 40])
def test_few_groups_of_unequal_sizes_seldom_differ_by_chance(n):
    """With 10 groups the bootstrap of percentiles called 12.8 % of null differences significant."""
    rng = np.random.default_rng(n)
    p_values = []
    for _ in range(4000):
        sizes = rng.geometric(0.2, n).astype(float)
        # The mean of a group is the more exact the larger it is, but groups differ, too.
        values = rng.normal(size=n) * np.sqrt(0.3 + 1 / sizes)
        p_values.append(cluster_interval(values, sizes).p_value)
    tested = np.array(p_values)[~np.isnan(p_values)]
    assert 0.035 < (tested <= 0.05).mean() < 0.065


def test_the_detectable_difference_of_judgements_has_the_degrees_of_their_effective_groups():
    """Nine groups of 1 and one of 4 are as informative as 13^2 / 25 = 6.76: the power is .8."""
    sizes = np.array([4.0, *[1.0] * 9])
    found = cluster_interval(np.linspace(0.1, 0.3, 10), sizes)
    assert found.df == pytest.approx(5.76)
    limit = stats.t.ppf(0.975, found.df)
    delta = found.detectable / found.standard_error
    assert 1 - stats.nct.cdf(limit, found.df, delta) == pytest.approx(0.8, abs=1e-6)


def test_few_groups_and_groups_without_spread_have_no_interval():
    assert math.isnan(cluster_interval(np.arange(5.0), np.ones(5)).low)
    assert not math.isnan(cluster_interval(np.arange(6.0), np.ones(6)).low)
    assert math.isnan(cluster_interval(np.arange(9.0), np.array([20.0, *[1.0] * 8])).low)
    flat = cluster_interval(np.full(20, 0.1), np.ones(20))
    assert (flat.mean, math.isnan(flat.p_value)) == (pytest.approx(0.1), True)


def test_with_too_few_groups_nobody_is_called_as_good():
    """Eight groups, of which one has most judgements, are as informative as 1.6."""
    sizes = pd.Series([400.0, 30, 30, 30, 5, 5, 5, 5])
    a = pd.Series([0.5, 0.2, 0.9, 0.4, 0.8, 0.1, 0.6, 0.3])
    found = compare_to_best(pd.DataFrame({"a": a, "b": a[::-1].to_numpy()}), 0, sizes=sizes)
    assert found.verdicts == {"a": "", "b": ""}
    assert math.isnan(cluster_interval(a - a.mean(), sizes).sd)


def test_learners_are_compared_over_groups_by_their_mean_over_all_judgements():
    """Two groups of three judgements and 28 of one: a's mean is (6 * 1 + 28 * .5) / 34."""
    sizes = pd.Series([3.0, 3.0, *[1.0] * 28])
    a = pd.Series([1.0, 1.0, *[0.4, 0.6] * 14])
    found = compare_to_best(
        pd.DataFrame({"a": a, "b": a - 0.1 + a.index % 3 / 100}), 0, sizes=sizes
    )
    assert found.means["a"] == pytest.approx(20 / 34)
    assert found.verdicts == {"a": "best", "b": "worse"}
    assert found.p_values["b"] < 1e-9


def test_holm_of_hand_cases():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, 0.5]), [1, 1])
    np.testing.assert_allclose(holm([0.02]), [0.02])


def test_a_corrected_comparison_calls_fewer_learners_worse():
    noise = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    best = np.full(5, 0.8)
    # 0.05 over 0.0158 * sqrt(0.825) is t = 3.48: p = 0.025, and 0.076 as one of three alike.
    assert verdicts({"best": best, "a": best - 0.05 - noise}) == {"best": "best", "a": "worse"}
    alike = dict.fromkeys("abc", best - 0.05 - noise)
    comparison = compare_to_best(pd.DataFrame({"best": best, **alike}), RHO)
    assert comparison.verdicts == {"best": "best"} | dict.fromkeys("abc", "unclear")
    assert comparison.differences["a"].p_value == pytest.approx(0.025, abs=5e-4)
    assert comparison.p_values["a"] == pytest.approx(3 * comparison.differences["a"].p_value)


def test_a_metric_is_said_to_help_as_rarely_as_is_documented():
    """The best use of nine metrics against both uses of a baseline that is as good.

    Values of the two uses of a learner correlate by .6.
    """
    rng, n_wrong = np.random.default_rng(0), 0
    for _ in range(1000):
        own, votes, both = (
            np.column_stack([draw_differences(0, 1, 5, rng)[0] for _ in range(10)])
            for _ in range(3)
        )
        uses = [np.sqrt(0.6) * both + np.sqrt(0.4) * one for one in (own, votes)]
        scores = pd.DataFrame(np.column_stack(uses)).rename(columns=str)
        best = str(scores.drop(columns=["9", "19"]).mean().idxmax())
        found = compare_to_best(scores[[best, "9", "19"]], RHO, best)
        n_wrong += [*found.verdicts.values()] == ["best", "worse", "worse"]
    assert n_wrong / 1000 == pytest.approx(0.05, abs=0.02)


def test_ten_equal_learners_are_called_worse_as_rarely_as_is_documented():
    rng = np.random.default_rng(0)
    wrong = np.zeros((400, 10), dtype=bool)
    for run in wrong:
        scores = {name: draw_differences(0, 1, 5, rng)[0] for name in "abcdefghij"}
        found = compare_to_best(pd.DataFrame(scores), RHO).verdicts
        run[:] = [verdict == "worse" for verdict in found.values()]
    assert wrong.mean() < 0.025  # each of them is a truly best one
    assert wrong.any(axis=1).mean() == pytest.approx(0.11, abs=0.05)
