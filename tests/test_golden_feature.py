"""The golden feature: its optimum by another solver, its distance written out, what it refuses."""

import numpy as np
import pytest
from scipy.optimize import minimize

from oasis_bench.algorithms import GoldenFeature
from oasis_bench.algorithms.golden_feature import largest_margin
from oasis_bench.data import Patches, PatchKind


@pytest.fixture
def pictures():
    """Thirty pictures with features of three kinds."""
    rng = np.random.default_rng(0)
    return Patches.one_each(
        {
            "a": rng.normal(size=(30, 5)),
            "b": rng.normal(size=(30, 3)) / 10,
            "c": rng.normal(size=(30, 4)),
        }
    )


def triplets_by(pictures, kind, n):
    """Triplets whose positive is the nearer one by one kind of features."""
    X = pictures.kinds[kind].descriptors
    triplets = np.stack([np.random.default_rng(i).permutation(30)[:3] for i in range(n)])
    q, p, n_ = triplets.T
    turned = ((X[q] - X[p]) ** 2).sum(axis=1) > ((X[q] - X[n_]) ** 2).sum(axis=1)
    triplets[turned] = triplets[turned][:, [0, 2, 1]]
    return triplets


@pytest.mark.parametrize("C", [1e-3, 0.1, 10])
def test_the_objective_is_the_least_that_another_solver_finds(C):
    """SciPy's sequential quadratic programming on the same problem with slack variables."""
    rng = np.random.default_rng(1)
    differences = rng.normal([0.4, -0.3, 2, 0.1], [1, 1, 10, 0.01], (40, 4))
    scales = np.sqrt((differences**2).mean(axis=0))
    margins = differences / scales
    start = np.concatenate([np.full(4, 0.5), np.full(40, 5.0)])
    found = minimize(
        lambda z: 0.5 * z[:4] @ z[:4] + C * z[4:] @ z[4:],
        start,
        jac=lambda z: np.concatenate([z[:4], 2 * C * z[4:]]),
        method="SLSQP",
        bounds=[(0, None)] * 44,
        constraints={
            "type": "ineq",
            "fun": lambda z: margins @ z[:4] + z[4:] - 1,
            "jac": lambda z: np.hstack([margins, np.eye(40)]),
        },
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    weights, objective = largest_margin(differences, C)
    assert objective == pytest.approx(found.fun, rel=1e-6)
    np.testing.assert_allclose(weights * scales, found.x[:4], atol=1e-5)
    assert weights[1] == 0


def test_what_the_triplets_follow_has_the_weight(pictures):
    for kind in "abc":
        triplets = triplets_by(pictures, kind, 300)
        learned = GoldenFeature(C=1).partial_fit_triplets(pictures, triplets)
        assert learned.kinds_.tolist() == ["a", "b", "c"]
        scaled = learned.weights_ * [25, 0.15, 16]  # about the mean distances
        assert "abc"[scaled.argmax()] == kind
        S = learned.similarity(pictures, pictures)
        q, p, n = triplets.T
        assert np.mean(S[q, p] > S[q, n]) > 0.95


def test_the_distance_is_the_weighted_sum(pictures):
    learned = GoldenFeature().partial_fit_triplets(pictures, triplets_by(pictures, "b", 50))
    expected = sum(
        w * ((rows[:, None] - rows) ** 2).sum(axis=2)
        for w, rows in zip(
            learned.weights_, (kind.descriptors for kind in pictures.kinds.values()), strict=True
        )
    )
    S = learned.similarity(pictures[:7], pictures)
    np.testing.assert_allclose(S**2, expected[:7], atol=1e-5 * expected.max())
    of_a = GoldenFeature(kinds="a").partial_fit_triplets(pictures, np.array([[0, 1, 2]]))
    order = ((pictures.kinds["a"].descriptors[4] - pictures.kinds["a"].descriptors) ** 2).sum(
        axis=1
    )
    found = of_a.similarity(pictures[4:5], pictures)[0]
    np.testing.assert_array_equal(np.argsort(-found), np.argsort(order))


def test_descriptors_of_a_picture_are_averaged():
    several = [np.array([[0.0, 2], [4, 0]]), np.array([[1.0, 1]]), np.array([[3.0, 3], [5, 5]])]
    kind = PatchKind.joined(several, [np.zeros((len(part), 2)) for part in several])
    learned = GoldenFeature().partial_fit_triplets(Patches({"k": kind}), np.zeros((0, 3), int))
    np.testing.assert_array_equal(learned.embed(Patches({"k": kind})), [[2, 1], [1, 1], [4, 4]])
