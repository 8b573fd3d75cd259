"""Which timings are noisy, as other programs took the cores; not how time is measured."""

from __future__ import annotations

import pandas as pd

NOISY_SHARE, NOISY_SECONDS = 0.05, 0.010
"""A fit whose threads waited for a core for more than both, of its wall time and in all, is noisily
timed; a time slice that another process took does not mark it."""


def noisy(trials: pd.DataFrame) -> pd.Series[bool]:
    """Tell of each trial whether its fit waited for a core too long for its time to be clean."""
    waiting = pd.to_numeric(trials["fit_waiting_seconds"])  # NaN where not measurable
    seconds = pd.to_numeric(trials["fit_seconds"])
    return (waiting > NOISY_SHARE * seconds) & (waiting > NOISY_SECONDS)
