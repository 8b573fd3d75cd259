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
Outcome = Literal["holds", "does not hold", "cannot be told", "not tested"]

LOOKS = 2
"""How often the effects of a claim are tested; each test has its share of the level."""

LEAST = 3
"""The fewest partitions on which a condition is decided."""

MOST_AGAIN = 30
"""Partitions of a second look at most."""

PARTITIONS = (3, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000)
"""Numbers of partitions that are tried to find how many would show a difference."""


@dataclass(frozen=True)
class Condition:
    """What the mean of an effect must be: above a bound, below one, or both.

    Parameters
    ----------
    experiment : str
        The built-in experiment whose runs show it.
    effect : Effect
    above, below : float, optional
    """

    experiment: str
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
    """A claim, where it stands, and all that must be so for it to hold.

    Attributes
    ----------
    id : str
    sentence : str
        In our words.
    place : str
        Paper, section, table or figure.
    conditions : sequence of Condition
        It holds where all of them do.
    note : str
        In what the test differs from the paper's; why there is none where there are no conditions.
    """

    id: str
    sentence: str
    place: str
    conditions: Sequence[Condition] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.conditions and not self.note:
            raise ValueError(f"claim {self.id} has no conditions: its note must say why")


@dataclass(frozen=True)
class Finding:
    """What was measured of one condition in one run and class subset.

    Attributes
    ----------
    condition : Condition
    where : str
    interval : PairedInterval
        Of the mean effect, at the confidence that the number of claims asks for.
    p_value : float
        Of the one-sided test that the mean effect is within its bounds, uncorrected.
    outcome : str
    needed : int or None
        Partitions that would show a difference as large as this one with probability 0.8, where it
        cannot be told; None where no number would.
    """

    condition: Condition
    where: str
    interval: PairedInterval
    p_value: float
    outcome: Outcome
    needed: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a claim.

    Attributes
    ----------
    claim : Claim
    outcome : str
    findings : sequence of Finding
    level : float
        Of each test: half of that of all claims, over their number.
    """

    claim: Claim
    outcome: Outcome
    findings: Sequence[Finding]
    level: float

    @property
    def weakest(self) -> Finding | None:
        """The finding that speaks least for the claim; None where there is none."""
        return max(self.findings, key=lambda one: one.p_value, default=None)

    @property
    def unmeasured(self) -> list[Condition]:
        """The conditions of which no run here has a value."""
        return _unmeasured(self.claim, self.findings)


def decide(
    claims: Sequence[Claim], runs: Runs, again: Runs | None = None, level: float = LEVEL
) -> list[Verdict]:
    """Decide claims from the runs of each experiment.

    A condition holds where its mean effect is shown to be within its bounds, by the one-sided
    corrected resampled t-test on at least three partitions that are not all equal, at half of
    `level` over the number of claims.  The other half is for a second look at what the first cannot
    tell, in runs with other draws.  A claim holds where all its conditions hold in all runs.  It
    does not hold where one is
    shown to be out of its bounds, at that level over the number of its findings too.  So the
    probability of one or more wrong verdicts 'holds' is at most `level`, and likewise of 'does not
    hold'.

    Parameters
    ----------
    claims : sequence of Claim
    runs : mapping of str to mapping of str to StoredRun
        The runs of each experiment, by experiment and then by the name of the run.
    again : mapping, optional
        Those of the second look, by the same names.
    level : float, default 0.05
    """
    tested = sum(bool(claim.conditions) for claim in claims)
    own = level / LOOKS / max(1, tested)
    return [_verdict(claim, [runs, again or {}], own) for claim in claims]


def worth_repeating(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the experiments that a second look takes again, with the partitions of each.

    Each condition that cannot be told counts for itself: where at most 30 partitions would tell it,
    its experiment is taken again with so many, whether or not the other conditions of its claim
    could be told too.  So a claim may still not be told, but less of it is left open.
    """
    found: dict[str, int] = {}
    for verdict in verdicts:
        if verdict.outcome != "cannot be told":
            continue
        for one in verdict.findings:
            if one.needed is not None and one.needed <= MOST_AGAIN:
                name = one.condition.experiment
                found[name] = max(one.needed, found.get(name, 0))
    return found


def _verdict(claim: Claim, looks: Sequence[Runs], level: float) -> Verdict:
    first, again = (
        [
            (condition, one)
            for condition in claim.conditions
            for one in condition.effect.measured(runs.get(condition.experiment, {}))
        ]
        for runs in looks
    )
    levels = level, level / max(1, len(first))
    second = {(condition, one.where): one for condition, one in again}
    findings = []
    for condition, one in first:
        finding = _finding(condition, one, *levels)
        more = second.get((condition, one.where))
        if finding.outcome == "cannot be told" and more is not None:
            finding = replace(_finding(condition, more, *levels), where=f"{one.where}, second look")
        findings.append(finding)
    outcomes = {finding.outcome for finding in findings}
    if "does not hold" in outcomes:
        outcome: Outcome = "does not hold"
    elif not claim.conditions or _unmeasured(claim, findings):
        outcome = "not tested"
    else:
        outcome = "holds" if outcomes == {"holds"} else "cannot be told"
    return Verdict(claim, outcome, findings, level)


def _unmeasured(claim: Claim, findings: Sequence[Finding]) -> list[Condition]:
    seen = {finding.condition for finding in findings}
    return [one for one in claim.conditions if one not in seen]


def _finding(condition: Condition, one: Measured, level: float, refusal: float) -> Finding:
    interval = paired_interval(one.values, one.n_train, one.n_test, 1 - 2 * level, one.reach)
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
    return Finding(condition, one.where, interval, within, outcome, needed)


def _p_above(one: Measured, bound: float) -> float:
    """Return the one-sided p-value of a mean at most `bound`; 0.5 of values without spread."""
    if math.isinf(bound):
        return 0.0 if bound < 0 else 1.0
    found = paired_interval(one.values - bound, one.n_train, one.n_test)
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
        if sd * detectable_difference(n, one.n_train, one.n_test, level=2 * level) <= distance:
            return n
    return None
