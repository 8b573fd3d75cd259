"""The callback by which long-running work reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called as ``progress(what, done, total)``; ``total`` is None where it is not known."""


def no_progress(what: str, done: int, total: int | None) -> None:
    """Ignore progress: for callers that show none."""
