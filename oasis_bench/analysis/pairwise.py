"""Compares learners over data sets where results may be missing: wins, ranks, errors saved.

Not for Demšar's test, which needs all learners on all data sets: `analysis.average_ranks`.  Not for
ratings: `analysis.elo`.

A table of scores is of one run: its learners had the same partitions and the same budget.  Only
learners of one table are compared.  A data set has one table or more, which share its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from oasis_bench.analysis.statistics import PairedInterval, paired_interval


@dataclass(frozen=True)
class Duels:
    """Which learners are above which, on each data set.

    Attributes
    ----------
    names : list of str
        The learners.
    datasets : list of str
    wins : array of shape (n_datasets, n_learners, n_learners)
        ``wins[d, i, j]``: 1 where learner i is above j on data set d, 1/2 where they are equal;
        the mean over the data set's tables that hold both.  0 where none does.
    met : array of shape (n_datasets, n_learners, n_learners), bool
        Whether a table of the data set holds both; False for a learner and itself.
    """

    names: list[str]
    datasets: list[str]
    wins: npt.NDArray[np.float64]
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
        """Return a row for each learner and opponent that met.

        Returns
        -------
        DataFrame
            learner, opponent, datasets (where they met), wins (of these; a tie counts a half).
        """
        counts, wins = self.met.sum(axis=0), self.wins.sum(axis=0)
        rows = [
            (self.names[i], self.names[j], int(counts[i, j]), float(wins[i, j]))
            for i, j in zip(*np.nonzero(counts), strict=True)
        ]
        return pd.DataFrame(rows, columns=["learner", "opponent", "datasets", "wins"])


def duels(scores: pd.DataFrame) -> Duels:
    """Compare each learner with each other on each data set.

    Parameters
    ----------
    scores : DataFrame of shape (n_tables, n_learners)
        Larger is better, NaN where a table lacks a learner.  The first level of its index is the
        data set.
    """
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

    Parameters
    ----------
    scores : DataFrame of shape (n_tables, n_learners)
        As for `duels`.
    """
    scores = scores[scores.count(axis=1) > 1]
    ranks = scores.rank(axis=1, ascending=False)
    stretch = (scores.shape[1] - 1) / (scores.count(axis=1) - 1)
    return (1 + (ranks - 1).mul(stretch, axis=0)).groupby(level=0).mean().mean()


def error_reductions(scores: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return the share of a baseline's error that each learner saves on each data set.

    With m the measure, whose largest value is 1, it is 1 - (1 - m) / (1 - m of the baseline): 1
    where no error is left, 0 where as many are, negative where there are more.  It is the mean over
    the data set's tables that hold both, without those where the baseline makes no error.

    Parameters
    ----------
    scores : DataFrame of shape (n_tables, n_learners)
        As for `duels`, none above 1.
    baseline : str
        One of the learners.

    Returns
    -------
    DataFrame of shape (n_datasets, n_learners)
        NaN where a learner or the baseline has no result.
    """
    errors = 1 - scores
    of_baseline = errors[baseline].where(errors[baseline] > 0)
    return (1 - errors.div(of_baseline, axis=0)).groupby(level=0, sort=False).mean()


def interval_over_datasets(values: pd.Series[float]) -> PairedInterval:
    """Return Student's 95 % interval of the mean over data sets, which share no items."""
    return paired_interval(values.dropna(), n_train=1, n_test=0)
