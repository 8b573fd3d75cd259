"""A learner that learns nothing: a random projection, another one for each draw and fit."""

import numpy as np
from sklearn.utils import check_random_state

from oasis_bench.plugins import MahalanobisLearner


class RandomProjection(MahalanobisLearner):
    """All draws have the same expected value: no one of them is better than another."""

    name = "RandomProjection"
    summary = "a random projection: nothing is learned"
    citation = cost = "none"
    needs_labels = False

    def __init__(self, draw=0, n_components=8, random_state=None):
        self.draw = draw
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X, y=None):
        X = self._validated(X, dtype=[np.float64, np.float32])
        seed = check_random_state(self.random_state).randint(2**31)
        rng = np.random.default_rng([self.draw, seed])
        self.components_ = rng.normal(size=(self.n_components, X.shape[1]))
        return self
