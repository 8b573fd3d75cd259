"""LMNN against its objective written out from the definition, and its minimum against SciPy's."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

from oasis_bench.algorithms import LMNN, FastLMNN
from oasis_bench.algorithms._lmnn_descent import Descent
from oasis_bench.algorithms._lmnn_objective import Objective, best_scale, target_neighbours


def small_set(name):
    """Return rows sorted by class, moved a little so that no two distances are equal."""
    if name == "iris":
        X, y = load_iris(return_X_y=True)
        X, y = X[::3], y[::3]
    elif name == "wine":
        X, y = load_wine(return_X_y=True)
        X, y = scale(X)[::2], y[::2]
    else:
        X, y = load_digits(n_class=3, return_X_y=True)
        X, y = X[:120, 18:46:3] / 16, y[:120]
    order = np.argsort(y, kind="stable")
    return X[order] + 0.01 * np.random.default_rng(0).normal(size=X.shape), y[order]


def triplets(X, y, n_neighbors=3):
    """Write out the target pairs (i, j) and the triplets (i, j, l) of the definition."""
    euclidean, pairs, threes = cdist(X, X), [], []
    for i in range(len(X)):
        same = [j for j in range(len(X)) if y[j] == y[i] and j != i]
        for j in sorted(same, key=lambda j: euclidean[i, j])[:n_neighbors]:
            pairs.append((i, j))
            threes += [(i, j, other) for other in range(len(X)) if y[other] != y[i]]
    return pairs, threes


def brute_force(M, X, y, w=0.5):
    """Return eps(M) and its gradient in M, pair by pair and triplet by triplet."""

    def squared(a, b):
        return (X[a] - X[b]) @ M @ (X[a] - X[b])

    def outer(a, b):
        return np.outer(X[a] - X[b], X[a] - X[b])

    pairs, threes = triplets(X, y)
    value = w * sum(squared(i, j) for i, j in pairs)
    gradient = w * sum(outer(i, j) for i, j in pairs)
    for i, j, other in threes:
        loss = 1 + squared(i, j) - squared(i, other)
        if loss > 0:
            value += (1 - w) * loss
            gradient = gradient + (1 - w) * (outer(i, j) - outer(i, other))
    return value, gradient


def objective_of(X, y, w=0.5, width=1e-12):
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))]).astype(np.int32)
    return Objective(X, starts, target_neighbours(X, starts, 3), w, width)


def every_pair(y):
    return np.ascontiguousarray(np.argwhere(np.triu(y[:, None] != y)), dtype=np.int32)


def some_metric(d, seed=1):
    return np.eye(d) + 0.3 * np.random.default_rng(seed).normal(size=(d, d))


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
@pytest.mark.parametrize("w", [0.125, 0.5])
def test_value_and_gradient_are_those_of_the_definition(name, w):
    X, y = small_set(name)
    L = some_metric(X.shape[1])
    value, gradient = brute_force(L.T @ L, X, y, w)
    objective = objective_of(X, y, w)
    objective.find_impostors(X @ L.T)
    found = objective.value(X @ L.T)
    assert found.exact == pytest.approx(value, rel=1e-10)
    assert found.smoothed == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(objective.gradient(), gradient, rtol=1e-8, atol=1e-8)
    product = objective.laplacian_times(X @ L.T)
    np.testing.assert_allclose(product.T @ X, L @ gradient, rtol=1e-8, atol=1e-8)


def test_the_smoothed_gradient_is_that_of_finite_differences():
    X, y = small_set("iris")
    L, step = some_metric(4), 1e-6 * some_metric(4, seed=2)
    objective = objective_of(X, y, width=0.5)
    objective.use_pairs(every_pair(y))
    ahead, behind = (objective.value(X @ (L + s * step).T).smoothed for s in (1, -1))
    objective.value(X @ L.T)
    slope = 2 * np.vdot(L @ objective.gradient(), step)
    assert (ahead - behind) / 2 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
def test_the_working_set_gives_what_all_pairs_give(name):
    X, y = small_set(name)
    Z = 0.5 * X @ some_metric(X.shape[1]).T
    objective = objective_of(X, y, width=0.1)
    objective.find_impostors(Z)
    assert len(objective.pairs) < 0.9 * len(every_pair(y))
    working, weights = objective.value(Z), objective.laplacian_times(Z)
    objective.use_pairs(every_pair(y))
    np.testing.assert_allclose(objective.value(Z), working, rtol=1e-10)
    np.testing.assert_allclose(objective.laplacian_times(Z), weights, atol=1e-10)


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
@pytest.mark.parametrize("w", [0.125, 0.5])
def test_it_comes_within_a_thousandth_of_the_minimum(name, w):
    X, y = small_set(name)
    learner = LMNN(pull_weight=w).fit(X, y)
    M = learner.get_mahalanobis_matrix()
    pairs, threes = triplets(X, y)
    pulls = np.array([X[i] - X[j] for i, j in pairs])
    near = np.array([X[i] - X[j] for i, j, _ in threes])
    far = np.array([X[i] - X[other] for i, _, other in threes])
    values, vectors = np.linalg.eigh(pulls.T @ pulls)
    faster = vectors / np.sqrt(values)  # coordinates in which L-BFGS needs fewer steps

    def plain(flat):
        L = flat.reshape(M.shape) @ faster.T
        losses = 1 + ((near @ L.T) ** 2).sum(1) - ((far @ L.T) ** 2).sum(1)
        on = losses > 0
        G = w * pulls.T @ pulls + (1 - w) * (near[on].T @ near[on] - far[on].T @ far[on])
        value = w * ((pulls @ L.T) ** 2).sum() + (1 - w) * losses[on].sum()
        return value, (2 * L @ G @ faster).ravel()

    start = (some_metric(X.shape[1]) * np.sqrt(values)).ravel()
    options = {"maxiter": 400, "ftol": 0, "gtol": 0, "maxcor": 50}
    least = minimize(plain, start, jac=True, method="L-BFGS-B", options=options).fun
    assert learner.objective_ == pytest.approx(brute_force(M, X, y, w)[0], rel=1e-8)
    assert learner.objective_ <= (1 + 1e-3) * least
    assert learner.objective_ * (1 - learner.gap_) <= least
    assert learner.gap_ <= 1e-3


@pytest.mark.parametrize("rank", [1, 4])
def test_another_start_leads_to_the_same_objective(rank):
    X, y = small_set("iris")
    expected = LMNN().fit(X, y).objective_
    values, vectors = np.linalg.eigh(objective_of(X, y).pull_gradient())
    objective = objective_of(X, y, width=0.1)
    objective.rows = X @ (vectors / np.sqrt(values))
    start = np.random.default_rng(3).normal(size=(rank, 4))
    found = Descent(objective, start, whitened=True, tol=1e-3, share=0).run(1000)
    assert found.value == pytest.approx(expected, rel=2e-3)
    assert found.value - found.bound <= 1e-3 * found.value


def test_the_scale_of_the_start_is_the_best_one():
    X, y = small_set("wine")
    objective = objective_of(X, y)
    scale_found = best_scale(X, objective.starts, objective.targets, 0.5)
    at = [brute_force(s * np.eye(13), X, y)[0] for s in scale_found * np.array([0.9, 1, 1.1])]
    assert at[1] == min(at)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_the_rows_does_not_matter(factor):
    X, y = small_set("iris")
    expected, found = LMNN().fit(X, y), LMNN().fit(factor * X, y)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-3)


def test_rotating_the_rows_changes_no_distance():
    X, y = small_set("iris")
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    plain = LMNN(max_iter=10).fit(X, y).similarity(X, X)
    rotated = LMNN(max_iter=10).fit(X @ rotation, y).similarity(X @ rotation, X @ rotation)
    np.testing.assert_allclose(rotated, plain, rtol=1e-4, atol=1e-4)


def test_more_features_than_rows_stop_short_of_collapse():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 8)
    X = rng.normal(size=(24, 60)) + 2 * rng.normal(size=(3, 60))[y]
    learner = LMNN().fit(X, y)
    assert learner.gap_ == 1
    assert learner.components_.shape == (23, 60)
    start = best_scale(X, np.array([0, 8, 16, 24]), objective_of(X, y).targets, 0.5)
    whole = brute_force(start * np.eye(60), X, y)[0]
    assert 0 < learner.objective_ <= 0.25 * whole
    value, _ = brute_force(learner.get_mahalanobis_matrix(), X, y)
    assert value == pytest.approx(learner.objective_, rel=1e-8)


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


def test_a_small_class_lowers_the_neighbours_and_says_so():
    X, y = small_set("iris")
    few = np.r_[0:3, 20:40]
    with pytest.warns(UserWarning, match="lowered to 2"):
        assert LMNN(max_iter=5).fit(X[few], y[few]).n_neighbors_ == 2


@pytest.mark.parametrize(
    ("rows", "reason"), [(np.r_[0, 20:40], "has 1 row"), (np.r_[0:10], "at least 2 classes")]
)
def test_what_cannot_be_learned_from_is_refused_before_and_in_fit(rows, reason):
    X, y = small_set("iris")
    assert reason in LMNN().refusal(X[rows], y[rows])
    with pytest.raises(ValueError, match=reason):
        LMNN().fit(X[rows], y[rows])


def test_rows_that_are_all_the_same_are_refused():
    with pytest.raises(ValueError, match="all rows are the same"):
        LMNN(n_neighbors=1).fit(np.ones((4, 3)), [0, 0, 1, 1])
