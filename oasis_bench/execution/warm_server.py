"""Imported by the server that trials are forked off: does once what each would do again.

What it does is first calls: of the registry, of the thread pools' inventory, of a ranking.
"""

import gc

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.execution import trial_process
from oasis_bench.measures import evaluate_ranking
from oasis_bench.registry import load_registry

__all__ = ["trial_process"]

learner = load_registry().algorithms["Euclidean"]()
with threadpool_limits(1):
    rows = np.eye(4)
    y = np.array([0, 0, 1, 1])
    evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
gc.freeze()  # a trial's collections look at what the trial has made
