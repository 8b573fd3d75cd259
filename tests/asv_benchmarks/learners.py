"""Fits of learners from labels and of LEGO: CPU time, memory, objective."""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import (
    GMML,
    ITML,
    LEGO,
    LFDA,
    LMNN,
    MCML,
    MMC,
    NCA,
    PLDA,
    RCA,
    Covariance,
    FastLMNN,
    ForestProximity,
)
from oasis_bench.algorithms.nca import Objective
from oasis_bench.datasets import MNIST

SAME = 1e-3
"""Share of scikit-learn's objective by which ours may end lower: neither has one maximum."""


def classes(n, d, n_classes=10):
    """Rows of unit length, drawn about the mean of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return normalize(rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n_classes, d))[y]), y


def digits(n):
    """Return the first n digits, of 64 pixels, at unit length."""
    X, y = load_digits(return_X_y=True)
    return normalize(X[:n]), y[:n]


def images(n):
    """Return the first n images of MNIST, which are in random order, at unit length."""
    loaded = MNIST().load()
    return normalize(loaded.X[:n].astype(np.float64)), loaded.y[:n]


LEARNERS = {
    **{it.name: it() for it in (LMNN, MCML, MMC, RCA, LFDA, GMML, PLDA, Covariance)},
    **{it.name: it(random_state=0) for it in (NCA, ITML, ForestProximity)},
    "LEGO": LEGO(n_steps=20_000, random_state=0),
}
MANY_ROWS = {"FastLMNN": FastLMNN(), "NCA to 8": NCA(8)}


class Fit:
    """On 400 digits of 64 pixels, and on as many generated rows of 500 features."""

    params = (list(LEARNERS), ["digits", "500 features"])
    param_names = ("learner", "rows")
    timer = time.process_time
    timeout = 600

    def setup(self, name, kind):
        self.rows = digits(400) if kind == "digits" else classes(400, 500)
        self.learner = LEARNERS[name]

    def time_fit(self, name, kind):
        self.learner.fit(*self.rows)

    def peakmem_fit(self, name, kind):
        self.learner.fit(*self.rows)


class FewRows:
    """How many times as long a fit takes with 260 rows as with 250, at 500 features.

    With at most half as many rows as features, ITML takes its steps in the rows' span.
    """

    timeout = 600

    def track_260_rows_over_250(self):
        with threadpool_limits(1):  # threads that wait for each other spin
            more, half = (fit_seconds(LEARNERS["ITML"], *classes(n, 500)) for n in (260, 250))
        return more / half

    track_260_rows_over_250.unit = "times"


class AgainstRows:
    """60 000 rows take minutes: `asv run --bench AgainstRows` with a budget of an hour."""

    params = (list(MANY_ROWS), (1000, 2000, 10_000, 60_000))
    param_names = ("learner", "n")
    timer = time.process_time
    timeout = 3600
    number = repeat = 1
    warmup_time = 0

    def setup(self, name, n):
        if name.startswith("NCA") and n > 10_000:
            raise NotImplementedError  # asv leaves it out
        self.rows = images(n)

    def time_fit(self, name, n):
        MANY_ROWS[name].fit(*self.rows)

    def peakmem_fit(self, name, n):
        MANY_ROWS[name].fit(*self.rows)

    def track_objective_of_a_row(self, name, n):
        return MANY_ROWS[name].fit(*self.rows).objective_ / n


def fit_seconds(learner, X, y):
    start = time.process_time()
    learner.fit(X, y)
    return time.process_time() - start


class BesideScikitLearn:
    params = (8, 32, None)
    param_names = ("n_components",)
    timeout = 600

    def track_scikit_learn_over_ours(self, n_components):
        """Divide CPU seconds on 2000 images: its NCA, by one of ours that ends no lower."""
        X, y = images(2000)
        options = {"n_components": n_components, "random_state": 0}
        with threadpool_limits(1):  # threads that wait for each other spin
            NCA(2).fit(X[:200], y[:200])
            theirs = NeighborhoodComponentsAnalysis(**options)
            seconds = fit_seconds(theirs, X, y)
            aim, _ = Objective(X, y).value_and_gradient(theirs.components_.astype(np.float64))
            for tol in (1e-5, 1e-6, 1e-7, 1e-8):
                ours = NCA(tol=tol, **options)
                ratio = seconds / fit_seconds(ours, X, y)
                if ours.objective_ >= aim * (1 - SAME):
                    return ratio
        return float("nan")  # never

    track_scikit_learn_over_ours.unit = "times ours"
