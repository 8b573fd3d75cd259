"""Relevance between images against the paper's formulas written out densely, and by hand."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from oasis_bench.data.relevance import (
    image_relevance,
    joint_distribution,
    relevance_factor,
    relevant,
)


def random_relevance(n_images=15, n_labels=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n_images, n_labels)) * (rng.random((n_images, n_labels)) < 0.3)


def by_the_formulas(R, threshold=0.0):
    """Write section 5.2.1 out, an image pair at a time."""
    n_images, n_labels = R.shape
    pr_q = [R[:, q].sum() / R.sum() for q in range(n_labels)]
    relevance = np.zeros((n_images, n_images))
    for p1 in range(n_images):
        for p2 in range(n_images):
            for q in range(n_labels):
                if p1 != p2 and pr_q[q] > 0:
                    in_q = R[:, q].sum()
                    relevance[p1, p2] += (R[p1, q] / in_q) * (R[p2, q] / in_q) * pr_q[q]
    return np.where(relevance > threshold, relevance, 0)


def test_a_case_worked_by_hand():
    # Labels a and b with Pr(a) = 4/8 and Pr(b) = 4/8; Pr(p|a) = (1/4, 3/4, 0), Pr(p|b) = (0, 1/2,
    # 1/2): Pr(0, 1) = 1/4 3/4 1/2 = 3/32, Pr(1, 2) = 1/2 1/2 1/2 = 4/32, and 0 and 2 share none.
    R = sparse.csr_array([[1, 0], [3, 2], [0, 2]])
    expected = np.array([[0, 3, 0], [3, 0, 4], [0, 4, 0]]) / 32
    np.testing.assert_allclose(image_relevance(R).toarray(), expected)
    np.testing.assert_allclose(joint_distribution(R).toarray(), R.toarray() / 8)
    above = image_relevance(R, threshold=0.1).toarray()
    np.testing.assert_allclose(above, [[0, 0, 0], [0, 0, 1 / 8], [0, 1 / 8, 0]])


@pytest.mark.parametrize("threshold", [0, 1e-3, 5e-3])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_formulas_say(seed, threshold):
    R = random_relevance(seed=seed)
    expected = by_the_formulas(R, threshold)
    assert 0 < (expected > 0).sum() < expected.size
    R = sparse.csr_array(R)
    np.testing.assert_allclose(image_relevance(R, threshold=threshold).toarray(), expected)
    np.testing.assert_array_equal(relevant(R, range(15), threshold=threshold), expected > 0)
    queries, gallery = [3, 11, 3], [14, 3, 0]
    np.testing.assert_allclose(
        image_relevance(R, queries, gallery, threshold).toarray(), expected[queries][:, gallery]
    )
    np.testing.assert_array_equal(
        relevant(R, queries, gallery, threshold), expected[queries][:, gallery] > 0
    )


def test_the_factor_times_itself_is_the_relevance_of_pairs():
    R = random_relevance()
    B = relevance_factor(sparse.csr_array(R)).toarray()
    product = B @ B.T
    np.fill_diagonal(product, 0)
    np.testing.assert_allclose(product, by_the_formulas(R))


def test_with_one_label_an_image_relevant_is_of_the_same_class():
    y = np.array([0, 2, 1, 0, 2, 2, 3])
    R = sparse.csr_array(np.eye(4)[y])
    expected = (y[:, None] == y) & ~np.eye(7, dtype=bool)
    np.testing.assert_array_equal(relevant(R, range(7)), expected)


@pytest.mark.parametrize(
    "form",
    [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, lambda R: sparse.lil_array(R)],
)
def test_the_kind_of_sparse_matrix_does_not_matter(form):
    R = random_relevance()
    np.testing.assert_allclose(image_relevance(form(R)).toarray(), by_the_formulas(R))


def test_entries_twice_out_of_order_or_zero_count_once_and_stay_as_given():
    entries = np.array([0.5, 1.0, 0.5, 0.0, 2.0])
    messy = sparse.csr_array((entries, [1, 0, 1, 0, 1], [0, 3, 5]), shape=(2, 2))
    before = messy.copy()
    tidy = sparse.csr_array(messy.toarray())
    found = image_relevance(messy)
    np.testing.assert_allclose(found.toarray(), image_relevance(tidy).toarray())
    assert found.nnz == 2
    np.testing.assert_array_equal(messy.data, before.data)
    np.testing.assert_array_equal(messy.indices, before.indices)


def test_memory_follows_the_related_pairs_and_not_all_pairs():
    n_images = 50_000
    labels = np.arange(n_images) // 2
    R = sparse.csr_array((np.ones(n_images), labels, np.arange(n_images + 1)))
    tracemalloc.start()
    related = image_relevance(R)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert related.nnz == n_images
    assert peak < 500 * n_images  # bytes; all pairs of doubles would take 400 000 an image


@pytest.mark.parametrize(
    ("R", "message"),
    [
        (np.ones((3, 2)), "relevance is a ndarray"),
        (sparse.coo_array(np.ones(3)), "relevance is a coo_array"),
        (sparse.csr_array([[1.0, -0.5]]), "least value -0.5"),
        (sparse.csr_array([[1.0, np.nan]]), "it must be finite"),
        (sparse.csr_array([[1.0, np.inf]]), "it must be finite"),
        (sparse.csr_array((3, 2)), "somewhere positive"),
    ],
)
def test_what_is_not_relevance_is_refused(R, message):
    with pytest.raises(ValueError, match=message):
        image_relevance(R)


@pytest.mark.parametrize("threshold", [-0.1, np.nan, np.inf])
def test_a_threshold_that_is_none_is_refused(threshold):
    with pytest.raises(ValueError, match="threshold is"):
        relevant(sparse.csr_array(np.eye(2)), [0], threshold=threshold)
