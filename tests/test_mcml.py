"""MCML against its definition written out, finite differences, and a projected gradient."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from oasis_bench.algorithms import MCML, _chosen_neighbours
from oasis_bench.algorithms._neighbour_choice import choose_neighbours
from oasis_bench.algorithms.mcml import Objective, minimise


@pytest.fixture
def noise():
    """Rows of three classes that overlap, of sizes 7, 8 and 9, in 3 dimensions."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [7, 8, 9])
    return rng.normal(size=(24, 3)) + 0.5 * np.eye(3)[y], y


@pytest.fixture
def iris():
    """Every second iris, moved a little: its millimetres make rows equal."""
    X, y = load_iris(return_X_y=True)
    return (X + 0.01 * np.random.default_rng(0).normal(size=X.shape))[::2], y[::2]


def brute_force(A, X, y):
    """Return f and its gradient by A, pair by pair from the definition."""
    f, gradient = 0.0, np.zeros_like(A)
    for i in range(len(X)):
        others = [k for k in range(len(X)) if k != i]
        same = [k for k in others if y[k] == y[i]]
        z = {k: X[i] - X[k] for k in others}
        weights = {k: np.exp(-z[k] @ A @ z[k]) for k in others}
        total = sum(weights.values())
        f += np.log(total)
        for k in others:
            gradient -= weights[k] / total * np.outer(z[k], z[k])
        for k in same:
            f += z[k] @ A @ z[k] / len(same)
            gradient += np.outer(z[k], z[k]) / len(same)
    return f, gradient


@pytest.mark.parametrize("k", [1, 2])  # twice as many are more than the 3 features, or are not
@pytest.mark.parametrize("block_bytes", [8 * 24 * 5, 2**20])
def test_value_and_gradients_are_those_of_the_definition(noise, monkeypatch, block_bytes, k):
    monkeypatch.setattr(_chosen_neighbours, "BLOCK_BYTES", block_bytes)
    X, y = noise
    L = np.random.default_rng(1).normal(size=(k, 3))
    value, gradient = brute_force(L.T @ L, X, y)
    objective = Objective(X, y)
    found, slope = objective.value_and_slope(L)
    assert found == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope, 2 * L @ gradient, rtol=0, atol=1e-11)
    np.testing.assert_allclose(objective.gradient(L), gradient, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("dtype", "rtol", "least"), [(np.float64, 1e-12, 1e-147), (np.float32, 2e-5, 1e-17)]
)
def test_the_kernel_computes_what_numpy_does(dtype, rtol, least):
    # Distances up to thousands, and rows of odd length for the ends of vector loops
    scores = -(10 ** np.random.default_rng(0).uniform(-3, 3.5, size=(5, 37))).astype(dtype)
    expected = scores.astype(np.float64)
    expected[np.arange(5), np.arange(5) + 3] = -np.inf
    log_sums = np.logaddexp.reduce(expected, axis=1)
    expected = np.exp(expected - log_sums[:, None])
    totals = np.ones(37)
    assert choose_neighbours(scores, 3, totals) == pytest.approx(log_sums.sum(), rel=rtol / 10)
    np.testing.assert_allclose(scores, expected, rtol=rtol, atol=least)
    np.testing.assert_allclose(totals, 1 + expected.sum(axis=0), rtol=rtol)


def test_two_pairs_worked_by_hand():
    # On a line, classes {0, 1} and {3, 4}: with a the metric's only number, f is twice
    # a + log(e^-a + e^-9a + e^-16a) + a + log(e^-a + e^-4a + e^-9a); it falls for all a.
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])
    for a in (0.0, 0.5, 2.0):
        outer = a + np.log(np.exp([-a, -9 * a, -16 * a]).sum())
        inner = a + np.log(np.exp([-a, -4 * a, -9 * a]).sum())
        value, _ = Objective(X, y).value_and_slope(np.array([[np.sqrt(a)]]))
        assert value == pytest.approx(2 * (outer + inner), abs=1e-12)
    learner = MCML().fit(X, y)
    assert 0 < learner.objective_ < 4 * 1e-5
    assert np.isfinite(learner.components_).all()


def test_at_the_optimum_no_direction_lowers_the_objective(iris):
    # Karush, Kuhn and Tucker: G has nothing along A and no negative eigenvalue, in coordinates
    # where the covariance is the identity, and beside the trace of A.
    X, y = iris
    learner = MCML(tol=1e-9).fit(X, y)
    A = learner.get_mahalanobis_matrix()
    value, gradient = brute_force(A, X, y)
    assert learner.objective_ == pytest.approx(value, rel=1e-9)
    covariance = np.cov(X.T)
    to_white = np.linalg.inv(np.linalg.cholesky(covariance))
    least = np.linalg.eigvalsh(to_white @ gradient @ to_white.T)[0]
    assert abs(np.vdot(gradient, A)) < 1e-5 * value
    assert least * np.vdot(covariance, A) > -1e-4 * value


@pytest.mark.parametrize("rank", [1, 4])
def test_other_starts_come_to_the_same_value(iris, rank):
    # From rank 1 only by the eigenvectors of the gradient does it get out of its line.
    X, y = iris
    start = np.random.default_rng(0).normal(size=(rank, 4))
    _, value, _, converged = minimise(Objective(X - X.mean(axis=0), y), start, 1e-7, 3000)
    assert converged
    assert value == pytest.approx(MCML(tol=1e-9).fit(X, y).objective_, rel=1e-6)


def test_the_order_of_the_rows_and_rotation_and_scale_change_nothing(noise):
    X, y = noise
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    order = rng.permutation(len(X))
    plain = MCML(tol=1e-10).fit(X, y).similarity(X, X)
    Z = 1000 * X @ rotation
    moved = MCML(tol=1e-10).fit(Z[order], y[order]).similarity(Z, Z)
    np.testing.assert_allclose(moved, plain, rtol=1e-3, atol=1e-3)


def test_rows_fewer_than_features_collapse_and_the_metric_stays_finite():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 100)), np.arange(30) % 3
    learner = MCML().fit(X, y)
    # Infimum: the sum of log(n_c - 1)
    assert learner.objective_ == pytest.approx(30 * np.log(9), abs=30e-5)
    assert len(learner.components_) <= 29
    distances = -learner.similarity(X, X)
    assert distances[y[:, None] == y].max() < distances[y[:, None] != y].min()
    # nothing outside the span of the rows
    outside = np.linalg.svd(X - X.mean(axis=0))[2][29:]
    np.testing.assert_allclose(learner.transform(outside), 0, atol=1e-9)


@pytest.mark.parametrize(("length", "exact"), [(1.0, False), (100.0, True)])
def test_float32_gives_value_and_slope_where_it_has_digits_enough(noise, length, exact):
    objective = Objective(*noise)
    L = length * np.random.default_rng(1).normal(size=(2, 3))
    value, slope = objective.value_and_slope(L)
    coarse_value, coarse_slope = objective.value_and_slope(L, coarse=True)
    assert coarse_value == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(coarse_slope, slope, atol=1e-5 * np.abs(slope).max())
    assert (coarse_value == value) == exact


def test_iterations_in_float32_lead_to_the_optimum_of_those_in_float64(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    found = []
    for few in (500, 600):
        monkeypatch.setattr("oasis_bench.algorithms.mcml.FEW", few)
        found.append(MCML(n_axes=20, tol=1e-5).fit(X, y))
    mixed, fine = found
    assert mixed.objective_ == pytest.approx(fine.objective_, abs=5 * 1e-5 * 600)
    assert mixed.objective_ != fine.objective_
