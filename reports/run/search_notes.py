"""What a reader must know of a search: where the choice was an end of what was tried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from oasis_bench.reports.formatting import plural
from oasis_bench.runs import StoredRun


def search_notes(run: StoredRun, trials: pd.DataFrame) -> Iterator[str]:
    """Say where one learner's choices are ends of their ranges, so that a wider one may do better.

    Parameters
    ----------
    run : StoredRun
    trials : DataFrame
        The finished trials of the learner on one class subset and split, with a column `measure`.
    """
    yield from _ends_of_steps(run, trials)
    counts: Counter[str] = Counter()
    seen = run.validation[run.validation["trial_id"].isin(trials["trial_id"])]
    tried = seen.drop_duplicates(["trial_id", "params"]).groupby("trial_id")["params"].agg(list)
    for trial_id, chosen in zip(trials["trial_id"], trials["params"], strict=True):
        candidates = [json.loads(text) for text in tried.get(trial_id, ())]
        counts.update(_ends(json.loads(chosen), candidates))
    for text, count in counts.items():
        yield (
            f"In {count} of {plural(len(trials), 'partition')} the choice was the {text}: a wider "
            "range may do better."
        )


def _ends(chosen: dict[str, object], candidates: list[dict[str, object]]) -> Iterator[str]:
    """Name the numbers that were chosen at an end of three or more that were tried."""
    for name, value in chosen.items():
        tried = {
            other
            for candidate in candidates
            if isinstance(other := candidate.get(name), int | float) and not isinstance(other, bool)
        }
        if len(tried) < 3:
            continue
        if value == max(tried):
            yield f"largest {name} that was tried ({value:g})"
        elif value == min(tried):
            yield f"smallest {name} that was tried ({value:g})"


def _ends_of_steps(run: StoredRun, trials: pd.DataFrame) -> Iterator[str]:
    """Say where early stopping chose its last checkpoint, or no step at all."""
    keys = ["trial_id", "scaling", "params"]
    seen = run.validation.merge(trials[keys], on=keys)
    checkpoints = seen["n_steps"].groupby(seen["trial_id"]).agg(["max", "nunique"])
    checkpoints = checkpoints.reindex(trials["trial_id"])
    chosen = trials.set_index("trial_id")["n_steps"]
    searched = checkpoints["nunique"].gt(1)
    measure, of_all = trials["measure"].iloc[0], plural(len(trials), "partition")
    if n_at_end := int((searched & (checkpoints["max"] == chosen)).sum()):
        yield (
            f"In {n_at_end} of {of_all} {measure} still rose at the last checkpoint "
            f"({checkpoints['max'].max():,.0f} steps): a larger max_steps may do better."
        )
    if n_at_start := int((searched & (chosen == 0)).sum()):
        yield (
            f"In {n_at_start} of {of_all} no step made {measure} better: the model is the one "
            "before the first step."
        )
