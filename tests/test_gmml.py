"""GMML against the equation that defines it, with its scatters summed pair by pair."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power, sqrtm

from oasis_bench.algorithms import GMML


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [5, 9, 13]))
    return rng.normal(size=(27, 4)) * [1, 2, 3, 4] + 2 * np.eye(4)[y] + 10, y


def scatters(X, y):
    """Return S and D, pair by pair."""
    S, D = np.zeros((2, X.shape[1], X.shape[1]))
    for i, j in combinations(range(len(X)), 2):
        z = X[i] - X[j]
        (S if y[i] == y[j] else D)[...] += np.outer(z, z)
    return S, D


def test_it_solves_the_riccati_equation(rows):
    X, y = rows
    S, D = scatters(X, y)
    M = GMML().fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M @ S @ M, D, rtol=1e-9)

    def objective(M):
        return np.trace(M @ S) + np.trace(np.linalg.solve(M, D))

    rng = np.random.default_rng(0)
    for _ in range(20):
        change = np.eye(4) + 0.05 * rng.normal(size=(4, 4))
        assert objective(change @ M @ change.T) > objective(M)


@pytest.mark.parametrize("t", [0, 0.2, 0.5, 0.9, 1])
def test_it_is_the_weighted_geometric_mean(rows, t):
    X, y = rows
    S, D = scatters(X, y)
    root = sqrtm(S)
    inverse = np.linalg.inv(root)
    expected = inverse @ fractional_matrix_power(root @ D @ root, t) @ inverse
    found = GMML(t=t).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_few_rows_are_learned_from_on_half_their_degrees_of_freedom():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 40)) * np.linspace(3, 1, 40), np.repeat([0, 1, 2], 4)
    P = np.linalg.eigh(np.cov(X.T))[1][:, -4:]  # (12 - 3) // 2 axes
    S, D = scatters(X @ P, y)
    learner = GMML().fit(X, y)
    M = P.T @ learner.get_mahalanobis_matrix() @ P
    np.testing.assert_allclose(M @ S @ M, D, rtol=1e-8, atol=1e-8 * np.abs(D).max())
    assert learner.components_.shape == (4, 40)


def test_a_direction_in_which_no_class_varies_has_no_weight(rows):
    X, y = rows
    marked = GMML().fit(np.column_stack([X, 3.0 * y]), y).get_mahalanobis_matrix()
    np.testing.assert_allclose(marked[4], 0, atol=1e-9 * marked.max())
