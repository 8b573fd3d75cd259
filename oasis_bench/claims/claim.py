"""A claim of a paper, the effects that decide it, and its verdict from what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from scipy import stats

from oasis_bench.analysis import LEVEL, PairedInterval, holm
from oasis_bench.claims.effects import Effect
from oasis_bench.claims.paper_figures import Runs

OUTCOMES = "supported", "partly supported", "contradicted", "inconclusive", "not tested"

MEASURED = ["id", "experiment", "effect", "where", "above", "below"]
MEASURED += ["mean", "low", "high", "values", "p_value"]
"""The columns of `measured_effects`."""


@dataclass(frozen=True)
class Claim:
    """A claim in our words, the place where it stands, and all effects that make it so.

    The note says in what the test differs from the paper's, or why there is no test.
    """

    id: str
    sentence: str
    place: str
    experiments: Sequence[str] = ()  # built-in ones, each of which must show all effects
    effects: Sequence[Effect] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.effects and not self.note:
            raise ValueError(f"claim {self.id} has no effects: its note must say why")

    @property
    def needed(self) -> set[tuple[str, str]]:
        """The experiments and effects that must be measured, in words."""
        return {(name, effect.words) for name in self.experiments for effect in self.effects}


def measured_effects(claims: Sequence[Claim], runs: Runs) -> pd.DataFrame:
    """Measure the effects of claims in the runs of each experiment: a row for each run and subset.

    Returns
    -------
    DataFrame
        The columns of `MEASURED`: bounds, mean, 90 % interval, number of values and one-sided
        p-value of a mean out of its bounds, uncorrected (see `PairedInterval.within`).
    """
    rows = [
        {
            **{"id": claim.id, "experiment": name, "effect": effect.words, "where": one.where},
            **{"above": effect.above, "below": effect.below, "mean": found.mean},
            **{"values": len(one.values), **found.within(effect.above, effect.below)},
        }
        for claim in claims
        for name in claim.experiments
        for effect in claim.effects
        for one in effect.measured(runs.get(name, {}))
        if len(one.values)
        for found in [PairedInterval.of(one.values, one.rho, one.sizes, one.reach)]
    ]
    return pd.DataFrame(rows, columns=MEASURED)


def decide(claims: Sequence[Claim], effects: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decide claims by the effects that were measured.

    A claim is *supported* where every effect is significant at level .05: a conjunction needs no
    correction.  It is *contradicted* where an effect lies beyond its bounds, at .05 over the number
    of its effects; *not tested* where an effect has no value; *partly supported* where at least one
    is significant after Holm's correction within the claim; else *inconclusive*.

    Returns
    -------
    DataFrame
        A row for each claim, by id: verdict, one of `OUTCOMES`, and words, with the count where it
        is partly supported; n_supported of n_effects; weakest, the row of the effect that speaks
        least for it; p_value, the largest of its effects'; q_value, over all claims that are tested
        (Benjamini and Hochberg).
    DataFrame
        `effects` of these claims with their outcomes.
    """
    effects = effects[effects["id"].isin([claim.id for claim in claims])]
    outcomes, verdicts = pd.Series("inconclusive", effects.index), {}
    for claim in claims:
        own = effects[effects["id"] == claim.id]
        p = own["p_value"].astype(float)
        against = 1 - p <= LEVEL / max(1, len(own))
        every = bool((p <= LEVEL).all())
        shown = p <= LEVEL if every else pd.Series(holm(p) <= LEVEL, own.index)
        if against.any():
            verdict = "contradicted"
        elif not claim.effects or claim.needed - _kinds(own):
            verdict = "not tested"
        else:
            verdict = (
                "supported" if every else "partly supported" if shown.any() else "inconclusive"
            )
        outcomes[own.index[shown]], outcomes[own.index[against]] = "supported", "contradicted"
        count = f" ({shown.sum()} of {len(own)} effects)" * (verdict == "partly supported")
        verdicts[claim.id] = {
            "verdict": verdict,
            "words": verdict + count,
            "n_supported": int(shown.sum()),
            "n_effects": len(own),
            "weakest": p.fillna(1).idxmax() if len(own) else None,
            "p_value": p.fillna(1).max(),
        }
    found = pd.DataFrame.from_dict(verdicts, orient="index").assign(q_value=math.nan)
    tested = found["verdict"] != "not tested"
    if tested.any():
        p_values = found.loc[tested, "p_value"].astype(float)
        found.loc[tested, "q_value"] = stats.false_discovery_control(p_values)
    found["verdict"] = pd.Categorical(found["verdict"], OUTCOMES)
    return found, effects.assign(outcome=outcomes)


def _kinds(effects: pd.DataFrame) -> set[tuple[str, str]]:
    return set(effects[["experiment", "effect"]].itertuples(index=False, name=None))
