"""Means, spreads and paired comparisons over outer partitions; not for ranking measures.

Outer partitions draw from the same images, so their results are correlated and the usual t-interval
is too narrow: the corrected resampled one of Nadeau & Bengio, "Inference for the generalization
error", Machine Learning 52 (2003), is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Mean and spread of some values; NaN where there are too few of them.

    Attributes
    ----------
    mean : float
        NaN without values.
    sd : float
        Sample standard deviation (n - 1); NaN below two values.
    n : int
    """

    mean: float
    sd: float
    n: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, as if the values were independent."""
        return self.sd / math.sqrt(self.n) if self.n else math.nan


@dataclass(frozen=True)
class PairedInterval:
    """Confidence interval of a mean difference.

    Attributes
    ----------
    mean, low, high : float
    n : int
        Differences behind it.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def includes_zero(self) -> bool:
        """Whether the two that were compared are not told apart."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Comparison:
    """Which learners are best, or not distinguishable from the best.

    Attributes
    ----------
    best : str or None
        The highest mean among the learners with the most partitions; None where no other could be
        compared with it.
    verdicts : dict of str to str
        For each learner: 'best', 'tied' with it, 'worse', 'better' on the partitions that it
        shares with the best (it has others or fewer, else it would be the best), or '' where it
        was not compared.
    n_shared : dict of str to int
        Partitions that each learner shares with the best; 0 where there is none.
    """

    best: str | None
    verdicts: Mapping[str, str]
    n_shared: Mapping[str, int]


def summarise(values: npt.ArrayLike) -> Summary:
    """Return mean, sample standard deviation and number of `values` (n,), none of them NaN."""
    array = np.asarray(values, dtype=np.float64)
    return Summary(
        mean=float(array.mean()) if array.size else math.nan,
        sd=float(array.std(ddof=1)) if array.size > 1 else math.nan,
        n=array.size,
    )


def interval_reach(n: int, n_train: int, n_test: int, confidence: float = CONFIDENCE) -> float:
    """Return how many standard deviations of the differences the paired interval reaches.

    The variance of a mean difference over J partitions is s^2 (1/J + n_test/n_train), with J - 1
    degrees of freedom (Nadeau & Bengio 2003).

    Parameters
    ----------
    n : int
        Partitions, J; at least 2.
    n_train, n_test : int
        Images that each partition learns from and tests on.
    confidence : float, default 0.95
    """
    quantile = float(stats.t.ppf((1 + confidence) / 2, df=n - 1))
    return quantile * math.sqrt(1 / n + n_test / n_train)


def paired_interval(
    differences: npt.ArrayLike, n_train: int, n_test: int, confidence: float = CONFIDENCE
) -> PairedInterval:
    """Return the corrected resampled t-interval of a mean difference.

    Parameters
    ----------
    differences : array of shape (n,)
        One for each partition.
    n_train, n_test : int
        Images that each partition learns from and tests on.
    confidence : float, default 0.95

    Raises
    ------
    ValueError
        With fewer than 2 differences, which have no spread.
    """
    summary = summarise(differences)
    if summary.n < 2:
        raise ValueError(f"{summary.n} differences: an interval needs at least 2")
    half = summary.sd * interval_reach(summary.n, n_train, n_test, confidence)
    return PairedInterval(summary.mean, summary.mean - half, summary.mean + half, summary.n)


def compare_to_best(
    scores: pd.DataFrame, n_train: int, n_test: int, confidence: float = CONFIDENCE
) -> Comparison:
    """Find the best learner of one class subset, and those not distinguishable from it.

    The best has the highest mean over its partitions among the learners with the most of them: two
    easy partitions do not win.  Each other learner is compared with it by the `paired_interval` of
    their differences on the partitions that those two share; fewer than two, and it is not.

    Parameters
    ----------
    scores : DataFrame of shape (n_partitions, n_learners)
        Larger is better; NaN where a trial gave no result.
    n_train, n_test : int
        Images that each partition learns from and tests on.
    confidence : float, default 0.95
    """
    counts = scores.count()
    names = [str(name) for name in scores.columns]
    verdicts, n_shared = dict.fromkeys(names, ""), dict.fromkeys(names, 0)
    if counts.max() < 2:
        return Comparison(None, verdicts, n_shared)
    best = str(scores.loc[:, counts == counts.max()].mean().idxmax())
    for name in names:
        differences = (scores[best] - scores[name]).dropna()
        n_shared[name] = len(differences)
        if name != best and len(differences) >= 2:
            interval = paired_interval(differences, n_train, n_test, confidence)
            apart = "worse" if interval.mean > 0 else "better"
            verdicts[name] = "tied" if interval.includes_zero else apart
    if not any(verdicts.values()):
        return Comparison(None, verdicts, n_shared)
    return Comparison(best, {**verdicts, best: "best"}, n_shared)
