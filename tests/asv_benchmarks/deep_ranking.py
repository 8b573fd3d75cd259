"""Deep Ranking: triplets that its sampler draws, and pictures that a stream brings, a second."""

import time

import numpy as np

from oasis_bench.algorithms.deep_ranking.reservoir import Reservoir, ReservoirSampler

PICTURES = 140
"""Of a category: the paper's results of a text query."""


def relevance(n_categories):
    """Draw a symmetric relevance of pictures within categories: a matrix for each of them."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((n_categories, PICTURES, PICTURES)) ** 3, 1)
    return upper + upper.transpose(0, 2, 1)


class Sampler:
    """The margin is half the mean relevance; a fifth of the negatives are of other categories."""

    params = ([10, 200], [40, 140])
    param_names = ("categories", "capacity")
    timer = time.process_time

    def setup(self, n_categories, capacity):
        R = relevance(n_categories)
        items = np.arange(n_categories * PICTURES)
        self.stream = (items, items // PICTURES, R.sum(axis=2).ravel())
        reservoir = Reservoir(capacity, 0)
        reservoir.add(*self.stream)
        self.sampler = ReservoirSampler(
            reservoir,
            lambda a, b: R[a // PICTURES, a % PICTURES, b % PICTURES],
            margin=R.mean() / 2,
        )
        self.rng = np.random.default_rng(0)

    def time_a_thousand_triplets(self, n_categories, capacity):
        self.sampler.draw(1000, self.rng)

    def time_the_stream(self, n_categories, capacity):
        Reservoir(capacity, 0).add(*self.stream)

    def track_rejected_a_triplet(self, n_categories, capacity):
        self.sampler.draw(1000, self.rng)
        sampler = self.sampler
        return (sampler.n_rejected_positives + sampler.n_rejected_negatives) / sampler.n_triplets
