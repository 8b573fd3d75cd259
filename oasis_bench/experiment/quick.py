"""The settings of a quick run, where they are not given: a first answer in some seconds."""

from __future__ import annotations

from typing import Any

from oasis_bench.experiment.settings import Experiment

QUICK_REMARK = "a quick run, of few partitions and a short search; the whole one is"
"""What a report says of a quick run; what makes the whole one follows."""


def quick_settings(experiment: Experiment) -> dict[str, Any]:
    """Return 2 partitions, 2 inner folds, 4 candidates, few steps, no traces, one class subset.

    The subset is the first of at least five classes; else the first.
    """
    subsets = experiment.classes
    five = next((one for one in subsets if isinstance(one, int) and one >= 5), subsets[0])
    return {
        "partitions": 2,
        "inner_folds": 2,
        "search": "4",
        "max_steps": 64_000,
        "traces": False,
        "classes": (five,),
    }
