"""Precision by raters, the human level and agreement, against hand cases and published examples."""

import numpy as np
import pytest

from oasis_bench.data import Ratings
from oasis_bench.plugins import load_registry
from oasis_bench.reports.human_ratings import (
    fleiss_kappa,
    precision_of_raters,
)
from oasis_bench.tasks import Truth, human_level

FLEISS = """
0 0 0 0 14
0 2 6 4 2
0 0 3 5 6
0 3 9 2 0
2 2 8 1 1
7 7 0 0 0
3 2 6 3 0
2 5 3 2 2
6 5 2 1 0
0 2 2 3 7
"""
"""14 raters, 10 items, 5 categories: kappa .210 (the worked example of Wikipedia's page)."""


def test_kappa_of_the_published_example():
    assert fleiss_kappa(
        np.array([line.split() for line in FLEISS.split("\n") if line], int)
    ) == pytest.approx(0.210, abs=5e-4)


def test_without_disagreement_to_expect_there_is_no_agreement_coefficient():
    counts = np.array([[3, 0], [2, 0], [0, 1]])  # the last has one rater: it is left out
    assert np.isnan(fleiss_kappa(counts))
    assert fleiss_kappa(np.array([[3, 0], [0, 3]])) == 1


def test_a_rater_counts_only_what_he_marked():
    marks = np.array([[1, np.nan], [0, np.nan], [np.nan, 1], [1, 0]])
    expected = [[1, np.nan], [1 / 2, np.nan], [1 / 2, 1], [2 / 3, 1 / 2]]
    np.testing.assert_allclose(precision_of_raters(marks), expected)


def test_a_rater_s_choice_is_judged_by_the_others_who_marked_it():
    marks = np.array([[1, 1, 1], [1, 0, np.nan], [0, np.nan, np.nan], [0, 1, 0]])
    levels = human_level(marks, 4)
    # Rater 0 chose two, worth 1 and 0 to the others; the rest that another marked is worth 1/2.
    np.testing.assert_allclose(levels[:, 0], [1 / 2, 1 / 2, 1 / 2, np.nan])
    # Rater 2 chose one, worth 1; the other that he marked is worth 1/2.
    np.testing.assert_allclose(levels[:, 2], [1, 3 / 4, np.nan, np.nan])


def test_where_all_marked_all_it_is_what_the_task_of_ratings_measures():
    rng = np.random.default_rng(0)
    marks = rng.random((5, 8, 4)) < rng.random((5, 8, 1))  # queries, candidates, raters
    queries = np.repeat(np.arange(5), 8)
    candidates = 5 + np.arange(40)
    ratings = Ratings(queries, candidates, marks.reshape(40, 4))
    truth = Truth(ratings=ratings)
    task = load_registry().tasks["ratings"]().evaluation(truth, 45, np.arange(45))
    scores = rng.normal(size=(45, 45))
    task.add(0, scores)
    ranked = [
        marks[query][np.argsort(-scores[query, 5 + 8 * query : 13 + 8 * query])]
        for query in range(5)
    ]
    ours = np.mean([precision_of_raters(one.astype(float)) for one in ranked], axis=(0, 2))
    np.testing.assert_allclose(ours, list(task.values("precision").values()))
    human = np.mean([human_level(one.astype(float), 8) for one in ranked], axis=(0, 2))
    np.testing.assert_allclose(human, list(task.values("human level").values()))
