"""The dual form of OASIS's steps, against the twin that takes them on W."""

import tracemalloc

import numpy as np
import oasis_twins
import pytest
from oasis_twins import random_triplets
from scipy import sparse
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS, CosineOASIS, PsdOASIS, oasis
from oasis_bench.algorithms._oasis_dense_steps import dual_pays, learn_in_dual


def some_rows(n_rows, d, density):
    """Rows of unit length: one is empty, one stands twice, one lies 1e-6 from another."""
    rng = np.random.default_rng(0)
    X = normalize(rng.normal(size=(n_rows, d)) * (rng.random((n_rows, d)) < density))
    X[3] = 0
    X[5] = X[4]
    X[6] = X[4] * (1 + 1e-6 * rng.normal(size=d))
    return X


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize("index_type", [None, np.int32, np.int64])
@pytest.mark.parametrize(("d", "density"), [(150, 0.5), (150, 0.02), (20, 0.5)])
def test_steps_in_the_dual_form_are_single_steps(d, density, index_type, dtype, tolerance):
    X = some_rows(30, d, density)
    given = X.astype(dtype)
    if index_type is not None:
        given = sparse.csr_array(given)
        given.indices, given.indptr = (a.astype(index_type) for a in (given.indices, given.indptr))
    expected, W = np.eye(d), np.eye(d, dtype=dtype)
    for seed in (1, 2):  # from the identity, and from where the first left off
        triplets = random_triplets(30, 200, seed)
        n_expected = oasis_twins.step(X, triplets, 0.3, expected)
        n_updates = learn_in_dual(given, triplets, 0.3, W)
        assert abs(n_updates - n_expected) <= (dtype == np.float32)  # a loss of 1e-8, or none
        assert 0 < n_expected < 200
        assert W.dtype == dtype
        np.testing.assert_allclose(W, expected, rtol=0, atol=tolerance)


def test_rows_that_nearly_coincide_take_the_step_that_they_should():
    X = some_rows(30, 300, 0.5)
    triplets = np.array([[0, 4, 6], [1, 6, 4], [2, 4, 5]])
    expected, W = np.eye(300), np.eye(300)
    oasis_twins.step(X, triplets, 1e12, expected)  # tau = loss / |V|^2
    assert learn_in_dual(X, triplets, 1e12, W) == 2
    np.testing.assert_allclose(W - np.eye(300), expected - np.eye(300), rtol=1e-6)


@pytest.mark.parametrize("learner", [OASIS, CosineOASIS, PsdOASIS])
def test_learners_take_either_way_to_the_same_model(learner, monkeypatch):
    X, y = some_rows(40, 150, 0.3), np.arange(40) % 4
    models = []
    for pays in (False, True):
        monkeypatch.setattr(oasis, "dual_pays", lambda X, n_triplets, pays=pays: pays)
        models.append(learner(n_steps=2000, random_state=0).fit(X, y))
    np.testing.assert_allclose(*(model.similarity(X, X) for model in models), rtol=0, atol=1e-11)
    assert models[0].n_updates_ == models[1].n_updates_


def test_rows_that_differ_by_little_beside_their_length_are_learned_from_on_w():
    X = np.random.default_rng(0).normal(size=(400, 784)).astype(np.float32)
    assert dual_pays(X, 30_000)
    far = 100 + X
    assert not dual_pays(far, 30_000)
    assert not dual_pays(sparse.csr_array(far), 30_000)
    assert not dual_pays(np.zeros_like(X), 30_000)
    triplets = random_triplets(400, 500)
    found = OASIS().partial_fit_triplets(far, triplets).bilinear_matrix_ - np.eye(784)
    W = np.eye(784)
    oasis_twins.step(far.astype(np.float64), triplets, 0.1, W)
    # in the dual form it would be 0.014
    assert np.linalg.norm(found - (W - np.eye(784))) < 1e-3 * np.linalg.norm(W - np.eye(784))


def test_memory_beside_the_matrix_is_bounded_for_many_triplets_and_close_rows():
    X = 0.05 * np.random.default_rng(0).random((200, 2000)) + np.eye(200, 2000)
    X[:100] = X[0] + 1e-3 * X[100:]  # closer than 0.01 to one another
    triplets = random_triplets(200, 300_000)
    assert dual_pays(X, len(triplets))
    learner = OASIS().partial_fit_triplets(X, triplets[:1])
    tracemalloc.start()
    learner.partial_fit_triplets(X, triplets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * 2**20
