"""Average ranks of learners over data sets: Friedman's test and Nemenyi's critical difference.

Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006).  Not for
the partitions or class subsets of one data set, which overlap: see `analysis.statistics`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from oasis_bench.analysis.statistics import LEVEL

N_PERMUTATIONS = 9999


@dataclass(frozen=True)
class AverageRanks:
    """Ranks of learners on each data set, and whether the average ranks tell learners apart.

    Attributes
    ----------
    ranks : DataFrame of shape (n_datasets, n_learners)
        1 is best; equal scores share the mean of their ranks.  Learners in ascending order of
        their average.
    average : Series of shape (n_learners,)
    statistic : float
        Friedman's chi-square, corrected for ties; 0 where all ranks are equal.
    p_value : float
        Of `statistic`, by permutation.
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
        """The largest sets of learners, next to each other in rank, that are not told apart.

        Two learners are told apart where Friedman's test rejects that all rank alike, and their
        average ranks differ by at least the critical difference (Demšar 2006, section 3.2.2).
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


def rank_learners(scores: pd.DataFrame) -> AverageRanks:
    """Rank learners on each data set and test their average ranks.

    The p-value is that of random permutations of the ranks within each data set: chi-square and F
    approximate it for more than ten data sets and five learners (Demšar 2006), and few are usual.

    Parameters
    ----------
    scores : DataFrame of shape (n_datasets, n_learners)
        Larger is better; at least two of each, none missing.

    Raises
    ------
    ValueError
        For fewer, or a missing score.
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
    """Return the smallest difference of two average ranks that Nemenyi's test tells apart.

    q sqrt(k (k + 1) / (6 N)) for k learners on N data sets, q the quantile of the studentized range
    over sqrt(2) (Demšar 2006, section 3.2.2).  It corrects for all pairs.  Like any test of average
    ranks it depends on which others are ranked (Benavoli, Corani & Mangili, JMLR 17, 2016).
    """
    q = float(stats.studentized_range.ppf(1 - level, n_learners, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_learners * (n_learners + 1) / (6 * n_datasets))


def least_datasets(n_learners: int) -> int:
    """Return the smallest number of data sets on which learners can be told apart, if all agree.

    On fewer data sets one of two numbers is too large: the probability k! ** (1 - N) that chance
    ranks k learners alike on all N data sets is above the level, or the critical difference is
    above the largest possible difference, k - 1.
    """
    return next(
        n
        for n in count(2)
        if math.factorial(n_learners) ** (1 - n) <= LEVEL
        and critical_difference(n_learners, n) <= n_learners - 1
    )
