"""Ranking: mean average precision, queries against large galleries."""

import statistics
import time

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import OASIS, Euclidean
from oasis_bench.tasks import evaluate_ranking, top_k


class Ranking:
    """A given similarity, so that only the ranking is measured."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.X = np.arange(2000)[:, None]
        self.y = rng.integers(20, size=2000)
        self.scores = rng.random((2000, 2000))

    def look_up(self, queries, gallery):
        return self.scores[queries.ravel()]

    def time_mean_average_precision(self):
        evaluate_ranking(self.look_up, self.X, self.y, seed=0)

    def peakmem_mean_average_precision(self):
        evaluate_ranking(self.look_up, self.X, self.y, seed=0)


class DenseGallery:
    """The best 10 of a million rows of 512 numbers, for 256 queries, beside the matrix product."""

    params = ("OASIS", "Euclidean")
    param_names = ("learner",)
    timeout = 300

    def setup(self, name):
        rng = np.random.default_rng(0)
        self.gallery = rng.standard_normal((1_000_000, 512), dtype=np.float32)
        few, y = self.gallery[:400], np.arange(400) % 10
        learners = {"OASIS": OASIS(n_steps=1000, random_state=0), "Euclidean": Euclidean()}
        self.learner = learners[name].fit(few, y)

    def track_cpu_seconds_over_those_of_the_product(self, name):
        queries, ratios = self.gallery[:256], []
        for _ in range(3):
            start = time.process_time()
            top_k(self.learner.similarity, queries, self.gallery, 10, seed=0)
            ranked = time.process_time() - start
            start = time.process_time()
            for first in range(0, 256, 64):
                queries[first : first + 64] @ self.gallery.T
            ratios.append(ranked / (time.process_time() - start))
        return statistics.median(ratios)

    track_cpu_seconds_over_those_of_the_product.unit = "times"


class SparseGallery:
    """100 000 images of 10 000 features, 70 of them not zero, under a dense W: all float32."""

    params = (1, 2)
    param_names = ("threads",)
    timeout = 300

    def setup(self, threads):
        n, d, n_nonzero = 100_000, 10_000, 70
        rng = np.random.default_rng(0)
        columns = np.sort(rng.integers(d, size=(n, n_nonzero), dtype=np.int32))
        values = rng.random(columns.size, dtype=np.float32)
        indptr = np.arange(0, columns.size + 1, n_nonzero)
        self.X = sparse.csr_array((values, columns.ravel(), indptr), shape=(n, d))
        self.y = rng.integers(n // 400, size=n)
        self.queries = np.arange(320)
        self.learner = OASIS(n_steps=1, random_state=0).fit(self.X[:100], np.arange(100) % 2)
        self.learner.bilinear_matrix_ = rng.standard_normal((d, d), dtype=np.float32)

    def track_queries_per_second(self, threads):
        start = time.perf_counter()
        self.measure(threads)
        return len(self.queries) / (time.perf_counter() - start)

    track_queries_per_second.unit = "queries/s"

    def peakmem_mean_average_precision(self, threads):
        self.measure(threads)

    def time_top_10(self, threads):
        with threadpool_limits(threads):
            top_k(self.learner.similarity, self.X[:64], self.X, 10, seed=0)

    def measure(self, threads):
        with threadpool_limits(threads):
            evaluate_ranking(self.learner.similarity, self.X, self.y, 0, queries=self.queries)
