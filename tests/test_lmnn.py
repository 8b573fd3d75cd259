"""LMNN against its own objective, written out from the definition, and metric-learn's bridge."""

import inspect

import metric_learn
import numpy as np
import pytest
import sklearn.utils
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris

from oasis_bench.algorithms import LMNN


@pytest.fixture
def iris():
    """Every third iris, moved a little: its millimetres make many distances equal."""
    X, y = load_iris(return_X_y=True)
    return (X + 0.01 * np.random.default_rng(0).normal(size=X.shape))[::3], y[::3]


def objective(L, X, y, n_neighbors, pull_weight):
    """Weinberger et al. 2005: the pull of target neighbours and the push of impostors."""
    euclidean, learned = cdist(X, X), cdist(X @ L.T, X @ L.T, "sqeuclidean")
    pull = push = 0.0
    for i in range(len(X)):
        same = np.flatnonzero((y == y[i]) & (np.arange(len(X)) != i))
        targets = same[np.argsort(euclidean[i, same])[:n_neighbors]]
        pull += learned[i, targets].sum()
        for j in targets:
            push += np.maximum(0, 1 + learned[i, j] - learned[i, y != y[i]]).sum()
    return pull_weight * pull + (1 - pull_weight) * push


@pytest.mark.parametrize("pull_weight", [0.125, 0.5])
def test_it_comes_to_a_minimum_of_the_objective(iris, pull_weight):
    X, y = iris
    learner = LMNN(pull_weight=pull_weight, tol=1e-9, max_iter=3000).fit(X, y)
    L = learner.components_
    reached = objective(L, X, y, 3, pull_weight)
    assert reached < 0.7 * objective(np.eye(4), X, y, 3, pull_weight)
    rng = np.random.default_rng(0)
    nearby = [objective(L + 0.05 * rng.normal(size=L.shape), X, y, 3, pull_weight) for _ in "12345"]
    assert reached < min(nearby)


def test_rotating_the_rows_changes_no_distance(iris):
    X, y = iris
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    plain = LMNN(max_iter=50).fit(X, y).similarity(X, X)
    rotated = LMNN(max_iter=50).fit(X @ rotation, y).similarity(X @ rotation, X @ rotation)
    np.testing.assert_allclose(rotated, plain, rtol=1e-6, atol=1e-6)


def test_a_small_class_lowers_the_neighbours_and_says_so(iris):
    X, y = iris
    few = np.r_[0:3, 20:40]
    with pytest.warns(UserWarning, match="lowered to 2"):
        assert LMNN(max_iter=5).fit(X[few], y[few]).n_neighbors_ == 2
    with pytest.raises(ValueError, match="has 1 row"):
        LMNN().fit(X[np.r_[0, 20:40]], y[np.r_[0, 20:40]])


def test_the_bridge_changes_metric_learn_and_not_scikit_learn(iris):
    # metric-learn's own class must fit on the installed scikit-learn once ours is imported
    metric_learn.LMNN(max_iter=3).fit(*iris)
    assert "force_all_finite" not in inspect.signature(sklearn.utils.check_array).parameters
