"""Averaged OASIS: learners side by side on triplets of their own, and the mean of their W's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.oasis.oasis import OASIS
from oasis_bench.algorithms.shared import TRIPLETS_PER_DRAW, TripletSampler
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray
from oasis_bench.sampling import seed_state
from oasis_bench.system import (
    Progress,
    blas_threads,
    derive_seed,
    one_blas_thread,
    side_by_side,
    slices,
)


class AveragedOASIS(OASIS):
    """Averaged OASIS: `n_learners` OASIS learners in parallel threads, W their mean.

    Every learner does `n_steps` steps on a stream of triplets of its own; given triplets are
    dealt to the learners in turn.  The result does not depend on the number of threads.  The
    matrices take n_learners d^2 numbers.

    Parameters
    ----------
    n_learners : int, default 5
        The paper draws 5 and 10.
    n_threads : int or None, default None
        Learners trained at once; None: as many as BLAS may use, so that `threadpool_limits` and
        OMP_NUM_THREADS hold here too.
    n_steps : int, default 30000
        Triplets that each of the learners learns from.
    aggressiveness, weighted_positives, negatives, threshold, random_state
        As in `OASIS`.

    Attributes
    ----------
    bilinear_matrix_ : ndarray of shape (n_features, n_features)
        The mean of `matrices_`.
    matrices_ : ndarray of shape (n_learners, n_features, n_features)
        W of each learner, from which it goes on.
    n_steps_, n_updates_ : int
        Steps and updates of all learners together.
    n_features_in_ : int

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 5.4 and figure 7.
    """

    name: ClassVar = "AveragedOASIS"
    summary: ClassVar = "mean of OASIS learners trained in parallel on triplets of their own"
    cost: ClassVar = "time and memory of OASIS for each of n_learners"

    _learned: ClassVar[str] = "matrices_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OASIS._parameter_constraints,
        "n_learners": [Interval(Integral, 1, None, closed="left")],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
    }
    matrices_: FloatArray = field(init=False)
    _n_dealt: int = field(init=False)

    n_learners: int = 5
    n_threads: int | None = None

    def _seeded(self) -> npt.NDArray[np.uint64]:
        """Return the state of each learner's stream, (n_learners, 4)."""
        seed = self._seed()
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
        n_threads = self.n_threads or blas_threads()
        with one_blas_thread:  # here: of a limit that a thread sets, the others need not know
            return sum(side_by_side(learn, range(len(self.matrices_)), n_threads))

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {
            **super()._fitted_state(),
            "matrices_": FittedArray(("n_learners", "n_features", "n_features")),
            "_sampler_state": FittedArray(("n_learners", 4), np.uint64, nonzero=True),
            "_n_dealt": FittedArray((), np.integer),
        }

    def _finish(self, X: Any = None) -> None:
        self.bilinear_matrix_ = self.matrices_.mean(axis=0)
