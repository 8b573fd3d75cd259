"""NCA and LDA: scikit-learn's transforms as distances, and what they refuse."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from oasis_bench.algorithms import LDA, NCA
from oasis_bench.algorithms.lda import ledoit_wolf


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("init", ["auto", "random"])
def test_nca_gives_the_distances_of_scikit_learns_transform(iris, init):
    X, y = iris
    options = {"n_components": 2, "init": init, "max_iter": 20, "random_state": 3}
    Z = NeighborhoodComponentsAnalysis(**options).fit(X, y).transform(X)
    learner = NCA(**options).fit(X, y)
    np.testing.assert_allclose(-learner.similarity(X, X), cdist(Z, Z), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("init", "n_components"),
    [
        *product(["auto", "identity", "pca", "lda", "random"], [2]),
        *product(["auto", "identity", "pca", "random"], [8, 25]),
        *product(["auto", "identity", "random"], [30, 35, None]),
    ],
)
def test_nca_of_fewer_rows_than_features_is_scikit_learns(init, n_components):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = 0.3 * rng.normal(size=(31, 40)) + 0.3 * rng.normal(size=(3, 40))[np.append(y, 0)]
    X, other = X[:30], X[30:]
    options = {"n_components": n_components, "init": init, "max_iter": 5, "random_state": 3}
    theirs = NeighborhoodComponentsAnalysis(**options).fit(X, y)
    ours = NCA(**options).fit(X, y)
    assert ours.n_iter_ == theirs.n_iter_
    expected = cdist(theirs.transform(other), theirs.transform(X))
    np.testing.assert_allclose(-ours.similarity(other, X), expected, rtol=1e-6)


@pytest.mark.parametrize("n_components", [1, None])
@pytest.mark.parametrize("shrinkage", ["auto", 0.3])
def test_lda_gives_the_distances_of_scikit_learns_transform(iris, n_components, shrinkage):
    X, y = iris
    options = {"n_components": n_components, "shrinkage": shrinkage}
    Z = LinearDiscriminantAnalysis(solver="eigen", **options).fit(X, y).transform(X)
    learner = LDA(**options).fit(X, y)
    assert learner.components_.shape == (n_components or 2, 4)
    np.testing.assert_allclose(-learner.similarity(X, X), cdist(Z, Z), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("n_components", [2, None])
@pytest.mark.parametrize("shrinkage", ["auto", 0.3, 0.95])
def test_lda_of_fewer_rows_than_features_gives_scikit_learns_discriminants(shrinkage, n_components):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), (30, 10, 17, 1))
    X = rng.normal(size=(58, 60)) * np.linspace(3, 0.1, 60) + rng.normal(size=(4, 60))[y]
    X[:, 5] = 2.0
    X[:, 6] = np.array([0.1, 0.3, 0.7, 1.1])[y]  # their means over a class are rounded
    assert (X[y == 0, 6].mean() != 0.1) or (X[y == 2, 6].mean() != 0.7)
    options = {"n_components": n_components, "shrinkage": shrinkage}
    theirs = LinearDiscriminantAnalysis(solver="eigen", **options).fit(X, y)
    ours = LDA(**options).fit(X, y).components_
    expected = theirs.scalings_.T[: len(ours)]
    signs = np.sign((ours * expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(signs * ours, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(5, 12), (12, 5), (3, 2)])
def test_the_shrinkage_is_that_of_ledoit_and_wolf(shape):
    X = np.random.default_rng(0).normal(size=shape) * np.linspace(1, 3, shape[1])
    X -= X.mean(axis=0)
    assert ledoit_wolf(X) == pytest.approx(ledoit_wolf_shrinkage(X, assume_centered=True))


@pytest.mark.parametrize("shrinkage", ["auto", 1e-8, 0.1, 1])
def test_columns_that_hardly_vary_do_not_make_the_covariance_singular(shrinkage):
    """As the last principal axes of as many rows do, which vary by rounding alone."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 60)), np.arange(60) % 6
    X[:, -1] *= 1e-15
    assert LDA(shrinkage=shrinkage).fit(X, y).components_.shape == (5, 60)


def test_lda_worked_by_hand():
    # Classes at (0, 0) and (4, 0), each with variance 1 along both axes; S_w = I whatever the
    # shrinkage, so the discriminant is the first axis with weight 1.
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    X, y = np.vstack([corners, corners + np.array([4, 0])]), np.repeat([0, 1], 4)
    np.testing.assert_allclose(
        np.abs(LDA(shrinkage=0.5).fit(X, y).components_), [[1, 0]], atol=1e-9
    )


@pytest.mark.parametrize("kind", ["7 columns", "14 columns", "two alike of 7 columns"])
def test_two_rows_a_class_have_an_automatic_shrinkage_that_is_not_0(kind):
    """Ledoit and Wolf's is 0 there, but for rounding; then S_w is singular, or nearly."""
    n_classes, n_features = (10, 7) if "alike" in kind else (5, int(kind.split()[0]))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(2 * n_classes, n_features)), np.repeat(np.arange(n_classes), 2)
        if "alike" in kind:  # within classes, but not between them
            X[:, 3] = X[:, 2] + rng.normal(size=n_classes)[y]
        found = LDA().fit(X, y).components_
        assert found.shape == (min(n_classes - 1, n_features), n_features)
        expected = -LDA(shrinkage=1e-4).fit(X, y).similarity(X, X)
        np.testing.assert_allclose(cdist(X @ found.T, X @ found.T), expected, atol=1e-6)
