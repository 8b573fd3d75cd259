"""Work on several cores in threads: for kernels and library calls that release the GIL.

Not for processes: `oasis_bench.execution` has those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Of the environment: read by thread pools when they are loaded."""


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int | None = None
) -> list[Result]:
    """Return ``work(item)`` of each item, in their order, done in parallel threads.

    By default there are as many threads as BLAS may use, so that `threadpool_limits` and
    OMP_NUM_THREADS hold here too.  After Ctrl-C or an error no further item is begun.
    """
    n_threads = min(n_threads or blas_threads(), len(items)) if len(items) > 1 else 1
    if n_threads == 1:
        return [work(item) for item in items]
    threads = ThreadPoolExecutor(n_threads)
    try:
        return list(threads.map(work, items))
    finally:
        threads.shutdown(cancel_futures=True)


def blas_threads() -> int:
    """Return how many threads the numerical libraries of this process may use."""
    pools = _libraries(len(sys.modules)).info()
    return max((int(pool["num_threads"]) for pool in pools), default=1)


class _OneBlasThread:
    """A context with one BLAS thread, for many small products: more threads wait for each other.

    The limit is of the whole process.  Several threads may be in the context at once: it ends with
    the last of them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limit = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limit.restore_original_limits()


one_blas_thread = _OneBlasThread()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Find the libraries, which takes some milliseconds: again when a module was imported."""
    return ThreadpoolController()


def slices(n_rows: int, step: int) -> Iterator[slice]:
    """Cut rows 0 to `n_rows` into slices of `step`, the last one shorter."""
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
