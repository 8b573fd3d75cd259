"""The three costs of a trial: tuning on inner folds, fit, query time."""

from __future__ import annotations

import pandas as pd

COSTS = (
    "tuning_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "seconds_per_query",
    "fit_peak_bytes",
    "model_bytes",
)


def with_costs(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with each of `COSTS` as a column of numbers, NaN where it is not known.

    tuning_seconds is what the inner folds took, learning and validation, as if one had followed the
    other; seconds_per_query what embedding and scoring took, over the number of queries.
    """
    return trials.assign(
        tuning_seconds=trials["tuning_fit_seconds"] + trials["tuning_score_seconds"],
        seconds_per_query=trials["query_seconds"] / trials["n_timed_queries"],
    )
