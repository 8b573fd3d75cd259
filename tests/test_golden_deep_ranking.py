"""Deep Ranking by a golden feature: the relevance against its formula; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from oasis_bench.algorithms import GoldenFeature
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
