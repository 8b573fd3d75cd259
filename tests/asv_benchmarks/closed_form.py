"""RCA, MMC, LFDA and Covariance: CPU time and peak memory of a fit, in features."""

import time

import numpy as np

from oasis_bench.algorithms import LFDA, MMC, RCA, Covariance

N_ROWS = 2000
N_CLASSES = 10
LEARNERS = {learner.name: learner for learner in (RCA, MMC, LFDA, Covariance)}


def classes_of_rows(d):
    """Draw rows whose features vary by 2 down to 0.5, about the mean of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % N_CLASSES
    rows = rng.normal(size=(N_ROWS, d)) * np.linspace(2, 0.5, d)
    return rows + 0.5 * rng.normal(size=(N_CLASSES, d))[y], y


class Fit:
    params = (list(LEARNERS), [100, 1000])
    param_names = ("learner", "d")
    timer = time.process_time
    timeout = 300

    def setup(self, name, d):
        self.rows = classes_of_rows(d)
        self.learner = LEARNERS[name]()

    def time_fit(self, name, d):
        self.learner.fit(*self.rows)

    def peakmem_fit(self, name, d):
        self.learner.fit(*self.rows)


class Gap:
    """What MMC is proven to be away from its optimum, and the iterations it took."""

    params = ([100, 1000],)
    param_names = ("d",)
    timeout = 300

    def setup(self, d):
        self.learner = MMC().fit(*classes_of_rows(d))

    def track_gap(self, d):
        return self.learner.gap_

    def track_iterations(self, d):
        return self.learner.n_iter_
