"""How relevant items are to labels and to each other, as probabilities (JMLR 2010, 5.2.1).

A label is the paper's text query.  Two items are relevant to each other where R_II(p1, p2), that
is Pr(p1, p2), exceeds a threshold; at threshold 0, where they share a label (5.2.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def joint_distribution(R: Any) -> sparse.csr_array:
    """Return Pr(q, p), the relevance of items to labels divided by its sum.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_items, n_labels)
        R_QI transposed: how relevant each item is to each label, finite and not negative.

    Returns
    -------
    csr_array of shape (n_items, n_labels), float64
        Sorted, with positive entries only; they sum to 1.

    Raises
    ------
    ValueError
        Where `R` is not of this kind or has no positive entry.
    """
    is_sparse_matrix = sparse.issparse(R) and len(getattr(R, "shape", ())) == 2
    if not is_sparse_matrix:
        raise ValueError(
            f"relevance is a {type(R).__name__}: a scipy sparse matrix (n_items, n_labels) is "
            "needed; sparse.csr_array(R) makes one"
        )
    joint: sparse.csr_array = sparse.csr_array(R).astype(np.float64, copy=True)
    joint.sum_duplicates()
    joint.eliminate_zeros()
    least, total = joint.data.min(initial=0), joint.data.sum()
    if least < 0 or not 0 < total < np.inf:
        raise ValueError(
            f"relevance with least value {least} and sum {total}: it must be finite, nowhere "
            "negative and somewhere positive"
        )
    joint.data /= total
    return joint


def relevance_factor(R: Any) -> sparse.csr_array:
    r"""Return B (n_items, n_labels) with :math:`B B^\top = \Pr(p_1, p_2)`.

    :math:`B(p, q) = \Pr(p|q) \sqrt{\Pr(q)}`, since :math:`\Pr(p_1, p_2) = \sum_q \Pr(p_1|q)
    \Pr(p_2|q) \Pr(q)`.  Parameter and errors as in `joint_distribution`.
    """
    factor = joint_distribution(R)
    label_probability = np.bincount(factor.indices, factor.data, minlength=factor.shape[1])
    factor.data /= np.sqrt(label_probability[factor.indices])
    return factor
