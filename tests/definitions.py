"""Definitions from papers, written out as they stand there: what tests compare the package with."""

import numpy as np
from scipy.spatial.distance import cdist

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


def lmnn_objective(L, X, y, n_neighbors, pull_weight):
    """Weinberger et al. 2005: the pull of target neighbours and the push of impostors."""
    euclidean, learned = cdist(X, X), cdist(X @ L.T, X @ L.T, "sqeuclidean")
    pull = push = 0.0
    for i in range(len(X)):
        same = np.flatnonzero((y == y[i]) & (np.arange(len(X)) != i))
        targets = same[np.argsort(euclidean[i, same])[:n_neighbors]]
        pull += learned[i, targets].sum()
        for j in targets:
            push += np.maximum(0, 1 + learned[i, j] - learned[i, y != y[i]]).sum()
    return pull_weight * pull + (1 - pull_weight) * push
