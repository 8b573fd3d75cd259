"""Learners over data sets: duels, Elo ratings, ranks, errors saved; Friedman's and Nemenyi's tests.

A table of scores is of one run: its learners had the same partitions and the same budget.  Only
learners of one table are compared.  A data set has one table or more, which share its weight.

For data sets, not for the partitions or class subsets of one, which overlap: see
`analysis.statistics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import expit, log_expit

from oasis_bench.analysis.statistics import CONFIDENCE, LEVEL, paired_interval

CENTRE, SCALE = 1000.0, 400 / math.log(10)
"""A rating is CENTRE + SCALE b: 400 points more are odds of ten to one."""

PRIOR_DRAWS = 1.0
N_RESAMPLES = 1000
LEAST_DATASETS = 3
"""A learner on fewer data sets has no interval: nearly every resample would be the same."""

LEAST_WIDTH = 1e-3
"""Of an interval; one that is narrower is of the tolerance of the search."""

TOLERANCE, LONGEST_STEP, MOST_STEPS = 1e-10, 2.0, 1000
N_PERMUTATIONS = 9999

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Standings:
    """How learners stand over data sets, of which each may lack some.

    Attributes
    ----------
    datasets : list of str
    learners : DataFrame
        By learner: datasets (with a result), placed (on at least 3), rating, low and high (Elo and
        its interval), win_rate, average_rank (see `stretched_ranks`), and of the error reduction
        datasets_beside_baseline, error_reduction, its _low and _high, and _median; these are NaN
        without a baseline.
    pairs : DataFrame
        A row for each learner and opponent that met: learner, opponent, datasets (where they met),
        wins (of these; a tie counts a half).
    """

    datasets: list[str]
    learners: pd.DataFrame
    pairs: pd.DataFrame


def standings(scores: pd.DataFrame, baseline: str | None = None) -> Standings:
    """Compare learners over data sets.

    Parameters
    ----------
    scores : DataFrame of shape (n_tables, n_learners)
        Larger is better, NaN where a table lacks a learner.  The first level of its index is the
        data set.
    baseline : str, optional
        The learner whose error the others reduce; no score is above 1 then.
    """
    met = duels(scores)
    n_datasets = scores.notna().groupby(level=0).any().sum()
    columns = [f"error_reduction{end}" for end in ("", "_low", "_high", "_median")]
    of_error = pd.DataFrame(index=scores.columns)
    if baseline is not None:
        of_error = _of_error(scores, baseline)
    learners = pd.DataFrame(
        {
            "datasets": n_datasets,
            "placed": n_datasets >= LEAST_DATASETS,
            **elo_ratings(met),
            "win_rate": met.win_rates,
            "average_rank": stretched_ranks(scores),
            **of_error.reindex(columns=["datasets_beside_baseline", *columns]),
        },
        index=scores.columns,
    )
    return Standings(met.datasets, learners, met.pairs())


def _of_error(scores: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return what each learner saves of the baseline's error: mean, Student's interval, median."""
    rows = {}
    for name, values in error_reductions(scores, baseline).items():
        interval = paired_interval(values.dropna(), n_train=1, n_test=0)  # data sets share no items
        enough = interval.n >= LEAST_DATASETS and name != baseline
        rows[name] = {
            "datasets_beside_baseline": interval.n,
            "error_reduction": interval.mean,
            "error_reduction_low": interval.low if enough else math.nan,
            "error_reduction_high": min(interval.high, 1.0) if enough else math.nan,
            "error_reduction_median": values.median(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


@dataclass(frozen=True)
class Duels:
    """Which learners are above which on each data set: arrays (n_datasets, n_learners, n_learners).

    ``wins[d, i, j]`` is 1 where learner i is above j on data set d, 1/2 where they are equal; the
    mean over the data set's tables that hold both.  `met` tells whether any does.
    """

    names: list[str]
    datasets: list[str]
    wins: Array
    met: npt.NDArray[np.bool_]

    @property
    def win_rates(self) -> pd.Series[float]:
        """The share of its duels that each learner wins; NaN for one that met no other."""
        counts = self.met.sum(axis=(0, 2)).astype(float)
        rates = np.divide(
            self.wins.sum(axis=(0, 2)), counts, where=counts > 0, out=np.full(len(counts), np.nan)
        )
        return pd.Series(rates, index=self.names)

    def pairs(self) -> pd.DataFrame:
        """Return the pairs of `Standings`."""
        counts, wins = self.met.sum(axis=0), self.wins.sum(axis=0)
        rows = [
            (self.names[i], self.names[j], int(counts[i, j]), float(wins[i, j]))
            for i, j in zip(*np.nonzero(counts), strict=True)
        ]
        return pd.DataFrame(rows, columns=["learner", "opponent", "datasets", "wins"])


def duels(scores: pd.DataFrame) -> Duels:
    """Compare each learner with each other on each data set; `scores` as for `standings`."""
    wins, met = [], []
    groups = list(scores.groupby(level=0, sort=False))
    for _, own in groups:
        values = own.to_numpy(dtype=float)
        of_i, of_j = values[:, :, None], values[:, None, :]
        both = ~np.isnan(of_i + of_j) & ~np.eye(values.shape[1], dtype=bool)
        above = np.where(both, (of_i > of_j) + 0.5 * (of_i == of_j), 0.0)
        n_tables = both.sum(axis=0)
        wins.append(above.sum(axis=0) / np.maximum(n_tables, 1))
        met.append(n_tables > 0)
    names = [str(name) for name in scores.columns]
    return Duels(names, [str(name) for name, _ in groups], np.array(wins), np.array(met))


def stretched_ranks(scores: pd.DataFrame) -> pd.Series[float]:
    """Return the average rank of each learner over the data sets that it has; 1 is best.

    Among k learners of a table, of K in all, rank r counts as 1 + (r - 1) (K - 1) / (k - 1): the
    last of few is no better off than the last of many.  Where every table holds all learners these
    are the usual average ranks.  Tables of one learner do not count.
    """
    scores = scores[scores.count(axis=1) > 1]
    ranks = scores.rank(axis=1, ascending=False)
    stretch = (scores.shape[1] - 1) / (scores.count(axis=1) - 1)
    return (1 + (ranks - 1).mul(stretch, axis=0)).groupby(level=0).mean().mean()


def error_reductions(scores: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return the share of a baseline's error that each learner saves: (n_datasets, n_learners).

    With m the measure, whose largest value is 1, it is 1 - (1 - m) / (1 - m of the baseline): 1
    where no error is left, 0 where as many are, negative where there are more.  It is the mean over
    the data set's tables that hold both, without those where the baseline makes no error.
    """
    errors = 1 - scores
    of_baseline = errors[baseline].where(errors[baseline] > 0)
    return (1 - errors.div(of_baseline, axis=0)).groupby(level=0, sort=False).mean()


def elo_ratings(
    duels: Duels, n_resamples: int = N_RESAMPLES, prior_draws: float = PRIOR_DRAWS
) -> pd.DataFrame:
    """Rate learners by the model of Bradley and Terry (Biometrika 39, 1952), from their duels.

    Returns rating, low and high of each learner: the ends of the 95 % percentile interval over
    resamples of the data sets, with replacement from a fixed seed, in which the learner plays.  NaN
    for a learner on fewer than 3 data sets, or to which all resamples give one rating.
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
    unvaried = high - low <= LEAST_WIDTH
    low[unvaried] = high[unvaried] = np.nan
    ratings = {"rating": CENTRE + SCALE * found, "low": low, "high": high}
    return pd.DataFrame(ratings, index=duels.names)


def strengths(wins: Array, prior_draws: float = PRIOR_DRAWS, start: Array | None = None) -> Array:
    """Return the strengths b that make the games most likely.

    Learner i wins against j with probability 1 / (1 + exp(b_j - b_i)); ``wins[i, j]`` (n_learners,
    n_learners) says how often it did, halves are draws.  Each learner has `prior_draws` besides
    against an imagined one of strength 0: one that never loses would have no finite strength.

    Newton's method on the log-likelihood sum_ij wins_ij log s(b_i - b_j), s the logistic function,
    with steps of at most 2, halved until it grows; nearer to `start` is sooner.
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


@dataclass(frozen=True)
class AverageRanks:
    """Ranks of learners on each data set, and whether their averages differ significantly.

    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006).

    Attributes
    ----------
    ranks : DataFrame of shape (n_datasets, n_learners)
        1 is best; equal scores share the mean of their ranks.  Learners in ascending order of
        their average.
    average : Series of shape (n_learners,)
    statistic, p_value : float
        Friedman's chi-square, corrected for ties, 0 where all ranks are equal; by permutation.
    critical_difference : float
        Nemenyi's, at level 0.05.
    """

    ranks: pd.DataFrame
    average: pd.Series[float]
    statistic: float
    p_value: float
    critical_difference: float

    @property
    def names(self) -> list[str]:
        """The learners, the best first."""
        return [str(name) for name in self.average.index]

    @property
    def differ(self) -> bool:
        """Whether Friedman's test rejects that all learners rank alike."""
        return self.p_value <= LEVEL

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest sets of learners next to each other in rank that do not differ significantly.

        Two learners differ where Friedman's test rejects that all rank alike, and their average
        ranks differ by at least the critical difference (Demšar 2006, section 3.2.2).
        """
        names, average = self.names, self.average.to_numpy()
        reach = self.critical_difference if self.differ else math.inf
        groups: list[tuple[str, ...]] = []
        reached = 0
        for first in range(len(names)):
            end = int(np.count_nonzero(average - average[first] < reach))
            if end > max(reached, first + 1):
                groups.append(tuple(names[first:end]))
                reached = end
        return groups

    @property
    def least_datasets(self) -> int:
        """The fewest data sets on which so many learners can differ significantly, if all agree.

        On fewer one of two numbers is too large: the probability k! ** (1 - N) that chance ranks k
        learners alike on all N data sets is above the level, or the critical difference is above
        the largest possible difference, k - 1.
        """
        n_learners = len(self.average)
        return next(
            n
            for n in count(2)
            if math.factorial(n_learners) ** (1 - n) <= LEVEL
            and critical_difference(n_learners, n) <= n_learners - 1
        )


def rank_learners(scores: pd.DataFrame) -> AverageRanks:
    """Rank learners by scores (n_datasets, n_learners), none missing; test their average ranks.

    The p-value is that of random permutations of the ranks within each data set: chi-square and F
    approximate it for more than ten data sets and five learners (Demšar 2006), and few are usual.
    """
    if min(scores.shape) < 2 or scores.isna().to_numpy().any():
        raise ValueError(
            f"scores of shape {scores.shape}: at least (2, 2) is needed, with none missing"
        )
    ranks = scores.rank(axis=1, ascending=False)
    average = ranks.mean().sort_values(kind="stable")
    ranks = ranks[average.index]
    statistic, p_value = _friedman(ranks.to_numpy())
    n_datasets, n_learners = ranks.shape
    return AverageRanks(
        ranks, average, statistic, p_value, critical_difference(n_learners, n_datasets)
    )


def _friedman(ranks: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return Friedman's statistic of `ranks` (n_datasets, n_learners) and its p-value."""
    n_datasets, n_learners = ranks.shape
    mean_rank = (n_learners + 1) / 2
    spread = float(np.square(ranks - mean_rank).sum())
    if spread == 0:
        return 0.0, 1.0
    drawn = np.broadcast_to(ranks, (N_PERMUTATIONS, *ranks.shape))
    permuted = np.random.default_rng(0).permuted(drawn, axis=2)
    # Ranks are multiples of 1/2, so these sums are exact and can be compared with >=.
    of_permuted = np.square(permuted.sum(axis=1) - n_datasets * mean_rank).sum(axis=1)
    observed = np.square(ranks.sum(axis=0) - n_datasets * mean_rank).sum()
    p_value = (1 + int(np.count_nonzero(of_permuted >= observed))) / (1 + N_PERMUTATIONS)
    return (n_learners - 1) * float(observed) / spread, p_value


def critical_difference(n_learners: int, n_datasets: int, level: float = LEVEL) -> float:
    """Return the smallest difference of two average ranks that is significant by Nemenyi's test.

    q sqrt(k (k + 1) / (6 N)) for k learners on N data sets, q the quantile of the studentized range
    over sqrt(2) (Demšar 2006, section 3.2.2).  It corrects for all pairs.  Like any test of average
    ranks it depends on which others are ranked (Benavoli, Corani & Mangili, JMLR 17, 2016).
    """
    q = float(stats.studentized_range.ppf(1 - level, n_learners, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_learners * (n_learners + 1) / (6 * n_datasets))
