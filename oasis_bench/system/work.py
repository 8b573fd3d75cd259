"""Work of one process: cut into slices, done in threads, computed once, with seeds."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


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


def import_packages(names: Iterable[str]) -> None:
    """Import those of the packages that are installed; the use of another one says so."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Of the environment: read by the thread pools of numerical libraries when they are loaded."""

one_blas_thread = _OneBlasThread()


def n_blas_threads() -> int:
    """Return how many threads the numerical libraries of this process may use."""
    pools = _libraries(len(sys.modules)).info()
    return max((int(pool["num_threads"]) for pool in pools), default=1)


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int | None = None
) -> list[Result]:
    """Return ``work(item)`` of each item, in their order, done in parallel threads.

    By default there are as many threads as BLAS may use, so that `threadpool_limits` and
    OMP_NUM_THREADS hold here too.  After Ctrl-C or an error no further item is begun.
    """
    n_threads = min(n_threads or n_blas_threads(), len(items)) if len(items) > 1 else 1
    if n_threads == 1:
        return [work(item) for item in items]
    threads = ThreadPoolExecutor(n_threads)
    try:
        return list(threads.map(work, items))
    finally:
        threads.shutdown(cancel_futures=True)


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Find the libraries, which takes some milliseconds: again when a module was imported."""
    return ThreadpoolController()


def slices(n_rows: int, step: int) -> Iterator[slice]:
    """Cut rows 0 to `n_rows` into slices of `step`, the last one shorter."""
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


LastResults: TypeAlias = dict[Callable[..., Any], tuple[tuple[Any, ...], Any]]
"""By function: what it was given last, and its result."""


class _Shared:
    """A function that computes once what several fits on the same rows have in common."""

    def __init__(self) -> None:
        self._kept: ContextVar[LastResults | None] = ContextVar("kept", default=None)

    def __call__(self, compute: Callable[..., Result], *given: Any) -> Result:
        """Return ``compute(*given)``.

        Within `within`, return the last result where the arguments are the same.
        Matrices are the same where they are one object, vectors and numbers where they are equal:
        validation by scikit-learn makes new vectors of labels.  The result must not be changed.
        """
        kept = self._kept.get()
        if kept is None:
            return compute(*given)
        if compute not in kept or not all(map(_is_same, kept[compute][0], given)):
            kept[compute] = given, compute(*given)
        found: Result = kept[compute][1]
        return found

    @contextmanager
    def within(self, kept: LastResults | None = None) -> Iterator[None]:
        """Let it keep results in `kept` and find them there; its arrays must not change.

        Without `kept`, the enclosing block's are used; where there is none, results are dropped at
        the end of the block.
        """
        if kept is None:
            kept = self._kept.get()
        token = self._kept.set({} if kept is None else kept)
        try:
            yield
        finally:
            self._kept.reset(token)


shared = _Shared()


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (np.ndim(a) < 2 and np.array_equal(a, b))


def derive_seed(*names: int | str) -> int:
    """Hash names into a seed below 2^32, the range of scikit-learn's `random_state`.

    They say what the seed is for, the run's own seed first: ``derive_seed(0, "partition", 3)``.
    """
    text = "\0".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
