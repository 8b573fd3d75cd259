"""Learners over data sets: duels, ranks, errors saved; Friedman's and Wilcoxon's tests.

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

from oasis_bench.analysis.statistics import LEVEL, holm, paired_interval

LEAST_DATASETS = 3
"""A learner on fewer data sets is not placed, and has no interval."""

N_PERMUTATIONS = 9999

DECIMALS = 9
"""Of differences of scores: those that are equal but for rounding are ties."""

FEW_DATASETS = 10
"""Up to this number p-values of tied differences are exact; SciPy approximates them beyond."""


@dataclass(frozen=True)
class Standings:
    """How learners stand over data sets, of which each may lack some.

    Attributes
    ----------
    datasets : list of str
    learners : DataFrame
        By learner: datasets (with a result), placed (on at least 3), win_rate, average_rank (the
        mean of `ranks`), and of the error reduction datasets_beside_baseline, error_reduction, its
        _low and _high, and _median; these are NaN without a baseline.
    ranks : DataFrame of shape (n_datasets, n_learners)
        See `stretched_ranks`.
    pairs : DataFrame
        A row for each learner and opponent that met: learner, opponent, datasets (where they met),
        wins (of these; a tie counts a half).
    """

    datasets: list[str]
    learners: pd.DataFrame
    ranks: pd.DataFrame
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
    pairs = duels(scores)
    n_datasets = scores.notna().groupby(level=0).any().sum()
    met = pairs.groupby("learner")[["datasets", "wins"]].sum()
    ranks = stretched_ranks(scores)
    of_error = pd.DataFrame(index=scores.columns)
    if baseline is not None:
        of_error = _of_error(scores, baseline)
    columns = [f"error_reduction{end}" for end in ("", "_low", "_high", "_median")]
    learners = pd.DataFrame(
        {
            "datasets": n_datasets,
            "placed": n_datasets >= LEAST_DATASETS,
            "win_rate": (met["wins"] / met["datasets"]).reindex(scores.columns),
            "average_rank": ranks.mean(),
            **of_error.reindex(columns=["datasets_beside_baseline", *columns]),
        },
        index=scores.columns,
    )
    datasets = list(dict.fromkeys(map(str, scores.index.get_level_values(0))))
    return Standings(datasets, learners, ranks, pairs)


def _of_error(scores: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return what each learner saves of the baseline's error: mean, Student's interval, median."""
    rows = {}
    for name, values in error_reductions(scores, baseline).items():
        interval = paired_interval(values.dropna(), rho=0)  # data sets share no items
        enough = interval.n >= LEAST_DATASETS and name != baseline
        rows[name] = {
            "datasets_beside_baseline": interval.n,
            "error_reduction": interval.mean,
            "error_reduction_low": interval.low if enough else math.nan,
            "error_reduction_high": min(interval.high, 1.0) if enough else math.nan,
            "error_reduction_median": values.median(),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def duels(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each learner with each other on each data set: `Standings.pairs`.

    On a data set a win counts 1, a tie 1/2; the mean over the data set's tables that hold both.
    """
    n_learners = scores.shape[1]
    wins, counts = np.zeros((n_learners, n_learners)), np.zeros((n_learners, n_learners), int)
    for _, own in scores.groupby(level=0, sort=False):
        values = own.to_numpy(dtype=float)
        of_i, of_j = values[:, :, None], values[:, None, :]
        both = ~np.isnan(of_i + of_j) & ~np.eye(n_learners, dtype=bool)
        above = np.where(both, (of_i > of_j) + 0.5 * (of_i == of_j), 0.0)
        n_tables = both.sum(axis=0)
        wins += above.sum(axis=0) / np.maximum(n_tables, 1)
        counts += n_tables > 0
    names = [str(name) for name in scores.columns]
    rows = [
        (names[i], names[j], int(counts[i, j]), float(wins[i, j]))
        for i, j in zip(*np.nonzero(counts), strict=True)
    ]
    return pd.DataFrame(rows, columns=["learner", "opponent", "datasets", "wins"])


def stretched_ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rank of each learner on each data set that it has; 1 is best, equal ones share.

    Among k learners of a table, of K in all, rank r counts as 1 + (r - 1) (K - 1) / (k - 1): the
    last of few is no better off than the last of many.  Where every table holds all learners these
    are the usual ranks.  Tables of one learner do not count.
    """
    scores = scores[scores.count(axis=1) > 1]
    ranks = scores.rank(axis=1, ascending=False)
    stretch = (scores.shape[1] - 1) / (scores.count(axis=1) - 1)
    return (1 + (ranks - 1).mul(stretch, axis=0)).groupby(level=0).mean()


def error_reductions(scores: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return the share of a baseline's error that each learner saves: (n_datasets, n_learners).

    With m the measure, whose largest value is 1, it is 1 - (1 - m) / (1 - m of the baseline): 1
    where no error is left, 0 where as many are, negative where there are more.  It is the mean over
    the data set's tables that hold both, without those where the baseline makes no error.
    """
    errors = 1 - scores
    of_baseline = errors[baseline].where(errors[baseline] > 0)
    return (1 - errors.div(of_baseline, axis=0)).groupby(level=0, sort=False).mean()


@dataclass(frozen=True)
class AverageRanks:
    """Ranks of learners on each data set, and how they differ from the best of them.

    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7 (2006).

    Attributes
    ----------
    ranks : DataFrame of shape (n_datasets, n_learners)
        1 is best; equal scores share the mean of their ranks.  Learners in ascending order of
        their average.
    average : Series of shape (n_learners,)
    statistic, p_value : float
        Friedman's chi-square, corrected for ties, 0 where all ranks are equal; by permutation.
    p_values : Series of shape (n_learners,)
        Of `signed_rank_tests` against the first; NaN for itself.
    """

    ranks: pd.DataFrame
    average: pd.Series[float]
    statistic: float
    p_value: float
    p_values: pd.Series[float]

    @property
    def names(self) -> list[str]:
        """The learners, the best first."""
        return [str(name) for name in self.average.index]

    @property
    def tied(self) -> list[str]:
        """The learners whose difference from the best is not significant."""
        return [name for name in self.names[1:] if self.p_values[name] > LEVEL]

    @property
    def least_datasets(self) -> int:
        """The fewest data sets on which a difference can be significant, if all agree.

        Two of the 2 ** N signs of N differences are as extreme, and Holm's first step multiplies
        by the number of comparisons.
        """
        n_tests = len(self.average) - 1
        return next(n for n in count(2) if n_tests * 2.0 ** (1 - n) <= LEVEL)


def rank_learners(scores: pd.DataFrame) -> AverageRanks:
    """Rank learners by scores (n_datasets, n_learners), none missing; test their differences.

    Friedman's p-value is that of random permutations of the ranks within each data set: chi-square
    and F approximate it for more than ten data sets and five learners (Demšar 2006).
    """
    if min(scores.shape) < 2 or scores.isna().to_numpy().any():
        raise ValueError(
            f"scores of shape {scores.shape}: at least (2, 2) is needed, with none missing"
        )
    ranks = scores.rank(axis=1, ascending=False)
    average = ranks.mean().sort_values(kind="stable")
    ranks = ranks[average.index]
    statistic, p_value = _friedman(ranks.to_numpy())
    p_values = signed_rank_tests(scores[average.index], str(average.index[0]))
    return AverageRanks(ranks, average, statistic, p_value, p_values)


def signed_rank_tests(scores: pd.DataFrame, other: str) -> pd.Series[float]:
    """Test each learner against `other` by Wilcoxon's signed-rank test, corrected by Holm.

    Of `scores` (n_datasets, n_learners), none missing.  Data sets on which both are equal do not
    count; where that is all of them the p-value is 1.
    """
    p_values = pd.Series(math.nan, index=scores.columns)
    for name in scores.columns.drop(other):
        differences = (scores[name] - scores[other]).round(DECIMALS)
        differences = differences[differences != 0]
        if differences.empty:
            p_values[name] = 1.0
        elif differences.abs().duplicated().any() and len(differences) <= FEW_DATASETS:
            test = stats.wilcoxon(differences, method=stats.PermutationMethod())
            p_values[name] = test.pvalue
        else:
            p_values[name] = stats.wilcoxon(differences).pvalue
    return pd.Series(holm(p_values), index=scores.columns)


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
