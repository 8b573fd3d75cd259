"""Shrunk OASIS: OASIS drawn back towards the dot product; our own variant, of no paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.data.rows import FloatArray


class ShrunkOASIS(OASIS):
    r"""Shrunk OASIS: the mean of the identity and what OASIS has learned.

    .. math:: W = s I + (1 - s) W_{\text{OASIS}}

    OASIS fits the classes that it sees, and can lose on others what the dot product of good
    features, such as a network's embeddings, has.  A part of the way from the dot product keeps
    most of both (docs/results.md, 'Embeddings').  `s` is best chosen on classes held apart:
    ``--choose-by "mAP of unseen-classes"``.  Rows less their training mean, then of unit length
    (``--scaling center+l2``), help on such features too.

    Parameters
    ----------
    shrinkage : float, default 0.7
        s: 0 is `OASIS`, 1 the dot product.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        W.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it, from which learning goes on.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11: the steps.  The form is that of shrunk
    covariances: Ledoit & Wolf (2004), J. Multivariate Analysis 88.
    """

    name: ClassVar = "ShrunkOASIS"
    summary: ClassVar = "OASIS drawn back towards the dot product, for classes never seen"
    citation: ClassVar = "oasis-bench; the steps: " + OASIS.citation
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)), or n, a step, memory 2 d^2"
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {"shrinkage": (0.7, 0.0, 0.9)}

    _learned: ClassVar[str] = "raw_matrix_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OASIS._parameter_constraints,
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
    }
    raw_matrix_: FloatArray

    def __init__(
        self,
        shrinkage: float = 0.7,
        aggressiveness: float = 0.1,
        n_steps: int = 30_000,
        weighted_positives: bool = False,
        negatives: Literal["exact", "any"] = "exact",
        threshold: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        )
        self.shrinkage = shrinkage

    def _n_matrices(self, afresh: bool) -> int:
        return afresh + 1

    def _finish(self) -> None:
        share = self.raw_matrix_.dtype.type(self.shrinkage)
        self.bilinear_matrix_ = (1 - share) * self.raw_matrix_
        self.bilinear_matrix_[np.diag_indices_from(self.bilinear_matrix_)] += share
