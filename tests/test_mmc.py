"""MMC against its objective pair by pair, SLSQP, its own bound, hand cases and metric-learn."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import load_digits, load_iris

from oasis_bench.algorithms import MMC, mmc as module


@pytest.fixture
def iris():
    """Every fifth iris, in a random order."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[::5]
    return X[order], y[order]


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200] / 16, y[:200]


def pair_sums(L, X, y):
    """Return the sum of distances of pairs of two classes, and of squared ones of one class."""
    spread = kept = 0.0
    for i, j in combinations(range(len(X)), 2):
        squared = float(np.sum((L @ (X[i] - X[j])) ** 2))
        if y[i] == y[j]:
            kept += squared
        else:
            spread += np.sqrt(squared)
    return spread, kept


def best_of_slsqp(X, y):
    """Maximise the objective over L with SciPy's SLSQP, from three starts."""
    d = X.shape[1]
    z = np.array([X[i] - X[j] for i, j in combinations(range(len(X)), 2)])
    same = np.array([y[i] == y[j] for i, j in combinations(range(len(X)), 2)])
    similar = z[same].T @ z[same]

    def objective(flat):
        mapped = z[~same] @ flat.reshape(d, d).T
        lengths = np.maximum(np.linalg.norm(mapped, axis=1), 1e-12)
        return -lengths.sum(), -(mapped.T @ (z[~same] / lengths[:, None])).ravel()

    def room(flat):
        L = flat.reshape(d, d)
        return 1 - np.trace(L @ similar @ L.T)

    starts = np.random.default_rng(0).normal(size=(3, d * d)) / np.sqrt(np.trace(similar))
    found = [
        minimize(
            objective,
            start,
            jac=True,
            method="SLSQP",
            constraints={"type": "ineq", "fun": room},
            options={"maxiter": 1000, "ftol": 1e-10},
        ).fun
        for start in starts
    ]
    return -min(found)


def test_it_reaches_what_slsqp_reaches_with_the_constraint_tight(iris):
    X, y = iris
    learned = MMC(tol=1e-6).fit(X, y)
    spread, kept = pair_sums(learned.components_, X, y)
    assert kept == pytest.approx(1, abs=1e-9)
    assert spread == pytest.approx(best_of_slsqp(X, y), rel=2e-6)
    assert learned.objective_ == pytest.approx(spread, rel=1e-7)


def test_the_gap_bounds_what_is_missing(digits):
    best = MMC(tol=1e-7).fit(*digits).objective_
    for tol in (0.1, 1e-2, 1e-3):
        learned = MMC(tol=tol).fit(*digits)
        missing = best / learned.objective_ - 1
        assert missing <= learned.gap_ <= tol
    assert missing > 0


def test_the_gradient_is_that_of_the_objective(iris):
    X, y = iris
    X, y = X[np.argsort(y)], np.sort(y)
    ends = np.flatnonzero(np.r_[1, np.diff(y), 1]).tolist()
    classes = [slice(a, b) for a, b in pairwise(ends)]
    L = np.random.default_rng(0).normal(size=(4, 4))
    gradient = 2 * L @ module.pair_gradient(X, classes, L)  # by L; G itself is that by L'L
    numeric = approx_fprime(L.ravel(), lambda flat: pair_sums(flat.reshape(4, 4), X, y)[0], 1e-6)
    np.testing.assert_allclose(gradient.ravel(), numeric, rtol=1e-4)


def test_blocks_of_pairs_do_not_change_it(digits, monkeypatch):
    whole = MMC().fit(*digits)
    monkeypatch.setattr(module, "BLOCK_NUMBERS", 700)
    blocked = MMC().fit(*digits)
    assert blocked.objective_ == pytest.approx(whole.objective_, rel=1e-10)
    np.testing.assert_allclose(blocked.transform(digits[0]), whole.transform(digits[0]), rtol=1e-6)


def test_two_classes_of_two_rows_by_hand():
    # One similar pair along each axis, of length 2: 4 a + 4 b = 1 for M = diag(a, b), and all of
    # it best goes to a, since dissimilar rows are 9 or 11 apart along x and 1 along y.
    X = np.array([[-1.0, 0], [1, 0], [10, -1], [10, 1]])
    learned = MMC(tol=1e-9).fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), np.diag([0.25, 0]), atol=1e-4)
    assert learned.objective_ == pytest.approx(2 * 9 / 2 + 2 * 11 / 2, rel=1e-8)


def test_all_pairs_given_are_those_of_labels(iris):
    X, y = iris
    pairs = np.array([*combinations(range(len(X)), 2)])
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    by_labels = MMC(tol=1e-6).fit(X, y)
    by_pairs = MMC(tol=1e-6).partial_fit_pairs(X, pairs[same], pairs[~same])
    assert by_pairs.objective_ == pytest.approx(by_labels.objective_)
    expected = by_labels.get_mahalanobis_matrix()
    np.testing.assert_allclose(
        by_pairs.get_mahalanobis_matrix(), expected, atol=1e-3 * np.abs(expected).max()
    )
    with pytest.raises(ValueError, match="MMC needs pairs of either kind"):
        MMC().partial_fit_pairs(X, pairs[same], np.array([[0, 0]]))
    with pytest.raises(ValueError, match=r"all \d+ rows are equal"):
        MMC().partial_fit_pairs(np.ones_like(X), pairs[same], pairs[~same])
