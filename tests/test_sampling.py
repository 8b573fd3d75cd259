"""The compiled triplet sampler against a twin in Python integers, and against its definition."""

import numpy as np
import pytest
from definitions import PythonGenerator
from scipy.stats import chisquare

from oasis_bench.sampling import ClassTripletSampler, seed_state


def twin_triplets(y, state, n_triplets):
    """Draw as the definition says, by lists: rows in class order, lonely classes last."""
    generator = PythonGenerator(state)
    classes = sorted(set(y), key=lambda c: (y.count(c) == 1, c))
    by_class = [[row for row, c in enumerate(y) if c == wanted] for wanted in classes]
    rows = [row for members in by_class for row in members]
    n_queries = sum(len(members) for members in by_class if len(members) > 1)
    triplets = []
    for _ in range(n_triplets):
        query = rows[generator.below(n_queries)]
        same = [row for row in rows if y[row] == y[query] and row != query]
        other = [row for row in rows if y[row] != y[query]]
        triplets.append(
            (query, same[generator.below(len(same))], other[generator.below(len(other))])
        )
    return triplets


def test_first_words_of_the_generator_are_those_of_the_published_code():
    # state {1, 2, 3, 4}: the values that xoshiro256++'s reference implementation gives
    generator = PythonGenerator([1, 2, 3, 4])
    assert [generator.next_word() for _ in range(3)] == [41943041, 58720359, 3588806011781223]


@pytest.mark.filterwarnings("ignore:.*have one row")
@pytest.mark.parametrize("y", [[0, 1, 0, 1, 1], [2, 0, 1, 1, 0, 2, 2, 5], list("abcabcaab")])
def test_triplets_are_those_of_the_python_twin(y):
    state = seed_state(7)
    expected = twin_triplets(y, state.copy(), 200)
    np.testing.assert_array_equal(ClassTripletSampler(y, state).draw(200), expected)


def test_queries_positives_and_negatives_are_uniform():
    y = np.array([0] * 3 + [1] * 5 + [2] * 2)
    triplets = ClassTripletSampler(y, seed_state(0)).draw(200_000)
    query, positive, negative = triplets.T
    assert (y[query] == y[positive]).all()
    assert (y[query] != y[negative]).all()
    assert (query != positive).all()
    assert chisquare(np.bincount(query, minlength=10)).pvalue > 1e-3
    for row in range(10):
        of_row = query == row
        same = np.flatnonzero((y == y[row]) & (np.arange(10) != row))
        other = np.flatnonzero(y != y[row])
        for drawn, allowed in ((positive[of_row], same), (negative[of_row], other)):
            if len(allowed) > 1:
                assert chisquare(np.bincount(drawn, minlength=10)[allowed]).pvalue > 1e-4


def test_the_stream_goes_on_whatever_the_size_of_the_draws():
    y = np.arange(100) % 7
    whole = ClassTripletSampler(y, seed_state(3)).draw(1000)
    state = seed_state(3)
    parts = [ClassTripletSampler(y, state).draw(n) for n in (1, 0, 599, 400)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_class_of_one_row_gives_no_query_and_is_told_once():
    y = ["a", "a", "lonely", "b", "b"]
    with pytest.warns(UserWarning, match="1 of 3 classes have one row"):
        sampler = ClassTripletSampler(y, seed_state(0))
    triplets = sampler.draw(1000)
    assert 2 not in triplets[:, :2]
    assert 2 in triplets[:, 2]
