"""OASIS in blocks of triplets and in mini-batches, against the twin that takes single steps."""

from functools import partial

import numpy as np
import oasis_twins
import pytest
from oasis_twins import random_triplets
from scipy import sparse
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import OASIS, AveragedOASIS, MiniBatchOASIS, _oasis_blocks
from oasis_bench.algorithms._oasis_block_schedule import block_size, learn_in_blocks
from oasis_bench.algorithms._oasis_dense_steps import (
    dense_blocks_pay,
    dual_pays,
    learn_in_dense_blocks,
)
from oasis_bench.sampling import ClassTripletSampler, seed_state
from oasis_bench.system import n_blas_threads


@pytest.fixture(params=[True, False], ids=["avx2", "portable"])
def instructions(request):
    _oasis_blocks.allow_avx2(request.param)
    yield
    _oasis_blocks.allow_avx2(True)


def sparse_rows(n_rows=60, d=50, density=0.15, dtype=np.float64, index_type=np.int32):
    """Rows of unit length, a few of them empty, and one that holds each feature."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, d)) * (rng.random((n_rows, d)) < density)
    X[3] = X[7] = 0
    X[5] = rng.normal(size=d)
    csr = sparse.csr_array(normalize(X).astype(dtype))
    csr.indices, csr.indptr = csr.indices.astype(index_type), csr.indptr.astype(index_type)
    return csr


def cut(triplets, size):
    return (triplets[k : k + size] for k in range(0, len(triplets), size))


FORMS = [np.int32, np.int64, "dense"]


def rows_and_blocks(form, dtype, n_threads):
    """Return rows, sparse with indices of a type or dense, and what learns from them in blocks."""
    if form == "dense":
        return sparse_rows(density=0.9, dtype=dtype).toarray(), learn_in_dense_blocks
    return sparse_rows(dtype=dtype, index_type=form), partial(learn_in_blocks, n_threads=n_threads)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("size", [1, 7, 64, 700])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_steps_in_blocks_are_single_steps(size, form, dtype, tolerance):
    X, learn = rows_and_blocks(form, dtype, n_threads=1)
    triplets, expected, W = random_triplets(60, 700), np.eye(50), np.eye(50, dtype=dtype)
    n_expected = oasis_twins.step(X.astype(np.float64), triplets, 0.3, expected)
    n_updates = learn(X, cut(triplets, size), 0.3, W, in_order=True)
    assert 0 < n_updates == n_expected < 700
    np.testing.assert_allclose(W, expected, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("size", [1, 10, 256])
@pytest.mark.parametrize("form", FORMS[::2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_mini_batches_are_those_of_the_twin(size, form, dtype, tolerance):
    X, learn = rows_and_blocks(form, dtype, n_threads=2)
    triplets, expected, W = random_triplets(60, 700), np.eye(50), np.eye(50, dtype=dtype)
    n_expected = sum(
        oasis_twins.step_mini_batch(X.astype(np.float64), batch, 0.05, expected)
        for batch in cut(triplets, size)
    )
    assert learn(X, cut(triplets, size), 0.05, W, in_order=False) == n_expected > 0
    np.testing.assert_allclose(W, expected, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("instructions")
def test_float32_mini_batches_learn_from_differences_in_16_bits():
    # q = e1, p - n = (1, 1/3, -1e-6): in units of 1 / 32767 they are 32767, 10922 and 0.
    X = sparse.csr_array(np.array([[1, 0, 0], [1, 1 / 3, -1e-6], [0, 0, 0]], dtype=np.float32))
    W = np.zeros((3, 3), dtype=np.float32)
    learn_in_blocks(X, iter([np.array([[0, 1, 2]])]), 0.5, W, in_order=False, n_threads=1)
    expected = np.array([[32767, 10922, 0], [0, 0, 0], [0, 0, 0]]) / 32767 * 0.5
    np.testing.assert_allclose(W, expected, rtol=1e-6, atol=0)


def test_a_mini_batch_of_two_worked_by_hand():
    # W = I, C = 0.5.  q = e1, v = e1 - e2: score 1, no loss.  q = e2, v = e1 - e2: score -1,
    # loss 2, |V|^2 = 2, tau = min(0.5, 1).  Twice the same step: W moves twice.
    X = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0]]))
    learner = MiniBatchOASIS(batch_size=3, aggressiveness=0.5)
    learner.partial_fit_triplets(X, [[0, 0, 1], [1, 0, 1], [1, 0, 1]])
    np.testing.assert_allclose(learner.bilinear_matrix_, [[1, 0], [1, 0]])
    assert (learner.n_steps_, learner.n_updates_) == (3, 2)
    # one after the other: the second sees the score -1 + 0.5 * 2 = 0, tau = min(0.5, 0.5)
    exact = OASIS(aggressiveness=0.5).partial_fit_triplets(X, [[1, 0, 1], [1, 0, 1], [1, 0, 1]])
    assert exact.n_updates_ == 2


@pytest.mark.parametrize("scale", [1e10, 1e-12])
def test_blocks_of_float32_rows_of_any_length_are_single_steps(scale):
    # Products of four such numbers are beyond float32.
    X = (sparse_rows(density=0.9).toarray() * scale).astype(np.float32)
    triplets, expected, W = random_triplets(60, 700), np.eye(50), np.eye(50, dtype=np.float32)
    n_expected = oasis_twins.step(X.astype(np.float64), triplets, 0.3, expected)
    n_updates = learn_in_dense_blocks(X, cut(triplets, 64), 0.3, W, in_order=True)
    apart = np.eye(50, dtype=np.float32)
    assert n_updates == pytest.approx(n_expected, abs=3)
    assert learn_in_dense_blocks(X, cut(triplets, 64), 0.3, apart, in_order=False) > 300
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-4 * abs(expected).max())


def test_learners_take_blocks_of_wide_dense_rows_and_learn_the_same(monkeypatch):
    # Too many rows for the dual form; more than half of the numbers are not 0.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 256)) * (rng.random((9000, 256)) < 0.6)
    X = normalize(X)
    triplets = rng.integers(9000, size=(300, 3))
    assert dense_blocks_pay(X, 300)
    assert not dual_pays(X, len(triplets))
    assert not dense_blocks_pay(X[:, :255], 300)
    assert not dense_blocks_pay(X, 63)
    assert not dense_blocks_pay(X * (rng.random(X.shape) < 0.8), 300)
    sizes = []

    def watched(X, batches, *others, in_order):
        batches = list(batches)
        sizes.append((in_order, [len(batch) for batch in batches]))
        return learn_in_dense_blocks(X, iter(batches), *others, in_order=in_order)

    for module in ("oasis", "oasis_parallel"):
        name = f"oasis_bench.algorithms.{module}.learn_in_dense_blocks"
        monkeypatch.setattr(name, watched)
    expected, apart = np.eye(256), np.eye(256)
    n_updates = oasis_twins.step(X, triplets, 0.1, expected)
    learner = OASIS(aggressiveness=0.1).partial_fit_triplets(X, triplets)
    np.testing.assert_allclose(learner.bilinear_matrix_, expected, rtol=0, atol=1e-12)
    assert learner.n_updates_ == n_updates
    for batch in cut(triplets, 64):
        oasis_twins.step_mini_batch(X, batch, 0.1, apart)
    for n_threads in (1, 2):
        batches = MiniBatchOASIS(aggressiveness=0.1, n_threads=n_threads)
        batches.partial_fit_triplets(X, triplets)
        np.testing.assert_allclose(batches.bilinear_matrix_, apart, rtol=0, atol=1e-12)
    by_64 = (False, [64] * 4 + [44])
    assert sizes == [(True, [128, 128, 44]), by_64, by_64]


def test_threads_of_blas_do_not_change_a_bit_of_dense_blocks():
    X, y = np.random.default_rng(0).normal(size=(4000, 300)), np.arange(4000) % 3
    one, several = (
        AveragedOASIS(n_learners=3, n_threads=n, n_steps=300, random_state=0) for n in (1, 3)
    )
    with threadpool_limits(1, "blas"):
        one.fit(X, y)
    with threadpool_limits(2, "blas"):
        before = n_blas_threads()
        several.fit(X, y)
        assert n_blas_threads() == before
    np.testing.assert_array_equal(one.bilinear_matrix_, several.bilinear_matrix_)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_the_number_of_threads_does_not_change_a_bit(n_threads):
    X, y = sparse_rows(200, 300, 0.05), np.arange(200) % 4
    one, several = (
        MiniBatchOASIS(batch_size=16, n_threads=n, n_steps=5000, random_state=0).fit(X, y)
        for n in (1, n_threads)
    )
    np.testing.assert_array_equal(one.bilinear_matrix_, several.bilinear_matrix_)


def test_oasis_on_wide_sparse_rows_takes_the_steps_of_the_twin():
    X = normalize(sparse.random_array((200, 1600), density=0.08, format="csr", rng=0))
    y, n_steps = np.arange(200) % 5, 320
    assert 0 < block_size(X, np.arange(n_steps) % 200) < n_steps
    learner = OASIS(n_steps=n_steps, random_state=0).fit(X, y)
    triplets = ClassTripletSampler(y, seed_state(learner._new_seed())).draw(n_steps)
    W = np.eye(1600)
    assert learner.n_updates_ == oasis_twins.step(X, triplets, learner.aggressiveness, W)
    np.testing.assert_allclose(learner.bilinear_matrix_, W, atol=1e-12)
