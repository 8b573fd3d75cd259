"""Sparse rows as kernels need them, and what would make a kernel write out of its arrays."""

import numpy as np
import pytest
from scipy import sparse

from oasis_bench.data import canonical

ROWS = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))


def test_rows_in_order_share_their_memory():
    assert np.shares_memory(canonical(ROWS).data, ROWS.data)


@pytest.mark.parametrize("index", [3, -1])
def test_an_index_out_of_bounds_is_refused(index):
    X = ROWS.copy()
    X.indices[1] = index
    with pytest.raises(ValueError, match="not valid CSR"):
        canonical(X)


def test_a_memory_of_order_that_is_no_longer_true_is_not_trusted():
    X = ROWS.copy()
    assert X.has_canonical_format
    X.indices[:2] = [2, 0]  # scipy goes on to say that it is canonical
    assert X.has_canonical_format
    found = canonical(X)
    np.testing.assert_array_equal(found.indices, [0, 2, 1])
    np.testing.assert_array_equal(found.data, [2, 1, 3])
    np.testing.assert_array_equal(X.indices, [2, 0, 1])


def test_entries_that_stand_twice_are_summed():
    X = sparse.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    np.testing.assert_array_equal(canonical(X).toarray(), [[1, 2]])


@pytest.mark.parametrize(
    ("form", "part", "bound"),
    [
        (sparse.csc_array, "indices", "CSC: .*< 2"),
        (sparse.coo_array, "col", "COO: axis 1 index 99 exceeds"),
        (sparse.bsr_array, "indices", "BSR: .*< 3"),
    ],
)
def test_other_formats_are_checked_before_scipy_trusts_them(form, part, bound):
    X = form(ROWS.toarray())
    np.testing.assert_array_equal(canonical(X).toarray(), ROWS.toarray())
    getattr(X, part)[-1] = 99
    with pytest.raises(ValueError, match=f"not valid {bound}"):
        canonical(X)
