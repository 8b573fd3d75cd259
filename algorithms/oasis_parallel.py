"""The OASIS family in parallel: averaged learners, and mini-batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.algorithms._oasis_block_schedule import MAX_FEATURES, learn_in_blocks
from oasis_bench.algorithms._oasis_dense_steps import is_wide_and_dense, learn_in_dense_blocks
from oasis_bench.algorithms.base import TRIPLETS_PER_DRAW, Count, TripletSampler
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray
from oasis_bench.sampling import seed_state
from oasis_bench.system import (
    Progress,
    derive_seed,
    n_blas_threads,
    one_blas_thread,
    side_by_side,
    slices,
)


class AveragedOASIS(OASIS):
    """Averaged OASIS: `n_learners` OASIS learners in parallel threads; W is the mean of theirs.

    Every learner makes `n_steps` steps on its own stream of triplets.  Triplets that you give are
    distributed to the learners in turn.  The result does not depend on the number of threads.  The
    matrices have n_learners d^2 numbers.

    Parameters
    ----------
    n_learners : int, default 5
        The number of learners; the paper uses 5 and 10.
    n_threads : int or None, default None
        The number of learners trained at the same time.  None: as many threads as BLAS may use, so
        `threadpool_limits` and OMP_NUM_THREADS apply.
    n_steps : int, default 30000
        The number of triplets for each learner.
    aggressiveness, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        The mean of `matrices_`.
    matrices_ : ndarray of shape (n_learners, n_features, n_features)
        W of each learner, from which learning continues.
    n_steps_, n_updates_ : int
        Steps and updates of all learners together.
    n_features_in_ : int

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 5.4 and figure 7.
    """

    name: ClassVar = "AveragedOASIS"
    summary: ClassVar = "mean of OASIS learners, each trained on different triplets in parallel"
    cost: ClassVar = "time and memory of OASIS for each of n_learners"

    _learned: ClassVar[str] = "matrices_"
    _fitted_arrays: ClassVar = {
        "matrices_": FittedArray(("n_learners", "n_features", "n_features")),
        "_sampler_state": FittedArray(("n_learners", 4), np.uint64, nonzero=True),
        "_n_dealt": FittedArray((), np.integer),
    }
    matrices_: FloatArray = field(init=False)
    _n_dealt: int = field(init=False)

    n_learners: Count = 5
    n_threads: Count | None = None

    def _seeded(self) -> npt.NDArray[np.uint64]:
        """Return the state of each learner's stream, (n_learners, 4)."""
        seed = self._new_seed()
        streams = [seed_state(derive_seed(seed, "stream", k)) for k in range(self.n_learners)]
        return np.stack(streams)

    def _n_matrices(self, afresh: bool) -> int:
        return self.n_learners * afresh + 1

    def _start(self, X: Any) -> None:
        super()._start(X)
        self.matrices_ = np.repeat(self.matrices_[None], self.n_learners, axis=0)
        self._n_dealt = 0

    def _run(self, X: Any, sampler: TripletSampler, n_steps: int, progress: Progress) -> None:
        def learn(k: int) -> int:
            stream = copy.copy(sampler)
            stream.state = self._sampler_state[k]
            n_updates = 0
            for part in slices(n_steps, TRIPLETS_PER_DRAW):
                drawn = stream.draw(part.stop - part.start)
                n_updates += self._step(X, drawn, self.matrices_[k])
                if k == 0:  # the others are about as far
                    progress("learning", part.stop, n_steps)
            return n_updates

        self.n_updates_ += self._side_by_side(learn)
        self.n_steps_ += n_steps * len(self.matrices_)

    def _apply(self, X: Any, triplets: npt.NDArray[np.intp]) -> None:
        m = len(self.matrices_)

        def learn(k: int) -> int:
            dealt = np.ascontiguousarray(triplets[(k - self._n_dealt) % m :: m])
            return self._step(X, dealt, self.matrices_[k])

        self.n_updates_ += self._side_by_side(learn)
        self.n_steps_ += len(triplets)
        self._n_dealt += len(triplets)

    def _side_by_side(self, learn: Callable[[int], int]) -> int:
        n_threads = self.n_threads or n_blas_threads()
        with one_blas_thread:  # here: of a limit that a thread sets, the others need not know
            return sum(side_by_side(learn, range(len(self.matrices_)), n_threads))

    def _finish(self, X: Any = None) -> None:
        self.bilinear_matrix_ = self.matrices_.mean(axis=0)


class MiniBatchOASIS(OASIS):
    r"""Mini-batch OASIS: the steps of OASIS in batches, for many rows and features.

    All triplets of a batch are scored with the W before the batch, and then applied together:

    .. math:: W \leftarrow W + \sum_{t \in \text{batch}} \tau_t\, q_t (p_t - n_t)^\top .

    A batch needs only one pass over W.  Each thread updates its own rows of W, so the result does
    not depend on the number of threads.  With float32 rows each p - n is rounded to 16 bits, by at
    most 1 / 65534 of its largest entry.  Dense rows with 256 features or more, of which at least
    half are not 0, are not rounded; their passes are matrix products in one thread, and a batch of
    b triplets takes about 5 b d numbers of memory.

    A batch must be small compared with the number of rows.  Otherwise its steps, which do not see
    each other, overshoot.  The last batch ends with the call.  So two calls of `partial_fit` give
    the same W as one only if the first one consists of whole batches.

    Parameters
    ----------
    batch_size : int, default 64
        The number of triplets in a batch.
    n_threads : int or None, default None
        The number of threads.  None: as many as BLAS may use, so `threadpool_limits` and
        OMP_NUM_THREADS apply.
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
    summary: ClassVar = "OASIS in batches: threads make the steps of a batch from the same W"
    cost: ClassVar = "time k^2 a step, in threads, memory d^2"

    batch_size: Count = 64
    n_threads: Count | None = None

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
        batches = (triplets[part] for part in slices(len(triplets), self.batch_size))
        self.n_updates_ += self._learn_batches(X, batches)
        self.n_steps_ += len(triplets)

    def _learn_batches(self, X: Any, batches: Iterator[npt.NDArray[np.intp]]) -> int:
        C, W = float(self.aggressiveness), self.bilinear_matrix_
        if isinstance(X, np.ndarray) and self.batch_size > 1 and is_wide_and_dense(X):
            return learn_in_dense_blocks(X, batches, C, W, in_order=False)
        n_threads = self.n_threads or n_blas_threads()
        rows = X if sparse.issparse(X) else sparse.csr_array(X)
        return learn_in_blocks(rows, batches, C, W, in_order=False, n_threads=n_threads)
