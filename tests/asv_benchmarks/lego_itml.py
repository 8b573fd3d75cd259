"""LEGO: CPU time of its steps beside NumPy's; ITML: CPU time of a fit, and how near the optimum."""

import statistics
import time

import numpy as np
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import ITML, LEGO, _lego_reference
from oasis_bench.algorithms.itml import (
    draw_pairs,
    project_cyclically,
    squared_distance_bounds,
)

ROUNDS = 3


def classes(n, d, n_classes=10):
    """Rows of unit length, drawn around the centre of their class."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    return normalize(rng.normal(size=(n_classes, d))[y] + 2 * rng.normal(size=(n, d))), y


def cpu_seconds(call, *arguments):
    start = time.process_time()
    call(*arguments)
    return time.process_time() - start


class LEGOSteps:
    """A step is a triplet, two pairs; checks of the input and sampling included."""

    params = (64, 100, 784, 1000)
    param_names = ("features",)
    timer = time.process_time
    timeout = 300

    def setup(self, d):
        self.rows = classes(5000, d)
        self.n_steps = 2_000_000 // d
        self.learner = LEGO(n_steps=self.n_steps, random_state=0).fit(*self.rows)

    def track_microseconds_a_step(self, d):
        spent = [cpu_seconds(self.learner.partial_fit, *self.rows) for _ in range(ROUNDS)]
        return 1e6 * statistics.median(spent) / self.n_steps

    track_microseconds_a_step.unit = "us"

    def track_time_of_numpy_over_ours(self, d):
        X, _ = self.rows
        triplets = np.random.default_rng(1).integers(len(X), size=(50_000 // d, 3))
        A, bounds = self.learner.mahalanobis_matrix_.copy(), self.learner.bounds_
        ratios = []
        for _ in range(ROUNDS):
            plain = cpu_seconds(_lego_reference.step, X, triplets, 0.08, *bounds, A)
            ours = cpu_seconds(self.learner.partial_fit, *self.rows)
            ratios.append(plain / len(triplets) * self.n_steps / ours)
        return statistics.median(ratios)

    track_time_of_numpy_over_ours.unit = "times ours"


class ITMLFit:
    """To the default tolerance, or 1000 passes."""

    params = ([(800, 100), (400, 1000)], [0.01, 0.1, 1.0])
    param_names = ("rows and features", "gamma")
    timer = time.process_time
    timeout = 600

    def setup(self, shape, gamma):
        self.rows = classes(*shape)

    def time_fit(self, shape, gamma):
        ITML(gamma, random_state=0).fit(*self.rows)


class ITMLPass:
    """One pass over 3600 pairs; the authors' code stops after 28 of them."""

    params = ([(800, 100), (2000, 784), (2000, 1000)],)
    param_names = ("rows and features",)
    timer = time.process_time

    def setup(self, shape):
        self.X, y = classes(*shape)
        rng = np.random.RandomState(0)
        self.bounds = squared_distance_bounds(self.X, rng)
        self.pairs = draw_pairs(self.X, y, 3600, rng)

    def time_pass(self, shape):
        project_cyclically(self.X, self.pairs, self.bounds, 1.0, 1, 0.0)
