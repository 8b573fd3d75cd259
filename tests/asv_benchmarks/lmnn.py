"""LMNN: CPU time, memory and objective against n on MNIST, its gap to the minimum on digits, and
its time to the objective at which metric-learn's ends.

As a script (`python tests/asv_benchmarks/lmnn.py FILE.png`) it draws time and objective against n.
"""

import sys
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import LMNN, FastLMNN, MetricLearnLMNN
from oasis_bench.datasets import MNIST


def images(n):
    """Return the first n images of MNIST, which are in random order, at unit length."""
    loaded = MNIST().load()
    return normalize(loaded.X[:n].astype(np.float64)), loaded.y[:n]


def digits():
    """Return 1000 digits of 64 pixels, at unit length."""
    X, y = load_digits(return_X_y=True)
    return normalize(X[:1000]), y[:1000]


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
        self.rows = digits()

    def time_fit(self):
        LMNN().fit(*self.rows)

    def track_gap(self):
        return LMNN().fit(*self.rows).gap_

    track_gap.unit = "of the objective"


def objective(learner, X, y):
    """Return LMNN's objective by its definition, with 3 target neighbours and a weight of 0.5."""
    between, learned = (euclidean_distances(Z, squared=True) for Z in (X, learner.transform(X)))
    np.fill_diagonal(between, np.inf)
    total = 0.0
    for i, label in enumerate(y):
        same = np.flatnonzero(y == label)
        pulled = learned[i, same[np.argsort(between[i, same], kind="stable")[:3]]]
        pushed = learned[i, y != label]
        total += pulled.sum() + np.maximum(0, 1 + pulled[:, None] - pushed).sum()
    return total / 2


def fit_seconds(learner, X, y):
    start = time.process_time()
    learner.fit(X, y)
    return time.process_time() - start


class BesideMetricLearn:
    params = ("digits 1000 x 64", "MNIST 1000 x 784")
    timeout = 1200

    def track_metric_learn_over_ours(self, size):
        """Divide CPU seconds: its fit, by a fit of ours that ends at or below its objective."""
        X, y = digits() if size.startswith("digits") else images(1000)
        with threadpool_limits(1):  # threads that wait for each other spin
            theirs = MetricLearnLMNN()
            seconds = fit_seconds(theirs, X, y)
            aim = objective(theirs, X, y)
            for power in range(11):
                ours = LMNN(max_iter=2**power)
                ratio = seconds / fit_seconds(ours, X, y)
                if objective(ours, X, y) <= aim:
                    return ratio
        return float("nan")  # never

    track_metric_learn_over_ours.unit = "times ours"


def draw(path):
    """Fit once for each n, on one thread, and write the figure."""
    from matplotlib import pyplot

    points = []
    for n in AgainstRows.params:
        rows = images(n)
        start = time.process_time()
        with threadpool_limits(1):
            learner = FastLMNN().fit(*rows)
        points.append((n, time.process_time() - start, learner.objective_ / n))
        print("n = {}: {:.1f} CPU seconds, eps / n = {:.4f}".format(*points[-1]), flush=True)
    figure, axes = pyplot.subplots(2, 1, sharex=True, figsize=(5, 5), layout="constrained")
    numbers = list(zip(*points, strict=True))
    labels = ("fit, CPU seconds", "objective / n")
    for axis, values, label in zip(axes, numbers[1:], labels, strict=True):
        axis.plot(numbers[0], values, marker="o")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    axes[0].set_title("FastLMNN on the first n images of MNIST")
    axes[1].set_xlabel("n")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    draw(sys.argv[1])
