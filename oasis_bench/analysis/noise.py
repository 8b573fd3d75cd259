"""Which timings are noisy because other programs used the cores; not how time is measured."""

from __future__ import annotations

import pandas as pd

NOISY_SHARE, NOISY_SECONDS = 0.05, 0.010
"""A fit's time is noisy where its threads waited for a core for longer than both: this share of its
wall time, and these seconds.  A single time slice of another process is shorter."""


def noisy(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return for each trial whether the time of its fit is noisy."""
    waiting = trials["fit_waiting_seconds"]  # NaN where not measurable
    seconds = trials["fit_seconds"]
    return (waiting > NOISY_SHARE * seconds) & (waiting > NOISY_SECONDS)
