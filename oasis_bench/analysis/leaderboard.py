"""Ranks learners over corpora by one measure of one task, as reduction of the baseline's error.

A corpus is a data set; its mean over class subsets and kinds of features counts once.  A learner
without a result has the last rank on a corpus, so that all learners are compared on all corpora.
Corpora of one domain are not independent: tests and intervals take domains into account.
Partitions of one corpus overlap: `analysis.statistics` compares over them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from oasis_bench.analysis.statistics import CONFIDENCE, LEVEL, RESAMPLES, holm

BASELINES = (
    *("Euclidean", "StandardizedEuclidean", "Covariance"),
    *("NearestNeighbourMemory", "ClassifierPosterior"),
)
"""Learners that learn no metric from the labels."""

DECIMALS = 9
"""Differences of scores are rounded to so many decimals, so that equal scores are ties."""

SHUFFLES = 999
"""The number of shuffles of a test."""

FEW_CORPORA = 10
"""Up to this number, p-values of tied differences are exact; for more, SciPy approximates them."""


@dataclass(frozen=True)
class Leaderboard:
    """The ranking of learners over corpora, by one measure of one task.

    Attributes
    ----------
    cells : DataFrame
        The results to compare, with a row for each learner and cell, such as a class subset of a
        corpus: task, name (of the measure), corpus, cell, learner, score (at most 1, larger is
        better; NaN without a result), direct and posterior (the score of each use, or NaN), and
        seconds; `known` also needs kind, n_train, n_classes and n_features. No two corpora share
        the name of a cell. Cells in which the baseline has no result or no error do not count.
    baseline : str
    learners : DataFrame
        A row for each learner, by average rank, unranked learners last: ranked, corpora (with its
        own result), stand_ins, average_rank, error_reduction (the median over corpora) with its
        _low, _high and _mean, above_0 (the corpora with a positive one), p_baseline and p_leader
        (of `p_values_against`), verdict (of `_verdicts`), seconds (of the median corpus).  An
        unranked learner has neither rank nor test, and its figures are of the corpora with its own
        result.
    saved : DataFrame of shape (n_corpora, n_learners)
        The error reduction of each learner on each corpus; `_error_reductions` has the stand-ins.
    group : str
        The name of the group of corpora, or 'all'.
    use : str
        How all learners are used: 'selected' (by the inner folds) or 'directly'.
    """

    cells: pd.DataFrame
    baseline: str
    learners: pd.DataFrame
    saved: pd.DataFrame
    group: str = "all"
    use: str = "selected"

    MARGIN: ClassVar = 0.02
    """Learners whose mean error reductions differ by less are as good as each other."""

    LEAST_CORPORA: ClassVar = 6
    """The fewest for an interval; with fewer, no signed-rank test can be significant either."""

    MOST_STAND_INS: ClassVar = 0.05
    """A learner with stand-ins on a larger share of the corpora is listed but not ranked."""

    @classmethod
    def of(cls, cells: pd.DataFrame, baseline: str) -> Leaderboard:
        """Compare learners over corpora with a baseline, and with the best by average rank."""
        saved, is_own = _error_reductions(cells, baseline)
        stand_ins = (~is_own).sum()
        ranked = stand_ins <= cls.MOST_STAND_INS * len(saved)
        of_ranked = saved.loc[:, ranked]
        ranks = of_ranked.where(is_own, -math.inf).rank(axis=1, ascending=False)
        average = ranks.mean().sort_values(kind="stable")
        names = [*average.index, *stand_ins[~ranked].sort_values(kind="stable").index]
        own_saved = saved.where(is_own | ranked)
        of_known = of_ranked.loc[:, of_ranked.any()]  # the reference itself needs no interval
        ends = bootstrap_intervals(of_known, "median")
        leader = str(average.index[0])
        p_leader = p_values_against(of_ranked, leader)
        measured = cells[cells["score"].notna()].groupby(["learner", "corpus"])
        learners = pd.DataFrame(
            {
                "ranked": ranked,
                "corpora": is_own.sum(),
                "stand_ins": stand_ins,
                "average_rank": average,
                "error_reduction": own_saved.median(),
                "error_reduction_low": ends["low"],
                "error_reduction_high": ends["high"],
                "error_reduction_mean": own_saved.mean(),
                "above_0": (own_saved > 0).sum(),
                "p_baseline": p_values_against(of_ranked, baseline),
                "p_leader": p_leader,
                "verdict": _verdicts(of_ranked, leader, p_leader),
                "seconds": measured["seconds"].mean().groupby("learner").median(),
            }
        )
        return cls(cells, baseline, learners.loc[names], saved)

    @property
    def corpora(self) -> list[str]:
        """The names of the corpora."""
        return [str(name) for name in self.saved.index]

    @property
    def task(self) -> str:
        """The task."""
        return str(self.cells["task"].iloc[0])

    @property
    def measure(self) -> str:
        """The measure, in words."""
        return str(self.cells["name"].iloc[0])

    @property
    def ranked(self) -> list[str]:
        """The ranked learners, the best first."""
        return [str(name) for name in self.learners.index[self.learners["ranked"]]]

    @property
    def metrics(self) -> list[str]:
        """The ranked learners that learn a metric, the best first."""
        return [name for name in self.ranked if name not in BASELINES]

    def of_use(self, use: str) -> pd.DataFrame:
        """Return the error reduction of each learner in one use on each corpus.

        `use` is 'direct' or 'posterior'.  NaN where it is not known or not offered.
        """
        saved, is_own = _error_reductions(self.cells, self.baseline, use)
        return saved.where(is_own)

    @cached_property
    def in_uses(self) -> list[Leaderboard]:
        """The leaderboard itself, and with posteriors that of all learners used directly."""
        if not self.cells["posterior"].notna().any():
            return [self]
        own = self.cells["direct"].fillna(self.cells["score"]) + 0 * self.cells["score"]
        cells = self.cells.assign(score=own, posterior=math.nan)  # of failed learners: no score
        return [self, replace(self.of(cells, self.baseline), group=self.group, use="directly")]

    @property
    def known(self) -> pd.DataFrame:
        """What is known of each corpus before a run, (n_corpora, n_facets): its kind and sizes."""
        cells = self.cells.assign(rows=self.cells["n_train"] / self.cells["n_classes"])
        of_corpora = cells.groupby("corpus")
        sizes = of_corpora[["n_classes", "rows", "n_features"]].median()
        sizes.columns = ["classes", "rows a class", "features"]
        return pd.DataFrame({"kind": of_corpora["kind"].first(), **sizes}).loc[self.corpora]

    def groups(self, known: pd.DataFrame) -> pd.DataFrame:
        """Return the group of data by each facet: the kind, or the side of the corpora's median."""
        groups = known[["kind"]].copy()
        for facet, middle in self.known.median(numeric_only=True).items():
            above, to = f"over {middle:,.0f} {facet}", f"up to {middle:,.0f} {facet}"
            groups[facet] = known[facet].gt(middle).map({True: above, False: to})
        return groups


def chosen_elsewhere(saved: pd.DataFrame) -> pd.Series[str]:
    """Return, for each corpus, the name of the option with the best mean over all others."""
    return pd.Series({it: saved.drop(index=it).mean().idxmax() for it in saved.index})


def best_elsewhere(saved: pd.DataFrame) -> pd.Series[float]:
    """Return, for each corpus, the value of the option of `chosen_elsewhere`."""
    chosen = chosen_elsewhere(saved).items()
    return pd.Series({it: saved.at[it, name] for it, name in chosen}, dtype=float)


def rule_gains(options: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Test rules that choose an option by what is known of a corpus before a run.

    The rule of a facet chooses, for each corpus, the option with the best mean over the corpora of
    the same group and of other domains; with fewer than `Leaderboard.LEAST_CORPORA` of them, the
    constant answer: the option with the best mean over all corpora of other domains.

    The choices for two corpora have most of their data in common, so that an interval alone is
    above 0 in one of six cases by chance.  The p-value is the share of shuffles of the groups that
    gain as much.

    Parameters
    ----------
    options : DataFrame of shape (n_corpora, n_options)
        Error reductions.
    groups : DataFrame of shape (n_corpora, n_facets)

    Returns
    -------
    DataFrame
        A row for each facet: gain (the mean of the chosen value minus that of the constant answer)
        with low and high, p (of shuffles, with Holm's correction over the facets), and is_better:
        whether p is significant and low above 0.
    """
    values, rng = options.to_numpy(), np.random.default_rng(0)
    domains = np.array(domains_of(options.index))
    is_other = domains[:, None] != domains
    constant, every = (is_other @ values).argmax(axis=1), np.arange(len(values))
    numbers = groups.loc[options.index].apply(lambda own: pd.factorize(own)[0])  # fast to compare

    def gains(of: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        is_alike = is_other & (of[:, None] == of)
        is_enough = is_alike.sum(axis=1) >= Leaderboard.LEAST_CORPORA
        chosen = np.where(is_enough, (is_alike @ values).argmax(axis=1), constant)
        return np.asarray(values[every, chosen] - values[every, constant])

    table = numbers.apply(lambda own: gains(own.to_numpy()))
    p_values = {}
    for facet, own in numbers.items():
        shuffled = [gains(rng.permutation(own.to_numpy())).mean() for _ in range(SHUFFLES)]
        as_good = np.count_nonzero(np.array(shuffled) >= table[facet].mean())
        p_values[facet] = (1 + as_good) / (1 + SHUFFLES)
    found = bootstrap_intervals(table, "mean").assign(
        gain=table.mean(), p=holm(pd.Series(p_values))
    )
    return found.assign(is_better=found["p"].le(LEVEL) & found["low"].gt(0))


def _error_reductions(
    cells: pd.DataFrame, baseline: str, of: str = "score"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return each learner's error reduction on each corpus, and whether it has no stand-in.

    `of` is the column of its scores.

    With e = 1 - score, it is (e of the baseline - e) / e of the baseline, used directly where that
    is known; for a corpus, the mean over the cells in which the learner was tried. If the learner
    has no result in one of them, or was not tried at all, the lowest value of all learners on the
    corpus stands in, if it is between -1 and -.01, or else the nearer one of these: having no
    result must not pay.
    """
    direct = cells["direct"].fillna(cells["score"]) if "direct" in cells else cells["score"]
    errors = (1 - direct).groupby([cells["cell"], cells["learner"]]).mean()
    of_baseline = cells["cell"].map(errors.xs(baseline, level="learner"))
    own = cells.get(of, math.nan) + 0 * cells["score"]  # nothing is of a learner without a result
    cells = cells.assign(saved=1 - (1 - own) / of_baseline)[of_baseline > 0]
    of_pairs = cells.groupby(["corpus", "learner"])["saved"]
    found = of_pairs.mean().where(of_pairs.count() == of_pairs.size())
    saved = found.unstack()[list(cells["learner"].unique())]
    stand_ins = saved.min(axis=1).clip(-1, -0.01)
    return saved.apply(lambda own: own.fillna(stand_ins)), saved.notna()


@cache
def _domains() -> dict[str, str]:
    """Return the domain of each data set that has one, from `domains.toml`."""
    table = tomllib.loads(files(__package__).joinpath("domains.toml").read_text(encoding="utf-8"))
    return {name: domain for domain, names in table.items() for name in names}


def domains_of(corpora: Sequence[str] | pd.Index) -> list[str]:
    """Return the domain of each corpus: what its data are about, or its own name."""
    return [_domains().get(str(name), str(name)) for name in corpora]


def _verdicts(saved: pd.DataFrame, leader: str, p_leader: pd.Series[float]) -> pd.Series[str]:
    """Return how the ranked learners compare with the leader; '' without a test.

    'as good' if the 90 % interval of the mean difference lies within `Leaderboard.MARGIN`, 'worse'
    if the test is significant, or else 'unclear'; 'best' for the leader.  'better' is a significant
    one with the higher mean: the leader, which has the better ranks, can have the lower mean.
    """
    less = saved.rsub(saved[leader], axis=0)
    ends = bootstrap_intervals(less, "mean", 0.9)
    found = p_leader.le(LEVEL).map({True: "worse", False: "unclear"}).where(p_leader.notna(), "")
    found = found.mask(found.eq("worse") & less.mean().lt(0), "better")
    is_good = ends.abs().max(axis=1, skipna=False) < Leaderboard.MARGIN
    return found.mask(is_good, "as good").where(found.index != leader, "best")


def bootstrap_intervals(
    values: pd.DataFrame, statistic: str, confidence: float = CONFIDENCE
) -> pd.DataFrame:
    """Return low and high of the bootstrap percentile interval of each column.

    `values` has a row for each corpus.  Each resample draws domains, and then corpora within each
    of them.  `statistic` is 'mean' or 'median'.  NaN for fewer rows than
    `Leaderboard.LEAST_CORPORA`.
    """
    ends = pd.DataFrame(math.nan, values.columns, ["low", "high"])
    if len(values) < Leaderboard.LEAST_CORPORA:
        return ends
    counts = _resampled(tuple(domains_of(values.index)))
    for name, own in values.items():
        order = np.argsort(own.to_numpy(), kind="stable")
        ordered, times = own.to_numpy()[order], counts[:, order]
        if statistic == "mean":
            found = times @ ordered / times.sum(axis=1)
        else:
            up_to, n = times.cumsum(axis=1), times.sum(axis=1)
            middle = [(up_to > place[:, None]).argmax(axis=1) for place in ((n - 1) // 2, n // 2)]
            found = ordered[middle].mean(axis=0)
        ends.loc[name] = np.quantile(found, ((1 - confidence) / 2, (1 + confidence) / 2))
    return ends


@lru_cache(8)
def _resampled(domains: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return how often each corpus is in each resample (`RESAMPLES`, n_corpora)."""
    rng, of_corpora = np.random.default_rng(0), np.array(domains)
    names = np.unique(of_corpora)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=RESAMPLES)
    counts = np.zeros((RESAMPLES, len(of_corpora)), dtype=np.int64)
    for name, times in zip(names, drawn.T, strict=True):
        own = np.flatnonzero(of_corpora == name)
        counts[:, own] = rng.multinomial(times * len(own), np.full(len(own), 1 / len(own)))
    return counts


def p_values_against(scores: pd.DataFrame, other: str) -> pd.Series[float]:
    """Test each learner against `other` over corpora and over domains; return p-values.

    The p-value is the larger one of Wilcoxon's signed-rank test over the corpora and of the t-test
    over the means of the domains, corrected by Holm: a difference is significant if both tests say
    so.  `scores` (n_corpora, n_learners) have no missing values.  It is NaN for fewer corpora than
    `Leaderboard.LEAST_CORPORA`.
    """
    p_values = pd.Series(math.nan, index=scores.columns)
    if len(scores) < Leaderboard.LEAST_CORPORA:
        return p_values
    for name in scores.columns.drop(other):
        p_values[name] = max(tests_over_corpora(scores[name] - scores[other]))
    return pd.Series(holm(p_values), index=scores.columns)


def tests_over_corpora(differences: pd.Series[float]) -> tuple[float, float]:
    """Return the p-values over the corpora and over the means of their domains, uncorrected."""
    rounded = differences.round(DECIMALS)
    of_domains = np.asarray(rounded.groupby(domains_of(rounded.index)).mean(), dtype=np.float64)
    return _signed_rank_test(rounded), _t_test(of_domains)


def _signed_rank_test(differences: pd.Series[float]) -> float:
    """Return the p-value of Wilcoxon's test; differences of 0 do not count, and 1 if all are 0."""
    differences = differences[differences != 0]
    if differences.empty:
        return 1.0
    if differences.abs().duplicated().any() and len(differences) <= FEW_CORPORA:
        return float(stats.wilcoxon(differences, method=stats.PermutationMethod()).pvalue)
    return float(stats.wilcoxon(differences).pvalue)


def _t_test(differences: npt.NDArray[np.float64]) -> float:
    """Return the p-value of Student's test; 1 for one value, and if all are 0."""
    if len(differences) < 2:
        return 1.0
    if np.ptp(differences) <= 10.0**-DECIMALS:
        return float(abs(differences[0]) <= 10.0**-DECIMALS)
    return float(stats.ttest_1samp(differences, 0).pvalue)
