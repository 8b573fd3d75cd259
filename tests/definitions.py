"""Definitions from papers, written out as they stand there: what tests compare the package with."""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score

WORD = 2**64 - 1


class PythonGenerator:
    """Xoshiro256++ (Blackman & Vigna 2021) and Lemire's bounded draw, in Python integers."""

    def __init__(self, state):
        self.s = [int(word) for word in state]

    def next_word(self):
        s = self.s

        def rotate(x, k):
            return ((x << k) | (x >> (64 - k))) & WORD

        result = (rotate((s[0] + s[3]) & WORD, 23) + s[0]) & WORD
        t = (s[1] << 17) & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def below(self, bound):
        while True:
            product = (self.next_word() >> 32) * bound
            if product % 2**32 >= 2**32 % bound:
                return product >> 32


def random_relevance(n_images=14, n_labels=9, seed=0):
    """Draw the relevance of images to labels: three in ten are above 0."""
    rng = np.random.default_rng(seed)
    return rng.random((n_images, n_labels)) * (rng.random((n_images, n_labels)) < 0.3)


def image_relevance(R, threshold=0.0):
    """Return R_II (n_images, n_images) of JMLR 2010, section 5.2.1, from dense relevance to labels.

    Pr(p1, p2) = sum over labels q of Pr(p1 | q) Pr(p2 | q) Pr(q), where that exceeds the
    threshold, else 0.  No image is relevant to itself.
    """
    n_images, n_labels = R.shape
    relevance = np.zeros((n_images, n_images))
    for q in range(n_labels):
        in_q = R[:, q].sum()
        if in_q > 0:
            pr_q, pr_p_given_q = in_q / R.sum(), R[:, q] / in_q
            relevance += np.outer(pr_p_given_q, pr_p_given_q) * pr_q
    np.fill_diagonal(relevance, 0)
    return np.where(relevance > threshold, relevance, 0)


def mean_average_precision(scores, y):
    """Each item is a query against all others, by scikit-learn's average precision."""
    others = ~np.eye(len(y), dtype=bool)
    return np.mean(
        [average_precision_score(y[keep] == y[i], scores[i, keep]) for i, keep in enumerate(others)]
    )


def pairs_of_blend(X, seed):
    """Draw the rows, of either side, whose scores a blend standardises by."""
    drawn = np.random.default_rng(seed).permutation(len(X))
    n = min(50, (len(X) + 1) // 2)
    return X[drawn[:n]], X[drawn[n : n + 40]]


def lmnn_triplets(X, y, n_neighbors=3):
    """Write out the target pairs (i, j) and the triplets (i, j, l) of the definition."""
    euclidean, pairs, threes = cdist(X, X), [], []
    for i in range(len(X)):
        same = [j for j in range(len(X)) if y[j] == y[i] and j != i]
        for j in sorted(same, key=lambda j: euclidean[i, j])[:n_neighbors]:
            pairs.append((i, j))
            threes += [(i, j, other) for other in range(len(X)) if y[other] != y[i]]
    return pairs, threes


def lmnn_objective(M, X, y, w=0.5):
    """Weinberger et al. 2005: eps(M) and its gradient, pair by pair and triplet by triplet."""

    def squared(a, b):
        return (X[a] - X[b]) @ M @ (X[a] - X[b])

    def outer(a, b):
        return np.outer(X[a] - X[b], X[a] - X[b])

    pairs, threes = lmnn_triplets(X, y)
    value = w * sum(squared(i, j) for i, j in pairs)
    gradient = w * sum(outer(i, j) for i, j in pairs)
    for i, j, other in threes:
        loss = 1 + squared(i, j) - squared(i, other)
        if loss > 0:
            value += (1 - w) * loss
            gradient = gradient + (1 - w) * (outer(i, j) - outer(i, other))
    return value, gradient
