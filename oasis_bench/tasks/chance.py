"""Chance: the exact expected value of each measure where the order of the gallery is random.

R of the n ranked items are relevant to a query, and every order is as likely.  The item at a rank
is then relevant with probability R / n and, given that, another one with (R - 1) / (n - 1).

The functions of measures of rankings take R of each query (n_queries,), n, and the measure's k.
"""

from __future__ import annotations

from math import factorial

import numpy as np
import numpy.typing as npt
from scipy.special import comb

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer]


def average_precision_of_chance(n_relevant: Counts, n_ranked: int, k: int = 0) -> Floats:
    r"""Return the expected average precision of each R in `n_relevant` (n_queries,).

    .. math:: E = \frac{1}{n} \left[\frac{R - 1}{n - 1} (n - H_n) + H_n\right]

    with :math:`H_n` the sum of 1 / r over the ranks r = 1 ... n.
    """
    return _mean_precision_at_hits(n_relevant, np.full_like(n_relevant, n_ranked), n_ranked)


def average_precision_at_r_of_chance(n_relevant: Counts, n_ranked: int, k: int) -> Floats:
    """Return the expected MAP@R: the same sum over the first R ranks only."""
    return _mean_precision_at_hits(n_relevant, n_relevant, n_ranked)


def _mean_precision_at_hits(n_relevant: Counts, depth: Counts, n_ranked: int) -> Floats:
    """Sum, over the first `depth` ranks, P(relevant) E[precision there | relevant] / R."""
    harmonic = np.cumsum(1 / np.arange(1, n_ranked + 1))[depth - 1]
    others = (n_relevant - 1) / max(n_ranked - 1, 1)
    return np.asarray((others * (depth - harmonic) + harmonic) / n_ranked)


def precision_of_chance(n_relevant: Counts, n_ranked: int, k: int) -> Floats:
    """Return the expected precision at any rank, which is also that of R-precision: R / n."""
    return np.asarray(n_relevant / n_ranked)


def recall_of_chance(n_relevant: Counts, n_ranked: int, k: int) -> Floats:
    """Return the probability of a relevant item among the first k: 1 - C(n - R, k) / C(n, k)."""
    steps = np.arange(k)
    none_at = np.clip(n_ranked - n_relevant[:, None] - steps, 0, None) / (n_ranked - steps)
    return np.asarray(1 - none_at.prod(axis=1))


def ndcg_of_chance(n_relevant: Counts, n_ranked: int, k: int) -> Floats:
    """Return the expected nDCG: R / n of all discounts, over the first R of them."""
    discounts = np.cumsum(1 / np.log2(np.arange(2, n_ranked + 2)))
    return np.asarray(n_relevant / n_ranked * discounts[-1] / discounts[n_relevant - 1])


def vote_of_chance(counts: Counts, k: int) -> Floats:
    """Return the probability of each class to win the vote of k items drawn at random.

    The class of the most items wins; between classes of equally many, the one drawn first, which
    is each of them with the same probability.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Items of each class in the gallery; k or more in all.
    k : int

    Notes
    -----
    A class wins with m votes where j others have m votes too and the rest have fewer, and then with
    probability 1 / (j + 1).  The number of ways to draw i items in which no class has more than m
    and j have m is a coefficient, of x^i z^j, of the product over classes of
    sum_{a < m} C(n_c, a) x^a + C(n_c, m) x^m z.  That of all classes but one is the quotient.
    """
    if (counts == counts[0]).all():
        return np.full(len(counts), 1 / len(counts))
    draws = [comb(counts, a) for a in range(k + 1)]
    won = np.zeros(len(counts))
    for m in range(1, k + 1):
        ways = np.zeros((k + 1, k // m + 1))
        ways[0, 0] = 1
        for c in range(len(counts)):
            product = ways.copy()
            for a in range(1, m):
                product[a:] += draws[a][c] * ways[:-a]
            product[m:, 1:] += draws[m][c] * ways[:-m, :-1]
            ways = product
        others = np.zeros((len(counts), *ways.shape))
        for i in range(k - m + 1):
            others[:, i] = ways[i]
            for a in range(1, min(m - 1, i) + 1):
                others[:, i] -= draws[a][:, None] * others[:, i - a]
            if i >= m:
                others[:, i, 1:] -= draws[m][:, None] * others[:, i - m, :-1]
        won += draws[m] * (others[:, k - m] / np.arange(1, k // m + 2)).sum(axis=1)
    return np.asarray(won / comb(counts.sum(), k))


def first_seen_twice_of_chance(counts: Counts, depth: int) -> Floats:
    """Return the probability of each class to win by Frome's rule in a random order.

    The first class seen twice among the first `depth` wins; where none is, the class of the first.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Items of each class in the gallery; `depth` or more in all.
    depth : int

    Notes
    -----
    Class c wins at rank t where the t - 1 before are of different classes, c among them: these can
    be drawn in (t - 1)! e_{t-2} n_c orders, and the second of c in n_c - 1 ways, out of
    n (n - 1) ... (n - t + 1).  e_i is the elementary symmetric polynomial of the other classes'
    counts: the ways to draw one item from each of i of them.
    """
    if (counts == counts[0]).all():
        return np.full(len(counts), 1 / len(counts))
    n = counts.astype(float)
    of_all = np.zeros(depth)
    of_all[0] = 1
    for count in n:
        of_all[1:] += count * of_all[:-1]
    others = np.zeros((depth, len(n)))
    others[0] = 1
    for i in range(1, depth):
        others[i] = of_all[i] - n * others[i - 1]
    won = np.zeros(len(n))
    orders = n.sum()
    for t in range(2, depth + 1):
        orders *= n.sum() - t + 1
        won += factorial(t - 1) * others[t - 2] * n * (n - 1) / orders
    return np.asarray(won + factorial(depth - 1) * others[depth - 1] * n / orders)
