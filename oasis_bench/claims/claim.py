"""A claim of a paper, the conditions that decide it, and its verdict from stored runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from oasis_bench.analysis import LEVEL, PairedInterval, detectable_difference, paired_interval
from oasis_bench.claims.effects import Effect, Measured
from oasis_bench.runs import StoredRun

Runs = Mapping[str, Mapping[str, StoredRun]]
"""The runs of each experiment, by experiment and then by the name of the run."""

Outcome = Literal["holds", "does not hold", "cannot be told", "not tested"]

SIDES = 2
"""A verdict may be wrong in two directions, each of which has its share of the level."""

LEAST = 3
"""The fewest partitions on which a condition is decided."""

PARTITIONS = (3, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000)
"""Numbers of partitions that are tried to find how many would show a difference."""


@dataclass(frozen=True)
class Condition:
    """What the mean of an effect must be: above a bound, below one, or both."""

    effect: Effect
    above: float = -math.inf
    below: float = math.inf

    @property
    def words(self) -> str:
        """Say what must be."""
        bounds = [
            f"above {self.above:g}" if self.above > -math.inf else "",
            f"below {self.below:g}" if self.below < math.inf else "",
        ]
        return f"{self.effect.words}: {' and '.join(filter(None, bounds))}"


@dataclass(frozen=True)
class Claim:
    """A claim in our words, the place where it stands, and all that must be so for it to hold.

    The note says in what the test differs from the paper's, or why there is no test.
    """

    id: str
    sentence: str
    place: str
    experiments: Sequence[str] = ()  # built-in ones, each of which must show all conditions
    conditions: Sequence[Condition] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.conditions and not self.note:
            raise ValueError(f"claim {self.id} has no conditions: its note must say why")


@dataclass(frozen=True)
class Finding:
    """What was measured of one condition in one run and class subset.

    The interval is that of the mean effect, at the confidence that the number of claims asks for;
    the p-value that of the one-sided test that it is within its bounds, uncorrected.  `needed` is
    the number of partitions that would show a difference as large as this one with probability
    0.8, where it cannot be told; None where no number would.
    """

    experiment: str
    condition: Condition
    where: str
    interval: PairedInterval
    p_value: float
    outcome: Outcome
    needed: int | None = None

    @property
    def needed_in_words(self) -> str:
        """Say how many partitions would tell, where the condition cannot be told."""
        if self.outcome != "cannot be told":
            return ""
        if self.needed is not None:
            return str(self.needed)
        few = self.interval.n < LEAST or not self.interval.sd
        return "not known yet" if few else "more do not help"


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a claim; `level` is that of each test."""

    claim: Claim
    outcome: Outcome
    findings: Sequence[Finding]
    level: float

    @property
    def weakest(self) -> Finding | None:
        """The finding that speaks least for the claim; None where there is none."""
        return max(self.findings, key=lambda one: one.p_value, default=None)

    @property
    def unmeasured(self) -> list[tuple[str, Condition]]:
        """The experiments and conditions of which no run here has a value."""
        return _unmeasured(self.claim, self.findings)


def decide(claims: Sequence[Claim], runs: Runs, level: float = LEVEL) -> list[Verdict]:
    """Decide claims from the runs of each experiment.

    A condition holds where its mean effect is shown to be within its bounds, by the one-sided
    corrected resampled t-test on at least three partitions that are not all equal, at half of
    `level` over the number of claims.  A claim holds where all its conditions hold in all runs.  It
    does not hold where one is shown to be out of its bounds, at that level over the number of its
    findings too.  So the probability of one or more wrong verdicts, of either kind, is at most
    `level`.
    """
    tested = sum(bool(claim.conditions) for claim in claims)
    own = level / SIDES / max(1, tested)
    return [_verdict(claim, runs, own) for claim in claims]


def _verdict(claim: Claim, runs: Runs, level: float) -> Verdict:
    measured = [
        (experiment, condition, one)
        for experiment in claim.experiments
        for condition in claim.conditions
        for one in condition.effect.measured(runs.get(experiment, {}))
    ]
    refusal = level / max(1, len(measured))
    findings = [_finding(*each, level, refusal) for each in measured]
    outcomes = {finding.outcome for finding in findings}
    if "does not hold" in outcomes:
        outcome: Outcome = "does not hold"
    elif not claim.conditions or _unmeasured(claim, findings):
        outcome = "not tested"
    else:
        outcome = "holds" if outcomes == {"holds"} else "cannot be told"
    return Verdict(claim, outcome, findings, level)


def _unmeasured(claim: Claim, findings: Sequence[Finding]) -> list[tuple[str, Condition]]:
    seen = {(finding.experiment, finding.condition) for finding in findings}
    each = [(name, condition) for name in claim.experiments for condition in claim.conditions]
    return [one for one in each if one not in seen]


def _finding(
    experiment: str, condition: Condition, one: Measured, level: float, refusal: float
) -> Finding:
    interval = paired_interval(one.values, one.rho, 1 - 2 * level, one.reach)
    low = _p_above(one, condition.above)
    high = _p_above(replace(one, values=-one.values), -condition.below)
    within, outside = max(low, high), 1 - max(low, high)
    enough = len(one.values) >= LEAST
    outcome: Outcome = "cannot be told"
    if enough and within <= level:
        outcome = "holds"
    elif enough and outside <= refusal:
        outcome = "does not hold"
    needed = None
    if outcome == "cannot be told":
        is_out = not condition.above < interval.mean < condition.below
        needed = _needed(condition, one, refusal if is_out else level)
    return Finding(experiment, condition, one.where, interval, within, outcome, needed)


def _p_above(one: Measured, bound: float) -> float:
    """Return the one-sided p-value of a mean at most `bound`; 0.5 of values without spread."""
    if math.isinf(bound):
        return 0.0 if bound < 0 else 1.0
    found = paired_interval(one.values - bound, one.rho)
    if math.isnan(found.p_value):
        return 0.5
    return found.p_value / 2 if found.mean > 0 else 1 - found.p_value / 2


def _needed(condition: Condition, one: Measured, level: float) -> int | None:
    """Return the least number of partitions that would separate the mean from the nearest bound."""
    mean, sd = float(one.values.mean()), float(one.values.std(ddof=1)) if len(one.values) > 1 else 0
    distance = min(abs(mean - condition.above), abs(mean - condition.below))
    if not (sd > 0 and distance > 0):
        return None
    more = (n for n in PARTITIONS if n > len(one.values))
    for n in more:
        if sd * detectable_difference(n, one.rho, level=2 * level) <= distance:
            return n
    return None
