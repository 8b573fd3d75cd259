"""Precision by raters, the human level and agreement, against hand cases and published examples."""

import numpy as np

from oasis_bench.data import Ratings
from oasis_bench.plugins import Registry
from oasis_bench.reports.ratings import precision_of_raters
from oasis_bench.tasks import Truth, human_level


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
    task = Registry.load().tasks["ratings"]().evaluation(truth, np.arange(45))
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
