"""CPU time to choose hyper-parameters and steps, beside a fit with what was chosen.

Tracked by asv on 400 rows of 1280 features in ten classes, like embeddings; as a script
(`python tests/asv_benchmarks/choosing.py`) it prints a table of these rows and of digits.
"""

import statistics
import time
from contextlib import nullcontext

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.experiment.search import Candidate
from oasis_bench.experiment.splits import inner_folds
from oasis_bench.plugins.registry import load_registry
from oasis_bench.tasks.task import Truth
from oasis_bench.trial.choice import choose
from oasis_bench.trial.fit_data import FitData

LEARNERS = ["OASIS", "CosineOASIS", "LDA", "RCA", "LFDA", "MCML", "LMNN"]
OF_TABLE = [*LEARNERS, "ShrunkOASIS", "FastLMNN", "NCA", "MMC"]
N_ROWS, N_FEATURES, N_CLASSES, N_FOLDS, MAX_STEPS = 400, 1280, 10, 5, 8000
REPEATS = 5


def embeddings():
    """Draw rows of unit length about the mean of their class."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % N_CLASSES
    spread = rng.normal(size=(N_ROWS, N_FEATURES)) * np.linspace(2, 0.1, N_FEATURES)
    rows = spread + 0.3 * rng.normal(size=(N_CLASSES, N_FEATURES))[y]
    return normalize(rows).astype(np.float32), y


def digits():
    """Return 400 of scikit-learn's digits at unit length."""
    X, y = load_digits(return_X_y=True)
    return normalize(X[:N_ROWS]), y[:N_ROWS]


def fit_data_of(fold, X, y):
    truth = Truth(y=y[fold.validate], training=y[fold.learn])
    return FitData(X[fold.learn], y[fold.learn], None, 0, X[fold.validate], truth)


def choice_on(learner, X, y, seed=0):
    """Choose as a trial does, by mean average precision on inner folds drawn by the seed."""
    folds = [fit_data_of(fold, X, y) for fold in inner_folds(y, N_FOLDS, seed=seed)]
    return choose(
        lambda params, fold: learner().set_params(**learner.inner_params, **params),
        [Candidate("none", params) for params in ParameterGrid(dict(learner.search_space))],
        lambda scaling: folds,
        lambda fitted, data: fitted.score(data.queries, data.truth.y),
        MAX_STEPS,
        lambda phase: nullcontext(),
        lambda point: None,
    )


class Embeddings400x1280:
    params = (LEARNERS,)
    param_names = ("learner",)
    timer = time.process_time
    timeout = 300
    number = 1

    def setup(self, name):
        self.rows = embeddings()
        self.learner = load_registry().algorithms[name]

    def time_choosing(self, name):
        choice_on(self.learner, *self.rows)

    def time_one_fit(self, name):
        learner = self.learner()
        if "n_steps" in learner.get_params():
            learner.set_params(n_steps=MAX_STEPS)
        learner.fit(*self.rows)


def seconds_of(work):
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def measured(learner, rows, seed):
    """Return the CPU seconds of choosing, and of a fit with what was chosen."""
    choosing, choice = seconds_of(lambda: choice_on(learner, *rows, seed))
    chosen = learner().set_params(**choice.params)
    if choice.n_steps is not None:
        chosen.set_params(n_steps=choice.n_steps)
    return choosing, seconds_of(lambda: chosen.fit(*rows))[0]


def print_table():
    """Print medians over folds that are drawn anew, with the least and the most."""
    known = load_registry().algorithms
    for words, rows in (("400 x 1280, like embeddings", embeddings()), ("digits", digits())):
        print(f"\n| {words} | choosing, CPU s | a fit, CPU s | times |\n|---|---|---|---|")
        for name in OF_TABLE:
            with threadpool_limits(1):
                times = [measured(known[name], rows, seed) for seed in range(REPEATS)]
            columns = [*zip(*times, strict=True), [choosing / fit for choosing, fit in times]]
            cells = [f"{statistics.median(c):.3g} ({min(c):.3g} - {max(c):.3g})" for c in columns]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print_table()
