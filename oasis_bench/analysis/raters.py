"""What people's marks of candidates say: precision of a ranking, the human level, agreement.

Marks are 1 (relevant), 0 (not relevant) or NaN: a rater need not have marked every candidate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def precision_of_raters(marks: Floats) -> Floats:
    """Return the precision at each k by each rater, of marks (n_ranks, n_raters), best first.

    The mean of the rater's marks among the first k; NaN where he marked none of them.
    """
    return _share(np.nan_to_num(marks).cumsum(axis=0), (~np.isnan(marks)).cumsum(axis=0))


def human_level(marks: Floats, last: int) -> Floats:
    """Return the precision at k = 1 to `last` of each rater, judged by the others (JMLR 5.2.3).

    A rater ranks what he marked as relevant first, in a random order, and then the rest: this is
    the mean over these orders.  A candidate is as relevant as the share of the others who marked
    it so.  From marks (n_candidates, n_raters) of one query to (last, n_raters), NaN beyond the
    number of candidates that the rater and another one marked.
    """
    levels = np.full((last, marks.shape[1]), np.nan)
    for rater, own in enumerate(marks.T):
        others = np.delete(marks, rater, axis=1)
        both = ~np.isnan(own) & (~np.isnan(others)).any(axis=1)
        if not both.any():
            continue
        by_others = np.nanmean(others[both], axis=1)
        chosen = own[both] == 1
        ks = np.arange(1, min(last, len(chosen)) + 1)
        first = np.minimum(ks, chosen.sum())
        means = [by_others[part].mean() if part.any() else 0.0 for part in (chosen, ~chosen)]
        levels[: len(ks), rater] = (first * means[0] + (ks - first) * means[1]) / ks
    return levels


def fleiss_kappa(counts: Counts) -> float:
    """Return Fleiss' kappa: agreement of pairs of raters above that of chance, at most 1.

    ``counts[i, c]`` is how many raters put item i into category c; items of fewer than two raters
    are left out.  NaN where all that is left is of one category.  J. L. Fleiss, Psychological
    Bulletin 76(5), 1971, equations 1 to 7.
    """
    counts = counts[counts.sum(axis=1) > 1]
    n = counts.sum(axis=1)
    agreement = ((counts * (counts - 1)).sum(axis=1) / (n * (n - 1))).mean() if len(n) else np.nan
    by_chance = np.square(counts.sum(axis=0) / max(counts.sum(), 1)).sum()
    return float((agreement - by_chance) / (1 - by_chance)) if by_chance < 1 else np.nan


def krippendorff_alpha(counts: Counts) -> float:
    """Return Krippendorff's alpha of nominal categories: 1 - observed / expected disagreement.

    Counts as for `fleiss_kappa`.  K. Krippendorff, Content Analysis, 2004, section 11.3: missing
    marks are allowed.
    """
    counts = counts[counts.sum(axis=1) > 1]
    n, totals = counts.sum(axis=1), counts.sum(axis=0)
    observed = ((np.square(n) - np.square(counts).sum(axis=1)) / np.maximum(n - 1, 1)).sum()
    expected = (totals.sum() ** 2 - np.square(totals).sum()) / max(totals.sum() - 1, 1)
    return float(1 - observed / expected) if expected else np.nan


def _share(hits: Floats, n: Counts) -> Floats:
    """Return hits / n; NaN where n is 0."""
    shares: Floats = np.full(hits.shape, np.nan)
    return np.divide(hits, n, out=shares, where=n > 0)
