"""ForestProximity against leaves that scikit-learn counts, and shares worked by hand."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils import check_random_state

from oasis_bench.algorithms import ForestProximity
from oasis_bench.plugins import learner as learner_module, load_model, save_model


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:150], y[:150], X[150:200]


def test_it_is_the_share_of_trees_in_which_two_rows_share_a_leaf(digits, tmp_path, monkeypatch):
    X, y, new = digits
    learner = ForestProximity(n_trees=7, min_samples_leaf=2, random_state=3).fit(X, y)
    shares, rng = np.zeros((50, 150)), check_random_state(3)
    for _ in range(7):
        tree = ExtraTreeClassifier(
            max_features=0.3, min_samples_leaf=2, random_state=rng.randint(2**31)
        ).fit(X, y)
        for i, own in enumerate(tree.apply(new)):
            for j, other in enumerate(tree.apply(X)):
                shares[i, j] += own == other
    np.testing.assert_array_equal(learner.similarity(new, X), shares / 7)
    assert len(np.unique(shares)) > 5
    monkeypatch.setattr(learner_module, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(learner.similarity(new, X), shares / 7)
    save_model(learner, tmp_path / "forest.npz")
    loaded = load_model(tmp_path / "forest.npz")
    np.testing.assert_array_equal(loaded.similarity(new, X), shares / 7)


def test_shares_by_hand():
    """A tree cuts at random from 0 to 11, and only into halves of two rows: 9 in 11 times."""
    X, n_trees = np.array([[0.0], [1], [10], [11]]), 2000
    learner = ForestProximity(n_trees=n_trees, min_samples_leaf=2, random_state=0)
    found = learner.fit(X, [0, 0, 1, 1]).similarity(X[:1], [[1.0], [5], [10]])[0]
    expected = np.array([1, 7 / 11, 2 / 11])  # 5 is to the left where the cut is from 5 to 10
    error = np.sqrt(expected * (1 - expected) / n_trees)
    assert (np.abs(found - expected) <= 4 * error).all()


def test_a_monotonous_change_of_a_feature_of_two_values_changes_nothing(digits):
    X, y, _ = digits
    X = (X > 8).astype(float)
    found = ForestProximity(random_state=0).fit(X, y).similarity(X, X)
    other = (
        ForestProximity(random_state=0)
        .fit(1e3 * X + 1e6, y)
        .similarity(1e3 * X + 1e6, 1e3 * X + 1e6)
    )
    np.testing.assert_array_equal(found, other)


def test_single_rows_and_equal_rows_have_leaves():
    X = np.array([[0.0, 1], [2, 1], [5, 3]])
    np.testing.assert_array_equal(
        ForestProximity(random_state=0).fit(X, [0, 1, 2]).similarity(X, X), np.eye(3)
    )
    same = np.ones((4, 2))
    found = ForestProximity(random_state=0).fit(same, [0, 0, 1, 1]).similarity(same, same)
    np.testing.assert_array_equal(found, np.ones((4, 4)))
