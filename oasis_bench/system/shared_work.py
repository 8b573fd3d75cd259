"""Work that learners on the same arrays share, where who calls them says that they may.

Nothing is kept unless `sharing` is entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import numpy as np

Result = TypeVar("Result")
Kept: TypeAlias = dict[Callable[..., Any], tuple[tuple[Any, ...], Any]]
"""By function: the arrays that it got last, and its result."""

_kept: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def sharing(kept: Kept) -> Iterator[None]:
    """Let `shared` keep results in `kept` and find them there; its arrays must not change."""
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)


def shared(compute: Callable[..., Result], *arrays: Any) -> Result:
    """Return ``compute(*arrays)``; within `sharing` once for the same arrays, one after the other.

    Matrices are the same where they are one object, vectors where they are equal: validation by
    scikit-learn makes new ones of labels.  The result must not be changed.
    """
    kept = _kept.get()
    if kept is None:
        return compute(*arrays)
    if compute not in kept or not all(map(_is_same, kept[compute][0], arrays)):
        kept[compute] = arrays, compute(*arrays)
    found: Result = kept[compute][1]
    return found


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (np.ndim(a) == 1 and np.array_equal(a, b))
