"""The one exception that stands for a mistake of the user's, and how the commonest is worded."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from oasis_bench.system.plain_text import SHOWN, for_terminal, shown


class UsageError(ValueError):
    """Bad input from the user, reported in one line that names the value, the bound and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """

    def __str__(self) -> str:
        return for_terminal(super().__str__())


class OutputError(UsageError):
    """A file of a run that cannot be written; what is finished is kept."""

    @classmethod
    def of(cls, path: Path, reason: object) -> Self:
        """Make the error of a file in the run's folder."""
        if not path.parent.exists():
            return cls(
                f"{path.parent} was removed while the run went on: its trials are lost: run it anew"
            )
        return cls(
            f"cannot write {path}: {reason}: what is finished is kept; free or correct it and go "
            f"on with 'run --resume {path.parent}'"
        )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Word the error for a name that is not among `known`, with the nearest that is."""
    known = list(known)
    there = ", ".join(known) or "none"
    return f"unknown {kind} {shown(name)}: {nearest(name, known)}there are {there}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether the nearest of `known` was meant; '' where none is near."""
    folded = {other.casefold(): other for other in known}
    near = (
        []
        if len(name) > SHOWN
        else difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    )
    return f"did you mean {shown(folded[near[0]])}? " if near else ""
