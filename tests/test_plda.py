"""PLDA and WCCN against SciPy's densities, explicit whitening and the likelihood itself."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from oasis_bench.algorithms import PLDA, RCA, WCCN


def drawn(sizes, n_features, seed=0):
    """Rows of classes of these sizes, from two random covariances, far from zero; in any order."""
    rng = np.random.default_rng(seed)
    between, within = (rng.normal(size=(n_features, n_features)) for _ in range(2))
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.normal(size=(len(sizes), n_features)) @ between
    return centres[y] + rng.normal(size=(len(y), n_features)) @ within + 3, y


def means_and_rest(X, y):
    means = np.array([X[y == label].mean(axis=0) for label in np.unique(y)])
    return means, X - means[y]


def covariances(X, y, shrinkage):
    """Return B and C as the docstring of `PLDA` has them."""
    means, rest = means_and_rest(X, y)
    (n, d), c = X.shape, len(means)
    C = rest.T @ rest / (n - c)
    C = (1 - shrinkage) * C + shrinkage * np.trace(C) / d * np.eye(d)
    spread = np.cov(means.T, fweights=np.bincount(y), ddof=0) - C * c / n
    root = np.linalg.cholesky(C)  # what is negative in B is so where C is I
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, spread).T))
    factor = root @ vectors * np.sqrt(np.maximum(values, 0))
    return factor @ factor.T, C


@pytest.mark.parametrize("shrinkage", [0, 0.3, 1])
@pytest.mark.parametrize("sizes", [[6] * 20, [2, 3, 9, 14, 30]])
def test_plda_is_the_ratio_of_scipys_likelihoods(sizes, shrinkage):
    X, y = drawn(sizes, 4)
    B, C = covariances(X, y, shrinkage)
    learner = PLDA(shrinkage=shrinkage).fit(X, y)
    assert len(learner.ratios_) == np.linalg.matrix_rank(B, tol=1e-9)
    m, T = X.mean(axis=0), B + C
    one = multivariate_normal(np.tile(m, 2), np.block([[T, B], [B, T]]))
    alone = multivariate_normal(m, T)
    new = drawn([1] * 9, 4, seed=5)[0]
    expected = [
        [one.logpdf([*q, *g]) - alone.logpdf(q) - alone.logpdf(g) for g in new] for q in X[:7]
    ]
    np.testing.assert_allclose(learner.similarity(X[:7], new), expected, rtol=1e-8, atol=1e-8)
    assert np.ptp(expected) > 1


def log_likelihood(X, y, m, B, C):
    """Return the log-density of all rows, those of a class together."""
    total = 0.0
    for label in np.unique(y):
        rows = X[y == label]
        joint = np.kron(np.ones((len(rows),) * 2), B) + np.kron(np.eye(len(rows)), C)
        total += multivariate_normal(np.tile(m, len(rows)), joint).logpdf(rows.ravel())
    return total


def test_for_classes_of_one_size_plda_has_the_largest_likelihood():
    X, y = drawn([5] * 30, 3)
    learner = PLDA(shrinkage=0).fit(X, y)
    unwhiten = np.linalg.inv(learner.components_)
    C = unwhiten @ unwhiten.T
    B = unwhiten * learner.ratios_ @ unwhiten.T
    m = learner.mean_
    most = log_likelihood(X, y, m, B, C)
    rng = np.random.default_rng(0)
    for _ in range(20):
        change = 0.05 * rng.normal(size=(3, 3)) + np.eye(3)
        assert log_likelihood(X, y, m, change @ B @ change.T, C) < most
        assert log_likelihood(X, y, m, B, change @ C @ change.T) < most
        assert log_likelihood(X, y, m + 0.1 * rng.normal(size=3), B, C) < most


def test_plda_is_symmetric_to_the_bit():
    X, y = drawn([6] * 20, 12)
    found = PLDA().fit(X, y).similarity(X, X)
    np.testing.assert_array_equal(found, found.T)


def test_an_index_of_inner_products_ranks_as_plda_does():
    X, y = drawn([6] * 20, 5)
    learner = PLDA().fit(X, y)
    f = learner.embed(X)
    of_queries = np.column_stack([f[:, :-1], np.ones(len(f))])
    np.testing.assert_allclose(of_queries @ f.T + f[:, -1:], learner.similarity(X, X), rtol=1e-9)


def test_where_classes_do_not_differ_all_pairs_are_as_likely():
    X = np.array([[0.0, 1], [0, -1], [1, 0], [-1, 0]])
    learner = PLDA().fit(X, [0, 0, 1, 1])  # both means are 0
    np.testing.assert_array_equal(learner.similarity(X, X), np.zeros((4, 4)))


@pytest.mark.parametrize("shrinkage", [0, 0.3])
def test_wccn_ranks_by_the_cosine_of_whitened_rows(shrinkage):
    X, y = drawn([6] * 20, 4)
    C = covariances(X, y, shrinkage)[1]
    A = np.linalg.inv(np.linalg.cholesky(C))
    new = drawn([1] * 9, 4, seed=5)[0]
    cosines = 1 - cdist(*((rows - X.mean(axis=0)) @ A.T for rows in (X, new)), "cosine")
    found = WCCN(shrinkage=shrinkage).fit(X, y).similarity(X, new)
    np.testing.assert_allclose(1 - found**2 / 2, cosines, atol=1e-12)
    assert np.ptp(cosines) > 1


def test_with_more_features_than_rows_they_whiten_the_span_of_the_rows():
    X, y = drawn([3] * 5, 40)
    basis = np.linalg.svd(X - X.mean(axis=0))[2][:14].T
    for learner in (PLDA(), WCCN()):
        wide = learner.fit(X, y).similarity(X, X)
        narrow = learner.fit(X @ basis, y).similarity(X @ basis, X @ basis)
        np.testing.assert_allclose(wide, narrow, atol=1e-6)


def test_without_shrinkage_wccn_whitens_as_rca():
    X, y = drawn([6] * 20, 4)
    ours, rca = WCCN(shrinkage=0).fit(X, y), RCA().fit(X, y)
    M = ours.components_.T @ ours.components_
    np.testing.assert_allclose(M * 120 / 100, rca.get_mahalanobis_matrix(), rtol=1e-9)


@pytest.mark.parametrize("learner", [PLDA, WCCN])
def test_classes_that_vary_by_rounding_alone_are_refused(learner):
    y = np.arange(30) % 3
    X = np.eye(3)[y] + 1e-9 * np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(ValueError, match="no class varies by more than rounding"):
        learner().fit(X, y)
