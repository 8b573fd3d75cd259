"""LMNN: CPU time, memory and objective against n on MNIST, and its gap to the minimum on digits."""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import LMNN, FastLMNN
from oasis_bench.datasets import MNIST


def images(n):
    """Return the first n images of MNIST, which are in random order, at unit length."""
    loaded = MNIST().load()
    return normalize(loaded.X[:n].astype(np.float64)), loaded.y[:n]


class AgainstRows:
    """n = 60 000 takes minutes: `asv run --bench AgainstRows` with a budget of an hour."""

    params = (1000, 2000, 5000, 10_000, 20_000, 60_000)
    param_names = ("n",)
    timer = time.process_time
    timeout = 3600
    number = repeat = 1
    warmup_time = 0

    def setup(self, n):
        self.rows = images(n)

    def time_fit(self, n):
        FastLMNN().fit(*self.rows)

    def peakmem_fit(self, n):
        FastLMNN().fit(*self.rows)

    def track_objective_of_a_row(self, n):
        return FastLMNN().fit(*self.rows).objective_ / n

    track_objective_of_a_row.unit = "eps / n"


class Digits:
    """1000 digits of 64 pixels, to the proven gap of a thousandth."""

    timer = time.process_time

    def setup(self):
        X, y = load_digits(return_X_y=True)
        self.rows = normalize(X[:1000]), y[:1000]

    def time_fit(self):
        LMNN().fit(*self.rows)

    def track_gap(self):
        return LMNN().fit(*self.rows).gap_

    track_gap.unit = "of the objective"
