"""An embedding learner that takes pixels."""

import numpy as np

from oasis_bench.plugins import EmbeddingLearner


class Eigenpictures(EmbeddingLearner):
    name = "Eigenpictures"
    summary = "pictures on their principal axes"
    citation = "Turk & Pentland, CVPR 1991"
    takes = "pixels"

    def fit(self, X, y=None):
        self.axes_ = np.linalg.svd(X.reshape(len(X), -1) / 255, full_matrices=False)[2][:16]
        return self

    def embed(self, X):
        return self._check_items(X).reshape(len(X), -1) / 255 @ self.axes_.T
