"""Mini-batch OASIS: the steps of a batch see the W before it, and threads share them."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis import _reference as _oasis_reference
from oasis_bench.algorithms.oasis._block_schedule import MAX_FEATURES, learn_in_blocks
from oasis_bench.algorithms.oasis._dense_blocks import is_wide_and_dense, learn_in_dense_blocks
from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.shared import TripletSampler, uses_twin
from oasis_bench.system import Progress, blas_threads, slices


class MiniBatchOASIS(OASIS):
    r"""Mini-batch OASIS: an inexact schedule of the steps of OASIS, for many rows and features.

    The triplets of a batch are scored against the W before the batch, then all applied:

    .. math:: W \leftarrow W + \sum_{t \in \text{batch}} \tau_t\, q_t (p_t - n_t)^\top .

    One pass over W serves a whole batch, and the threads own parts of its rows, so that the result
    does not depend on their number.  With float32 rows each p - n is rounded to 16 bits, by at most
    1 / 65534 of its largest entry.  Dense rows of 256 features or more, at least half of them not
    0, are not rounded: their passes are matrix products, in one thread.

    A batch must be small against the rows, or the steps of a batch, which do not see each other,
    overshoot.  A call ends its last batch: two calls of `partial_fit` give the W of one where the
    first makes whole batches.

    Parameters
    ----------
    batch_size : int, default 64
        Triplets of a batch.
    n_threads : int or None, default None
        None: as many as BLAS may use, so that `threadpool_limits` and OMP_NUM_THREADS hold here
        too.
    aggressiveness, n_steps, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_, n_steps_, n_updates_, n_features_in_
        As in `OASIS`.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11: the steps.  The schedule is ours.
    """

    name: ClassVar = "MiniBatchOASIS"
    summary: ClassVar = "OASIS whose steps of a batch do not see each other, in threads"
    cost: ClassVar = "time nnz(q) (nnz(p) + nnz(n)) a step, in threads, memory d^2"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OASIS._parameter_constraints,
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }

    batch_size: int = 64
    n_threads: int | None = None

    def _start(self, X: Any) -> None:
        if X.shape[1] > MAX_FEATURES:
            raise ValueError(
                f"the rows have {X.shape[1]} features, but {self.name} takes at most "
                f"{MAX_FEATURES}: use fewer features, or OASIS"
            )
        super()._start(X)

    def _run(self, X: Any, sampler: TripletSampler, n_steps: int, progress: Progress) -> None:
        def draw() -> Iterator[npt.NDArray[np.intp]]:
            for part in slices(n_steps, self.batch_size):
                progress("learning", part.start, n_steps)
                yield sampler.draw(part.stop - part.start)

        self.n_updates_ += self._learn_batches(X, draw())
        self.n_steps_ += n_steps
        progress("learning", n_steps, n_steps)

    def _apply(self, X: Any, triplets: npt.NDArray[np.intp]) -> None:
        size = self.batch_size
        batches = (triplets[k : k + size] for k in range(0, len(triplets), size))
        self.n_updates_ += self._learn_batches(X, batches)
        self.n_steps_ += len(triplets)

    def _learn_batches(self, X: Any, batches: Iterator[npt.NDArray[np.intp]]) -> int:
        C, W = float(self.aggressiveness), self.bilinear_matrix_
        if uses_twin():
            return sum(_oasis_reference.step_mini_batch(X, batch, C, W) for batch in batches)
        if isinstance(X, np.ndarray) and self.batch_size > 1 and is_wide_and_dense(X):
            return learn_in_dense_blocks(X, batches, C, W, in_order=False)
        n_threads = self.n_threads or blas_threads()
        rows = X if sparse.issparse(X) else sparse.csr_array(X)
        return learn_in_blocks(rows, batches, C, W, in_order=False, n_threads=n_threads)
