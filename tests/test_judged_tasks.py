"""Judged triplets and ratings: hand cases, definitions written out, and chance by simulation."""

import numpy as np
import pytest

from oasis_bench.data import JudgedTriplets, LabelledRows, Ratings
from oasis_bench.tasks import Truth, tie_order
from oasis_bench.tasks.judged_tasks import JudgedTripletsTask, RatingsTask

ITEMS = np.array([[0, 1, 2], [0, 2, 3], [1, 3, 0], [2, 0, 1]])
SCORES = np.array([[9, 5, 3, 3], [1, 9, 0, 4], [2, 7, 9, 0], [0, 0, 0, 9.0]])
# triplet 0: 5 > 3 right; 1: 3 = 3 a half; 2: 4 > 1 right; 3: 2 < 7 wrong


def judge(scores, items=ITEMS, votes=None, groups=None, seed=0, measures=None):
    groups = np.zeros(len(items), dtype=np.int64) if groups is None else np.asarray(groups)
    votes = None if votes is None else np.asarray(votes)
    truth = Truth(judged=JudgedTriplets(np.asarray(items), votes, groups))
    n = len(scores)
    evaluation = JudgedTripletsTask().evaluation(truth, tie_order(seed, n), measures)
    evaluation.add(0, np.asarray(scores))
    return evaluation


def rate(scores, ratings, seed=0, measures=None):
    n = len(scores)
    evaluation = RatingsTask().evaluation(Truth(ratings=ratings), tie_order(seed, n), measures)
    evaluation.add(0, np.asarray(scores))
    return evaluation


def random_triplets(rng, n_items, n_triplets):
    return np.stack([rng.permutation(n_items)[:3] for _ in range(n_triplets)])


def test_similarity_precision_counts_a_tie_as_a_half():
    found = judge(SCORES)
    assert found.value("similarity precision") == (1 + 0.5 + 1 + 0) / 4
    assert (found.n_queries, found.n_left_out) == (3, 0)
    measures = [(m.measure, m.k) for m in found.measurements()]
    top = "score at top K"
    assert sorted(measures, key=str) == [(top, 3), (top, 30), ("similarity precision", None)]


def test_votes_give_agreement_ceiling_and_human_level():
    # The answers get 3 of 4, half of 2, 1 of 5 and 0 of 1 votes (b is preferred in the last).
    votes = np.array([[3, 1], [2, 0], [1, 4], [1, 0]])
    found = judge(SCORES, votes=votes)
    assert found.value("agreement") == pytest.approx((3 / 4 + 1 / 2 + 1 / 5 + 0) / 4)
    assert found.value("ceiling") == pytest.approx((3 / 4 + 1 + 4 / 5 + 1) / 4)
    # Of 4 voters three have 2 of 3 others with them, one has none; of 2 both have all; of 5 one
    # has none, four have 3 of 4; the last triplet has one voter, and no others.
    human = [(3 * 2 / 3 + 0) / 4, 1, (0 + 4 * 3 / 4) / 5]
    assert found.value("human level") == pytest.approx(np.mean(human))
    # b is the positive of triplet 2: right, a half, wrong, wrong.
    assert found.value("similarity precision") == (1 + 0.5 + 0 + 0) / 4


def test_equal_votes_have_no_positive():
    votes = np.array([[1, 1], [2, 0], [2, 0], [1, 1]])
    found = judge(SCORES, votes=votes)
    assert found.value("similarity precision") == (0.5 + 1) / 2
    assert found.value("agreement") == (1 / 2 + 1 / 2 + 1 + 1 / 2) / 4
    assert found.value("score at top K", 30) in (0, 2)  # +1, and +1 or -1 of the tie


def top_k_written_out(scores, items, groups, k):
    """Sum +1 and -1 over triplets whose positive or negative is among the first k of its group."""
    total = 0
    for (q, p, n), group in zip(items, groups, strict=True):
        members = sorted(
            {i for row, g in zip(items, groups, strict=True) if g == group for i in row}
        )
        ranked = sorted((i for i in members if i != q), key=lambda i: -scores[q, i])
        first = min(ranked.index(p), ranked.index(n))
        if first < k:
            total += 1 if ranked.index(p) < ranked.index(n) else -1
    return total


def test_score_at_top_k_ranks_the_items_of_the_triplets_own_group():
    rng = np.random.default_rng(0)
    items = np.concatenate([random_triplets(rng, 60, 50), 60 + random_triplets(rng, 40, 30)])
    groups = np.repeat([4, 8], [50, 30])
    scores = rng.normal(size=(100, 100))
    found = judge(scores, items, groups=groups)
    at_3, at_30 = (top_k_written_out(scores, items.tolist(), groups.tolist(), k) for k in (3, 30))
    assert len({at_3, at_30}) == 2
    assert found.value("score at top K", 3) == at_3
    assert found.value("score at top K", 30) == at_30


def test_random_scores_come_to_chance_and_constant_ones_are_there():
    rng = np.random.default_rng(2)
    items, votes = random_triplets(rng, 60, 400), rng.integers(1, 4, size=(400, 2))
    found = [judge(rng.random((60, 60)), items, votes, seed=seed) for seed in range(100)]
    for i, measured in enumerate(found[0].measurements()):
        values = np.array([evaluation.measurements()[i].value for evaluation in found])
        if measured.measure in JudgedTripletsTask.of_data:
            assert measured.chance is None
            assert len(set(values)) == 1
        else:
            error = values.std() / np.sqrt(len(values))
            assert values.mean() == pytest.approx(measured.chance, abs=4 * error)
    constant = judge(np.zeros((60, 60)), items, votes)
    assert constant.value("similarity precision") == constant.value("agreement") == 0.5


def test_blocks_of_queries_give_the_same_answers():
    rng = np.random.default_rng(3)
    items, scores = random_triplets(rng, 50, 300), rng.normal(size=(50, 50))
    whole = judge(scores, items)
    truth = Truth(judged=JudgedTriplets(items, None, np.zeros(300, dtype=np.int64)))
    blocks = JudgedTripletsTask().evaluation(truth, tie_order(0, 50))
    for start, stop in ((20, 50), (0, 20)):
        blocks.add(start, scores[start:stop])
    assert blocks.measurements() == whole.measurements()


def test_a_nan_or_nothing_to_judge_is_an_error():
    with pytest.raises(ValueError, match="NaN for 1 of 16 pairs"):
        judge(np.where(SCORES == 7, np.nan, SCORES))
    with pytest.raises(ValueError, match="no judged triplet among the test items"):
        judge(SCORES, items=ITEMS[:0])
    marks = np.zeros((0, 2), dtype=bool)
    with pytest.raises(ValueError, match="no rated candidate among the test items"):
        rate(SCORES, Ratings(ITEMS[:0, 0], ITEMS[:0, 1], marks))


def test_a_data_set_without_judgements_is_refused():
    rows = LabelledRows(np.eye(4), np.array([0, 0, 1, 1]), ("a", "b"))
    assert "no triplets judged" in JudgedTripletsTask().refusal(rows)
    assert "no ratings" in RatingsTask().refusal(rows)
    judged = JudgedTriplets(ITEMS, None, np.zeros(4, dtype=np.int64))
    ratings = Ratings(ITEMS[:, 0], ITEMS[:, 1], np.ones((4, 1), dtype=bool))
    rows = LabelledRows(np.eye(4), rows.y, ("a", "b"), judged=judged, ratings=ratings)
    assert JudgedTripletsTask().refusal(rows) is None
    assert RatingsTask().refusal(rows) is None


QUERIES = np.array([0, 0, 0, 5, 5, 5, 5])
CANDIDATES = np.array([1, 2, 3, 1, 2, 3, 4])
MARKS = np.array([[1, 1], [1, 0], [0, 0], [0, 0], [1, 1], [1, 1], [0, 1]], dtype=bool)
RATINGS = Ratings(QUERIES, CANDIDATES, MARKS)


def test_precision_is_the_mean_share_of_raters_that_marked_the_first():
    scores = np.zeros((6, 6))
    scores[0, [3, 1, 2]] = 3, 2, 1  # shares down the ranking: 0, 1, 1/2
    scores[5, [2, 4, 1, 3]] = 4, 3, 2, 1  # 1, 1/2, 0, 1
    found = rate(scores, RATINGS)
    precision = found.values("precision")
    assert list(precision) == [1, 2, 3]  # query 0 has three candidates
    np.testing.assert_allclose(
        list(precision.values()), [(0 + 1) / 2, (1 / 2 + 3 / 4) / 2, (1.5 / 3 + 1.5 / 3) / 2]
    )
    chance = (3 / 6 + 5 / 8) / 2
    assert found.chances("precision") == pytest.approx({1: chance, 2: chance, 3: chance})
    # the two raters at k = 1: 0 and 1, 0 and 1; at k = 2: (1/2 + 1/2) / 2 and (1/2 + 1) / 2
    error = found.values("standard error over raters")
    assert error[1] == 0
    assert error[2] == pytest.approx(np.std([1 / 2, 3 / 4], ddof=1) / np.sqrt(2))


def test_the_human_level_is_a_raters_choice_judged_by_the_others():
    # Query 0: rater 0 marked 1 and 2, of which rater 1 marked half: 1/2, 1/2, then 3 (0): 1/3.
    #   rater 1 marked 1 (1), then 2 and 3, of which rater 0 marked half: 1, 3/4, 2/3.
    # Query 5: rater 0 marked 2 and 3 (1, 1), then 1 and 4, half of them: 1, 1, 2.5/3.
    #   rater 1 marked 2, 3 and 4, two thirds of them: 2/3, 2/3, 2/3.
    found = rate(np.zeros((6, 6)), RATINGS).values("human level")
    expected = [
        (1 / 2 + 1 + 1 + 2 / 3) / 4,
        (1 / 2 + 3 / 4 + 1 + 2 / 3) / 4,
        (1 / 3 + 2 / 3 + 2.5 / 3 + 2 / 3) / 4,
    ]
    np.testing.assert_allclose(list(found.values()), expected)


def test_a_random_order_of_candidates_comes_to_chance():
    rng = np.random.default_rng(4)
    found = [rate(rng.random((6, 6)), RATINGS) for _ in range(2000)]
    for k in (1, 2, 3):
        values = np.array([evaluation.value("precision", k) for evaluation in found])
        error = values.std() / np.sqrt(len(values))
        assert values.mean() == pytest.approx(found[0].chances("precision")[k], abs=4 * error)
    ties = [rate(np.zeros((6, 6)), RATINGS, seed).value("precision", 1) for seed in range(50)]
    assert len(set(ties)) > 2


def test_blocks_of_rated_queries_give_the_same_precision():
    scores = np.random.default_rng(5).random((6, 6))
    blocks = RatingsTask().evaluation(Truth(ratings=RATINGS), tie_order(0, 6))
    for start in (3, 0):
        blocks.add(start, scores[start : start + 3])
    assert blocks.measurements() == rate(scores, RATINGS).measurements()


def test_one_rater_has_no_human_level():
    ratings = Ratings(QUERIES, CANDIDATES, MARKS[:, :1])
    assert {m.measure for m in rate(np.zeros((6, 6)), ratings).measurements()} == {"precision"}
