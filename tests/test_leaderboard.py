"""Learners over data sets: duels, ranks and tests against hand cases, the paper's and SciPy."""

import math
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from oasis_bench.analysis import rank_learners, signed_rank_tests, standings
from oasis_bench.analysis.leaderboard import error_reductions, stretched_ranks

NAN = math.nan

DEMSAR = pd.DataFrame(
    # Table 6 of Demšar (2006): AUC on 14 data sets.  The last but one has ranks 4, 1, 2, 3 there,
    # its .975 being rounded.
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.9749],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def scores_of(*rows, names="ABC"):
    """Make scores of tables: each row is a data set and a score for each learner."""
    index = pd.MultiIndex.from_arrays([[row[0] for row in rows], range(len(rows))])
    return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(names), dtype=float)


def agreeing(n_datasets, n_learners):
    """Scores whose ranks are the same on each data set."""
    names = [f"L{number}" for number in range(n_learners)]
    return pd.DataFrame([np.arange(n_learners, 0, -1.0)] * n_datasets, columns=names)


def test_the_example_of_the_paper_has_its_numbers():
    ranking = rank_learners(DEMSAR)
    assert ranking.average.round(3).to_dict() == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.0,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    # The paper does not correct for ties: 3 of two and one of four in 14 rows of four.
    ties = 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * 4 * (4**2 - 1))
    assert ranking.statistic * ties == pytest.approx(9.28, abs=5e-3)
    # p of the paper's F = 3.69 with 3 and 39 degrees of freedom is 0.020; ties taken in, 0.012.
    assert 0.005 < ranking.p_value < 0.02


def test_the_statistic_is_scipys():
    scores = np.random.default_rng(1).integers(0, 4, size=(9, 5)) / 4  # with ties
    ranking = rank_learners(pd.DataFrame(scores, columns=list("abcde")))
    theirs = stats.friedmanchisquare(*scores.T)
    assert ranking.statistic == pytest.approx(theirs.statistic)


def test_the_p_value_is_that_of_all_permutations():
    scores = pd.DataFrame([[3, 2, 1], [3, 1, 2], [2, 3, 1]], columns=list("abc"), dtype=float)
    rows = [np.array(row) for row in permutations((1, 2, 3))]
    spreads = [np.var(a + b + c) for a in rows for b in rows for c in rows]
    seen = np.var(scores.rank(axis=1).sum(), ddof=0)
    exact = np.mean(np.array(spreads) >= seen - 1e-9)
    assert rank_learners(scores).p_value == pytest.approx(exact, abs=0.015)


def test_wilcoxons_test_of_the_papers_two_learners_rejects_that_they_are_equal():
    """Section 3.1.3 of Demšar (2006): of C4.5 and C4.5+m, T = 12 where 21 is critical."""
    pair = DEMSAR[["C4.5", "C4.5+m"]]
    p_values = signed_rank_tests(pair, "C4.5+m")
    assert math.isnan(p_values["C4.5+m"])
    differences = (pair["C4.5"] - pair["C4.5+m"]).round(9)
    assert p_values["C4.5"] == stats.wilcoxon(differences[differences != 0]).pvalue < 0.05


def test_p_values_against_one_learner_are_exact_and_corrected_by_holm():
    scores = pd.DataFrame(np.random.default_rng(3).random((8, 4)), columns=list("abcd"))
    scores["a"] += [0.5, 0.1, 0.9, 0.2, 0.4, 0.7, 0.3, 0.6]

    def exact(name):
        differences = (scores["a"] - scores[name]).to_numpy()
        ranks = stats.rankdata(abs(differences))
        signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
        return np.mean(abs(signs.T @ ranks) >= abs(np.sign(differences) @ ranks) - 1e-9)

    ordered = sorted("bcd", key=exact)
    steps = np.maximum.accumulate([3, 2, 1] * np.array([exact(name) for name in ordered]))
    found = signed_rank_tests(scores, "a")[ordered]
    assert found.tolist() == pytest.approx(np.minimum(steps, 1))


@pytest.mark.parametrize(("n_learners", "least"), [(2, 6), (3, 7), (5, 8)])
def test_on_fewer_data_sets_than_the_least_no_difference_is_significant(n_learners, least):
    enough = rank_learners(agreeing(least, n_learners))
    assert enough.least_datasets == least
    assert enough.tied == []
    few = rank_learners(agreeing(least - 1, n_learners))
    assert few.tied == few.names[1:]


def test_wins_are_of_tables_that_hold_both_and_a_data_set_counts_once():
    scores = scores_of(
        ("x", 0.5, 0.4, NAN),  # A above B
        ("x", 0.5, 0.6, NAN),  # B above A: on x each has a half
        ("x", 0.7, NAN, 0.7),  # equal
        ("y", 0.9, 0.1, 0.5),
    )
    found = standings(scores)
    assert found.datasets == ["x", "y"]
    rows = found.pairs.set_index(["learner", "opponent"])
    assert rows["datasets"].to_dict() == {
        ("A", "B"): 2,
        ("A", "C"): 2,
        ("B", "A"): 2,
        ("B", "C"): 1,  # never in one table of x
        ("C", "A"): 2,
        ("C", "B"): 1,
    }
    assert rows.loc[("A", "B"), "wins"] == 1.5
    assert rows.loc[("C", "A"), "wins"] == 0.5
    assert found.learners["win_rate"].to_dict() == {"A": 3 / 4, "B": 0.5 / 3, "C": 1.5 / 3}


def test_more_tables_of_a_data_set_change_no_standing():
    once = scores_of(("x", 3, 2, 1), ("y", 1, 2, 3), ("z", 3, 1, 2))
    often = scores_of(*[("x", 3, 2, 1)] * 5, ("y", 1, 2, 3), ("z", 3, 1, 2))
    pd.testing.assert_frame_equal(standings(once).learners, standings(often).learners)


def test_a_learner_on_two_data_sets_is_not_placed_and_has_no_interval():
    scores = scores_of(("x", 0.3, 0.2, 0.1), ("y", 0.1, 0.2, 0.4), ("z", 0.3, 0.1, NAN))
    found = standings(scores, baseline="A").learners
    assert found["placed"].to_dict() == {"A": True, "B": True, "C": False}
    assert found["error_reduction_low"].isna().to_dict() == {"A": True, "B": False, "C": True}


def test_ranks_among_few_are_stretched_to_the_number_of_all():
    scores = scores_of(
        ("x", 0.9, 0.8, 0.7),
        ("y", 0.1, 0.2, NAN),  # last of two: as the last of three
        ("y", 0.3, 0.1, 0.2),
        ("z", NAN, 0.3, NAN),  # alone
    )
    # y: A is 3 and 1, B 1 and 3, C 2.
    assert stretched_ranks(scores).mean().to_dict() == {"A": 1.5, "B": 2, "C": 2.5}


def test_error_reductions_by_hand():
    scores = scores_of(
        ("x", 0.8, 0.9, 0.6),  # errors .2, .1, .4
        ("x", 0.5, 0.5, NAN),
        ("y", 1.0, 0.9, NAN),  # no error of A: left out
        ("z", NAN, 0.5, 0.5),
    )
    found = error_reductions(scores, "A")
    assert found.loc["x"].tolist() == pytest.approx([0, 0.25, -1])
    assert found.loc[["y", "z"]].isna().to_numpy().all()
