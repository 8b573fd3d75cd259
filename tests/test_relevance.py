"""Relevance between images against the paper's formulas written out, and by hand."""

import numpy as np
import pytest
from definitions import image_relevance, random_relevance
from scipy import sparse

from oasis_bench.data import joint_distribution
from oasis_bench.sampling.triplets import relevance_factor


def product_of_factor(R):
    """Return B B' without its diagonal: relevance between images by `relevance_factor`."""
    B = relevance_factor(R).toarray()
    product = B @ B.T
    np.fill_diagonal(product, 0)
    return product


def test_a_case_worked_by_hand():
    # Labels a and b with Pr(a) = 4/8 and Pr(b) = 4/8; Pr(p|a) = (1/4, 3/4, 0), Pr(p|b) = (0, 1/2,
    # 1/2): Pr(0, 1) = 1/4 3/4 1/2 = 3/32, Pr(1, 2) = 1/2 1/2 1/2 = 4/32, and 0 and 2 share none.
    R = np.array([[1, 0], [3, 2], [0, 2]])
    expected = np.array([[0, 3, 0], [3, 0, 4], [0, 4, 0]]) / 32
    np.testing.assert_allclose(product_of_factor(sparse.csr_array(R)), expected)
    np.testing.assert_allclose(joint_distribution(sparse.csr_array(R)).toarray(), R / 8)
    np.testing.assert_allclose(image_relevance(R), expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_factor_times_itself_is_the_relevance_of_pairs(seed):
    R = random_relevance(15, 8, seed)
    expected = image_relevance(R)
    assert 0 < (expected > 0).sum() < expected.size
    np.testing.assert_allclose(product_of_factor(sparse.csr_array(R)), expected, atol=1e-16)


def test_with_one_label_each_images_of_one_class_are_relevant():
    y = np.array([0, 2, 1, 0, 2, 2, 3])
    expected = (y[:, None] == y) & ~np.eye(7, dtype=bool)
    np.testing.assert_array_equal(product_of_factor(sparse.csr_array(np.eye(4)[y])) > 0, expected)


def test_duplicate_and_unsorted_entries_are_summed_and_zeros_left_out_in_a_copy():
    entries = np.array([0.5, 1.0, 0.5, 0.0, 2.0])
    messy = sparse.csr_array((entries, [1, 0, 1, 0, 1], [0, 3, 5]), shape=(2, 2))
    before = messy.copy()
    tidy = sparse.csr_array(messy.toarray())
    found = joint_distribution(messy)
    np.testing.assert_allclose(found.toarray(), joint_distribution(tidy).toarray())
    assert found.nnz == 3
    np.testing.assert_array_equal(messy.data, before.data)
    np.testing.assert_array_equal(messy.indices, before.indices)


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
        relevance_factor(R)
