"""LogDet-OASIS: the triplets of OASIS under the LogDet divergence; W stays positive definite."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis import (
    _reference as _oasis_reference,
    _symmetric_steps as _oasis_symmetric,
)
from oasis_bench.algorithms.oasis.symmetric import workspace
from oasis_bench.algorithms.shared import (
    MATRICES_OF_PSD_FACTOR,
    LogDetLearner,
    psd_factor,
    uses_twin,
)
from oasis_bench.data import FloatArray


class LogDetOASIS(LogDetLearner):
    r"""LogDet-OASIS: a Mahalanobis distance from triplets, positive definite without projection.

    From A = I, a step on (q, p, n) with :math:`z_+ = q - p`, :math:`z_- = q - n` minimises

    .. math::

        D_{ld}(A, A_{old}) + \frac{\eta}{2} [m + z_+^\top A z_+ - z_-^\top A z_-]_+^2 ,

    the LogDet divergence in the place of OASIS's Frobenius norm (an open question of section
    6.2).  Its solution :math:`A^{-1} = A_{old}^{-1} + \alpha (z_+ z_+^\top - z_- z_-^\top)`,
    :math:`\alpha = \eta (m + z_+^\top A z_+ - z_-^\top A z_-)`, is the one root of a cubic in
    :math:`\alpha` where A is positive definite, and changes A by rank 2; :math:`\alpha` is halved
    where a step would make A grow a millionfold.  A step costs O(d^2), for sparse rows too; A
    takes d^2 float64 numbers whatever the rows' precision.

    Parameters
    ----------
    eta : float, default 0.08
        Weight of the loss: larger steps.  The papers give none for triplets: default and search
        space are LEGO's (JMLR 2010, 5.3.2), the nearest kin.
    margin : float, default 1.0
        m, by which a negative should be farther off than a positive, in squared distance.
    n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        L, with L'L = A; float32 where the rows are float32, else float64.
    mahalanobis_matrix_ : ndarray of shape (n_features, n_features)
        A in float64, from which learning goes on.
    n_steps_, n_updates_, n_features_in_ : int
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 6.2; the divergence and the form of
    the step from Jain, Kulis, Dhillon & Grauman (2008), Online Metric Learning and Fast
    Similarity Search, NIPS 21.
    """

    name: ClassVar = "LogDetOASIS"
    summary: ClassVar = "OASIS's triplets under the LogDet divergence, a Mahalanobis distance"
    citation: ClassVar = "after Chechik et al., JMLR 11 (2010), 6.2 & Jain et al., NIPS 21 (2008)"
    cost: ClassVar = "time d^2 a step, d^3 at the end, memory 5 d^2"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LogDetLearner._parameter_constraints,
        "margin": [Interval(Real, 0, None, closed="neither")],
    }

    margin: float = 1.0

    def _n_matrices(self, afresh: bool) -> int:
        return 2 * afresh + MATRICES_OF_PSD_FACTOR

    @staticmethod
    def _factor(M: npt.NDArray[np.float64]) -> FloatArray:
        return psd_factor(M)

    def _step(self, X: Any, triplets: npt.NDArray[np.intp], W: npt.NDArray[Any]) -> int:
        eta, margin = float(self.eta), float(self.margin)
        if uses_twin():
            return _oasis_reference.step_logdet(X, triplets, eta, margin, W)
        products = np.empty((2, X.shape[1]))
        options = (triplets, eta, margin, W, products, *workspace(X))
        if isinstance(X, sparse.csr_array | sparse.csr_matrix):
            return _oasis_symmetric.step_logdet_csr(X.data, X.indices, X.indptr, *options)
        return _oasis_symmetric.step_logdet_dense(X, *options)
