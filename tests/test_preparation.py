"""Rows as learners see them: against scikit-learn's tf-idf and cases worked by hand."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from oasis_bench.data import Scaling, apply_steps, unlike_ranges
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.plugins.contract import in_two_parts
from oasis_bench.system import UsageError

COUNTS = np.array([[2.0, 0, 1, 0], [1, 3, 0, 0], [4, 0, 0, 0]])
FORMS = [np.asarray, sparse.csr_array, lambda X: in_two_parts(sparse.csr_array(X))]


@pytest.mark.parametrize("form", FORMS)
def test_tfidf_worked_by_hand(form):
    # shares 1, 1/3, 1/3, 0: weights 0, log 3, log 3 and, for what training lacks, none
    steps = Scaling("tfidf").learn(form(COUNTS))
    found = apply_steps(steps, form(np.array([[5.0, 1, 2, 7]])))
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, [[1 / np.sqrt(5), 2 / np.sqrt(5)]])


def test_tfidf_is_scikit_learns_less_its_added_one():
    rng = np.random.default_rng(0)
    train, test = (sparse.csr_array(rng.poisson(0.4, size=(50, 30)).astype(float)) for _ in "12")
    reference = TfidfTransformer(smooth_idf=False).fit(train)
    weighted = test @ np.diag(reference.idf_ - 1)
    expected = weighted / np.linalg.norm(weighted, axis=1, keepdims=True)
    found = apply_steps(Scaling("tfidf").learn(train), test)
    assert 20 < found.shape[1] <= 30
    # the columns that are left out weigh nothing: products of rows, and so all scores, are equal
    np.testing.assert_allclose((found @ found.T).toarray(), expected @ expected.T, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_l2_gives_unit_length_and_leaves_empty_rows(form):
    X = form(np.array([[3.0, 4.0], [0.0, 0.0]]))
    found = apply_steps(Scaling("l2").learn(X), X)
    found = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]])


def test_tfidf_of_what_is_no_count_or_tells_nothing_apart_is_refused():
    with pytest.raises(UsageError, match="negative"):
        Scaling("tfidf").learn(-COUNTS)
    with pytest.raises(UsageError, match="leaves no feature"):
        Scaling("tfidf").learn(np.ones((3, 2)))


def dense(kind, X, rows):
    return apply_steps(Scaling(kind).learn(X), rows)


def test_scalings_of_columns_are_those_of_the_definitions():
    rng = np.random.default_rng(0)
    X, rows = (rng.normal([1, 5, -2], [1, 50, 1e3], (30, 3)) for _ in "12")
    z = (rows - X.mean(axis=0)) / X.std(axis=0)
    unit = (rows - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    centered = rows - X.mean(axis=0)
    np.testing.assert_allclose(dense("standard", X, rows), z)
    np.testing.assert_allclose(
        dense("standard+l2", X, rows), z / np.linalg.norm(z, axis=1)[:, None]
    )
    np.testing.assert_allclose(dense("minmax", X, rows), unit)
    np.testing.assert_allclose(
        dense("center+l2", X, rows), centered / np.linalg.norm(centered, axis=1)[:, None]
    )


def test_principal_components_are_those_of_the_covariance_of_unit_rows():
    rng = np.random.default_rng(0)
    X, rows = (rng.normal(size=(n, 6)) * [3, 2, 1, 1, 1, 0.1] for n in (5, 20))
    unit, others = (part / np.linalg.norm(part, axis=1)[:, None] for part in (X, rows))
    _, axes = np.linalg.eigh(np.cov(unit.T))
    projected = (others - unit.mean(axis=0)) @ axes[:, :-6:-1]  # of 5 rows there are 5 at most
    projected /= np.linalg.norm(projected, axis=1)[:, None]
    found = dense("l2+pca256", X, rows)
    assert found.shape == (20, 5)
    # The fifth is of variance 0: an axis of rounding.
    np.testing.assert_allclose(
        abs(found[:, :4] / found[:, :1]), abs(projected[:, :4] / projected[:, :1])
    )


def test_principal_components_of_sparse_rows_are_those_of_dense_ones():
    X = COUNTS.astype(float)
    scaled = apply_steps(Scaling("l2").learn(X), X)
    components = np.linalg.svd(scaled - scaled.mean(axis=0))[2][:2]
    expected = (scaled - scaled.mean(axis=0)) @ components.T
    expected /= np.linalg.norm(expected, axis=1)[:, None]
    for rows in (X, sparse.csr_array(X)):
        found = apply_steps(Scaling("l2+pca2").learn(rows), rows)
        np.testing.assert_allclose(abs(found), abs(expected), atol=1e-10)


@pytest.mark.parametrize("kind", ["l2+pca0", "l2+pca", "pca3", "l2+pcax"])
def test_what_is_no_number_of_components_is_refused(kind):
    with pytest.raises(UsageError, match="scaling"):
        Experiment("a", "digits", {"OASIS": LearnerSpec("OASIS")}, scaling=(kind,))


@pytest.mark.parametrize("kind", Scaling.WORDS)
def test_a_column_that_does_not_vary_gives_finite_rows_and_float32_stays(kind):
    X = COUNTS.astype(np.float32)
    X[:, 3] = 2
    found = apply_steps(Scaling(kind).learn(X), X)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", ["center+l2", "standard+pca2", "standard", "minmax"])
def test_what_would_fill_sparse_rows_is_refused(kind):
    with pytest.raises(
        UsageError, match=rf"scaling {re.escape(kind)} turns the zeros .* none or l2 or tfidf"
    ):
        Scaling(kind).learn(sparse.csr_array(COUNTS))


def test_columns_of_unlike_ranges_are_found():
    X = np.array([[0.0, 5, 7], [1, 5, 1007], [0.5, 5, 0]])
    assert unlike_ranges(X) == (1, 1007)  # the column that does not vary does not count
    assert unlike_ranges(X / [1, 1, 1.01]) is None
    assert unlike_ranges(sparse.csr_array(X)) is None  # whatever makes them alike fills them
