"""CPU time to choose hyper-parameters and steps, beside a fit with what was chosen.

Tracked by asv on 400 rows of 1280 features in ten classes, like embeddings; as a script
(`python tests/asv_benchmarks/choosing.py`) it prints a table of these rows and of digits, and one
of what is lost, and saved, where the search for the number of steps stops by its patience.
"""

import statistics
import time
from contextlib import nullcontext
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.datasets import MNIST
from oasis_bench.experiment import Candidate
from oasis_bench.plugins import Registry
from oasis_bench.tasks import SeenClassesSplit, Truth, draw_partition
from oasis_bench.trial import FitData
from oasis_bench.trial.learner_side.tuning import FoldJob, FoldWork, tune
from oasis_bench.trial.wall import checkpoints

LEARNERS = ["OASIS", "CosineOASIS", "LDA", "RCA", "LFDA", "MCML", "LMNN"]
OF_TABLE = [*LEARNERS, "WhitenedOASIS", "FastLMNN", "NCA", "MMC"]
N_ROWS, N_FEATURES, N_CLASSES, N_FOLDS, MAX_STEPS = 400, 1280, 10, 5, 8000
REPEATS = 5

HELD_BACK = range(1000, 1010)
"""Seeds of the table of patience: none was looked at when its rule was chosen."""

WITH_STEPS = ["OASIS", "CosineOASIS", "ProjOASIS", "OnlineProjOASIS", "LogDetOASIS", "LEGO"]
LONG = 256_000
"""Steps up to which all checkpoints are validated."""


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
    truth = Truth(y=y[fold.test], training=y[fold.train])
    return FitData(X[fold.train], y[fold.train], None, 0, X[fold.test], truth)


def folds_of(X, y, seed):
    return [
        fit_data_of(fold, X, y)
        for fold in SeenClassesSplit(None).inner_folds(y, None, N_FOLDS, seed=seed)
    ]


def seeded(learner, **params):
    made = learner().set_params(**params)
    return made.set_params(random_state=0) if "random_state" in made.get_params() else made


def inner(learner, params):
    return seeded(learner, **learner.inner_params, **params)


def score(fitted, data):
    return fitted.score(data.queries, data.truth.y)


def off_the_clock(phase):
    return nullcontext()


def choice_among(learner, candidates, folds, max_steps):
    """Choose as a trial does, by mean average precision on inner folds."""
    return tune(
        lambda params, fold: inner(learner, params),
        [Candidate("none", params) for params in candidates],
        lambda scaling: folds,
        score,
        max_steps,
        off_the_clock,
        lambda point: None,
    )


def choice_on(learner, X, y, seed=0):
    """Choose from the learner's own search space, on folds drawn by the seed."""
    candidates = ParameterGrid(dict(learner.search_space))
    return choice_among(learner, candidates, folds_of(X, y, seed), MAX_STEPS)


class Embeddings400x1280:
    params = (LEARNERS,)
    param_names = ("learner",)
    timer = time.process_time
    timeout = 300
    number = 1

    def setup(self, name):
        self.rows = embeddings()
        self.learner = Registry.load().algorithms[name]

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
    known = Registry.load().algorithms
    for words, rows in (("400 x 1280, like embeddings", embeddings()), ("digits", digits())):
        print(f"\n| {words} | choosing, CPU s | a fit, CPU s | times |\n|---|---|---|---|")
        for name in OF_TABLE:
            with threadpool_limits(1):
                times = [measured(known[name], rows, seed) for seed in range(REPEATS)]
            columns = [*zip(*times, strict=True), [choosing / fit for choosing, fit in times]]
            cells = [f"{statistics.median(c):.3g} ({min(c):.3g} - {max(c):.3g})" for c in columns]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


class Draw(NamedTuple):
    """Training and test items of unit length, 40 and 25 of each of ten classes."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def draw(X, y, seed):
    train, test, *_ = draw_partition(y, range(10), 40, 25, seed)
    return Draw(X[train], y[train], X[test], y[test])


def all_checkpoints(learner, folds):
    """Return 0 and all checkpoints, and the mean over folds of the mAP at each."""
    work = FoldWork(lambda params, fold: inner(learner, params), folds, score)
    steps = [0, *checkpoints(LONG)]
    means = [
        np.mean(
            [
                work(FoldJob(0, fold, fold, {}, *part), off_the_clock).value
                for fold in range(len(folds))
            ]
        )
        for part in pairwise([None, *steps])
    ]
    return steps, means


class Stopped(NamedTuple):
    """Steps chosen and validated with patience, those chosen without, and what it changes."""

    chosen: int
    validated: int
    best: int
    change: float


def with_and_without_patience(learner, items, seed):
    folds = folds_of(items.X, items.y, seed)
    steps, means = all_checkpoints(learner, folds)
    best = steps[int(np.argmax(means))]
    choice = choice_among(learner, [{}], folds, LONG)
    stopped, exhaustive = (
        seeded(learner, n_steps=n).fit(items.X, items.y).score(items.X_test, items.y_test)
        for n in (choice.n_steps, best)
    )
    return Stopped(choice.n_steps, choice.last_checkpoint, best, stopped - exhaustive)


def print_patience():
    """Print the test mAP that stopping by patience changes, and the steps that it validates."""
    known = Registry.load().algorithms
    mnist = MNIST().load()
    for words, X, y in (
        ("digits", *load_digits(return_X_y=True)),
        ("MNIST", mnist.X, mnist.y),
    ):
        print(f"\n| {words} | same choice | test mAP, mean change (least, most) | steps |")
        print("|---|---|---|---|")
        for name in WITH_STEPS:
            found = [
                with_and_without_patience(known[name], draw(normalize(X), y, seed), seed)
                for seed in HELD_BACK
            ]
            same = sum(one.chosen == one.best for one in found)
            lost = [one.change for one in found]
            share = statistics.median(one.validated for one in found) / LONG
            print(
                f"| {name} | {same} of {len(found)} | {np.mean(lost):+.4f} ({min(lost):+.4f}, "
                f"{max(lost):+.4f}) | {share:.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    print_table()
    print_patience()
