"""OASIS: CPU time of 32 768 steps beside a plain C loop, peak memory, mAP; and in batches."""

import statistics
import time

import numpy as np

from oasis_bench.algorithms import OASIS, MiniBatchOASIS
from oasis_bench.sampling import ClassTripletSampler, seed_state

from . import rows
from .yardstick import FLAGS, Yardstick

N_STEPS = 32_768
ROUNDS = 3
DTYPES = ["float32", "float64"]

timeout = 300  # seconds a benchmark, for busy machines: asv reads it


def cpu_seconds(call, *arguments):
    start = time.process_time()
    call(*arguments)
    return time.process_time() - start


class Learner:
    """Checks of the input and sampling included."""

    params = (rows.KINDS, DTYPES)
    param_names = ("rows", "dtype")
    timer = time.process_time

    def setup(self, kind, dtype):
        self.rows = rows.noise(kind, dtype)
        self.learner = OASIS(n_steps=N_STEPS, random_state=0).fit(*self.rows)

    def time_steps(self, kind, dtype):
        self.learner.partial_fit(*self.rows)


class PlainC:
    """The yardstick, by the flags of its compiler, with triplets of the same sampler."""

    params = (rows.KINDS, DTYPES, FLAGS)
    param_names = ("rows", "dtype", "flags")
    timer = time.process_time

    def setup(self, kind, dtype, flags):
        self.X, y = rows.noise(kind, dtype)
        self.sampler = ClassTripletSampler(y, seed_state(0))
        self.yardstick = Yardstick(dtype, flags)
        self.W = np.eye(self.X.shape[1], dtype=dtype)
        self.yardstick.learn(self.X, self.sampler.draw(N_STEPS), 0.1, self.W)

    def time_steps(self, kind, dtype, flags):
        self.yardstick.learn(self.X, self.sampler.draw(N_STEPS), 0.1, self.W)

    def track_time_over_ours(self, kind, dtype, flags):
        return ratio_to_ours(self.X, self.sampler, self.yardstick, self.W)

    track_time_over_ours.unit = "times ours"


class AgainstRows:
    """From as few rows as the papers' ten classes have for training to as many as MNIST has."""

    params = (
        ["sparse 1000", "pixels 784", "dense 784"],
        DTYPES,
        FLAGS,
        [400, 800, 1600, 6000, 20_000, 60_000],
    )
    param_names = ("kind", "dtype", "flags", "rows")

    def track_time_over_ours(self, kind, dtype, flags, n_rows):
        X, y = rows.noise(kind, dtype, n_rows)
        W = np.eye(X.shape[1], dtype=dtype)
        return ratio_to_ours(X, ClassTripletSampler(y, seed_state(0)), Yardstick(dtype, flags), W)

    track_time_over_ours.unit = "times ours"


def ratio_to_ours(X, sampler, yardstick, W):
    """Return the median over rounds of the yardstick's time over that of OASIS."""
    learner = OASIS(aggressiveness=0.1)
    learner.partial_fit_triplets(X, sampler.draw(N_STEPS))
    ratios = []
    for _ in range(ROUNDS):
        triplets = sampler.draw(N_STEPS)
        plain = cpu_seconds(yardstick.learn, X, triplets, 0.1, W)
        ours = cpu_seconds(learner.partial_fit_triplets, X, triplets)
        ratios.append(plain / ours)
    return statistics.median(ratios)


class MiniBatches:
    """Wall time of 131 072 steps in batches, side by side; a batch of 1 is OASIS."""

    params = ([("sparse 1000", 64), ("sparse 10000", 16_384)], DTYPES, [1, 2])
    param_names = ("rows and batch size", "dtype", "threads")

    def setup(self, case, dtype, threads):
        kind, batch_size = case
        self.rows = rows.noise(kind, dtype)
        self.learner = MiniBatchOASIS(batch_size, threads, random_state=0)
        self.learner.partial_fit(*self.rows, n_steps=batch_size)

    def time_steps(self, case, dtype, threads):
        self.learner.partial_fit(*self.rows, n_steps=4 * N_STEPS)
