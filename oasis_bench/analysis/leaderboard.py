"""Ranks learners over corpora by one measure of one task, as reduction of the baseline's error.

A corpus is a data set; its mean over class subsets and kinds of features counts once.
For a learner without a result the baseline's result stands in, so that all learners are compared on
all corpora.  Partitions of one corpus overlap: `analysis.statistics` compares over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from oasis_bench.analysis.statistics import CONFIDENCE, LEVEL, RESAMPLES, holm

DECIMALS = 9
"""Differences of scores are rounded to so many decimals, so that equal scores are ties."""

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
        better; NaN without a result), as_learned (the score of the learner alone; NaN if not
        known), seconds, candidates and settings (tried by the search).  No two corpora share the
        name of a cell.  Cells in which the baseline has no result or no error do not count.
    baseline : str
    learners : DataFrame
        A row for each learner, by average rank, unranked learners last: ranked, corpora (with its
        own result), stand_ins, average_rank, error_reduction (the median over corpora) with its
        _low, _high, _mean and _as_learned (without blending), above_0 (the corpora with a positive
        one), p_baseline and p_leader (of `signed_rank_tests`), seconds, candidates and settings (of
        the median corpus).  An unranked learner has neither rank nor test, and its figures are of
        the corpora with its own result.
    saved : DataFrame of shape (n_corpora, n_ranked)
        The error reduction of each ranked learner on each corpus.
    learned : DataFrame of shape (n_corpora, n_ranked)
        The same for the learner alone, without blending; NaN if not known.
    group : str
        The name of the group of corpora, or 'all'.
    """

    cells: pd.DataFrame
    baseline: str
    learners: pd.DataFrame
    saved: pd.DataFrame
    learned: pd.DataFrame
    group: str = "all"

    LEVEL: ClassVar = LEVEL
    LEAST_CORPORA: ClassVar = 6
    """The fewest for an interval; with fewer, no signed-rank test can be significant either."""

    MOST_STAND_INS: ClassVar = 0.2
    """A learner with stand-ins on a larger share of the corpora is listed but not ranked."""

    @classmethod
    def of(cls, cells: pd.DataFrame, baseline: str, group: str = "all") -> Leaderboard:
        """Compare learners over corpora with a baseline, and with the best by average rank."""
        saved, is_own = _error_reductions(
            cells, baseline, list(map(str, cells["learner"].unique()))
        )
        stand_ins = (~is_own).sum()
        ranked = stand_ins <= cls.MOST_STAND_INS * len(saved)
        of_ranked = saved.loc[:, ranked]
        ranks = of_ranked.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
        names = [*ranks.index, *stand_ins[~ranked].sort_values(kind="stable").index]
        own_saved = saved.where(is_own | ranked)
        low, high = bootstrap_intervals(saved[ranks.index].to_numpy(), np.median)
        alone = cells["as_learned"].where(cells["learner"] != baseline, cells["score"])
        learned, is_learned = _error_reductions(
            cells.assign(score=alone.where(cells["score"].notna())),
            baseline,
            list(map(str, saved)),
        )
        learned = learned.where(is_learned | (~is_own & ranked))  # a stand-in saves nothing
        measured = cells[cells["score"].notna()].groupby(["learner", "corpus"])
        typical = measured[["seconds", "candidates", "settings"]].mean().groupby("learner").median()
        learners = pd.DataFrame(
            {
                "ranked": ranked,
                "corpora": is_own.sum(),
                "stand_ins": stand_ins,
                "average_rank": ranks,
                "error_reduction": own_saved.median(),
                "error_reduction_low": pd.Series(low, ranks.index).drop(baseline),
                "error_reduction_high": pd.Series(high, ranks.index).drop(baseline),
                "error_reduction_mean": own_saved.mean(),
                "above_0": (own_saved > 0).sum(),
                "p_baseline": signed_rank_tests(of_ranked, baseline),
                "p_leader": signed_rank_tests(of_ranked, str(ranks.index[0])),
                "error_reduction_as_learned": learned.median(),
                **typical,
            }
        )
        return cls(
            cells, baseline, learners.loc[names], saved[ranks.index], learned[ranks.index], group
        )

    @property
    def corpora(self) -> list[str]:
        """The names of the corpora."""
        return [str(name) for name in self.saved.index]

    @property
    def wins(self) -> pd.DataFrame:
        """The share of the corpora where a ranked learner (row) is above another (column).

        A tie counts as a half.  The shape is (n_ranked, n_ranked), with NaN on the diagonal.
        """
        values, names = self.saved.to_numpy(), self.saved.columns
        row, column = values[:, :, None], values[:, None, :]
        shares = ((row > column) + 0.5 * (row == column)).mean(axis=0)
        np.fill_diagonal(shares, math.nan)
        return pd.DataFrame(shares, index=names, columns=names)

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
    def best_on_average(self) -> str:
        """The ranked learner with the highest mean error reduction."""
        return str(self.learners.loc[self.ranked, "error_reduction_mean"].idxmax())

    def recommendations(self, facets: Sequence[str]) -> pd.DataFrame:
        """Recommend a ranked learner for each group of corpora, if it beats one for all.

        Each corpus of a group is left out in turn.  The best learner of the group's other corpora,
        by mean error reduction, is compared with the best of all other corpora.  The regret of a
        learner is its loss on the left-out corpus against the best learner there.  The gain is the
        regret of the best of all minus the regret of the best of the group.

        `facets` are columns of `cells` whose values are groups.

        Returns
        -------
        DataFrame
            A row for each group of at least `LEAST_CORPORA` corpora: facet, group, corpora, learner
            (the recommended one: the best of the group if the gain's interval is above zero, else
            the best of all), best_of_group, regret_of_group, regret_of_all (means), gain, low,
            high.
        """
        rows: list[dict[str, Any]] = []
        for facet in facets:
            for group, own_cells in self.cells.groupby(facet, sort=False):
                own = _error_reductions(own_cells, self.baseline, self.ranked)[0]
                if len(own) < self.LEAST_CORPORA:
                    continue
                best_without = [
                    [str(of.drop(index=it).mean().idxmax()) for of in (own, self.saved)]
                    for it in own.index
                ]
                regrets = np.array(
                    [
                        [own.loc[it].max() - own.at[it, name] for name in names]
                        for it, names in zip(own.index, best_without, strict=True)
                    ]
                )
                gains = regrets[:, 1] - regrets[:, 0]
                (low,), (high,) = bootstrap_intervals(gains[:, None], np.mean)
                best = str(own.mean().idxmax())
                rows.append(
                    {
                        "facet": facet,
                        "group": group,
                        "corpora": len(own),
                        "learner": best if low > 0 else str(self.saved.mean().idxmax()),
                        "best_of_group": best,
                        "regret_of_group": regrets[:, 0].mean(),
                        "regret_of_all": regrets[:, 1].mean(),
                        "gain": gains.mean(),
                        "low": low,
                        "high": high,
                    }
                )
        return pd.DataFrame(rows)


def _error_reductions(
    cells: pd.DataFrame, baseline: str, learners: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return each learner's error reduction on each corpus, and whether it has no stand-in.

    With e = 1 - score, it is (e of the baseline - e) / e of the baseline, and 0 if the baseline
    stands in.  For a corpus, it is the mean over the cells in which the learner was tried.
    """
    errors = (1 - cells["score"]).groupby([cells["cell"], cells["learner"]]).mean()
    of_baseline = cells["cell"].map(errors.xs(baseline, level="learner"))
    cells = cells.assign(saved=1 - (1 - cells["score"]) / of_baseline)[of_baseline > 0]
    cells = cells.assign(is_own=cells["saved"].notna(), saved=cells["saved"].fillna(0))
    found = cells.groupby(["corpus", "learner"]).agg({"saved": "mean", "is_own": "all"})
    saved, is_own = (found[name].unstack().reindex(columns=list(learners)) for name in found)
    return saved.fillna(0), is_own.eq(True)


def bootstrap_intervals(
    values: npt.NDArray[np.float64], statistic: Callable[..., Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the bootstrap percentile interval of a statistic of each column.

    NaN for fewer rows than `Leaderboard.LEAST_CORPORA`.
    """
    n_rows, n_columns = values.shape
    if n_rows < Leaderboard.LEAST_CORPORA:
        nothing = np.full(n_columns, math.nan)
        return nothing, nothing
    drawn = np.random.default_rng(0).integers(n_rows, size=(RESAMPLES, n_rows))
    of_draws = np.column_stack([statistic(own[drawn], axis=1) for own in values.T])
    low, high = np.quantile(of_draws, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2), axis=0)
    return low, high


def signed_rank_tests(scores: pd.DataFrame, other: str) -> pd.Series[float]:
    """Test each learner against `other` by Wilcoxon's signed-rank test, corrected by Holm.

    `scores` (n_corpora, n_learners) have no missing values.  Corpora on which both learners are
    equal do not count; if all are equal, the p-value is 1.  It is NaN for fewer rows than
    `Leaderboard.LEAST_CORPORA`.
    """
    p_values = pd.Series(math.nan, index=scores.columns)
    if len(scores) < Leaderboard.LEAST_CORPORA:
        return p_values
    for name in scores.columns.drop(other):
        differences = (scores[name] - scores[other]).round(DECIMALS)
        differences = differences[differences != 0]
        if differences.empty:
            p_values[name] = 1.0
        elif differences.abs().duplicated().any() and len(differences) <= FEW_CORPORA:
            test = stats.wilcoxon(differences, method=stats.PermutationMethod())
            p_values[name] = test.pvalue
        else:
            p_values[name] = stats.wilcoxon(differences).pvalue
    return pd.Series(holm(p_values), index=scores.columns)
