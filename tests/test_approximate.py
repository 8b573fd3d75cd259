"""The approximate search of a gallery: with all lists the exact one, with fewer a part of it."""

import importlib.util

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oasis_bench.algorithms import LMNN, OASIS
from oasis_bench.plugins import ApproximateGallery
from oasis_bench.scorers import similarity_of
from oasis_bench.tasks import top_k

needs_faiss = pytest.mark.skipif(
    importlib.util.find_spec("faiss") is None, reason='pip install "oasis-bench[faiss]"'
)
X, Y = load_digits(return_X_y=True)
GALLERY, QUERIES = X[:1500] / 16, X[1500:] / 16


@pytest.fixture(scope="module")
def learners():
    """A bilinear form with a W that is not symmetric, and a distance behind a pipeline."""
    oasis = OASIS(n_steps=5000, random_state=0).fit(GALLERY, Y[:1500])
    assert not np.allclose(oasis.bilinear_matrix_, oasis.bilinear_matrix_.T)
    lmnn = make_pipeline(StandardScaler(), LMNN(max_iter=20))
    return {"OASIS": oasis, "LMNN": lmnn.fit(GALLERY[:300], Y[:300])}


@needs_faiss
@pytest.mark.parametrize("name", ["OASIS", "LMNN"])
def test_all_lists_give_the_best_k_and_their_scores(learners, name):
    index = ApproximateGallery(learners[name], GALLERY)
    assert index.n_lists == 39
    rows, scores = index.top_k(QUERIES, 10, n_probes=39)
    whole = similarity_of(learners[name], QUERIES, GALLERY)
    expected = -np.sort(-whole, axis=1)[:, :10]
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        np.take_along_axis(whole, rows, axis=1), scores, rtol=1e-3, atol=1e-3
    )


@needs_faiss
def test_more_lists_find_more_and_recall_says_how_much(learners):
    index = ApproximateGallery(learners["OASIS"], GALLERY, n_lists=30)
    best, _ = top_k(learners["OASIS"].similarity, QUERIES, GALLERY, 5, seed=0)
    recalls = [index.recall(QUERIES, 5, n_probes) for n_probes in (1, 5, 30)]
    assert recalls == sorted(recalls)
    assert 0.3 < recalls[0] < 0.95
    assert recalls[2] > 0.999
    found, _ = index.top_k(QUERIES, 5, 1)
    shared = [len(set(one) & set(other)) for one, other in zip(best, found, strict=True)]
    assert recalls[0] == pytest.approx(np.mean(shared) / 5)


@needs_faiss
def test_lists_of_fewer_than_k_items_leave_places_empty(learners):
    rows, scores = ApproximateGallery(learners["OASIS"], GALLERY, n_lists=500).top_k(QUERIES, 90, 1)
    assert ((rows == -1) == np.isneginf(scores)).all()
    assert (rows[:, -1] == -1).any()


@needs_faiss
def test_equal_items_are_found_whatever_their_place(learners):
    alike = np.repeat(GALLERY[:1], 200, axis=0)
    found = []
    for seed in range(20):
        index = ApproximateGallery(learners["OASIS"], alike, n_lists=1, random_state=seed)
        found.append(index.top_k(QUERIES[:1], 10, n_probes=1)[0])
    # 10 of 200 numbers at random: their mean has a standard error of 57.7 / sqrt(200)
    assert np.mean(found) == pytest.approx(99.5, abs=4 * 57.7 / np.sqrt(200))
