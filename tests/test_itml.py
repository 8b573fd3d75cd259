"""ITML against algorithm 1 written out, the optimality conditions, scipy and metric-learn."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from oasis_bench.algorithms import ITML
from oasis_bench.algorithms.itml import (
    Pairs,
    draw_pairs,
    merged,
    project_cyclically,
    squared_distance_bounds,
)
from oasis_bench.algorithms.metric_learn import metric_learn  # made to fit on scikit-learn 1.8
from oasis_bench.plugins import digit_rows


def problem(n_pairs=150, n_features=4, seed=0):
    """Rows of three classes, pairs of them that contradict each other, and bounds."""
    rng = np.random.RandomState(seed)
    y = rng.randint(3, size=40)
    X = rng.normal(size=(40, n_features)) + 0.7 * y[:, None]
    return X, draw_pairs(X, y, n_pairs, rng), squared_distance_bounds(X, rng)


def in_full(X, pairs, bounds):
    """Return z of each pair and its bound b."""
    return X[pairs.left] - X[pairs.right], np.where(pairs.signs > 0, *bounds)


def algorithm_1(X, pairs, bounds, gamma, n_passes):
    """Davis et al. 2007, with the slacked bounds xi kept beside the multipliers."""
    Z, xi = in_full(X, pairs, bounds)
    A, multipliers = np.eye(X.shape[1]), np.zeros(len(Z))
    for _ in range(n_passes):
        for k, (z, delta) in enumerate(zip(Z, pairs.signs, strict=True)):
            p = z @ A @ z
            alpha = min(multipliers[k], delta * gamma / (gamma + 1) * (1 / p - 1 / xi[k]))
            beta = delta * alpha / (1 - delta * alpha * p)
            xi[k] = gamma * xi[k] / (gamma + delta * alpha * xi[k])
            multipliers[k] -= alpha
            A = A + beta * np.outer(A @ z, A @ z)
    return A, multipliers


def objective(A, X, pairs, bounds, gamma):
    """The primal, each slacked bound at its best: the bound, or a distance on its wrong side."""
    Z, b = in_full(X, pairs, bounds)
    ratio = np.einsum("ij,jk,ik->i", Z, A, Z) / b
    ratio = np.where(pairs.signs > 0, np.maximum(ratio, 1), np.minimum(ratio, 1))
    divergence = np.trace(A) - np.linalg.slogdet(A)[1] - len(A)
    return divergence + gamma * np.sum(ratio - np.log(ratio) - 1)


# ---- the projections ---------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("n_features", [1, 4, 70])
def test_the_kernel_computes_what_algorithm_1_does(gamma, n_features):
    X, pairs, bounds = problem(n_features=n_features)
    found, multipliers, n_iter, _ = project_cyclically(X, pairs, bounds, gamma, 5, 0.0)
    A, expected = algorithm_1(X, pairs, bounds, gamma, 5)
    assert n_iter == 5
    np.testing.assert_allclose(found, A, rtol=0, atol=1e-11 * np.abs(A).max())
    np.testing.assert_allclose(multipliers, expected, rtol=0, atol=1e-11 * expected.max())


@pytest.mark.parametrize("n_passes", [1, 7])
def test_it_takes_the_steps_of_metric_learn_where_that_is_given_squared_bounds(n_passes):
    X, pairs, bounds = problem()
    order = np.argsort(-pairs.signs, kind="stable")  # metric-learn projects similar pairs first
    pairs = Pairs(*(part[order] for part in pairs))
    theirs = metric_learn.ITML(gamma=2.0, max_iter=n_passes, tol=0.0).fit(
        X[np.stack([pairs.left, pairs.right], axis=1)], pairs.signs.astype(int), bounds=bounds
    )
    ours, *_ = project_cyclically(X, pairs, bounds, 2.0, n_passes, 0.0)
    np.testing.assert_allclose(ours, theirs.get_mahalanobis_matrix(), rtol=1e-9)


def test_one_projection_worked_by_hand():
    # z = (2, 0), p = 4, u = 1, gamma = 1: alpha = (1/4 - 1) / 2 = -3/8, 1/p' = 1/4 + 3/8 = 5/8;
    # the slacked bound has moved as far: 1/xi = 1 - 3/8.  A_11 = p'/4 = 0.4.
    X, pairs = np.array([[2.0, 0.0], [0.0, 0.0]]), Pairs(np.array([0]), np.array([1]), np.ones(1))
    A, multipliers, *_ = project_cyclically(X, pairs, np.array([1.0, 9.0]), 1.0, 1, 0.0)
    np.testing.assert_allclose(A, [[0.4, 0], [0, 1]])
    np.testing.assert_allclose(multipliers, [3 / 8])
    # as a pair of two classes it should be 9 apart: 1/p' = (1/4 + 1/9) / 2 = 13/72
    pairs = pairs._replace(signs=-np.ones(1))
    A, *_ = project_cyclically(X, pairs, np.array([1, 9.0]), 1.0, 1, 0)
    np.testing.assert_allclose(A, [[18 / 13, 0], [0, 1]])


# ---- the optimum -------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_it_comes_to_the_optimality_conditions(gamma):
    X, pairs, bounds = problem()
    A, multipliers, n_iter, _ = project_cyclically(X, pairs, bounds, gamma, 20_000, 1e-10)
    assert n_iter < 20_000
    Z, b = in_full(X, pairs, bounds)
    inverse = np.eye(4) + (Z * (multipliers * pairs.signs)[:, None]).T @ Z
    np.testing.assert_allclose(A @ inverse, np.eye(4), atol=1e-9)  # stationary in A
    slacked = 1 / (1 / b - pairs.signs * multipliers / gamma)  # stationary in xi
    violation = pairs.signs * (np.einsum("ij,jk,ik->i", Z, A, Z) - slacked)
    assert slacked.min() > 0
    assert multipliers.min() >= 0
    assert (violation <= 1e-6 * slacked).all()
    assert np.abs(multipliers * violation).max() < 1e-6
    assert 0 < np.count_nonzero(multipliers) < len(multipliers)


def test_a_pair_drawn_often_is_one_constraint_of_so_much_more_weight():
    X, _, bounds = problem()
    rng = np.random.RandomState(1)
    y = np.arange(8) % 3
    pairs = draw_pairs(X[:8], y, 150, rng)  # of 28 that there are
    once, counts = merged(pairs)
    assert len({frozenset(pair) for pair in zip(once.left, once.right, strict=True)}) == 28
    assert (len(counts), counts.sum()) == (28, 150)
    # the same optimum as that of each draw by itself, of which every projection is smaller
    apart, *_ = project_cyclically(X, pairs, bounds, 0.1, 20_000, 1e-9)
    found, *_ = project_cyclically(X, once, bounds, 0.1 * counts, 20_000, 1e-9)
    np.testing.assert_allclose(found, apart, rtol=0, atol=1e-6 * np.abs(apart).max())


# ---- the learner -------------------------------------------------------------------------


def test_fewer_rows_than_features_give_what_all_features_would():
    X, y = digit_rows()
    X, y = X[::2], y[::2]  # 30 rows of 64 features
    learner = ITML(gamma=0.1, n_pairs=200, random_state=0).fit(X, y)
    rng = np.random.RandomState(0)
    bounds = squared_distance_bounds(X, rng)
    pairs, counts = merged(draw_pairs(X, y, 200, rng))
    whole, _, n_iter, _ = project_cyclically(X, pairs, bounds, 0.1 * counts, 1000, 1e-3)
    assert learner.n_iter_ == n_iter
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), whole, atol=1e-10)


def test_bounds_are_percentiles_of_squared_distances():
    X, y = digit_rows()
    learner = ITML(gamma=0.01, random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.bounds_, np.percentile(pdist(X) ** 2, [5, 95]))
    twice = squared_distance_bounds(np.repeat(X, 2, axis=0), np.random.RandomState(0))
    np.testing.assert_allclose(twice, learner.bounds_, rtol=0.01)
    many = np.random.RandomState(1).normal(size=(3000, 5))
    exact = np.percentile(pdist(many, "sqeuclidean"), [5, 95])
    sampled = squared_distance_bounds(many, np.random.RandomState(0))
    np.testing.assert_allclose(sampled, exact, rtol=0.1)


def test_pairs_are_uniform_over_two_rows_and_say_their_class():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    pairs = draw_pairs(X, y, 60_000, np.random.RandomState(0))
    counts = np.zeros((6, 6))
    np.add.at(counts, (pairs.left, pairs.right), 1)
    off_diagonal = ~np.eye(6, dtype=bool)
    assert not counts[~off_diagonal].any()
    # 30 kinds of 2000 each: chi-squared with 29 degrees is below 58 in 999 of 1000 draws
    assert ((counts[off_diagonal] - 2000) ** 2 / 2000).sum() < 58
    np.testing.assert_array_equal(pairs.signs > 0, y[pairs.left] == y[pairs.right])


def test_pairs_given_have_the_optimum_of_their_objective():
    X, pairs, bounds = problem(n_pairs=40, n_features=2)
    ends, same = np.column_stack([pairs.left, pairs.right]), pairs.signs > 0
    twice = np.vstack([ends[same], [[0, 0]]])  # two equal rows say nothing
    found = ITML(tol=1e-9, max_iter=5000).partial_fit_pairs(X, twice, ends[~same])
    np.testing.assert_allclose(found.bounds_, bounds)
    assert found.n_pairs_ == 40
    reached = objective(found.get_mahalanobis_matrix(), X, pairs, bounds, 1.0)
    ours, *_ = project_cyclically(X, pairs, bounds, 1.0, 5000, 1e-9)
    assert reached == pytest.approx(objective(ours, X, pairs, bounds, 1.0), rel=1e-8)
    both_kinds, counts = merged(
        Pairs(np.array([0, 1, 1]), np.array([1, 0, 0]), np.array([1.0, -1.0, 1.0]))
    )
    assert [both_kinds.signs.tolist(), counts.tolist()] == [[1, -1], [2, 1]]
    with pytest.raises(ValueError, match="none of 1 do"):
        ITML().partial_fit_pairs(X, [[0, 0]], np.empty((0, 2), dtype=int))


@pytest.mark.parametrize(("n_classes", "n_pairs"), [(3, 240), (9, 2880), (10, 3000), (60, 3000)])
def test_pairs_grow_with_the_classes_up_to_a_limit(n_classes, n_pairs):
    y = np.arange(2 * n_classes) % n_classes
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    learner = ITML(gamma=1e-3, random_state=0).fit(X, y)
    assert learner.n_pairs_ == n_pairs


def test_pairs_begin_anew_after_a_fit_on_rows_far_from_zero():
    rng = np.random.default_rng(0)
    far, near = rng.normal(size=(40, 4)) + 2.0**30, rng.normal(size=(40, 3))
    alike, unlike = np.array([[0, 1], [2, 3]]), np.array([[4, 5], [6, 7]])
    learner = ITML(max_iter=50).fit(far, np.arange(40) % 2)
    learner.partial_fit_pairs(near, alike, unlike)
    found = ITML(max_iter=50).partial_fit_pairs(near, alike, unlike)
    np.testing.assert_allclose(learner.similarity(near, near), found.similarity(near, near))
