"""How relevant images are to each other, from how relevant each is to labels (JMLR 2010, 5.2.1).

A label is the paper's text query.  Sparse throughout: the cost is that of the pairs of images
that share a label, and only those of the rows that are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse


def joint_distribution(R: Any) -> sparse.csr_array:
    """Return Pr(q, p), the relevance of images to labels divided by its sum.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_images, n_labels)
        R_QI transposed: how relevant each image is to each label, finite and not negative.

    Returns
    -------
    csr_array of shape (n_images, n_labels), float64
        Sorted, with positive entries only; they sum to 1.

    Raises
    ------
    ValueError
        Where `R` is not of this kind or has no positive entry.
    """
    _check_kind(R)
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
    r"""Return B (n_images, n_labels) with :math:`B B^\top = \Pr(p_1, p_2)`, before the threshold.

    :math:`B(p, q) = \Pr(p|q) \sqrt{\Pr(q)}`, for :math:`\Pr(p_1, p_2) = \sum_q \Pr(p_1|q)
    \Pr(p_2|q) \Pr(q)`; parameter and errors as in `joint_distribution`.
    """
    factor = joint_distribution(R)
    label_probability = np.bincount(factor.indices, factor.data, minlength=factor.shape[1])
    factor.data /= np.sqrt(label_probability[factor.indices])
    return factor


def image_relevance(
    R: Any,
    queries: npt.ArrayLike | None = None,
    gallery: npt.ArrayLike | None = None,
    threshold: float = 0.0,
) -> sparse.csr_array:
    r"""Return R_II of equation 10, :math:`\Pr(p_1, p_2)` where it exceeds the threshold, else 0.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_images, n_labels)
        As in `joint_distribution`; its probabilities are over all images whatever rows are asked.
    queries, gallery : arrays of integers, optional
        Row numbers of `R`: the rows and the columns of the result; by default all images.
    threshold : float, default 0
        :math:`\theta`; at 0 those images are related that share a label (5.2.2).

    Returns
    -------
    csr_array of shape (n_queries, n_gallery), float64
        Sorted.  An image is not related to itself.

    Raises
    ------
    ValueError
        Where `R` is not relevance or the threshold is negative.
    """
    check_threshold(threshold)
    factor = relevance_factor(R)
    rows, columns = (
        np.arange(factor.shape[0]) if numbers is None else np.asarray(numbers, dtype=np.intp)
        for numbers in (queries, gallery)
    )
    related = sparse.csr_array(factor[rows] @ factor[columns].T)
    row_of_entry = np.repeat(rows, np.diff(related.indptr))
    related.data[(related.data <= threshold) | (columns[related.indices] == row_of_entry)] = 0
    related.eliminate_zeros()
    related.sort_indices()
    return related


def relevant(
    R: Any,
    queries: npt.ArrayLike,
    gallery: npt.ArrayLike | None = None,
    threshold: float = 0.0,
) -> npt.NDArray[np.bool_]:
    """Say which gallery images are relevant to each query: a dense block, for measures.

    Parameters and errors as in `image_relevance`; the caller chooses queries in blocks.

    Returns
    -------
    ndarray of shape (n_queries, n_gallery), bool
    """
    return image_relevance(R, queries, gallery, threshold).astype(bool).toarray()


def check_threshold(threshold: float) -> None:
    """Raise ValueError where the threshold is not a number of at least 0."""
    if not 0 <= threshold < np.inf:
        raise ValueError(f"threshold is {threshold!r}: a finite number of at least 0 is needed")


def _check_kind(R: Any) -> None:
    if not sparse.issparse(R) or len(getattr(R, "shape", ())) != 2:
        raise ValueError(
            f"relevance is a {type(R).__name__}: a scipy sparse matrix (n_images, n_labels) is "
            "needed; sparse.csr_array(R) makes one"
        )
