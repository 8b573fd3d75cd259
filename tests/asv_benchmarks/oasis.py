"""OASIS: time of 20 000 steps, sampling included, and the mAP that a fit reaches."""

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS
from oasis_bench.measures import evaluate_ranking

N_STEPS = 20_000


def sparse_rows(d, dtype, n_rows=2000, n_nonzero=70):
    """Rows of unit length with 70 non-zeros, and ten classes that they do not depend on."""
    rng = np.random.default_rng(0)
    columns = np.sort([rng.choice(d, n_nonzero, replace=False) for _ in range(n_rows)])
    indptr = np.arange(0, n_rows * n_nonzero + 1, n_nonzero)
    values = rng.random(n_rows * n_nonzero)
    X = sparse.csr_array((values, columns.ravel(), indptr), shape=(n_rows, d))
    return normalize(X).astype(dtype), rng.integers(10, size=n_rows)


class Sparse:
    """Nearly every step is an update: the classes are noise."""

    params = ([1000, 10_000], ["float32", "float64"])
    param_names = ("d", "dtype")

    def setup(self, d, dtype):
        self.rows = sparse_rows(d, dtype)
        self.learner = OASIS(n_steps=N_STEPS, random_state=0).fit(*self.rows)

    def time_steps(self, d, dtype):
        self.learner.partial_fit(*self.rows)


class Digits:
    """Dense rows of 64 features."""

    params = (["float32", "float64"],)
    param_names = ("dtype",)

    def setup(self, dtype):
        X, y = load_digits(return_X_y=True)
        self.rows = normalize(X).astype(dtype), y
        self.learner = OASIS(n_steps=N_STEPS, random_state=0)

    def time_steps(self, dtype):
        self.learner.fit(*self.rows)

    def track_mean_average_precision(self, dtype):
        (X, y), learned = self.rows, slice(0, 900)
        learner = OASIS(n_steps=200_000, random_state=0).fit(X[learned], y[learned])
        measured = evaluate_ranking(learner.similarity, X[900:], y[900:], seed=0)
        return measured.mean_average_precision

    track_mean_average_precision.unit = "mAP"
