"""Ranking: time and memory of mean average precision over 2000 images."""

import numpy as np

from oasis_bench.measures import evaluate_ranking


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
