"""Shrunk OASIS: between the cosine of the rows and what OASIS learned; our own variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import linalg
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms._positive import psd_factor
from oasis_bench.algorithms.oasis.cosine import CosineOASIS
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.data import symmetric_part


class ShrunkOASIS(CosineOASIS):
    r"""Shrunk OASIS: learn as OASIS does, then draw W back towards the identity.

    .. math:: S(x, y) = \frac{x^\top M y}{\sqrt{x^\top M x}\sqrt{y^\top M y}}, \qquad
        M = s I + (1 - s)\,\frac{W + W^\top}{2}

    OASIS fits the classes that it sees, and can lose on others what good features have, such as a
    network's embeddings.  A part of the way from their cosine keeps most of both, and as in
    `CosineOASIS` no long row is a hub.  `s` is best chosen on classes held apart, as the task
    unseen-classes does.  Rows less their training mean (``--scaling center+l2``) lose less there.
    Where M is not positive definite, its positive semi-definite part takes its place.

    Parameters
    ----------
    shrinkage : float, default 0.8
        s: 0 is `CosineOASIS`, 1 the cosine of the rows.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L with L'L = M: the transposed Cholesky factor of M where M is positive definite.
    raw_matrix_ : ndarray of shape (n_features, n_features)
        W as OASIS learned it, from which learning goes on.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11: the steps.  Ledoit & Wolf (2004), Journal of
    Multivariate Analysis 88: the shrinkage, there of a covariance.
    """

    name: ClassVar = "ShrunkOASIS"
    summary: ClassVar = "between the cosine and CosineOASIS: learns, and loses little elsewhere"
    citation: ClassVar = "oasis-bench; the steps: " + OASIS.citation
    search_space: ClassVar[Mapping[str, Sequence[Any]]] = {
        **CosineOASIS.search_space,
        "shrinkage": (0.8, 0, 0.2, 0.4, 0.6, 0.9, 0.95, 0.98, 1),  # from CosineOASIS to the cosine
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CosineOASIS._parameter_constraints,
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        shrinkage: float = 0.8,
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

    def _finish(self, X: Any = None) -> None:
        W, s = self.raw_matrix_, self.raw_matrix_.dtype.type(self.shrinkage)
        M = symmetric_part(W) * (1 - s)
        M[np.diag_indices_from(M)] += s
        try:
            self.components_ = linalg.cholesky(M, check_finite=False)
        except linalg.LinAlgError:
            self.components_ = psd_factor(M)
