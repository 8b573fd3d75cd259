"""The OASIS family in parallel: averaged learners, mini-batches, and shards on a Dask cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone

from oasis_bench.algorithms._oasis_block_schedule import MAX_FEATURES, learn_in_blocks
from oasis_bench.algorithms._oasis_dense_steps import is_wide_and_dense, learn_in_dense_blocks
from oasis_bench.algorithms.base import TRIPLETS_PER_DRAW, Count, TripletLearner, TripletSampler
from oasis_bench.algorithms.oasis import OASIS
from oasis_bench.data import FloatArray
from oasis_bench.plugins import FittedArray
from oasis_bench.sampling import seed_state
from oasis_bench.system import (
    Progress,
    derive_seed,
    n_blas_threads,
    no_progress,
    one_blas_thread,
    side_by_side,
    slices,
)

if TYPE_CHECKING:
    from distributed import Client, Future


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
    half are not 0, are not rounded; their passes are matrix products in one thread.

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
        size = self.batch_size
        batches = (triplets[k : k + size] for k in range(0, len(triplets), size))
        self.n_updates_ += self._learn_batches(X, batches)
        self.n_steps_ += len(triplets)

    def _learn_batches(self, X: Any, batches: Iterator[npt.NDArray[np.intp]]) -> int:
        C, W = float(self.aggressiveness), self.bilinear_matrix_
        if isinstance(X, np.ndarray) and self.batch_size > 1 and is_wide_and_dense(X):
            return learn_in_dense_blocks(X, batches, C, W, in_order=False)
        n_threads = self.n_threads or n_blas_threads()
        rows = X if sparse.issparse(X) else sparse.csr_array(X)
        return learn_in_blocks(rows, batches, C, W, in_order=False, n_threads=n_threads)


Shard: TypeAlias = tuple[Any, Any] | Callable[[], tuple[Any, Any]]
"""Rows and labels (X, y), or a function that opens them on the worker."""

Learner = TypeVar("Learner", bound=TripletLearner)


Form: TypeAlias = tuple[int, str]
"""What the rows of all shards have in common: the number of features, and their type."""

Sum: TypeAlias = tuple[FloatArray, int, int]
"""The learned matrices of some shards, added, and their steps and updates; Dask sees its size."""


def fit_on_cluster(
    client: Client,
    learner: Learner,
    shards: Sequence[Shard],
    progress: Progress = no_progress,
) -> Learner:
    """Learn from each shard separately, on the workers of a Dask cluster, and average the W's.

    For each shard, learning starts from W = I and makes `n_steps` steps on its own stream of
    triplets.  The seed of the stream is derived from `random_state` and the number of the shard.
    Workers add the W's in a fixed order.  So the result is the same bit for bit for any number of
    workers with the same kind of processor, even if a worker dies and another one repeats its
    shards.  The client receives one matrix.

    The memory of a worker that learns OASIS was measured in matrices of d^2 numbers.  With as many
    shards as workers, it is at most three.  With 64 shards on 4 workers, it is at most five beside
    the W that is learned.  Dask moves data to disk beyond its memory limit.

    Parameters
    ----------
    client : distributed.Client
        A synchronous client.  Workers need the same version of oasis-bench.  One thread for each
        worker is best.
    learner : OASIS or another of its family
        Its parameters are used, with `n_steps` for each shard.  The learner itself is not changed.
    shards : sequence of pairs (X, y) or of functions that return one
        `X` and `y` as for `fit`, with the same features and precision in all shards.  A function
        is called on the worker, so rows are not sent through the client or the scheduler.  It is
        called again if a shard is repeated, and must return the same rows.  Only use pairs for
        rows of a few megabytes.
    progress : callable, default no_progress
        Called after each shard.

    Returns
    -------
    learner
        A fitted clone with the mean of the learned matrices; `n_steps_` and `n_updates_` count all
        shards.  `partial_fit` continues from the mean.

    Raises
    ------
    TypeError
        If the learner is not of the OASIS family.
    ValueError
        If there are no shards, or a shard cannot be opened or learned from, or has rows of
        another form than shard 0.  The message names the shard.
    MemoryError
        If the client or a worker has no room for a matrix of n_features^2 numbers.

    Notes
    -----
    Rounds that average, send W back and learn on (McDonald, Hall & Mann 2010, NAACL) are left out:
    on digits and 20 Newsgroups, 2 to 20 rounds changed the median mean average precision by -0.005
    to 0.003 at the same steps.

    An exception, Ctrl-C too, cancels tasks that wait; a running one goes on to its end.

    References
    ----------
    Chechik, Sharma, Shalit & Bengio (2010), JMLR 11, section 5.4 and figure 7: averaging.
    Zinkevich, Weimer, Smola & Li (2010), Parallelized Stochastic Gradient Descent, NIPS 23: each
    machine its own part of the data, averaged once.

    Examples
    --------
    >>> import numpy as np
    >>> from functools import partial
    >>> from distributed import Client
    >>> from oasis_bench.algorithms import OASIS, fit_on_cluster
    >>> def open_shard(folder):
    ...     return np.load(f"{folder}/X.npy", mmap_mode="r"), np.load(f"{folder}/y.npy")
    >>> shards = [partial(open_shard, f"/shared/part{k}") for k in range(64)]
    >>> with Client("tcp://head:8786") as client:  # doctest: +SKIP
    ...     learner = fit_on_cluster(client, OASIS(n_steps=10**7, random_state=0), shards)
    """
    from distributed import as_completed  # here, because no other learner needs Dask

    if not isinstance(learner, TripletLearner) or "start_" in learner._fitted_arrays:
        raise TypeError(
            f"learner is a {type(learner).__name__}: it must be of the OASIS family, and start "
            "from the identity"
        )
    if not shards:
        raise ValueError("0 shards: at least 1 is needed")
    learner._validate_params()
    form, learning, total = _submit(client, learner, shards)
    try:
        fitted = _with_room_for_the_mean(learner, form.result())
        for done, future in enumerate(as_completed(learning), 1):
            if future.status in ("error", "cancelled"):
                future.result()  # raises
            if future is not total:
                future.release()  # from here on only the sum needs this W
            progress("shards learned", done, len(shards))
        matrix, fitted.n_steps_, fitted.n_updates_ = total.result()
    finally:
        for future in (form, total, *learning):
            future.release()  # Client.cancel breaks where sums depend on what it cancels
    np.divide(matrix, len(shards), out=getattr(fitted, fitted._learned))
    fitted._finish()
    return fitted


def _submit(
    client: Client, learner: TripletLearner, shards: Sequence[Shard]
) -> tuple[Future, list[Future], Future]:
    """Send all tasks: the form of shard 0, the learning of each shard and their sum."""
    seed = learner._new_seed()
    form = client.submit(_first_form, learner, shards[0], pure=False)
    learning = [  # in order, so that neighbours end together and become one sum
        client.submit(_learn, learner, shard, number, seed, form, pure=False, priority=-number)
        for number, shard in enumerate(shards)
    ]
    sums = learning
    while len(sums) > 1:  # neighbours, level by level: an order of the shards' numbers alone
        pairs = zip(sums[::2], sums[1::2], strict=False)
        added = [client.submit(_add, *pair, pure=False, priority=1) for pair in pairs]
        sums = added + sums[2 * len(added) :]
    return form, learning, sums[0]


def _first_form(learner: TripletLearner, shard: Shard) -> Form:
    with _error_names_shard(0):
        return _rows(clone(learner), shard)[2]


def _learn(learner: TripletLearner, shard: Shard, number: int, seed: int, expected: Form) -> Sum:
    """Learn from one shard; run on a worker."""
    learner = clone(learner).set_params(random_state=derive_seed(seed, "shard", number))
    with _error_names_shard(number):
        X, y, form = _rows(learner, shard)
        if form != expected:
            raise ValueError(
                "rows of {} features in {}, but shard 0 has {} in {}: make them the same".format(
                    *form, *expected
                )
            )
        learner.fit(X, y)
    return getattr(learner, learner._learned), learner.n_steps_, learner.n_updates_


def _rows(learner: TripletLearner, shard: Shard) -> tuple[Any, Any, Form]:
    """Open a shard and validate its rows."""
    X, y = shard() if callable(shard) else shard
    X = learner._validate_rows(X, afresh=True)
    learner._check_memory(X, afresh=True)
    return X, y, (X.shape[1], X.dtype.name)


@contextmanager
def _error_names_shard(number: int) -> Iterator[None]:
    """Say in an error which shard it is about."""
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"shard {number}: {error}") from error


def _add(left: Sum, right: Sum) -> Sum:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _with_room_for_the_mean(learner: Learner, form: Form) -> Learner:
    """Return a clone that has W = I: where memory is short, this fails before hours of work."""
    rows, no_triplets = np.zeros((2, form[0]), form[1]), np.empty((0, 3), np.intp)
    fitted: Learner = clone(learner).partial_fit_triplets(rows, no_triplets)
    return fitted
