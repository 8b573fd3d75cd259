"""Means, spreads, paired comparisons over outer partitions, growth; not for ranking measures.

Outer partitions sample the same items, so their results are correlated and the usual t-interval
is too narrow.  With the correlation rho, the harmonic mean of the shares of the pool of items that
one partition trains on and tests (`tasks.Split.rho`), the variance of a mean difference over J
partitions is s^2 (1/J + rho / (1 - rho)), with J - 1 degrees of freedom.  Where half of a pool
trains and half tests this is the corrected resampled t-test of Nadeau & Bengio, "Inference for the
generalization error", Machine Learning 52 (2003).  Over data sets, `analysis.leaderboard` compares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

CONFIDENCE = 0.95
LEVEL = 0.05
POWER = 0.8

ROUNDING = 1e-12
"""Differences that vary by no more are equal; equal ones have no spread, and so no test."""

MARGIN = 0.01
"""Learners are as good as each other that differ by less, in a measure from 0 to 1."""

LEAST_SETS = 5
"""Class sets below which differences are described and not tested."""

LEAST_CLUSTERS = 6
"""The least effective number of groups of judgements for an interval."""

RESAMPLES = 9999
"""Samples of a bootstrap over data sets."""


@dataclass(frozen=True)
class PairedInterval:
    """A mean difference with its interval (95 % by default), not corrected for other comparisons.

    low, high and p_value are NaN if the n differences have no spread: there are fewer than two, or
    all are equal.  The p-value is two-sided, for no difference; sd is the sample standard
    deviation, and rho the correlation of partitions.  The interval is cut at `reach`, the largest
    possible difference, up and down.  `df` are the degrees of freedom of t; default: n - 1.
    """

    mean: float
    low: float
    high: float
    n: int
    sd: float
    p_value: float
    reach: float = math.inf
    rho: float = 0.0
    df: float | None = None

    LEVEL: ClassVar = LEVEL

    @classmethod
    def of(
        cls,
        differences: npt.ArrayLike,
        rho: float,
        sizes: npt.ArrayLike | None = None,
        reach: float = math.inf,
    ) -> PairedInterval:
        """Return the interval of a mean: over partitions, or over groups of so many judgements."""
        if sizes is None:
            return paired_interval(differences, rho, reach=reach)
        return cluster_interval(differences, sizes, reach)

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN of less than two values."""
        return self.sd * _standard_error(self.n, self.rho)

    @property
    def detectable(self) -> float:
        """The `detectable_difference` at the spread that was found.

        NaN where there is no spread, or where so large a difference cannot be.
        """
        seen = self.sd * detectable_difference(self.n, self.rho)
        return seen if 0 < seen <= self.reach else math.nan

    def within(self, above: float, below: float) -> dict[str, float]:
        """Test that the mean is within bounds, each one-sided at `LEVEL`.

        Returns low and high of the 90 % interval, which excludes a bound at this level, and the
        larger p_value.  All are NaN for fewer values than `LEAST_SETS`, and if all are equal.
        """
        error = self.standard_error if self.n >= LEAST_SETS and self.sd > 0 else math.nan
        df = self.n - 1 if self.df is None else self.df
        half = error * stats.t.isf(LEVEL, df)
        low, high = np.clip([self.mean - half, self.mean + half], -self.reach, self.reach)
        p_value = np.maximum(
            stats.t.sf((self.mean - above) / error, df),
            stats.t.cdf((self.mean - below) / error, df),
        )
        return {"low": low, "high": high, "p_value": float(p_value)}


@dataclass(frozen=True)
class Comparison:
    """Which learners are best by a measure, or not distinguishable from the best.

    Attributes
    ----------
    scores : DataFrame of shape (n_partitions, n_learners)
        Of judgements (n_groups, n_learners).
    sizes : Series of float or None
        The judgements of each group.
    best : str or None
        The highest mean among the learners with the most partitions; None where no other could be
        compared with it.
    verdicts : dict of str to str
        For each learner, in this order: 'best'; 'as good' where the 90 % interval of the
        difference from the best lies within `MARGIN`, of a measure from 0 to 1, or all values are
        equal; 'worse', or 'better' on the partitions that it shares with the best (it has others
        or fewer, else it would be the best), where the test says so; 'unclear' else, 'untested'
        where it differs by the same on each partition, or '' where it was not compared.
    means : dict of str to float
        The mean of each learner, NaN without a result.
    differences : dict of str to PairedInterval
        The best minus each learner that was compared with it.
    p_values : dict of str to float
        Those of `differences`, corrected by `holm`; the verdicts depend on them.  NaN without
        spread.
    subset, name : str
        The class subset and the measure that are compared.
    """

    scores: pd.DataFrame
    sizes: pd.Series[float] | None
    best: str | None
    verdicts: Mapping[str, str]
    means: Mapping[str, float]
    differences: Mapping[str, PairedInterval]
    p_values: Mapping[str, float]
    subset: str = ""
    name: str = ""

    def interval(self, learner: str) -> PairedInterval:
        """Return the interval of the mean of a learner over all judgements."""
        own = self.scores[learner].dropna()
        assert self.sizes is not None
        return cluster_interval(own, self.sizes[own.index])

    def standard_error(self, learner: str) -> float:
        """Return the standard error of this mean; NaN of too few groups."""
        interval = self.interval(learner)
        return math.nan if math.isnan(interval.low) else interval.standard_error


def _standard_error(n: float, rho: float) -> float:
    """Return the standard error of a mean difference, in standard deviations s of the differences.

    s estimates what partitions do not share, sigma sqrt(1 - rho).  Equal partitions show nothing.
    """
    return math.sqrt(1 / n + rho / (1 - rho)) if rho < 1 else math.inf


def detectable_difference(n: float, rho: float) -> float:
    """Return the smallest true difference that is found significant with probability `POWER`.

    In standard deviations of the differences over `n` partitions; infinity gives the limit for
    many.  The test statistic of a true difference delta is noncentral t with n - 1 degrees of
    freedom and noncentrality delta / (s sqrt(1/n + rho / (1 - rho))).  `LEVEL` is two-sided, of
    this comparison; a difference that is significant in the wrong direction does not count.
    """
    quantile = float(stats.t.ppf(1 - LEVEL / 2, df=n - 1))
    noncentrality = (
        quantile + float(stats.norm.ppf(POWER))
        if math.isinf(n)
        else float(special.nctdtrinc(n - 1, 1 - POWER, quantile))
    )
    return noncentrality * _standard_error(n, rho)


def reach_of(values: npt.ArrayLike) -> float:
    """Return the largest difference of two values of a measure.

    It is 1 of a measure whose values all lie in [0, 1], 2 in [-1, 1], and else not known: infinity.
    """
    largest = np.nanmax(np.abs(values), initial=0.0)
    return math.inf if largest > 1 else 2.0 if np.nanmin(values, initial=0.0) < 0 else 1.0


def paired_interval(
    differences: npt.ArrayLike, rho: float, reach: float = math.inf
) -> PairedInterval:
    """Return the corrected resampled t-interval and the t-test of a mean difference (n,).

    `rho` is the correlation of partitions, 0 where they do not overlap: then both are Student's.
    For `reach` see `reach_of`.
    """
    array = np.asarray(differences, dtype=np.float64)
    n = array.size
    mean = float(array.mean()) if n else math.nan
    sd = float(array.std(ddof=1)) if n > 1 else math.nan
    if n < 2 or np.ptp(array) <= ROUNDING:
        return PairedInterval(mean, math.nan, math.nan, n, 0 * sd, math.nan, reach=reach, rho=rho)
    standard_error = sd * _standard_error(n, rho)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, df=n - 1)) * standard_error
    p_value = 2 * float(stats.t.sf(abs(mean) / standard_error, df=n - 1))
    low, high = max(mean - half, -reach), min(mean + half, reach)
    return PairedInterval(mean, low, high, n, sd, p_value, reach=reach, rho=rho)


def cluster_interval(
    values: npt.ArrayLike, sizes: npt.ArrayLike, reach: float = math.inf
) -> PairedInterval:
    """Return the jackknife interval of a mean over judgements, and its t-test.

    `values` (n,) are means of groups, of `sizes` (n,) judgements each: the mean is that over all
    judgements, and its standard error that of the means without one group each.  The t-distribution
    has G - 1 degrees of freedom, where G = (sum of sizes)^2 / (sum of sizes^2) is the effective
    number of groups (Carter, Schnepel & Steigerwald, Review of Economics and Statistics 99, 2017,
    for equal variances in the groups).  Below `LEAST_CLUSTERS` of these there is no interval.  `n`
    is the number of groups, and sd the standard error times its root.
    """
    array, weights = np.asarray(values, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    n, total = array.size, weights.sum()
    mean = float(np.average(array, weights=weights)) if n else math.nan
    df = effective_groups(weights) - 1
    if df + 1 < LEAST_CLUSTERS or np.ptp(array) <= ROUNDING:
        sd = math.nan if n < 2 else 0
        return PairedInterval(mean, math.nan, math.nan, n, sd, math.nan, reach=reach)
    left_out = (mean * total - array * weights) / (total - weights)
    error = math.sqrt((n - 1) / n * float(((left_out - mean) ** 2).sum()))
    half = float(stats.t.isf((1 - CONFIDENCE) / 2, df)) * error
    low, high = max(mean - half, -reach), min(mean + half, reach)
    p_value = 2 * float(stats.t.sf(abs(mean) / error, df))
    return PairedInterval(mean, low, high, n, error * math.sqrt(n), p_value, reach=reach, df=df)


def effective_groups(sizes: npt.ArrayLike) -> float:
    """Return how many groups of equal sizes tell as much as groups of these sizes (n,)."""
    weights = np.asarray(sizes, dtype=np.float64)
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def holm(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the p-values (n,) of a family of comparisons corrected for their number, in order.

    The step-down of Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6 (1979).  Where every corrected p-value of at most the level is called
    a difference, the probability of one or more false calls is at most the level, however the
    comparisons depend on each other.  NaN, of what was not tested, stays so and does not count.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]
    corrected = np.full_like(p, np.nan)
    steps = p[order] * np.arange(order.size, 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def compare_to_best(
    scores: pd.DataFrame,
    rho: float,
    baseline: str | None = None,
    least: int = 2,
    sizes: pd.Series[float] | None = None,
) -> Comparison:
    """Find the best learner of one class subset, and those not distinguishable from it.

    The best has the highest mean over its partitions among the learners with the most of them, so
    that none wins by two easy partitions.  Each other learner is compared with it by the
    `paired_interval` of their differences on the partitions that both share, if these are at least
    two.  Where the difference is the same on all of them there is no test.

    The family that `holm` corrects for is all these comparisons: one measure on one class subset.
    With other subsets or measures in the family, one table would depend on what else was run.  So
    errors are not controlled over several tables or measures.

    `holm` supposes that the best was named beforehand, but it is found in the same data, where
    chance has raised its mean.  The truly best is still called 'worse' in less than `LEVEL` of the
    runs.  That some learner as good as the best is called 'worse' is more frequent than `LEVEL`:
    among ten equal learners on five partitions in 11 % of simulated runs (uncorrected: 56 %).

    `scores` (n_partitions, n_learners) are NaN where a trial gave no result, and larger is better.
    A `baseline` is a learner that takes the place of the best.  On fewer than `least` partitions
    nothing is compared.

    With `sizes` the rows of `scores` are groups of so many judgements each, every one of which was
    tested once: `cluster_interval` compares.
    """
    counts = scores.count()
    names = [str(name) for name in scores.columns]
    means = scores.mean() if sizes is None else scores.mul(sizes, axis=0).sum()
    if sizes is not None:
        means /= scores.notna().mul(sizes, axis=0).sum()
    found = dict(zip(names, means.tolist(), strict=True))
    untold = dict.fromkeys(names, "")
    nothing = Comparison(scores, sizes, None, untold, found, {}, p_values={})
    if counts.max() < least:
        return nothing
    best = str(means[counts == counts.max()].idxmax()) if baseline is None else baseline
    differences, reach = {}, reach_of(scores)
    for name in names:
        shared = (scores[best] - scores[name]).dropna()
        if name != best and len(shared) >= 2:
            own_sizes = None if sizes is None else sizes[shared.index]
            differences[name] = PairedInterval.of(shared, rho, own_sizes, reach)
    if not differences:
        return nothing
    corrected = holm([difference.p_value for difference in differences.values()])
    p_values = dict(zip(differences, corrected.tolist(), strict=True))
    margin = MARGIN if reach == 1 else 0.0
    verdicts = {name: _verdict(differences[name], p, margin) for name, p in p_values.items()}
    verdicts = {**untold, **verdicts, best: "best"}
    return replace(
        nothing, best=best, verdicts=verdicts, differences=differences, p_values=p_values
    )


def _verdict(difference: PairedInterval, p_value: float, margin: float) -> str:
    """Say how a learner compares with the best, from which it was subtracted."""
    df = difference.n - 1 if difference.df is None else difference.df
    half = difference.standard_error * float(stats.t.isf(LEVEL, df))
    if abs(difference.mean) <= ROUNDING >= difference.sd or abs(difference.mean) + half < margin:
        return "as good"
    if math.isnan(p_value):
        return "untested"
    if p_value > LEVEL:
        return "unclear"
    return "worse" if difference.mean > 0 else "better"
