"""CPU time to choose hyper-parameters and steps, beside a fit, on rows like few embeddings.

400 rows of 1280 features in ten classes: the inner folds learn from 320 and validate on 80.
"""

import time
from contextlib import nullcontext

import numpy as np
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import normalize

from oasis_bench.experiment.search import Candidate
from oasis_bench.experiment.splits import inner_folds
from oasis_bench.plugins.registry import load_registry
from oasis_bench.tasks.task import Truth
from oasis_bench.trial.choice import choose
from oasis_bench.trial.fit_data import FitData

LEARNERS = ["OASIS", "CosineOASIS", "LDA", "RCA", "LFDA", "MCML", "LMNN"]
N_ROWS, N_FEATURES, N_CLASSES, N_FOLDS, MAX_STEPS = 400, 1280, 10, 5, 8000


def embeddings():
    """Draw rows of unit length about the mean of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % N_CLASSES
    spread = rng.normal(size=(N_ROWS, N_FEATURES)) * np.linspace(2, 0.1, N_FEATURES)
    rows = spread + 0.3 * rng.normal(size=(N_CLASSES, N_FEATURES))[y]
    return normalize(rows).astype(np.float32), y


def fit_data_of(fold, X, y):
    truth = Truth(y=y[fold.validate], training=y[fold.learn])
    return FitData(X[fold.learn], y[fold.learn], None, 0, X[fold.validate], truth)


class Embeddings400x1280:
    params = (LEARNERS,)
    param_names = ("learner",)
    timer = time.process_time
    timeout = 300
    number = 1

    def setup(self, name):
        self.X, self.y = embeddings()
        self.learner = load_registry().algorithms[name]
        grid = ParameterGrid(dict(self.learner.search_space))
        self.candidates = [Candidate("none", params) for params in grid]
        self.fit_data = [
            fit_data_of(fold, self.X, self.y) for fold in inner_folds(self.y, N_FOLDS, seed=0)
        ]

    def time_choosing(self, name):
        inner = self.learner.inner_params
        choose(
            lambda params, fold: self.learner().set_params(**inner, **params),
            [
                Candidate("none", params)
                for params in ParameterGrid(dict(self.learner.search_space))
            ],
            lambda scaling: self.fit_data,
            lambda learner, data: learner.score(data.queries, data.truth.y),
            MAX_STEPS,
            lambda phase: nullcontext(),
            lambda point: None,
        )

    def time_one_fit(self, name):
        learner = self.learner()
        if "n_steps" in learner.get_params():
            learner.set_params(n_steps=MAX_STEPS)
        learner.fit(self.X, self.y)
