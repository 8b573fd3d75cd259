"""A learner that refuses to learn with more axes than a class has rows."""

import numpy as np

from oasis_bench.plugins import MahalanobisLearner


class Refuses(MahalanobisLearner):
    name = "Refuses"
    summary = "refuses more axes than a class has rows"
    citation = "none"
    search_space = {"n_axes": (2, 8)}  # noqa: RUF012

    def __init__(self, n_axes=2):
        self.n_axes = n_axes

    def refusal(self, X, y):
        rows = np.unique(y, return_counts=True)[1].min()
        return f"{self.n_axes} axes, but {rows} rows" if rows < self.n_axes else None

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        self.components_ = np.eye(self.n_axes, X.shape[1])
        return self
