"""LEGO against its equations, its twin, steps worked by hand and a million steps."""

from itertools import pairwise

import numpy as np
import oasis_twins
import pytest
from oasis_twins import random_triplets
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist, squareform
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import LEGO
from oasis_bench.plugins import digit_rows
from oasis_bench.trial import FitData

X_AND_Z = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])


def with_bounds(X, upper, lower, eta=0.08):
    """A learner that has learned nothing yet but knows u and l."""
    learner = LEGO(eta).partial_fit_triplets(X, np.empty((0, 3), dtype=int))
    learner.bounds_ = np.array([upper, lower])
    return learner


# ---- one step ----------------------------------------------------------------------------


def test_a_same_class_step_worked_by_hand():
    # z = (1, -1), A = I: yhat = 2.  With eta = 1/2 and u = 0: a = -1, the root of a^2 + 8 is 3,
    # ybar = (-1 + 3) / 2 = 1, and A - (2 - 1) / 4 (Az)(Az)' has z'Az = 1.  The pair (q, n) is 0.
    learner = with_bounds(X_AND_Z, 0, 4.5, eta=0.5)
    learner.partial_fit_triplets(X_AND_Z, [[0, 1, 2]])
    np.testing.assert_allclose(learner.mahalanobis_matrix_, [[0.75, 0.25], [0.25, 0.75]])
    assert learner.pair_distance([X_AND_Z[:2]]) == pytest.approx(1)


def test_a_different_class_step_worked_by_hand():
    # The same z as (q, n).  With l = 4.5: a = 3.5, the root of 12.25 + 8 is 4.5, ybar = 4.
    learner = with_bounds(X_AND_Z, 0, 4.5, eta=0.5)
    learner.partial_fit_triplets(X_AND_Z, [[0, 2, 1]])
    np.testing.assert_allclose(learner.mahalanobis_matrix_, [[1.5, -0.5], [-0.5, 1.5]])
    assert learner.pair_distance([X_AND_Z[:2]]) ** 2 == pytest.approx(4)


@pytest.mark.parametrize("eta", [1e-6, 0.02, 0.32, 50.0])
@pytest.mark.parametrize("different", [False, True])
def test_a_step_solves_the_problem_that_defines_it(eta, different):
    # min D_ld(A, A_old) + eta/2 (z'Az - y)^2.  A = A_old - c (A_old z)(A_old z)' at the solution,
    # so that with p = z'Az both are functions of p: D_ld = p / yhat - log(p / yhat) - 1.
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    A_old = root @ root.T
    X = rng.normal(size=(3, 5))
    z = X[0] - X[1]
    yhat = z @ A_old @ z
    target = yhat * (1.7 if different else 0.4)
    p = minimize_scalar(
        lambda p: p / yhat - np.log(p / yhat) - 1 + eta / 2 * (p - target) ** 2,
        bounds=(yhat * 0.3, yhat * 1.8),
        options={"xatol": 1e-12 * yhat},
        method="bounded",
    ).x
    bounds = (1e9, target) if different else (target, -1.0)
    learner = with_bounds(X, *bounds, eta=eta)
    learner.mahalanobis_matrix_ = A_old.copy()
    learner.partial_fit_triplets(X, [[0, 2, 1] if different else [0, 1, 2]])
    A = learner.mahalanobis_matrix_
    assert z @ A @ z == pytest.approx(p, rel=1e-6)
    # Woodbury: A^-1 = A_old^-1 + eta (ybar - y) zz'
    inverse = np.linalg.inv(A_old) + eta * (z @ A @ z - target) * np.outer(z, z)
    np.testing.assert_allclose(A @ inverse, np.eye(5), atol=1e-5)


def test_a_pair_on_the_right_side_of_its_bound_changes_nothing():
    z_squared = 2.0
    for triplet, upper, lower, moved in [
        ([0, 1, 2], z_squared - 0.1, 0.0, True),
        ([0, 1, 2], z_squared + 0.1, 0.0, False),
        ([0, 2, 1], 9.0, z_squared + 0.1, True),
        ([0, 2, 1], 9.0, z_squared - 0.1, False),
    ]:
        learner = with_bounds(X_AND_Z, upper, lower)
        learner.partial_fit_triplets(X_AND_Z, [triplet])
        assert learner.n_updates_ == moved
        assert np.array_equal(learner.mahalanobis_matrix_, np.eye(2)) != moved


# ---- kernel and twin ---------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("eta", [0.02, 0.32, 5.0])
def test_the_kernel_computes_what_the_twin_does(rows, form, eta):
    X, _ = rows
    triplets = random_triplets(len(X), 500)
    learner = with_bounds(form(X), 1.2, 1.0, eta=eta)
    learner.partial_fit_triplets(form(X), triplets)
    A = np.eye(X.shape[1])
    n_updates = oasis_twins.step_lego(X, triplets, eta, 1.2, 1.0, A)
    np.testing.assert_allclose(learner.mahalanobis_matrix_, A, rtol=0, atol=1e-12 * np.abs(A).max())
    assert (learner.n_updates_, learner.n_steps_) == (n_updates, 500)
    assert 0 < n_updates < 500


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_steps_on_fewer_rows_than_features_are_the_twin_s_from_any_matrix(form, monkeypatch):
    rng = np.random.default_rng(4)
    X = normalize(rng.normal(size=(36, 50)) * (rng.random((36, 50)) < 0.4))
    X[5] = X[6]  # so that rows do not span as many directions
    first, then = random_triplets(12, 60), 12 + random_triplets(24, 300)
    sides, take = [], LEGO._take_by_gram
    monkeypatch.setattr(
        LEGO, "_take_by_gram", lambda s, R, t, W: sides.append(R.shape[0]) or take(s, R, t, W)
    )
    learner = with_bounds(form(X), 0.5, 2.0, eta=0.32)
    A, n_updates = np.eye(50), 0
    for triplets in (first, then, first, np.concatenate([first, then])):
        learner.partial_fit_triplets(form(X), triplets)
        n_updates += oasis_twins.step_lego(X, triplets, 0.32, 0.5, 2.0, A)
        found = learner.mahalanobis_matrix_
        np.testing.assert_allclose(found, A, rtol=0, atol=1e-10 * np.abs(A).max())
        np.testing.assert_array_equal(found, found.T)
    assert learner.n_updates_ == n_updates
    assert sides == [12, 24, 12, 36]  # the steps were on the inner products of so many rows


def test_steps_on_inner_products_lose_no_digits_over_many_steps(monkeypatch):
    """Labels that contradict themselves, and rows that are equal and nearly equal."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 60))
    X[5], X[7] = X[6], X[6] + 1e-4 * rng.normal(size=60)
    X, y = normalize(X), np.arange(40) % 3
    learners = [LEGO(10.0, n_steps=100_000, random_state=0) for _ in range(2)]
    found = learners[0].fit(X, y).mahalanobis_matrix_
    monkeypatch.setattr(LEGO, "_step", LEGO._take)
    A = learners[1].fit(X, y).mahalanobis_matrix_
    np.testing.assert_allclose(found, A, rtol=0, atol=1e-8 * np.abs(A).max())
    assert learners[0].n_updates_ == learners[1].n_updates_ > 10_000
    assert np.linalg.eigvalsh(found)[0] > 1e-6 * np.abs(A).max()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("offset", "scale"), [(1e4, 1), (1e6, 1), (0, 1e2), (0, 1e4), (0, 1e6), (1.7e9, 1e4)]
)
def test_rows_far_from_zero_or_of_unlike_scales_lose_no_digits(form, offset, scale):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    X = rng.normal(size=(40, 64)) + rng.normal(size=(4, 64))[y]
    X[:, 3] = scale * X[:, 3] + (offset if scale > 1 else 0)
    X += offset if scale == 1 else 0
    learner = LEGO(n_steps=2000, random_state=0).fit(form(X), y)
    whole = LEGO(n_steps=2000, random_state=0)
    whole._step = whole._take
    A = whole.fit(form(X), y).mahalanobis_matrix_
    norms = np.sqrt(np.diag(A))
    found = learner.mahalanobis_matrix_
    np.testing.assert_allclose(
        found / np.outer(norms, norms), A / np.outer(norms, norms), atol=1e-5
    )


def test_calls_of_any_length_give_one_model(rows):
    X, y = rows
    whole = LEGO(n_steps=300, random_state=0).fit(X, y)
    parts = LEGO(random_state=0)
    for n_steps in (1, 0, 130, 169):
        parts.partial_fit(X, y, n_steps=n_steps)
    np.testing.assert_array_equal(parts.bounds_, whole.bounds_)
    scale = np.abs(whole.mahalanobis_matrix_).max()
    np.testing.assert_allclose(
        parts.mahalanobis_matrix_, whole.mahalanobis_matrix_, rtol=0, atol=1e-12 * scale
    )
    assert parts.n_steps_ == whole.n_steps_


# ---- bounds ------------------------------------------------------------------------------


def test_bounds_are_percentiles_of_squared_distances_within_and_between_classes():
    X, y = digit_rows()
    squares = squareform(pdist(X, "sqeuclidean"))
    same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
    upper, lower = LEGO(n_steps=0, random_state=0).fit(X, y).bounds_
    assert np.mean(squares[same] <= upper) == pytest.approx(0.05, abs=0.01)
    assert np.mean(squares[y[:, None] != y] <= lower) == pytest.approx(0.95, abs=0.01)


def test_fit_finds_new_bounds_and_partial_fit_keeps_them(rows):
    X, y = rows
    learner = LEGO(n_steps=50, random_state=0).fit(X, y)
    before = learner.bounds_.copy()
    learner.partial_fit(3 * X, y, n_steps=50)
    np.testing.assert_array_equal(learner.bounds_, before)
    np.testing.assert_allclose(learner.fit(3 * X, y).bounds_, 9 * before)


def test_given_triplets_bring_their_own_bounds(rows):
    X, _ = rows
    triplets = random_triplets(len(X), 70)
    learner = LEGO().partial_fit_triplets(X, triplets)
    same, different = (((X[triplets[:, 0]] - X[triplets[:, k]]) ** 2).sum(1) for k in (1, 2))
    expected = [np.percentile(same, 5), np.percentile(different, 95)]
    np.testing.assert_allclose(learner.bounds_, expected)


# ---- positivity --------------------------------------------------------------------------


def test_a_stays_positive_definite_over_a_million_steps():
    # Labels that contradict themselves and two columns that are nearly one: A never settles.
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 8))
    X[:, 1] = X[:, 0] + 1e-3 * rng.normal(size=200)
    learner = LEGO(10.0, n_steps=1_000_000, random_state=0).fit(normalize(X), np.arange(200) % 3)
    A = learner.mahalanobis_matrix_
    values = np.linalg.eigvalsh(A)
    assert learner.n_updates_ > 900_000
    np.testing.assert_array_equal(A, A.T)
    assert values[0] > 1e-9 * values[-1]
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), A, rtol=0, atol=1e-12 * values[-1])


# ---- what it is good for, and what it refuses ---------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_pairs_given_are_learned_from_as_those_of_triplets(rows, form):
    X = form(rows[0])
    triplets = random_triplets(40, 500)
    expected = LEGO().partial_fit_triplets(X, triplets)
    found = LEGO().partial_fit_pairs(X, triplets[:, :2], triplets[:, ::2])
    np.testing.assert_allclose(found.mahalanobis_matrix_, expected.mahalanobis_matrix_, atol=1e-10)
    assert found.n_steps_ == 500
    bounds = found.bounds_
    found.partial_fit_pairs(X, triplets[:1, :2], triplets[:1, ::2])
    assert found.n_steps_ == 501
    np.testing.assert_array_equal(found.bounds_, bounds)
    none = np.empty((0, 2), dtype=int)
    start = LEGO().partial_fit_pairs(X, none, none)
    np.testing.assert_array_equal(start.mahalanobis_matrix_, np.eye(X.shape[1]))
    with pytest.raises(ValueError, match="2 pairs of the same class and 1 of different classes"):
        found.partial_fit_pairs(X, triplets[:2, :2], triplets[:1, ::2])


def test_given_pairs_are_the_same_in_whatever_parts_steps_are_taken():
    X, y = digit_rows()
    same = [[i, j] for i, j in zip(*np.triu_indices(60, 1), strict=True) if y[i] == y[j]]
    other = [[i, j] for i, j in zip(*np.triu_indices(60, 1), strict=True) if y[i] != y[j]]
    data = FitData(X[:60], y[:60], None, [np.array(same), np.array(other)], 0)
    in_two, in_three = LEGO(random_state=0), LEGO(random_state=0)
    for learner, stops in ((in_two, (200, 300)), (in_three, (200, 230, 300))):
        for start, stop in pairwise((0, *stops)):  # u and l are those of the first 200
            data.fit(learner, start, stop)
    np.testing.assert_allclose(
        in_three.mahalanobis_matrix_, in_two.mahalanobis_matrix_, rtol=1e-6, atol=1e-8
    )
