"""What several rules share: bounds, and the condition that one learner beats another."""

from __future__ import annotations

import math

from oasis_bench.claims.claim import Condition
from oasis_bench.claims.effects import Gain

EQUAL = 0.01
"""Measures that differ by less are called as good."""

CLEAR = 0.05
"""A gain that is more than a chance of the draw, where a claim gives no size."""

STABLE = 0.02
"""What a parameter may cost that a learner is not sensitive to."""


def gain(
    experiment: str,
    first: str,
    second: str,
    above: float = 0.0,
    below: float = math.inf,
    measure: str = "mAP",
    task: str = "retrieval",
) -> Condition:
    """Make the condition that one learner's measure less another's is within bounds."""
    return Condition(experiment, Gain(first, second, measure, task), above, below)
