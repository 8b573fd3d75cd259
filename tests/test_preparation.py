"""Rows as learners see them: against scikit-learn's tf-idf and cases worked by hand."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from oasis_bench.data.scaling import learn_preparation
from oasis_bench.system.errors import UsageError

COUNTS = np.array([[2.0, 0, 1, 0], [1, 3, 0, 0], [4, 0, 0, 0]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_tfidf_worked_by_hand(form):
    # shares 1, 1/3, 1/3, 0: weights 0, log 3, log 3 and, for what training lacks, none
    prepare = learn_preparation("tfidf", form(COUNTS))
    found = prepare(form(np.array([[5.0, 1, 2, 7]])))
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, [[1 / np.sqrt(5), 2 / np.sqrt(5)]])


def test_tfidf_is_scikit_learns_less_its_added_one():
    rng = np.random.default_rng(0)
    train, test = (sparse.csr_array(rng.poisson(0.4, size=(50, 30)).astype(float)) for _ in "12")
    reference = TfidfTransformer(smooth_idf=False).fit(train)
    weighted = test @ np.diag(reference.idf_ - 1)
    expected = weighted / np.linalg.norm(weighted, axis=1, keepdims=True)
    found = learn_preparation("tfidf", train)(test)
    assert 20 < found.shape[1] <= 30
    # the columns that are left out weigh nothing: products of rows, and so all scores, are equal
    np.testing.assert_allclose((found @ found.T).toarray(), expected @ expected.T, rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_l2_gives_unit_length_and_leaves_empty_rows(form):
    X = form(np.array([[3.0, 4.0], [0.0, 0.0]]))
    found = learn_preparation("l2", X)(X)
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]])


def test_none_gives_the_rows_themselves():
    assert learn_preparation("none", COUNTS)(COUNTS) is COUNTS


def test_tfidf_of_what_is_no_count_or_tells_nothing_apart_is_refused():
    with pytest.raises(UsageError, match="negative"):
        learn_preparation("tfidf", -COUNTS)
    with pytest.raises(UsageError, match="leaves no feature"):
        learn_preparation("tfidf", np.ones((3, 2)))
