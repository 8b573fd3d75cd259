"""Definitions from papers, written out as they stand there: what tests compare the package with."""

import numpy as np


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
