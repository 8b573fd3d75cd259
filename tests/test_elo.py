"""Duels of learners over data sets, and their ratings, against hand cases and another optimiser."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from oasis_bench.analysis.leaderboard import (
    duels,
    elo_ratings,
    error_reductions,
    strengths,
    stretched_ranks,
)

NAN = math.nan


def scores_of(*rows, names="ABC"):
    """Make scores of tables: each row is a data set and a score for each learner."""
    index = pd.MultiIndex.from_arrays([[row[0] for row in rows], range(len(rows))])
    return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(names), dtype=float)


def test_two_learners_differ_by_the_logarithm_of_their_odds():
    for p in (0.5, 0.7, 0.99):
        b = strengths(np.array([[0, 10 * p], [10 * (1 - p), 0]]), prior_draws=1e-9)
        assert 400 / math.log(10) * (b[0] - b[1]) == pytest.approx(
            400 * math.log10(p / (1 - p)), abs=1e-4
        )


def test_one_that_never_loses_is_held_by_its_draw_alone():
    """At the maximum of n log s(2b) + log s(b) + log s(-b): 2 n s(-2b) = s(b) - s(-b)."""
    b = strengths(np.array([[0, 5.0], [0, 0]]), prior_draws=1.0)
    assert b[1] == pytest.approx(-b[0])

    def s(x):
        return 1 / (1 + math.exp(-x))

    assert 2 * 5 * s(-2 * b[0]) == pytest.approx(s(b[0]) - s(-b[0]), abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_strengths_are_those_of_another_optimiser(seed):
    rng = np.random.default_rng(seed)
    wins = rng.integers(0, 4, size=(6, 6)) * (rng.random((6, 6)) < 0.6)
    wins = np.where(np.eye(6, dtype=bool), 0, wins / 2)

    def loss(b):
        total = 0.0
        for i in range(6):
            total += math.log1p(math.exp(-b[i])) / 2 + math.log1p(math.exp(b[i])) / 2
            for j in range(6):
                total += wins[i, j] * math.log1p(math.exp(b[j] - b[i]))
        return total

    theirs = optimize.minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(strengths(wins), theirs, atol=1e-5)
    # Where it starts does not matter, however far.
    np.testing.assert_allclose(
        strengths(wins, start=np.array([9.0, -9, 0, 20, 0, 0])), theirs, atol=1e-5
    )


def test_a_prior_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="prior_draws = 0: a positive number is needed"):
        strengths(np.ones((2, 2)), prior_draws=0)


def test_wins_are_of_tables_that_hold_both_and_a_data_set_counts_once():
    scores = scores_of(
        ("x", 0.5, 0.4, NAN),  # A above B
        ("x", 0.5, 0.6, NAN),  # B above A: on x each has a half
        ("x", 0.7, NAN, 0.7),  # equal
        ("y", 0.9, 0.1, 0.5),
    )
    met = duels(scores)
    assert met.datasets == ["x", "y"]
    rows = met.pairs().set_index(["learner", "opponent"])
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
    assert met.win_rates.to_dict() == {"A": 3 / 4, "B": 0.5 / 3, "C": 1.5 / 3}


def test_more_tables_of_a_data_set_change_no_rating():
    once = scores_of(("x", 3, 2, 1), ("y", 1, 2, 3), ("z", 3, 1, 2))
    often = scores_of(*[("x", 3, 2, 1)] * 5, ("y", 1, 2, 3), ("z", 3, 1, 2))
    pd.testing.assert_frame_equal(elo_ratings(duels(once)), elo_ratings(duels(often)))


def test_intervals_are_those_of_all_resamples():
    """Of three data sets 10 of 27 draws with replacement differ: their ratings, one by one."""
    scores = scores_of(("x", 3, 2), ("y", 3, 2), ("z", 1, 2), names="AB")
    ratings = elo_ratings(duels(scores), n_resamples=20_000)
    losses = [0, 1, 2, 3]
    of_losses = [
        1000 + 400 / math.log(10) * strengths(np.array([[0, 3.0 - n], [n, 0]]))[0] for n in losses
    ]
    # n losses of three: (8, 12, 6, 1) of 27 draws; 1 / 27 = 3.7 % is above 2.5 %.
    assert ratings.loc["A", "low"] == pytest.approx(of_losses[3])
    assert ratings.loc["A", "high"] == pytest.approx(of_losses[0])
    assert ratings.loc["A", "rating"] == pytest.approx(of_losses[1])


def test_a_learner_on_two_data_sets_has_no_interval():
    scores = scores_of(("x", 3, 2, 1), ("y", 1, 2, 3), ("z", 3, 1, NAN))
    ratings = elo_ratings(duels(scores))
    assert ratings["low"].isna().to_dict() == {"A": False, "B": False, "C": True}


def test_where_every_resample_is_the_same_there_is_no_interval():
    rows = [(f"d{n}", 0.9, 0.5, 0.1) for n in range(5)]
    rated = elo_ratings(duels(scores_of(*rows)))
    assert rated["rating"].is_monotonic_decreasing
    assert rated[["low", "high"]].isna().all(axis=None)


def test_ranks_among_few_are_stretched_to_the_number_of_all():
    scores = scores_of(
        ("x", 0.9, 0.8, 0.7),
        ("y", 0.1, 0.2, NAN),  # last of two: as the last of three
        ("y", 0.3, 0.1, 0.2),
        ("z", NAN, 0.3, NAN),  # alone
    )
    # y: A is 3 and 1, B 1 and 3, C 2.
    assert stretched_ranks(scores).to_dict() == {"A": 1.5, "B": 2, "C": 2.5}


def test_where_all_have_all_stretched_ranks_are_average_ranks():
    scores = scores_of(
        *((f"d{n}", *row) for n, row in enumerate(np.random.default_rng(0).random((5, 3))))
    )
    expected = scores.rank(axis=1, ascending=False).mean()
    pd.testing.assert_series_equal(stretched_ranks(scores), expected)


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
