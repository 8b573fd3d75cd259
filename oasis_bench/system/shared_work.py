"""A one-result cache per function, active inside `with sharing():`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import numpy as np

Result = TypeVar("Result")
LastResults: TypeAlias = dict[Callable[..., Any], tuple[tuple[Any, ...], Any]]
"""By function: what it was given last, and its result."""

_kept: ContextVar[LastResults | None] = ContextVar("kept", default=None)


@contextmanager
def sharing(kept: LastResults | None = None) -> Iterator[None]:
    """Let `shared` keep results in `kept` and find them there; its arrays must not change.

    Without `kept`, the enclosing `sharing` is used; where there is none, results are dropped at the
    end of the block.
    """
    if kept is None:
        kept = _kept.get()
    token = _kept.set({} if kept is None else kept)
    try:
        yield
    finally:
        _kept.reset(token)


def shared(compute: Callable[..., Result], *given: Any) -> Result:
    """Return ``compute(*given)``.

    Within `sharing`, return the last result where the arguments are the same.
    Matrices are the same where they are one object, vectors and numbers where they are equal:
    validation by scikit-learn makes new vectors of labels.  The result must not be changed.
    """
    kept = _kept.get()
    if kept is None:
        return compute(*given)
    if compute not in kept or not all(map(_is_same, kept[compute][0], given)):
        kept[compute] = given, compute(*given)
    found: Result = kept[compute][1]
    return found


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (np.ndim(a) < 2 and np.array_equal(a, b))
