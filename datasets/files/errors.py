"""How errors of files are worded for users: one line with the reason and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oasis_bench.system import UsageError, cut, printable

LONGEST = 500
"""Characters of a library's message that are repeated: some quote the file."""

DOZEN = 12

OTHER_FOLDER = "free or correct it, or set OASIS_BENCH_CACHE to another folder"


def reason_of(error: object) -> str:
    """Return on one line what the system or a library says of an error; at least its type."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(cut(" ".join(text.split()), LONGEST))


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the error of a file or folder in the cache folder that cannot be written."""
    return UsageError(f"cannot write {path}: {reason_of(error)}: {OTHER_FOLDER}")


def first_dozen(texts: Sequence[str], between: str = ", ") -> str:
    """Join texts, the first dozen of many, and then say how many there are."""
    rest = f" ... ({len(texts)} in all)" if len(texts) > DOZEN else ""
    return between.join(texts[:DOZEN]) + rest
