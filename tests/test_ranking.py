"""Ranks and best k against a full sort, and sparse scores against dense products."""

import signal
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from oasis_bench.algorithms import LDA, LMNN, OASIS, ClassifierPosterior, Euclidean
from oasis_bench.system import UsageError, side_by_side, work as work_module
from oasis_bench.tasks import evaluate_ranking, ranking, score_sparse, tie_order, top_k
from oasis_bench.tasks.ranking import places, relevant_ranks

# Two full chunks of a kernel and a bit.
N = 1100

KINDS = {
    "distinct": lambda rng, shape: rng.normal(size=shape),
    "few levels": lambda rng, shape: rng.integers(4, size=shape).astype(float),
    "mostly zero": lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.3),
    "constant": lambda rng, shape: np.full(shape, 0.1),
    "both zeros": lambda rng, shape: np.where(rng.random(shape) < 0.5, -0.0, 0.0),
    "infinite": lambda rng, shape: rng.choice([np.inf, -np.inf, 0, 1], shape),
    "all infinite": lambda rng, shape: rng.choice([np.inf, -np.inf], shape),
    "any size": lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-44, 38, shape),
    "near overflow": lambda rng, shape: rng.choice([-1.7e308, 1.7e308, 0, 5e-324], shape),
    "one far off": lambda rng, shape: np.where(rng.random(shape) < 0.01, 1e30, rng.random(shape)),
}


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def n_threads(request, monkeypatch):
    monkeypatch.setattr(work_module, "n_blas_threads", lambda: request.param)


def scores_of(kind, dtype, shape):
    with np.errstate(over="ignore", under="ignore"):
        return KINDS[kind](np.random.default_rng(0), shape).astype(dtype)


def sorted_others(scores, query, order):
    """Rank all images but the query by a full sort: the rule itself."""
    place = np.argsort(order)
    ranked = np.lexsort((place, -scores))
    return ranked[ranked != query]


def table_similarity(scores):
    """Return the similarity that looks rows up by the number that they hold."""
    return lambda queries, gallery: scores[np.ix_(queries[:, 0], gallery[:, 0])]


def numbered(n):
    return np.arange(n)[:, None]


def sparse_rows(shape, density=0.1, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(sparse.random(*shape, density, rng=rng), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_relevant", [1, 2, 40, N - 1])
def test_ranks_of_relevant_images_are_those_of_a_full_sort(kind, dtype, n_relevant):
    rng = np.random.default_rng(1)
    scores, order = scores_of(kind, dtype, (3, N)), rng.permutation(N)
    queries = np.array([0, 700, N - 1])
    relevant, left_out = np.zeros((2, 3, N), dtype=bool)
    for row, out, query in zip(relevant, left_out, queries, strict=True):
        others = rng.permutation(np.delete(np.arange(N), query))
        row[others[:n_relevant]] = True
        out[[query, *others[n_relevant:][:30]]] = True  # the query and its group
    matrices = sparse.csr_array(left_out), places(order), sparse.csr_array(relevant)
    found = relevant_ranks(scores, *matrices)
    for i, query in enumerate(queries):
        ranked = sorted_others(scores[i], query, order)
        hits = relevant[i, ranked[~left_out[i, ranked]]]
        np.testing.assert_array_equal(
            found[i * n_relevant : (i + 1) * n_relevant], np.flatnonzero(hits) + 1
        )


def test_ranks_are_exact_where_relevant_images_outnumber_the_cells():
    n = 70_000
    rng = np.random.default_rng(0)
    scores, order = rng.random((1, n), dtype=np.float32), rng.permutation(n)
    relevant = np.arange(n)[None] % 20 > 0
    found = relevant_ranks(
        scores, sparse.csr_array(np.arange(n)[None] == 0), places(order), sparse.csr_array(relevant)
    )
    hits = relevant[0, sorted_others(scores[0], 0, order)]
    np.testing.assert_array_equal(found, np.flatnonzero(hits) + 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 10, N - 1])
def test_the_best_k_are_the_first_k_of_a_full_sort(kind, dtype, k, n_threads):
    scores, rows = scores_of(kind, dtype, (N, N)), np.array([0, 700, N - 1])
    found, values = top_k(table_similarity(scores), rows[:, None], numbered(N), k, 5, rows)
    order = tie_order(5, N)
    expected = np.stack([sorted_others(scores[i], i, order)[:k] for i in rows])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores[rows], expected, axis=1))
    assert values.dtype == dtype


def test_a_query_that_is_not_left_out_is_ranked():
    scores = scores_of("few levels", float, (30, 30))
    found, _ = top_k(table_similarity(scores), numbered(30), numbered(30), 30, seed=1)
    place = places(tie_order(1, 30))
    expected = [sorted(range(30), key=lambda j: (-row[j], place[j])) for row in scores]
    np.testing.assert_array_equal(found, expected)


def test_blocks_and_threads_change_no_best_k(monkeypatch, n_threads):
    scores = scores_of("few levels", float, (50, 50))
    similarity, rows = table_similarity(scores), numbered(50)
    expected = top_k(similarity, rows, rows, 9, 0)
    for block_bytes, part in ((1, 1), (7 * 8 * 50, 100)):
        monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(ranking, "PART_SCORES", part)
        for found, whole in zip(top_k(similarity, rows, rows, 9, 0), expected, strict=True):
            np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f8", "f8"), ("f4", "f8"), ("f8", "f4")])
@pytest.mark.parametrize("n_queries", [1, 15, 33, 70])
def test_sparse_scores_are_those_of_a_dense_product(dtypes, n_queries, monkeypatch, n_threads):
    monkeypatch.setattr(ranking, "GALLERY_ROWS", 37)
    gallery = sparse_rows((203, 60), density=0.03, dtype=dtypes[0])
    assert (np.diff(gallery.indptr) == 0).sum() > 10
    projected = np.random.default_rng(1).normal(size=(n_queries, 60)).astype(dtypes[1])
    scores = np.full((n_queries, 203), np.nan, dtype=np.result_type(*dtypes))
    score_sparse(projected, gallery, scores)
    expected = projected.astype(float) @ gallery.toarray().astype(float).T
    np.testing.assert_allclose(scores, expected, atol=1e-5 if "f4" in dtypes else 1e-13)


def test_a_sparse_score_depends_on_no_block_no_thread_and_no_neighbour(monkeypatch):
    gallery, queries = sparse_rows((300, 50)), sparse_rows((40, 50), seed=1)
    gallery = sparse.vstack([gallery, gallery[::-1]]).tocsr()
    learner = OASIS(random_state=0)
    learner.bilinear_matrix_ = np.random.default_rng(0).normal(size=(50, 50))
    learner.n_features_in_ = 50
    whole = learner.similarity(queries, gallery)
    np.testing.assert_array_equal(whole[:, :300], whole[:, :299:-1])
    monkeypatch.setattr(work_module, "n_blas_threads", lambda: 3)
    monkeypatch.setattr(ranking, "GALLERY_ROWS", 11)
    monkeypatch.setattr(ranking, "QUERY_ROWS", 3)
    np.testing.assert_array_equal(learner.similarity(queries, gallery), whole)
    one_by_one = np.concatenate([learner.similarity(queries[[i]], gallery) for i in range(40)])
    np.testing.assert_array_equal(one_by_one, whole)


@pytest.mark.parametrize(
    ("part", "place", "value", "message"),
    [
        ("indices", 0, 10, "columns . to 10 of 10"),
        ("indices", 5, -1, "columns -1 to"),
        ("indptr", 4, 10**6, "indptr"),
        ("indptr", 4, 0, "indptr"),
        ("indptr", -1, 10**6, "indptr"),
        ("indptr", 0, -4, "indptr"),
    ],
)
def test_a_gallery_spoilt_after_it_was_made_is_refused(part, place, value, message):
    gallery = sparse_rows((20, 10), density=0.5)
    getattr(gallery, part)[place] = value
    with pytest.raises(ValueError, match=message):
        score_sparse(np.ones((3, 10)), gallery, np.empty((3, 20)))


@pytest.mark.parametrize(
    ("learner", "dtype"),
    [
        (LDA(), np.float32),
        (ClassifierPosterior(max_iter=5), np.float64),
        (OASIS(n_steps=50, random_state=0), np.float32),
        (Euclidean(), np.float64),
    ],
)
def test_equal_rows_in_the_order_of_their_classes_are_ranked_at_random(learner, dtype):
    # BLAS rounds the last three of 67 columns otherwise: in that order they found each other.
    y, found, nearest = np.r_[np.arange(64), [64, 64, 64]], [], []
    for draw in range(20):
        rng = np.random.default_rng(draw)
        learner.fit(rng.normal(size=(120, 100)).astype(dtype), np.arange(120) % 3)
        X = np.tile(rng.normal(size=100).astype(dtype), (67, 1))
        for similarity in (learner.similarity, lambda q, g: learner.similarity(q, g)):
            for seed in range(5 * draw, 5 * draw + 5):
                found.append(evaluate_ranking(similarity, X, y, seed))
            rows, _ = top_k(similarity, X[64:], X, 2, seed, left_out=[64, 65, 66])
            nearest.append((rows >= 64).mean())
        assert learner.score(X, y) < 0.5
    values = np.array([one.mean_average_precision for one in found])
    assert values.mean() == pytest.approx(found[0].chance_level, abs=4 * values.std() / 10)
    assert np.mean(nearest) < 0.2  # chance: 2 of 66


def test_no_queries_and_a_k_out_of_bounds_are_refused():
    X, y = load_digits(return_X_y=True)
    learner = LDA().fit(X, y)
    with pytest.raises(UsageError, match="there are no queries: give at least one"):
        top_k(learner.similarity, X[:0], X, 5, seed=0)
    for k_max in (0, 51):
        with pytest.raises(UsageError, match=f"k_max = {k_max}: give a number from 1 to 50"):
            evaluate_ranking(learner.similarity, X, y, 0, k_max)


def test_a_ranking_holds_a_block_of_scores_and_not_those_of_all_pairs(monkeypatch):
    n, block_bytes = 3000, 2**20
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes)
    X = sparse_rows((n, 20), dtype=np.float32)
    learner = OASIS(n_steps=10, random_state=0).fit(X, np.arange(n) % 2)
    tracemalloc.start()
    try:
        top_k(learner.similarity, X, X, 1, seed=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert block_bytes / 2 < peak < 3 * block_bytes < 4 * n * n / 10


@pytest.mark.parametrize("count", [1, 2], ids=["one thread", "two threads"])
def test_after_ctrl_c_no_further_item_is_begun(count, monkeypatch):
    ended = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            ended.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr(work_module, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(work_module, "n_blas_threads", lambda: count)
    begun = []

    def work(item):
        begun.append(item)
        if item == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        if item >= 3:
            ended.wait(1)  # a signal just before the main thread waits is seen when an item ends

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(200))
    assert len(begun) < 20


class CountingLMNN(LMNN):
    """Counts how often items are embedded."""

    calls = 0

    def embed(self, X):
        """As in LMNN."""
        self.calls += 1
        return super().embed(X)


def test_the_gallery_of_a_learner_is_embedded_once_not_once_a_block(monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 8 * 300 * 10)
    X, y = load_digits(n_class=4, return_X_y=True)
    learner = CountingLMNN(max_iter=5, tol=0.5).fit(X[:100], y[:100])
    rows, scores = top_k(learner.similarity, X[400:450], X[:300], 5, seed=0)
    assert learner.calls == 1 + 5  # the gallery, and blocks of queries
    measured = evaluate_ranking(learner.similarity, X[:300], y[:300], seed=0)
    assert learner.calls == 7

    def asked(queries, gallery):
        return learner.similarity(queries, gallery)

    expected = top_k(asked, X[400:450], X[:300], 5, seed=0)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-9)
    others = evaluate_ranking(asked, X[:300], y[:300], seed=0)
    assert measured.mean_average_precision == pytest.approx(others.mean_average_precision)
    assert learner.calls == 7 + 2 * 5 + 2 * 30
