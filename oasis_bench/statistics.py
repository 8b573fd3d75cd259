"""Means, spreads and paired comparisons over outer partitions; not for ranking measures.

Outer partitions draw from the same images, so their results are correlated and the usual t-interval
is too narrow: the corrected resampled one of Nadeau & Bengio, "Inference for the generalization
error", Machine Learning 52 (2003), is used.
"""

from __future__ import annotations

import math
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
        The highest mean over the shared partitions; None where nothing could be compared.
    tied : frozenset of str
        Those not distinguishable from the best, which is left out.
    compared : tuple of str
        Learners with at least two partitions.
    n_shared : int
        Partitions that all of `compared` have.
    """

    best: str | None
    tied: frozenset[str]
    compared: tuple[str, ...]
    n_shared: int

    def verdict(self, learner: str) -> str:
        """Return 'best', 'tied' or 'worse'; '' where the learner was not told apart from others."""
        if self.best is None or len(self.compared) < 2 or learner not in self.compared:
            return ""
        if learner == self.best:
            return "best"
        return "tied" if learner in self.tied else "worse"


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

    Each learner is compared with the best by the `paired_interval` of their differences, on the
    partitions that all learners share.  Learners with fewer than two partitions are not compared.

    Parameters
    ----------
    scores : DataFrame of shape (n_partitions, n_learners)
        Larger is better; NaN where a trial gave no result.
    n_train, n_test : int
        Images that each partition learns from and tests on.
    confidence : float, default 0.95
    """
    usable = scores.loc[:, scores.count() >= 2]
    compared = tuple(str(name) for name in usable.columns)
    shared = usable.dropna()
    if not compared or len(shared) < 2:
        return Comparison(None, frozenset(), compared, len(shared) if compared else 0)
    best = str(shared.mean().idxmax())
    tied = frozenset(
        name
        for name in compared
        if name != best
        and paired_interval(shared[best] - shared[name], n_train, n_test, confidence).includes_zero
    )
    return Comparison(best, tied, compared, len(shared))
