"""Elo ratings of learners: the model of Bradley and Terry, and intervals over data sets.

Bradley & Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952): learner i wins
against j with probability 1 / (1 + exp(b_j - b_i)).  Not for who wins: `analysis.duels`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, log_expit

from oasis_bench.analysis.pairwise import Duels
from oasis_bench.analysis.statistics import CONFIDENCE

CENTRE, SCALE = 1000.0, 400 / math.log(10)
"""A rating is CENTRE + SCALE b: 400 points more are odds of ten to one."""

PRIOR_DRAWS = 1.0
N_RESAMPLES = 1000
LEAST_DATASETS = 3
"""A learner on fewer data sets has no interval: nearly every resample would be the same."""

TOLERANCE, LONGEST_STEP, MOST_STEPS = 1e-10, 2.0, 1000

Array = npt.NDArray[np.float64]


def elo_ratings(
    duels: Duels, n_resamples: int = N_RESAMPLES, prior_draws: float = PRIOR_DRAWS
) -> pd.DataFrame:
    """Rate learners by their duels.

    Parameters
    ----------
    duels : Duels
        A pair plays one game on each data set where both were run.
    n_resamples : int, default 1000
        Of the data sets, drawn with replacement, from a fixed seed.
    prior_draws : float, default 1
        See `strengths`.

    Returns
    -------
    DataFrame of shape (n_learners, 3)
        rating, low, high: the ends of the 95 % percentile interval over those resamples in which
        the learner plays; NaN for a learner on fewer than 3 data sets.
    """
    n_datasets = len(duels.datasets)
    found = strengths(duels.wins.sum(axis=0), prior_draws)
    plays = duels.met.any(axis=2)
    even = np.full(n_datasets, 1 / n_datasets)
    times = np.random.default_rng(0).multinomial(n_datasets, even, size=n_resamples)
    distinct, which = np.unique(times, axis=0, return_inverse=True)
    resampled = np.empty((len(distinct), len(duels.names)))
    for row, weights in zip(resampled, distinct, strict=True):
        wins = np.tensordot(weights.astype(float), duels.wins, axes=1)
        row[:] = CENTRE + SCALE * strengths(wins, prior_draws, start=found)
        row[weights @ plays == 0] = np.nan
    resampled = resampled[which]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.full((2, len(duels.names)), np.nan)
    enough = plays.sum(axis=0) >= LEAST_DATASETS
    if enough.any():
        low[enough], high[enough] = np.nanpercentile(
            resampled[:, enough], [tail, 100 - tail], axis=0
        )
    ratings = {"rating": CENTRE + SCALE * found, "low": low, "high": high}
    return pd.DataFrame(ratings, index=duels.names)


def strengths(wins: Array, prior_draws: float = PRIOR_DRAWS, start: Array | None = None) -> Array:
    """Return the strengths b that make the games most likely.

    Newton's method on the log-likelihood sum_ij wins_ij log s(b_i - b_j), s the logistic function,
    with steps of at most 2, halved until it grows.

    Parameters
    ----------
    wins : array of shape (n_learners, n_learners)
        How often row i won against column j; halves are draws.
    prior_draws : float, default 1
        Draws of each learner against an imagined one of strength 0, added to its games.  Without
        them a learner that never loses has no finite strength.
    start : array of shape (n_learners,), default zeros
        Where the search begins; nearer is sooner.

    Returns
    -------
    array of shape (n_learners,)

    Raises
    ------
    ValueError
        Where `prior_draws` is not positive.
    """
    if not prior_draws > 0:
        raise ValueError(f"prior_draws = {prior_draws}: a positive number is needed")
    games = wins + wins.T
    won = wins.sum(axis=1) + prior_draws / 2

    def log_likelihood(b: Array) -> float:
        of_pairs = (wins * log_expit(b[:, None] - b)).sum()
        return float(of_pairs + prior_draws / 2 * (log_expit(b) + log_expit(-b)).sum())

    b = np.zeros(len(wins)) if start is None else start
    reached = log_likelihood(b)
    for _ in range(MOST_STEPS):
        p, own = expit(b[:, None] - b), expit(b)
        gradient = won - (games * p).sum(axis=1) - prior_draws * own
        if np.abs(gradient).max() <= TOLERANCE:
            break
        curvature = games * p * p.T  # p.T is 1 - p
        hessian = np.diag(curvature.sum(axis=1) + prior_draws * own * (1 - own)) - curvature
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, LONGEST_STEP / np.abs(step).max())
        while (value := log_likelihood(b + step)) < reached:
            step /= 2
            if np.abs(step).max() < TOLERANCE:
                return b  # as near as rounding lets it come
        b, reached = b + step, value
    return b
