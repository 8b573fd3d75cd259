"""Deep Ranking by a golden feature: the relevance against its formula; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from oasis_bench.algorithms import GoldenDeepRanking, GoldenFeature
from oasis_bench.algorithms.deep_ranking.golden_deep_ranking import relevance_within
from oasis_bench.data import Patches


def described(n: int) -> Patches:
    rows = load_digits().data[:n]
    return Patches.one_each({"left": rows[:, :30], "right": rows[:, 30:]})


def test_the_relevance_is_the_share_of_pairs_that_are_further_apart() -> None:
    X, y = described(12), np.array([2, 0, 0, 1, 1, 1, 0, 2, 2, 0, 7, 1])
    golden = GoldenFeature().partial_fit_triplets(X, [[0, 1, 2], [3, 5, 8], [6, 2, 4]])
    D = -golden.similarity(X, X)
    R = relevance_within(golden, X, y).toarray()
    same = (y[:, None] == y) & ~np.eye(12, dtype=bool)
    assert (R[~same] == 0).all()
    for i, j in np.argwhere(same):
        ties = np.isclose(D[same], D[i, j], rtol=1e-5)
        further = (D[same] > D[i, j]) & ~ties
        assert R[i, j] == pytest.approx((further.sum() + ties.sum() / 2) / same.sum())


def test_pictures_without_another_of_their_category_are_relevant_to_none() -> None:
    X = described(4)
    golden = GoldenFeature().partial_fit_triplets(X, np.zeros((0, 3), int))
    assert relevance_within(golden, X, np.arange(4)).nnz == 0
    copies = relevance_within(golden, X[np.zeros(4, int)], np.array([0, 0, 1, 1])).toarray()
    np.testing.assert_array_equal(copies, np.kron(np.eye(2), [[0, 0.5], [0.5, 0]]))


def test_its_network_has_the_parameters_that_it_is_given() -> None:
    given = {"sampling": "uniform", "out_of_class": 0.4, "margin": 0.3, "gap": 0.7, "dimension": 5}
    learner = GoldenDeepRanking("efficientnet-lite0", True, n_triplets=77, **given)
    found = learner._network(seed=3).get_params()
    shared = {*given, "backbone", "freeze_backbone"}
    assert {name: found[name] for name in shared} == {
        name: learner.get_params()[name] for name in shared
    }
    assert (found["n_steps"], found["random_state"]) == (77, 3)
