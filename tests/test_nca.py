"""NCA's objective, gradient and kernel against their definition and scikit-learn's; its memory."""

import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from oasis_bench.algorithms import NCA, _chosen_neighbours
from oasis_bench.algorithms._chosen_neighbours import FAR
from oasis_bench.algorithms._neighbour_choice import choose_own_class
from oasis_bench.algorithms.nca import Objective


@pytest.fixture
def noise():
    """Rows in 4 dimensions of classes of 1, 6 and 8 rows, not sorted; some equal across classes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15, 4)), np.array([2, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 1, 2, 1, 2])
    X[[3, 8]] = X[2]
    return X + 1, y


@pytest.fixture(scope="module")
def digits():
    """Return 700 digits of 64 pixels, their lengths near 1."""
    X, y = load_digits(return_X_y=True)
    return X[:700] / 50, y[:700]


def brute_force(L, X, y):
    """Return f and its gradient by L, pair by pair (equations 3 and 5 of the paper)."""
    f, gradient = 0.0, np.zeros((X.shape[1],) * 2)
    for i in range(len(X)):
        others = [k for k in range(len(X)) if k != i]
        weights = {k: np.exp(-((L @ (X[i] - X[k])) ** 2).sum()) for k in others}
        p = {k: weights[k] / sum(weights.values()) for k in others}
        outer = {k: np.outer(X[i] - X[k], X[i] - X[k]) for k in others}
        same = [k for k in others if y[k] == y[i]]
        p_i = sum(p[k] for k in same)
        f += p_i
        gradient += p_i * sum(p[k] * outer[k] for k in others)
        gradient -= sum((p[k] * outer[k] for k in same), np.zeros_like(gradient))
    return f, 2 * L @ gradient


def of_scikit_learn(L, X, y):
    solver = NeighborhoodComponentsAnalysis()
    solver.n_iter_ = 0
    value, gradient = solver._loss_grad_lbfgs(L.ravel(), X, y[:, None] == y)
    return value, gradient.reshape(L.shape)


@pytest.mark.parametrize("other", [brute_force, of_scikit_learn])
@pytest.mark.parametrize("k", [1, 2, 3, 6])  # twice 3 are more than the 4 features
@pytest.mark.parametrize("block_bytes", [8 * 15 * 4, 2**20])
def test_value_and_gradient_are_those_of_the_definition_and_of_scikit_learn(
    noise, monkeypatch, other, k, block_bytes
):
    monkeypatch.setattr(_chosen_neighbours, "BLOCK_BYTES", block_bytes)
    L = np.random.default_rng(k).normal(size=(k, 4))
    expected, slope = other(L, *noise)
    value, gradient = Objective(*noise).value_and_gradient(L)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-12 * np.abs(slope).max() + 1e-13)


@pytest.mark.parametrize("scale", [30 * FAR**0.5, 1e30, 1e60])
def test_where_float32_has_too_few_digits_float64_is_taken(digits, scale):
    objective, L = Objective(*digits), scale * np.eye(2, 64, 10)
    value, gradient = objective.value_and_gradient(L, coarse=True)
    expected, slope = objective.value_and_gradient(L)
    assert value == expected
    np.testing.assert_array_equal(gradient, slope)


@pytest.mark.parametrize("scale", [1e-20, 1, 1e20])
@pytest.mark.parametrize("k", [3, 60])
def test_in_float32_value_and_gradient_are_the_same_to_its_digits_at_any_scale(digits, scale, k):
    X, y = digits
    L = np.random.default_rng(0).normal(size=(k, 64))
    value, gradient = of_scikit_learn(L, X, y)
    coarse_value, coarse_gradient = Objective(scale * X, y).value_and_gradient(
        L / scale, coarse=True
    )
    assert coarse_gradient.dtype == np.float64
    assert 0 < abs(coarse_value - value) < 1e-4 * value
    np.testing.assert_allclose(
        coarse_gradient / scale, gradient, rtol=0, atol=1e-3 * np.abs(gradient).max()
    )


@pytest.mark.parametrize(
    ("dtype", "rtol", "least"), [(np.float64, 1e-12, 1e-147), (np.float32, 2e-5, 1e-17)]
)
def test_the_kernel_computes_what_numpy_does(dtype, rtol, least):
    # Classes of 3, 1 and 33 columns, the block's rows being 2 to 6 of them
    classes = np.repeat([0, 1, 2], [3, 1, 33])
    starts, stops = np.array([0, 3, 4])[classes], np.array([3, 4, 37])[classes]
    scores = -(10 ** np.random.default_rng(0).uniform(-3, 3.5, size=(5, 37))).astype(dtype)
    P = scores.astype(np.float64)
    P[np.arange(5), np.arange(5) + 2] = -np.inf
    P = np.exp(P - np.logaddexp.reduce(P, axis=1)[:, None])
    same = classes[2:7, None] == classes
    own = (P * same).sum(axis=1)
    expected = P * (same - own[:, None])
    totals = np.ones(37)
    assert choose_own_class(scores, 2, totals, starts, stops) == pytest.approx(own.sum(), rel=rtol)
    np.testing.assert_allclose(scores, expected, rtol=rtol, atol=max(least, rtol / 20))
    np.testing.assert_allclose(totals, 1 + expected.sum(axis=0), rtol=rtol)


def test_three_rows_worked_by_hand():
    # On a line at 0, 1 | 3: with L = 1, p of the first is 1 / (1 + e^(1-9)), of the second
    # 1 / (1 + e^(1-4)); the third is alone in its class.
    value, _ = Objective(np.array([[3.0], [0], [1]]), np.array(["b", "a", "a"])).value_and_gradient(
        np.eye(1)
    )
    assert value == pytest.approx(1 / (1 + np.exp(-8)) + 1 / (1 + np.exp(-3)), rel=1e-12)


@pytest.mark.parametrize(("n_components", "dtype"), [(2, np.float64), (8, np.float32)])
def test_it_ends_no_lower_than_scikit_learn_from_the_same_start(n_components, dtype):
    # In the mean of three draws: after 50 iterations rounding has led to other maxima.
    X, y = load_digits(return_X_y=True)
    options, shares = {"n_components": n_components, "random_state": 0}, []
    for first in (0, 500, 1000):
        rows, labels = X[first : first + 700] / 50, y[first : first + 700]
        theirs = NeighborhoodComponentsAnalysis(**options).fit(rows, labels).components_
        ours = NCA(**options).fit(rows.astype(dtype), labels)
        aim, _ = of_scikit_learn(theirs, rows, labels)
        value, _ = of_scikit_learn(ours.components_, rows, labels)
        assert ours.objective_ == pytest.approx(value, rel=1e-6)
        shares.append(ours.objective_ / aim)
    assert np.mean(shares) > 1 - 1e-3


def test_columns_that_do_not_vary_keep_what_the_start_has(noise):
    X, y = noise
    X = np.column_stack([X[:, :2], np.full(15, 3.0), X[:, 2:]])
    learned = NCA().fit(X, y)
    np.testing.assert_array_equal(learned.components_[:, 2], np.eye(5)[2])
    theirs = NeighborhoodComponentsAnalysis().fit(X, y)
    np.testing.assert_allclose(learned.transform(X), theirs.transform(X), rtol=1e-5, atol=1e-6)


def test_memory_is_bounded_by_blocks_of_pairs():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), np.arange(4000) % 2
    learner = NCA(2, max_iter=2)
    tracemalloc.start()
    try:
        learner.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * learner._n_numbers(*X.shape, 2) < 8 * len(X) ** 2 / 5
