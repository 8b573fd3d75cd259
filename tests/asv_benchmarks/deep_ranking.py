"""Deep Ranking: what its sampler draws, and what its network learns from and embeds."""

import importlib.util
import time

import numpy as np

from oasis_bench.algorithms import DeepRanking
from oasis_bench.algorithms.deep_ranking import RelevanceSampler, reservoir

PICTURES = 140
"""Of a category: the paper's results of a text query."""


def relevance(n_categories):
    """Draw a symmetric relevance of pictures within categories: a matrix for each of them."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((n_categories, PICTURES, PICTURES)) ** 3, 1)
    return upper + upper.transpose(0, 2, 1)


class Sampler:
    """The margin is half the mean relevance; a fifth of the negatives are of other categories."""

    params = ([10, 200], ["weighted", "uniform", "reservoir"])
    param_names = ("categories", "sampling")
    timer = time.process_time

    def setup(self, n_categories, sampling):
        R = relevance(n_categories)
        items = np.arange(n_categories * PICTURES)
        self.stream = (items, items // PICTURES, R.sum(axis=2).ravel())
        given = self.stream
        if sampling == "reservoir":
            given = reservoir(*self.stream, PICTURES, 0)
        self.sampler = RelevanceSampler(
            *given,
            lambda a, b: R[a // PICTURES, a % PICTURES, b % PICTURES],
            sampling,
            margin=R.mean() / 2,
        )
        self.rng = np.random.default_rng(0)

    def time_a_thousand_triplets(self, n_categories, sampling):
        self.sampler.draw(1000, self.rng)

    def time_the_stream(self, n_categories, sampling):
        reservoir(*self.stream, PICTURES, 0)

    def track_dropped_a_triplet(self, n_categories, sampling):
        self.sampler.draw(1000, self.rng)
        return self.sampler.n_dropped / 1000


class Network:
    """Batches of 32 triplets, each of other pictures, on as many threads as torch takes."""

    params = (["small 64", "efficientnet-lite0 224"],)
    param_names = ("backbone",)
    timer = time.process_time
    timeout = 300

    def setup(self, backbone):
        if not importlib.util.find_spec("torch"):
            raise NotImplementedError('pip install -e ".[deep]"')
        name, side = backbone.split()
        self.pictures = np.random.default_rng(0).integers(
            0, 256, (96, int(side), int(side), 3), dtype=np.uint8
        )
        self.triplets = np.arange(96).reshape(32, 3)
        self.learner = DeepRanking(name, random_state=0)
        self.learner.partial_fit_triplets(self.pictures, self.triplets[:0])

    def time_a_batch(self, backbone):
        self.learner.partial_fit_triplets(self.pictures, self.triplets)

    def time_loading_a_batch(self, backbone):
        from oasis_bench.algorithms._ranking_network import as_tensor, shifted

        taken = self.pictures[self.triplets.ravel()]
        as_tensor(shifted(taken, self.learner.shift, np.random.default_rng(0)), "cpu")

    def time_96_embeddings(self, backbone):
        self.learner.embed(self.pictures)
