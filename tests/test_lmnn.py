"""LMNN against its objective written out from the definition, and its minimum against SciPy's."""

import numpy as np
import pytest
from definitions import lmnn_objective, lmnn_triplets
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

from oasis_bench.algorithms import LMNN, FastLMNN, lmnn
from oasis_bench.algorithms.lmnn import Objective, best_scale, target_neighbours


def small_set(name):
    """Return rows sorted by class, moved a little so that no two distances are equal."""
    if name == "iris":
        X, y = load_iris(return_X_y=True)
        X, y = X[::3], y[::3]
    elif name == "wine":
        X, y = load_wine(return_X_y=True)
        X, y = scale(X)[::3], y[::3]
    else:
        X, y = load_digits(n_class=3, return_X_y=True)
        X, y = X[:60, 18:46:3] / 16, y[:60]
    order = np.argsort(y, kind="stable")
    return X[order] + 0.01 * np.random.default_rng(0).normal(size=X.shape), y[order]


def objective_of(X, y, w=0.5, width=1e-12):
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))]).astype(np.int32)
    return Objective(X, starts, target_neighbours(X, starts, 3), w, width)


def some_metric(d, seed=1):
    return np.eye(d) + 0.3 * np.random.default_rng(seed).normal(size=(d, d))


def least_by_scipy(X, y, w):
    """Minimise the definition over L by SciPy's L-BFGS."""
    pairs, threes = lmnn_triplets(X, y)
    pulls = np.array([X[i] - X[j] for i, j in pairs])
    near = np.array([X[i] - X[j] for i, j, _ in threes])
    far = np.array([X[i] - X[other] for i, _, other in threes])
    values, vectors = np.linalg.eigh(pulls.T @ pulls)
    values = np.maximum(values, 1e-2 * values[-1])
    faster = vectors / np.sqrt(values)  # coordinates in which L-BFGS needs fewer steps

    def plain(flat):
        L = flat.reshape(faster.shape) @ faster.T
        losses = 1 + ((near @ L.T) ** 2).sum(1) - ((far @ L.T) ** 2).sum(1)
        on = losses > 0
        G = w * pulls.T @ pulls + (1 - w) * (near[on].T @ near[on] - far[on].T @ far[on])
        value = w * ((pulls @ L.T) ** 2).sum() + (1 - w) * losses[on].sum()
        return value, (2 * L @ G @ faster).ravel()

    start = (some_metric(X.shape[1]) * np.sqrt(values)).ravel()
    options = {"maxiter": 400, "ftol": 0, "gtol": 0, "maxcor": 50}
    return minimize(plain, start, jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize(("name", "w"), [("iris", 0.125), ("wine", 0.5), ("digits", 0.125)])
def test_it_comes_within_a_thousandth_of_the_minimum(name, w):
    X, y = small_set(name)
    learner = LMNN(pull_weight=w).fit(X, y)
    M = learner.get_mahalanobis_matrix()
    least = least_by_scipy(X, y, w)
    assert learner.objective_ == pytest.approx(lmnn_objective(M, X, y, w)[0], rel=1e-8)
    assert learner.objective_ <= (1 + 1e-3) * least
    assert learner.objective_ * (1 - learner.gap_) <= least
    assert learner.gap_ <= 1e-3


def test_a_feature_that_target_neighbours_share_is_no_reason_to_stop_early():
    X, y = small_set("iris")
    X = np.column_stack([X, 5.0 * (np.arange(len(X)) % 2)])  # in each class, far from the other
    learner = LMNN().fit(X, y)
    assert learner.gap_ == 1  # the pull can vanish: nothing is proven
    assert learner.objective_ <= (1 + 1e-3) * least_by_scipy(X, y, 0.5)


def test_the_scale_of_the_start_is_the_best_one():
    X, y = small_set("wine")
    objective = objective_of(X, y)
    scale_found = best_scale(X, objective.starts, objective.targets, 0.5)
    at = [lmnn_objective(s * np.eye(13), X, y)[0] for s in scale_found * np.array([0.9, 1, 1.1])]
    assert at[1] == min(at)


def test_more_features_than_rows_stop_short_of_collapse():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 8)
    X = rng.normal(size=(24, 60)) + 2 * rng.normal(size=(3, 60))[y]
    learner = LMNN().fit(X, y)
    assert learner.gap_ == 1
    assert learner.components_.shape == (23, 60)
    start = best_scale(X, np.array([0, 8, 16, 24]), objective_of(X, y).targets, 0.5)
    whole = lmnn_objective(start * np.eye(60), X, y)[0]
    assert 0 < learner.objective_ <= 0.25 * whole
    value, _ = lmnn_objective(learner.get_mahalanobis_matrix(), X, y)
    assert value == pytest.approx(learner.objective_, rel=1e-8)


def test_stopping_early_leaves_the_scaled_identity_along_the_gradient():
    X, y = small_set("wine")
    values = []
    for n_iter in (1, 5, 20):
        learner = LMNN(stop_after=n_iter, tol=0.5).fit(X, y)
        M = learner.get_mahalanobis_matrix()
        values.append(learner.objective_)
        assert learner.n_iter_ == n_iter
        assert learner.gap_ == 1
        assert learner.objective_ == pytest.approx(lmnn_objective(M, X, y)[0], rel=1e-8)
        if n_iter == 1:  # L = sqrt(s) (I - t G), M = sI before, G with the hinge rounded
            objective = objective_of(X, y)
            s = best_scale(X, objective.starts, objective.targets, 0.5)
            values_of_M, vectors = np.linalg.eigh(M / s)
            step = np.eye(13) - (vectors * np.sqrt(values_of_M)) @ vectors.T
            gradient = lmnn_objective(s * np.eye(13), X, y)[1]
            cosine = np.vdot(step, gradient) / np.linalg.norm(step) / np.linalg.norm(gradient)
            assert cosine > 0.995
    assert values[0] > values[1] > values[2] > 1.005 * LMNN().fit(X, y).objective_


def test_fast_lmnn_is_lmnn_on_the_axes_of_most_variance():
    X, y = small_set("wine")
    variances, axes = np.linalg.eigh(np.cov(X.T))
    kept = axes[:, ::-1][
        :, : np.searchsorted(np.cumsum(variances[::-1]), 0.8 * variances.sum()) + 1
    ]
    fast = FastLMNN(variance=0.8, tol=1e-3).fit(X, y)
    slow = LMNN().fit(X @ kept, y)
    assert fast.objective_ == pytest.approx(slow.objective_, rel=2e-3)
    np.testing.assert_allclose(fast.components_ @ kept @ kept.T, fast.components_, atol=1e-10)


def two_loops(steps, changes, gradient):
    """Write out L-BFGS's direction from its last steps (Nocedal & Wright, algorithm 7.4)."""
    q, weights = gradient.copy(), []
    for s, y in zip(steps[::-1], changes[::-1], strict=True):
        weights.append(np.vdot(s, q) / np.vdot(s, y))
        q = q - weights[-1] * y
    q = q * np.vdot(steps[-1], changes[-1]) / np.vdot(changes[-1], changes[-1])
    for s, y, weight in zip(steps, changes, weights[::-1], strict=True):
        q = q + (weight - np.vdot(y, q) / np.vdot(s, y)) * s
    return -q


def random_rotation(n_after, n_before):
    return np.linalg.qr(np.random.default_rng(5).normal(size=(9, 9)))[0][:n_after, :n_before]


@pytest.mark.parametrize(
    ("n_steps", "U"),
    [
        (1, np.eye(5)),
        (70, np.eye(5)),  # more than are remembered
        (25, random_rotation(4, 5)),
        (70, random_rotation(2, 5)),
        (25, np.eye(6, 5)),
        (70, np.eye(9, 5)),  # the larger ones leave room for fewer
    ],
)
def test_the_direction_is_that_of_the_two_loops_over_the_last_steps(n_steps, U, monkeypatch):
    monkeypatch.setattr(lmnn, "MEMORY_NUMBERS", 20 * 81)
    rng = np.random.default_rng(2)
    curvature = np.diag(np.linspace(1, 3, 45))
    history = lmnn._History(9)
    steps = [rng.normal(size=(5, 9)) for _ in range(n_steps)]
    changes = [(curvature @ step.ravel()).reshape(5, 9) for step in steps]
    for step, change in zip(steps, changes, strict=True):
        history.add(step, change)
    history.rotate(U)
    kept = min(20 * 81 // (9 * len(U)), 20 * 81 // 45, n_steps)
    gradient, A = rng.normal(size=(2, len(U), 9))
    expected = two_loops(
        [U @ step for step in steps[-kept:]], [U @ change for change in changes[-kept:]], gradient
    )
    np.testing.assert_allclose(history.direction(gradient, A), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["narrowing axes", "two far heaps", "an outlier"])
def test_the_working_set_has_every_pair_within_reach_and_no_other(kind, monkeypatch):
    monkeypatch.setattr(lmnn, "BLOCK_ROWS", 37)
    rng = np.random.default_rng(1)
    starts = np.array([0, 50, 100, 150], dtype=np.int32)
    y = np.repeat([0, 1, 2], np.diff(starts))
    if kind == "narrowing axes":
        rows = rng.normal(size=(150, 30)) * np.linspace(1, 0.05, 30)
    else:  # float32 alone would miss pairs
        rows = rng.normal(size=(150, 3)) + 3e3 * rng.choice([-1, 1], size=150)[:, None]
    if kind == "an outlier":
        rows[0] = 1e20
    objective = Objective(rows, starts, target_neighbours(rows, starts, 2), 0.5, 0.1)
    objective.find_impostors(rows)
    distances = cdist(rows, rows, "sqeuclidean")
    farthest = np.take_along_axis(distances, objective.targets, axis=1).max(axis=1)
    reach = (1 + lmnn.SLACK) * (1 + farthest)
    expected = (distances < np.maximum(reach[:, None], reach)) & (y[:, None] < y)
    assert 100 < expected.sum() < 0.5 * (y[:, None] < y).sum()
    np.testing.assert_array_equal(np.unique(objective.pairs, axis=0), np.argwhere(expected))
    assert len(objective.pairs) == expected.sum()
