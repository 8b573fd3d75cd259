"""Means, spreads and paired comparisons over outer partitions.

Outer partitions sample the same items, so their results are correlated and the usual t-interval is
too narrow.  Let rho be their correlation: the harmonic mean of the shares of the item pool that a
partition uses for training and for testing (`tasks.Split.rho`).  The variance of a mean difference
over J partitions is then s^2 (1/J + rho / (1 - rho)), with J - 1 degrees of freedom.  If half of a
pool trains and half tests, this is the corrected resampled t-test of Nadeau & Bengio, "Inference
for the generalization error", Machine Learning 52 (2003).  `analysis.leaderboard` uses data sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

CONFIDENCE = 0.95
LEVEL = 0.05
POWER = 0.8

ROUNDING = 1e-12
"""Differences that vary by at most this are equal: they have no spread, and so no test."""

MARGIN = 0.01
"""Learners that differ by less are as good as each other, in a measure from 0 to 1."""

LEAST_SETS = 5
"""With fewer class sets, differences are described but not tested."""

LEAST_CLUSTERS = 6
"""The least effective number of groups of judgements for an interval."""

RESAMPLES = 9999
"""Number of bootstrap samples over data sets."""


@dataclass(frozen=True)
class PairedInterval:
    """A mean difference with its interval (95 % by default), not corrected for other comparisons.

    low, high and p_value are NaN if the n differences have no spread: there are fewer than two, or
    all are equal.  The p-value is two-sided, for the hypothesis of no difference.  sd is the sample
    standard deviation, and rho the correlation of partitions.  The interval is cut at +-`reach`,
    the largest possible difference.  `df` are the degrees of freedom of t; default: n - 1.
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

    @classmethod
    def of(
        cls,
        differences: npt.ArrayLike,
        rho: float,
        sizes: npt.ArrayLike | None = None,
        reach: float = math.inf,
    ) -> PairedInterval:
        """Return the interval of a mean over partitions, or over groups of `sizes` judgements."""
        if sizes is None:
            return paired_interval(differences, rho, reach=reach)
        return cluster_interval(differences, sizes, reach)

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN for fewer than two values."""
        return self.sd * _standard_error(self.n, self.rho)

    @property
    def half_of_90_percent(self) -> float:
        """Half the width of the 90 % interval, which excludes a bound at `LEVEL`, one-sided."""
        return self.standard_error * float(stats.t.isf(LEVEL, self._degrees))

    @property
    def _degrees(self) -> float:
        return self.n - 1 if self.df is None else self.df

    @property
    def detectable(self) -> float:
        """The `detectable_difference` at the observed spread.

        NaN without a spread, or if so large a difference is impossible.
        """
        seen = self.sd * detectable_difference(self.n, self.rho, self.df)
        return seen if 0 < seen <= self.reach else math.nan

    def within(self, above: float, below: float) -> dict[str, float]:
        """Test that the mean is within bounds, each one-sided at `LEVEL`.

        Returns low and high of the 90 % interval, which excludes a bound at this level, and the
        larger p_value.  All are NaN for fewer values than `LEAST_SETS`, and if all are equal.
        """
        if self.n < LEAST_SETS or not self.sd > 0:
            return dict.fromkeys(("low", "high", "p_value"), math.nan)
        error, half = self.standard_error, self.half_of_90_percent
        low, high = np.clip([self.mean - half, self.mean + half], -self.reach, self.reach)
        p_value = np.maximum(
            stats.t.sf((self.mean - above) / error, self._degrees),
            stats.t.cdf((self.mean - below) / error, self._degrees),
        )
        return {"low": low, "high": high, "p_value": float(p_value)}


@dataclass(frozen=True)
class Comparison:
    """Which learners are best by a measure, or not distinguishable from the best.

    Attributes
    ----------
    scores : DataFrame of shape (n_partitions, n_learners)
        With judgements (n_groups, n_learners).
    sizes : Series of float or None
        The number of judgements of each group.
    best : str or None
        The learner with the highest mean among those with the most partitions; None if no other
        could be compared with it.  With a baseline, it is the baseline.
    verdicts : dict of str to str
        For each learner, in this order: 'best'; 'as good' if the 90 % interval of the difference
        from the best lies within the margin, or if all values are equal;
        'worse' if the test is significant, or 'better' on the partitions shared with the best (it
        has other or fewer partitions); 'unclear' if not significant; 'untested' if the difference
        is the same on each partition; '' if it was not compared.
    means : dict of str to float
        The mean of each learner, NaN without a result.
    differences : dict of str to PairedInterval
        The best minus each learner compared with it.
    p_values : dict of str to float
        The p-values of `differences`, corrected by `holm`; the verdicts depend on them.  NaN
        without spread.
    margin : float
        `MARGIN` for a measure from 0 to 1; for others the given one, or 0.
    subset, name : str
        The class subset and the measure of the comparison.
    """

    scores: pd.DataFrame
    sizes: pd.Series[float] | None
    best: str | None
    verdicts: Mapping[str, str]
    means: Mapping[str, float]
    differences: Mapping[str, PairedInterval]
    p_values: Mapping[str, float]
    margin: float = 0.0
    subset: str = ""
    name: str = ""

    @property
    def complete(self) -> list[str]:
        """The learners with the most partitions."""
        counts = self.scores.count()
        return [str(name) for name in counts.index[counts == counts.max()]]

    def interval(self, learner: str, rho: float = 0.0) -> PairedInterval:
        """Return the interval of the mean of a learner over all judgements, or over partitions."""
        own = self.scores[learner].dropna()
        sizes = None if self.sizes is None else self.sizes[own.index]
        return PairedInterval.of(own, rho, sizes, reach_of(own))

    def standard_error(self, learner: str) -> float:
        """Return the standard error of this mean; NaN for too few groups."""
        interval = self.interval(learner)
        return math.nan if math.isnan(interval.low) else interval.standard_error


def _standard_error(n: int, rho: float) -> float:
    """Return the standard error of a mean difference, in standard deviations s of the differences.

    s estimates sigma sqrt(1 - rho), the part that partitions do not share; rho = 1 leaves none.
    """
    return math.sqrt(1 / n + rho / (1 - rho)) if rho < 1 else math.inf


def detectable_difference(n: int, rho: float, df: float | None = None) -> float:
    """Return the smallest true difference that is found significant with probability `POWER`.

    It is in standard deviations of the differences over `n` partitions.  The test statistic of a
    true difference delta is noncentral t with `df` degrees of freedom (by default n - 1) and
    noncentrality delta / (s sqrt(1/n + rho / (1 - rho))).  `LEVEL` is two-sided, for this
    comparison alone; a significant difference in the wrong direction does not count.
    """
    df = n - 1 if df is None else df
    quantile = float(stats.t.ppf(1 - LEVEL / 2, df=df))
    noncentrality = float(special.nctdtrinc(df, 1 - POWER, quantile))
    return noncentrality * _standard_error(n, rho)


def reach_of(values: npt.ArrayLike) -> float:
    """Return the largest difference of two values of a measure.

    It is 1 if all values lie in [0, 1], 2 if they lie in [-1, 1], and otherwise infinity.
    """
    largest = np.nanmax(np.abs(values), initial=0.0)
    return math.inf if largest > 1 else 2.0 if np.nanmin(values, initial=0.0) < 0 else 1.0


def paired_interval(
    differences: npt.ArrayLike, rho: float, reach: float = math.inf
) -> PairedInterval:
    """Return the corrected resampled t-interval and the t-test of a mean difference (n,).

    `rho` is the correlation of partitions; if it is 0, without overlap, both are Student's.
    For `reach` see `reach_of`.
    """
    array = np.asarray(differences, dtype=np.float64)
    n = array.size
    mean = float(array.mean()) if n else math.nan
    sd = float(array.std(ddof=1)) if n > 1 else math.nan
    if n < 2 or np.ptp(array) <= ROUNDING:
        return PairedInterval(mean, math.nan, math.nan, n, 0 * sd, math.nan, reach=reach, rho=rho)
    low, high, p_value = _t_test(mean, sd * _standard_error(n, rho), n - 1, reach)
    return PairedInterval(mean, low, high, n, sd, p_value, reach=reach, rho=rho)


def _t_test(mean: float, error: float, df: float, reach: float) -> tuple[float, float, float]:
    """Return the ends of the interval of a mean with this standard error, and the p-value."""
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, df)) * error
    p_value = 2 * float(stats.t.sf(abs(mean) / error, df))
    return max(mean - half, -reach), min(mean + half, reach), p_value


def cluster_interval(
    values: npt.ArrayLike, sizes: npt.ArrayLike, reach: float = math.inf
) -> PairedInterval:
    """Return the jackknife interval of a mean over judgements, and its t-test.

    `values` (n,) are means of groups of `sizes` (n,) judgements.  The mean is over all judgements,
    and its standard error comes from the means that leave out one group.  The t-distribution has
    G - 1 degrees of freedom, where G = (sum of sizes)^2 / (sum of sizes^2) is the effective number
    of groups (Carter, Schnepel & Steigerwald, Review of Economics and Statistics 99, 2017, for
    equal variances in the groups).  If G is below `LEAST_CLUSTERS`, there is no interval.  `n` is
    the number of groups, and sd is the standard error times sqrt(n).
    """
    array, weights = np.asarray(values, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    n, total = array.size, weights.sum()
    mean = float(np.average(array, weights=weights)) if n else math.nan
    df = effective_groups(weights) - 1
    is_flat = n > 1 and np.ptp(array) <= ROUNDING
    if df + 1 < LEAST_CLUSTERS or is_flat:
        sd = 0.0 if is_flat else math.nan
        return PairedInterval(mean, math.nan, math.nan, n, sd, math.nan, reach=reach)
    left_out = (mean * total - array * weights) / (total - weights)
    error = math.sqrt((n - 1) / n * float(((left_out - mean) ** 2).sum()))
    low, high, p_value = _t_test(mean, error, df, reach)
    return PairedInterval(mean, low, high, n, error * math.sqrt(n), p_value, reach=reach, df=df)


def effective_groups(sizes: npt.ArrayLike) -> float:
    """Return how many groups of equal sizes are as informative as groups of these sizes (n,)."""
    weights = np.asarray(sizes, dtype=np.float64)
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.size else 0.0


def holm(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the p-values (n,) of a family of comparisons, corrected for their number, in order.

    The step-down of Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6 (1979).  If every corrected p-value up to the level counts as a
    difference, the probability of one or more false differences is at most the level, even if the
    comparisons depend on each other.  NaN (not tested) stays NaN and does not count.
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
    margin: float | None = None,
) -> Comparison:
    """Find the best learner of one class subset, and the learners not distinguishable from it.

    The best has the highest mean among the learners with the most partitions, so that none wins by
    two easy partitions.  Each other learner is compared with the best by the `paired_interval` of
    their differences on shared partitions, if there are at least two.  There is no test if the
    difference is the same on all of them.

    The family that `holm` corrects for is all these comparisons: one measure on one class subset.
    With other subsets or measures in the family, one table would depend on other parts of the run.
    So errors are not controlled over several tables or measures.

    `holm` assumes that the best was named beforehand, but it is found in the same data, where
    chance has raised its mean.  The truly best is still called 'worse' in less than `LEVEL` of the
    runs.  But some equally good learner is called 'worse' more often than `LEVEL`: with ten equal
    learners on five partitions, in 11 % of simulated runs (uncorrected: 56 %).

    `scores` (n_partitions, n_learners) are NaN if a trial has no result; larger is better.  A
    `baseline` is a learner that takes the place of the best.  With fewer than `least` partitions
    nothing is compared.

    With `sizes`, the rows of `scores` are groups of so many judgements.  Each judgement was tested
    once, and `cluster_interval` compares, if there are enough groups.  `margin` is that of a
    measure that is not between 0 and 1, of which the default could not know the size.
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
        own_sizes = None if sizes is None else sizes[shared.index]
        n = len(shared) if own_sizes is None else effective_groups(own_sizes)
        if name != best and n >= (2 if own_sizes is None else LEAST_CLUSTERS):
            differences[name] = PairedInterval.of(shared, rho, own_sizes, reach)
    if not differences:
        return nothing
    corrected = holm([difference.p_value for difference in differences.values()])
    p_values = dict(zip(differences, corrected.tolist(), strict=True))
    within = MARGIN if reach == 1 else margin or 0.0
    verdicts = {name: _verdict(differences[name], p, within) for name, p in p_values.items()}
    verdicts = {**untold, **verdicts, best: "best"}
    return replace(
        nothing,
        best=best,
        verdicts=verdicts,
        differences=differences,
        p_values=p_values,
        margin=within,
    )


def _verdict(difference: PairedInterval, p_value: float, margin: float) -> str:
    """Return the verdict on a learner; `difference` is the best minus this learner."""
    furthest = abs(difference.mean) + difference.half_of_90_percent
    if abs(difference.mean) <= ROUNDING >= difference.sd or furthest < margin:
        return "as good"
    if math.isnan(p_value):
        return "untested"
    if p_value > LEVEL:
        return "unclear"
    return "worse" if difference.mean > 0 else "better"
