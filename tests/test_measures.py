"""Ranking measures against scikit-learn, a case worked by hand and the theory of random orders."""

import numpy as np
import pytest
from definitions import image_relevance, mean_average_precision
from scipy import sparse

from oasis_bench.tasks import SharedLabels, evaluate_ranking, rank_others

LABELS = np.array([0, 0, 0, 1, 1])
SCORES = np.array(
    [
        [1.0, 0.9, 0.1, 0.5, 0.3],
        [0.2, 1.0, 0.8, 0.9, 0.1],
        [0.9, 0.8, 1.0, 0.1, 0.2],
        [0.9, 0.8, 0.7, 1.0, 0.1],
        [0.9, 0.1, 0.2, 0.5, 1.0],
    ]
)


def by_table(scores):
    """Return rows that hold their own number, and the similarity that looks it up in a table."""
    rows = np.arange(len(scores))[:, None]
    return lambda queries, gallery: scores[np.ix_(queries[:, 0], gallery[:, 0])], rows


def measure(scores, labels, seed=0, **options):
    similarity, rows = by_table(np.asarray(scores))
    return evaluate_ranking(similarity, rows, np.asarray(labels), seed, **options)


def assert_same(found, expected):
    assert found.mean_average_precision == expected.mean_average_precision
    np.testing.assert_array_equal(found.precision_at_k, expected.precision_at_k)
    assert found.chance_of_precision == expected.chance_of_precision
    assert found.n_queries == expected.n_queries
    assert found.n_queries_left_out == expected.n_queries_left_out


def expected_of_random_order(n_relevant, n_others):
    """Return the expected average precision of a random order.

    At rank r a given relevant image has r - 1 others before it, each relevant with probability
    (R - 1) / (n - 1), so the precision there is (1 + (r - 1)(R - 1) / (n - 1)) / r on average.
    """
    ranks = np.arange(1, n_others + 1)
    return np.mean((1 + (ranks - 1) * (n_relevant - 1) / (n_others - 1)) / ranks)


def test_a_case_worked_by_hand():
    # Hits down the ranking, itself left out:  query 0: 1 3 4 2 -> + - - +, AP (1 + 2/4) / 2
    #   query 1: 3 2 0 4 -> - + + -, AP (1/2 + 2/3) / 2      query 2: 0 1 4 3 -> + + - -, AP 1
    #   query 3: 0 1 2 4 -> - - - +, AP 1/4                  query 4: 0 3 2 1 -> - + - -, AP 1/2
    found = measure(SCORES, LABELS)
    assert found.mean_average_precision == pytest.approx((3 / 4 + 7 / 12 + 1 + 1 / 4 + 1 / 2) / 5)
    np.testing.assert_allclose(found.precision_at_k, [2 / 5, 1 / 2, 2 / 5, 2 / 5])
    assert found.chance_of_precision == pytest.approx((3 * 2 / 4 + 2 * 1 / 4) / 5)
    assert (found.n_queries, found.n_queries_left_out) == (5, 0)


def test_average_precision_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(4, size=60), rng.normal(size=(60, 60))
    found = measure(scores, labels)
    expected = mean_average_precision(scores, labels)
    assert found.mean_average_precision == pytest.approx(expected, rel=1e-12)


def test_an_image_alone_in_its_class_is_left_out_as_a_query_but_ranked():
    # Ranked first by each query, the sixth image moves each hit of the hand case down by one.
    scores = np.full((6, 6), 2.0)
    scores[:5, :5] = SCORES
    found = measure(scores, [*LABELS, 7])
    expected = (1 / 2 + 2 / 5) / 2, (1 / 3 + 2 / 4) / 2, (1 / 2 + 2 / 3) / 2, 1 / 5, 1 / 3
    assert found.mean_average_precision == pytest.approx(np.mean(expected))
    assert found.chance_of_precision == pytest.approx((3 * 2 / 5 + 2 * 1 / 5) / 5)
    assert (found.n_queries, found.n_queries_left_out) == (5, 1)


def test_a_constant_similarity_ranks_rows_sorted_by_class_at_chance():
    labels = np.repeat([0, 1], 20)
    found = [measure(np.zeros((40, 40)), labels, seed) for seed in range(400)]
    values = np.array([item.mean_average_precision for item in found])
    first = np.array([item.precision_at_k[0] for item in found])
    standard_error = values.std() / np.sqrt(len(values))
    assert values.mean() == pytest.approx(expected_of_random_order(19, 39), abs=4 * standard_error)
    assert standard_error < 0.005
    assert first.mean() == pytest.approx(found[0].chance_of_precision, abs=0.02)
    assert found[0].chance_of_precision == pytest.approx(19 / 39)
    assert values.max() < 0.75


def test_images_of_equal_score_keep_the_tie_order():
    rng = np.random.default_rng(0)
    scores = rng.integers(4, size=(3, 400)).astype(float)
    queries, tie_order = np.array([5, 0, 399]), rng.permutation(400)
    place = np.argsort(tie_order)
    found = rank_others(scores, queries, tie_order)
    for row, query, ranked in zip(scores, queries, found, strict=True):
        others = sorted(set(range(400)) - {query}, key=lambda i: (-row[i], place[i]))
        assert ranked.tolist() == others


def test_a_nan_is_refused_with_their_number():
    scores = SCORES.copy()
    scores[1, 2] = scores[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN for 2 of 25 pairs"):
        measure(scores, LABELS)


@pytest.mark.parametrize("several_labels", [False, True])
@pytest.mark.parametrize("levels", [5, 10**6])
def test_the_measures_are_those_of_a_full_sort(levels, several_labels):
    rng = np.random.default_rng(0)
    n = 300
    scores = rng.integers(levels, size=(n, n)).astype(np.float32)
    if several_labels:
        y = sparse.csr_array(sparse.random(n, 30, 0.04, rng=rng))
        is_relevant = image_relevance(y.toarray()) > 0
    else:
        y = rng.integers(100, size=n)
        is_relevant = (y[:, None] == y) & ~np.eye(n, dtype=bool)
    queries = np.flatnonzero(is_relevant.any(axis=1))
    place = np.argsort(np.random.default_rng(7).permutation(n))
    order = [np.lexsort((place, -row)) for row in scores]
    hits = np.stack([is_relevant[i, order[i][order[i] != i]] for i in queries])
    similarity, rows = by_table(scores)
    found = evaluate_ranking(similarity, rows, y, seed=7)
    assert 0 < found.n_queries_left_out == n - len(queries)
    precisions = np.cumsum(hits, axis=1) / np.arange(1, n)
    expected = np.mean(precisions, axis=1, where=hits).mean()
    assert found.mean_average_precision == pytest.approx(expected, rel=1e-14)
    expected = precisions[:, :50].mean(axis=0)
    np.testing.assert_allclose(found.precision_at_k, expected, rtol=1e-13)
    assert found.chance_of_precision == pytest.approx(hits.mean(), rel=1e-13)


def test_a_sample_of_queries_is_ranked_against_all_others():
    whole = [measure(SCORES, LABELS, queries=[i]).mean_average_precision for i in range(5)]
    found = measure(SCORES, LABELS, queries=[4, 0])
    assert found.mean_average_precision == pytest.approx((whole[4] + whole[0]) / 2)
    assert found.precision_at_k[-1] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert found.n_queries == 2
    assert_same(measure(SCORES, LABELS, queries=np.arange(5)), measure(SCORES, LABELS))


def test_several_labels_count_as_relevant_what_shares_a_query():
    # images 0 and 1 share query 0; 1 and 2 share query 1; 3 shares none and is left out
    y = sparse.csr_array(np.array([[1.0, 0, 0], [2, 1, 0], [0, 3, 0], [0, 0, 1]]))
    scores = np.array([[9, 1, 3, 2], [3, 9, 1, 2], [1, 3, 9, 2], [1, 2, 3, 9.0]])
    found = evaluate_ranking(lambda q, g: scores[q.ravel()], np.arange(4)[:, None], y, seed=0)
    # query 0 ranks 2, 3, 1: its hit is third; query 1 ranks 0, 3, 2: hits first and third
    # query 2 ranks 1, 3, 0: its hit is first
    assert found.mean_average_precision == pytest.approx((1 / 3 + (1 + 2 / 3) / 2 + 1) / 3)
    assert found.chance_of_precision == pytest.approx((1 + 2 + 1) / 3 / 3)
    assert (found.n_queries, found.n_queries_left_out) == (3, 1)
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    relevant = SharedLabels(y).relevant_rows(np.arange(4)).toarray()
    np.testing.assert_array_equal(relevant > 0, np.array(expected, dtype=bool))
