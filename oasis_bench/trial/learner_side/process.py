"""The process of one stage: what it is before the learner's code, and for whom it prints.

The fork server does `warm_up` once; then it forks a process for each stage, which is `run`.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from io import TextIOWrapper
from typing import cast

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from oasis_bench.data import Scaling, apply_steps
from oasis_bench.plugins import Registry
from oasis_bench.system import THREAD_VARIABLES, Processes, n_blas_threads
from oasis_bench.tasks import Split, evaluate_ranking
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.stages import Channel, run_stage


def warm_up() -> None:
    """Make the slow first calls once, in the fork server, so that no trial has to make them."""
    registry = Registry.load()
    _ = registry.splits[Split.USUAL]  # it imports the folds of scikit-learn
    learner = registry.algorithms["Euclidean"]()  # it imports all learners
    with threadpool_limits(1):
        rows = np.eye(4)
        y = np.array([0, 0, 1, 1])
        rows = apply_steps(Scaling("l2").learn(rows), rows)
        evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
    n_blas_threads()
    _ = wall.Stage, wall.seal  # they import the modules of the wall
    # Then a fork's garbage collector does not write to pages that it shares with the server.
    gc.collect()
    gc.freeze()


def learner_process(stage: wall.Stage, line: int) -> None:
    """Run one stage of a trial: the main function of its process, with the end of its line."""
    assignment = stage.assignment
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(assignment.threads)))
    channel = Channel(line)
    printed = channel.receive_file()
    for stream in (sys.stdout, sys.stderr):
        os.dup2(printed, stream.fileno())
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8", errors="backslashreplace")
    os.close(printed)
    if assignment.memory_bytes is None:
        channel.send(wall.Started(0))
    else:
        channel.send(wall.Started(Processes(stage.server).n_bytes()))
        if sys.platform == "linux":  # then allocations beyond it fail
            limit = psutil.Process().memory_info().data + assignment.memory_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    run_stage(stage, channel)
