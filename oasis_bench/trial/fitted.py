"""What a trial's process sends of a fitted learner: its numbers, its symmetry, a copy of it."""

from __future__ import annotations

import math
import os
import pickle
import time
from contextlib import suppress
from numbers import Real

from oasis_bench.data import symmetry_index
from oasis_bench.plugins import BilinearLearner, MetricLearner
from oasis_bench.system import seal
from oasis_bench.trial.messages import LONGEST_NAME, MOST_NUMBERS

COPY_SECONDS, COPY_RATE = 0.02, 200e6
"""Seconds, and bytes a second, that copying a fitted learner may take.

What takes longer is work that the learner has put off, and is added to the time of its fit."""


def copied(learner: MetricLearner) -> tuple[int, float]:
    """Write a fitted learner into a sealed file.

    Return its descriptor, and the seconds beyond COPY_SECONDS and COPY_RATE.
    """
    start = time.perf_counter()
    model = seal(lambda file: pickle.dump(learner, file, protocol=5))
    seconds = time.perf_counter() - start
    return model, max(0.0, seconds - COPY_SECONDS - os.fstat(model).st_size / COPY_RATE)


def numbers_of(learner: MetricLearner) -> dict[str, float]:
    """Return the fitted attributes that are single finite numbers; not the number of features."""
    found = {}
    for name, value in vars(learner).items():
        is_fitted = name.endswith("_") and not name.startswith("_") and name != "n_features_in_"
        if is_fitted and isinstance(value, Real) and len(name) <= LONGEST_NAME:
            with suppress(OverflowError):
                found[name] = float(value)
    finite = [item for item in found.items() if math.isfinite(item[1])]
    return dict(finite[:MOST_NUMBERS])


def symmetry_of(learner: MetricLearner) -> float | None:
    """Return the symmetry index of W, or None for a learner without one and for W = 0."""
    if isinstance(learner, BilinearLearner):
        with suppress(ValueError):
            return symmetry_index(learner.bilinear_matrix_)
    return None
