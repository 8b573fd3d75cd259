"""A learner that notes which rows it is shown; column 0 of the rows is their number."""

import json
from pathlib import Path

import numpy as np

from oasis_bench.plugins import BilinearLearner, IncrementalLearner


class Spy(BilinearLearner, IncrementalLearner):
    name = "Spy"
    summary = "notes which rows it is shown"
    citation = "none"

    def __init__(self, log="", scale=1.0, n_steps=10):
        self.log = log
        self.scale = scale
        self.n_steps = n_steps

    def _note(self, what, X):
        with Path(self.log).open("a") as log:
            print(json.dumps([what, X[:, 0].astype(int).tolist()]), file=log)

    def fit(self, X, y):
        return self._learn("fit", X)

    def partial_fit(self, X, y, n_steps=None):
        return self._learn("partial_fit", X)

    def _learn(self, what, X):
        self._note(what, X)
        self.n_features_in_ = X.shape[1]
        self.bilinear_matrix_ = self.scale * np.eye(X.shape[1])
        return self

    def similarity(self, queries, gallery):
        self._note("similarity", gallery)
        return super().similarity(queries, gallery)
