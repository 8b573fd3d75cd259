"""The posterior use: votes of training rows, beside the direct scores of the same pairs."""

import statistics
import time

import numpy as np

from oasis_bench.algorithms import Euclidean
from oasis_bench.plugins import TAUS, Posterior


class Votes:
    """2 000 queries and 10 000 training rows of 128 numbers, in 100 classes."""

    timeout = 300

    def setup(self):
        rng = np.random.default_rng(0)
        self.rows, self.y = rng.standard_normal((10_000, 128)), rng.integers(100, size=10_000)
        self.queries = rng.standard_normal((2000, 128))
        self.learner = Euclidean().fit(self.rows, self.y)
        self.posterior = Posterior(self.learner, 0.3).fit(self.rows, self.y)

    def time_scale_of_the_votes(self):
        Posterior(self.learner).fit(self.rows, self.y)

    def time_votes_with_one_tau(self):
        self.posterior.embed(self.queries)

    def time_votes_with_every_tau(self):
        self.posterior.shares(self.queries, TAUS)

    def peakmem_votes_of_the_training_rows(self):
        self.posterior.embed_training(np.arange(len(self.rows)))

    def track_cpu_seconds_over_those_of_the_direct_scores(self):
        ratios = []
        for _ in range(3):
            start = time.process_time()
            self.posterior.embed(self.queries)
            voted = time.process_time() - start
            start = time.process_time()
            self.learner.similarity(self.queries, self.rows)
            ratios.append(voted / (time.process_time() - start))
        return statistics.median(ratios)

    track_cpu_seconds_over_those_of_the_direct_scores.unit = "times"
