"""Local distance functions: CPU time of a pass, and passes and gap of a fit, 15 items a class."""

import time

import numpy as np

from oasis_bench.algorithms import LocalDistances

N_FEATURES = 400


def classes_of_rows(n_classes):
    """Draw rows that vary as much within classes as between them, in the same few directions."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 15)
    axes = rng.normal(size=(20, N_FEATURES))
    centres, rows = rng.normal(size=(n_classes, 20)), rng.normal(size=(len(y), 20))
    noise = rng.normal(size=(len(y), N_FEATURES))
    return ((centres[y] + rows) @ axes / 10 + noise).astype(np.float32), y


class Fit:
    params = ([4, 12],)
    param_names = ("classes",)
    timer = time.process_time
    timeout = 300

    def setup(self, n_classes):
        self.rows = classes_of_rows(n_classes)

    def time_ten_passes(self, n_classes):
        learner = LocalDistances(C=1e-3, max_passes=10, tol=1, random_state=0)
        learner.fit(*self.rows)

    def peakmem_fit(self, n_classes):
        LocalDistances(C=1e-3, random_state=0).fit(*self.rows)

    def track_passes(self, n_classes):
        """To a gap of 1e-3."""
        learner = LocalDistances(C=1e-3, least_growth=0, random_state=0)
        return learner.fit(*self.rows).n_passes_
