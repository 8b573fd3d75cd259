"""A learner on an embedding: nested parameters, the relevance by its formula, what is refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from oasis_bench.algorithms import (
    OASIS,
    DeepRanking,
    GoldenFeature,
    OnEmbedding,
    OnEmbeddingAndFeatures,
)
from oasis_bench.algorithms.on_embedding import relevance_within
from oasis_bench.data import Patches
from oasis_bench.system import UsageError


def described(n):
    rows = load_digits().data[:n]
    return Patches.one_each({"left": rows[:, :30], "right": rows[:, 30:]})


def test_the_relevance_is_the_share_of_pairs_that_are_further_apart():
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


def test_pictures_without_another_of_their_category_are_relevant_to_none():
    X = described(4)
    golden = GoldenFeature().partial_fit_triplets(X, np.zeros((0, 3), int))
    assert relevance_within(golden, X, np.arange(4)).nnz == 0
    copies = relevance_within(golden, X[np.zeros(4, int)], np.array([0, 0, 1, 1])).toarray()
    np.testing.assert_array_equal(copies, np.kron(np.eye(2), [[0, 0.5], [0.5, 0]]))


def test_names_become_learners_whose_parameters_can_be_set():
    learner = OnEmbedding()
    assert (learner.embedder, learner.learner) == ("DeepRanking", "OASIS")
    assert learner.get_params()["embedder__learning_rate"] == 0.01
    learner.set_params(learner="LMNN", learner__n_neighbors=2, embedder__batch_size=5)
    params = clone(learner).get_params()
    assert (params["learner__n_neighbors"], params["embedder__batch_size"]) == (2, 5)
    assert "learner__aggressiveness" not in params
    other = OnEmbedding(DeepRanking(n_steps=3), OASIS(0.4)).set_params(learner__n_steps=7)
    assert (other.learner.aggressiveness, other.learner.n_steps) == (0.4, 7)
    assert OnEmbeddingAndFeatures(relevance=None).get_params()["relevance"] is None
    with pytest.raises(ValueError, match="Invalid parameter 'steps' for estimator OASIS"):
        other.set_params(learner__steps=1)
    learner.set_params(learner__n_neighbors=0)
    with pytest.raises(ValueError, match="'learner__n_neighbors' parameter of OnEmbedding"):
        learner.fit(np.zeros((4, 8, 8, 3), np.uint8), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("OASISS", "unknown algorithm 'OASISS'"),
        ("GoldenFeature", "learner = 'GoldenFeature': a learner of rows that embeds items"),
        ("LocalDistances", "a learner of rows that embeds items, or its name, is needed"),
    ],
)
def test_a_learner_that_does_not_fit_is_refused(name, reason):
    with pytest.raises(UsageError, match=reason):
        OnEmbedding(learner=name).set_params(random_state=0)


def test_patches_without_pixels_are_refused():
    with pytest.raises(UsageError, match="these patches are without pixels"):
        OnEmbeddingAndFeatures().fit(described(8), np.arange(8) % 2)


def test_pairs_that_do_not_fit_into_memory_are_refused():
    n = 10**6
    X = Patches.one_each({"one": np.zeros((n, 1), np.float32)})
    X = Patches(X.kinds, np.zeros((n, 1, 1, 3), np.uint8))
    reason = OnEmbeddingAndFeatures().refusal(X, np.zeros(n, int)) or ""
    assert reason.startswith("OnEmbeddingAndFeatures on 1,000,000,000,000 pairs of pictures that ")
    assert reason.endswith("use fewer pictures a category")
