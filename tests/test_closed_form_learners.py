"""RCA, LFDA and Covariance against their equations, metric-learn and SciPy."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist, mahalanobis, pdist
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

import oasis_bench.algorithms.metric_learn  # noqa: F401  (lets metric_learn run)
from oasis_bench.algorithms import LFDA, MMC, RCA, Covariance
from oasis_bench.plugins import digit_rows

metric_learn = pytest.importorskip("metric_learn")


@pytest.fixture
def iris():
    """Irises in a random order, moved a little: no two are the same."""
    rng = np.random.default_rng(0)
    X, y = load_iris(return_X_y=True)
    order = rng.permutation(len(X))
    return (X + 0.01 * rng.normal(size=X.shape))[order], y[order]


@pytest.fixture
def wide():
    """Twelve rows of 40 features in three classes: 9 degrees of freedom within them."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 4)
    return rng.normal(size=(12, 40)) * np.linspace(3, 1, 40) + rng.normal(size=(3, 40))[y], y


def mean_covariance_within(X, y):
    centred = X - np.array([X[y == label].mean(axis=0) for label in y])
    return centred.T @ centred / len(X)


# ---- RCA


def test_rca_is_the_inverse_of_the_mean_covariance_within_classes(iris):
    X, y = iris
    learned = RCA().fit(X, y)
    expected = np.linalg.inv(mean_covariance_within(X, y))
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, rtol=1e-9)
    theirs = metric_learn.RCA().fit(X, y)
    np.testing.assert_allclose(expected, theirs.get_mahalanobis_matrix(), rtol=1e-9)


def test_rca_of_two_classes_of_two_rows_by_hand():
    # The covariance within is diag(1, 4) / 2: class 0 varies by 1 along x, class 1 by 2 along y.
    X = np.array([[-1.0, 0], [1, 0], [7, 3], [7, 7]])
    M = RCA(n_axes=2).fit(X, [0, 0, 1, 1]).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.diag([2, 0.5]), atol=1e-12)


def test_few_rows_are_learned_from_on_half_their_degrees_of_freedom(wide):
    X, y = wide
    learned = RCA().fit(X, y)
    assert learned.n_axes_ == 4  # (12 - 3) // 2
    _, vectors = np.linalg.eigh(np.cov(X.T))
    P = vectors[:, -4:]
    expected = P @ np.linalg.inv(P.T @ mean_covariance_within(X, y) @ P) @ P.T
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("n_rows", "n_axes"), [(12, 4), (43, 20), (50, 23), (83, 40), (90, 40)])
def test_no_more_axes_are_inverted_than_half_the_degrees_of_freedom(n_rows, n_axes):
    X, y = np.random.default_rng(0).normal(size=(n_rows, 40)), np.arange(n_rows) % 3
    assert RCA().fit(X, y).n_axes_ == LFDA().fit(X, y).n_axes_ == n_axes
    assert Covariance().fit(X).n_axes_ == min(40, (n_rows - 1) // 2)


def test_the_number_of_axes_can_be_given(wide):
    X, y = wide
    assert RCA(n_axes=2).fit(X, y).components_.shape == (2, 40)
    learned = RCA(n_axes=40).fit(X, y)
    assert learned.n_axes_ == 11  # the rank of the rows
    # Of 11 axes, no class varies along 2 directions: the pseudo-inverse leaves them out.
    expected = np.linalg.pinv(mean_covariance_within(X, y), rcond=1e-10, hermitian=True)
    M = learned.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("learner", [RCA(), LFDA(), MMC()])
def test_a_feature_that_is_constant_within_classes_gets_no_weight(iris, learner):
    X, y = iris
    plain = learner.fit(X, y).get_mahalanobis_matrix()
    marked = learner.fit(np.column_stack([X, 3.0 * y]), y).get_mahalanobis_matrix()
    np.testing.assert_allclose(marked[4], 0, atol=1e-9 * np.abs(plain).max())
    if isinstance(learner, RCA):
        np.testing.assert_allclose(marked[:4, :4], plain, rtol=1e-8)


@pytest.mark.parametrize("learner", [RCA(), LFDA(), MMC(), Covariance()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependent_features_change_no_distance(iris, learner, dtype):
    X, y = (iris[0].astype(dtype), iris[1])
    twice = np.column_stack([X, X[:, 1]])
    plain = learner.fit(X, y).similarity(X, X)
    assert learner.fit(twice, y).components_.shape[0] <= 4
    if isinstance(learner, LFDA):
        return  # its affinities are of the Euclidean distance, which counts the feature twice
    doubled = learner.similarity(twice, twice)
    np.testing.assert_allclose(doubled, plain, rtol=1e-4, atol=1e-4 * np.abs(plain).max())


# ---- Covariance


def test_covariance_is_the_mahalanobis_distance_of_scipy(iris):
    X, _ = iris
    learned = Covariance().fit(X)
    inverse = np.linalg.inv(np.cov(X.T))
    expected = [mahalanobis(X[0], X[1], inverse), mahalanobis(X[0], X[2], inverse)]
    found = learned.pair_distance([[X[0], X[1]], [X[0], X[2]]])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    theirs = metric_learn.Covariance().fit(X)
    np.testing.assert_allclose(
        learned.get_mahalanobis_matrix(), theirs.get_mahalanobis_matrix(), rtol=1e-8
    )


def test_covariance_on_some_axes_is_whitened_pca(iris):
    X, _ = iris
    learned = Covariance(n_axes=2).fit(X)
    expected = pdist(PCA(2, whiten=True).fit_transform(X))
    np.testing.assert_allclose(pdist(learned.transform(X)), expected, rtol=1e-9)
    assert Covariance(n_axes=9).fit(X).n_axes_ == 4


def test_covariance_of_few_rows_is_that_of_their_first_principal_axes(wide):
    X, _ = wide
    learned = Covariance().fit(X)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    P, variances = vectors[:, -5:], values[-5:]  # (12 - 1) // 2 axes
    expected = (P / variances) @ P.T
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-12)


# ---- LFDA


def lfda_by_pairs(X, y, n_neighbors, n_components=None):
    """Sugiyama 2007, equations of the local scatters, pair by pair; returns M."""
    n, d = X.shape
    distances = cdist(X, X)
    scale, counts = np.empty(n), np.array([(y == label).sum() for label in y])
    for i in range(n):
        own = np.sort(distances[i, (y == y[i]) & (np.arange(n) != i)])
        scale[i] = own[min(n_neighbors, len(own)) - 1]
    within, between = np.zeros((d, d)), np.zeros((d, d))
    for i in range(n):
        for j in range(n):
            outer = np.outer(X[i] - X[j], X[i] - X[j]) / 2
            if y[i] == y[j]:
                affinity = np.exp(-(distances[i, j] ** 2) / (scale[i] * scale[j]))
                within += affinity / counts[i] * outer
                between += affinity * (1 / n - 1 / counts[i]) * outer
            else:
                between += outer / n
    values, vectors = eigh(between, within)
    largest = np.argsort(-values)[:n_components]
    return (vectors[:, largest] * values[largest]) @ vectors[:, largest].T


@pytest.mark.parametrize("n_neighbors", [3, 7, 30])
def test_lfda_is_the_sum_over_pairs_of_the_definition(iris, n_neighbors):
    few = np.r_[0:40, 60:70]
    X, y = iris[0][few], iris[1][few]
    found = LFDA(n_neighbors=n_neighbors).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, lfda_by_pairs(X, y, n_neighbors), rtol=1e-8)


def test_lfda_of_few_rows_is_that_of_their_first_principal_axes(wide):
    X, y = wide
    learned = LFDA().fit(X, y)
    P = np.linalg.eigh(np.cov(X.T))[1][:, -4:]
    expected = P @ lfda_by_pairs(X @ P, y, 7) @ P.T
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-10)


# ---- What they refuse


def test_one_class_makes_rca_the_mahalanobis_distance(iris):
    X, _ = iris
    ours = RCA().fit(X, np.zeros(150)).get_mahalanobis_matrix()
    other = Covariance().fit(X).get_mahalanobis_matrix()
    np.testing.assert_allclose(ours, other * 150 / 149, rtol=1e-9)


@pytest.mark.parametrize("learner", [RCA(), LFDA(), MMC(), Covariance()])
def test_many_features_need_no_covariance_of_them(learner):
    X, y = digit_rows()
    wide = np.column_stack([X, np.zeros((60, 20_000))])  # 3.2 GB as a covariance
    plain = learner.fit(X, y).transform(X)
    found = learner.fit(wide, y).transform(wide)
    assert found.shape == plain.shape
    np.testing.assert_allclose(pdist(found), pdist(plain), rtol=1e-6, atol=1e-9 * plain.max())
