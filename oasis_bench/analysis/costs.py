"""The three costs of a trial: choosing on inner folds, fitting, answering queries."""

from __future__ import annotations

import pandas as pd

COSTS = (
    "choice_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "query_seconds",
    "fit_peak_bytes",
    "model_bytes",
)


def with_costs(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with each of `COSTS` as a column of numbers, NaN where it is not known.

    choice_seconds is what the inner folds took, learning and validation, as if one had followed the
    other; query_seconds what embedding and scoring took, over the number of queries.
    """
    number = {
        name: pd.to_numeric(trials[name])
        for name in (
            *("selection_fit_seconds", "selection_score_seconds", "answer_seconds", "n_answered"),
            *(cost for cost in COSTS if cost in trials),
        )
    }
    return trials.assign(
        **number,
        choice_seconds=number["selection_fit_seconds"] + number["selection_score_seconds"],
        query_seconds=number["answer_seconds"] / number["n_answered"],
    )
