"""MCML: CPU time to its optimum beside a projected gradient with a fixed step in NumPy."""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import MCML

SIZES = ["digits 400 x 64", "noise 400 x 100", "noise 400 x 1000"]
GIVE_UP_AFTER = 200  # times the CPU seconds of ours


def rows(size):
    """Return 10 classes of 40 rows of unit length: digits, or noise about means."""
    rng = np.random.default_rng(0)
    if size.startswith("digits"):
        X, y = load_digits(return_X_y=True)
        chosen = np.concatenate([np.flatnonzero(y == digit)[:40] for digit in range(10)])
        return normalize(X[chosen]), y[chosen]
    d, y = int(size.split()[-1]), np.repeat(np.arange(10), 40)
    return normalize(rng.normal(size=(400, d)) + 0.5 * rng.normal(size=(10, d))[y]), y


class ProjectedGradient:
    """A <- the projection of A - step G on the positive semi-definite matrices, from A = I."""

    def __init__(self, X, y):
        self.X, self.A = X, np.eye(X.shape[1])
        same = (y[:, None] == y).astype(float)
        np.fill_diagonal(same, 0)
        self.even = same / same.sum(axis=1, keepdims=True)

    def evaluate(self):
        """Return f and G (definitions: gradient = X'(diag(S1) - S)X)."""
        projected = self.X @ self.A
        squares = (projected * self.X).sum(axis=1)
        distances = squares[:, None] + squares - 2 * projected @ self.X.T
        pulled = (self.even * distances).sum()
        np.fill_diagonal(distances, np.inf)
        shift = distances.min(axis=1, keepdims=True)
        P = np.exp(shift - distances)
        totals = P.sum(axis=1, keepdims=True)
        S = self.even - P / totals
        S += S.T
        gradient = (self.X.T * S.sum(axis=1)) @ self.X - self.X.T @ (S @ self.X)
        return pulled + (np.log(totals) - shift).sum(), gradient

    def step(self, length, gradient):
        values, vectors = np.linalg.eigh(self.A - length * gradient)
        self.A = vectors * np.maximum(values, 0) @ vectors.T


def infimum(y):
    """Return f less the Kullback-Leibler divergence that the paper minimises."""
    counts = np.unique(y, return_counts=True)[1]
    return float(counts @ np.log(counts - 1))


def largest_step(X, y):
    """Return the longest of steps a factor of 2 apart with which f never rises in 50 steps."""
    length = 1.0
    while not falls(ProjectedGradient(X, y), length):
        length /= 2
    return length


def falls(twin, length):
    value, gradient = twin.evaluate()
    for _ in range(50):
        twin.step(length, gradient)
        before, (value, gradient) = value, twin.evaluate()
        if not value <= before:
            return False
    return True


class ToTheOptimum:
    params = SIZES
    timer = time.process_time
    timeout = 1200

    def setup(self, size):
        self.rows = rows(size)

    def time_fit(self, size):
        MCML().fit(*self.rows)

    def track_objective(self, size):
        return MCML().fit(*self.rows).objective_

    def track_projected_gradient_over_ours(self, size):
        """Divide CPU seconds to a divergence within 1e-3; the limit, where it takes longer."""
        X, y = self.rows
        length = largest_step(X, y)
        with threadpool_limits(1):  # threads that wait for each other spin
            MCML(max_iter=1).fit(X, y)
            start = time.process_time()
            objective = MCML().fit(X, y).objective_
            ours = time.process_time() - start
            target = objective + 1e-3 * max(objective - infimum(y), MCML().tol * len(y))
            twin = ProjectedGradient(X, y)
            start = time.process_time()
            value, gradient = twin.evaluate()
            while value > target and time.process_time() - start < GIVE_UP_AFTER * ours:
                twin.step(length, gradient)
                value, gradient = twin.evaluate()
            return (time.process_time() - start) / ours

    track_projected_gradient_over_ours.unit = "times ours"
