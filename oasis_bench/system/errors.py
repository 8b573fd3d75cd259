"""Errors of the user's making, what a user gives read and checked, texts fit for a terminal."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias


class Text:
    """Texts fit for a terminal, a store or a message, and the parts of messages."""

    LONGEST = 20_000
    """Characters of a text that are kept."""

    LONGEST_REASON = 2000
    """Characters of the reason of a failure."""

    LONGEST_PATH = 200
    """Characters of a path that a message repeats."""

    SHOWN = 80
    """Characters of a user's value that a message repeats."""

    @staticmethod
    def printable(text: str, keep: str = "") -> str:
        """Return `text` with control characters replaced, but for those to `keep`."""
        return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)

    @staticmethod
    def encodable(text: str) -> str:
        """Return a text with the bytes of paths that are no UTF-8 as Python writes them."""
        return text.encode("utf-8", "backslashreplace").decode()

    @staticmethod
    def for_terminal(text: str) -> str:
        """Return an `encodable` text of some lines, what a terminal would obey in it replaced."""
        return text if text.isprintable() else Text.printable(Text.encodable(text), keep=_KEPT)

    @staticmethod
    def cut(text: str, longest: int = LONGEST) -> str:
        """Return a text of at most `longest` characters, without the middle of a longer one."""
        if len(text) <= longest:
            return text
        half = longest // 2
        return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"

    @staticmethod
    def shown(value: object) -> str:
        """Return a value as messages show it: as Python does, a long one without its middle."""
        try:
            return Text.printable(Text.cut(repr(value), Text.SHOWN))
        except ValueError:  # Python writes no number of more than 4300 digits
            return f"a number of type {type(value).__name__}, too long to be shown"

    @staticmethod
    def of_error(error: BaseException) -> str:
        """Return the type and the message of an error on one `printable` line of bounded length.

        Those of a plugin may raise errors themselves.
        """
        try:
            text = f"{type(error).__name__}: {error}"
        except Exception:
            text = f"{type(error).__name__}: its message cannot be made"
        return Text.printable(" ".join(Text.cut(text, Text.LONGEST_REASON).split()))

    @staticmethod
    def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
        """Word the error for a name that is not among `known`, with the nearest that is."""
        known = list(known)
        there = ", ".join(known) or "none"
        return f"unknown {kind} {Text.shown(name)}: {Text.nearest(name, known)}there are {there}"

    @staticmethod
    def nearest(name: str, known: Iterable[str]) -> str:
        """Ask whether the nearest of `known` was meant; '' where none is near."""
        folded = {other.casefold(): other for other in known}
        near = (
            []
            if len(name) > Text.SHOWN
            else difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.65)
        )
        return f"did you mean {Text.shown(folded[near[0]])}? " if near else ""


_KEPT = "\n\t\xa0\u202f\u3000"
"""The end of a line, the tab, and blanks of French and Japanese."""


class UsageError(ValueError):
    """Bad input from the user, reported in one line that names the value, the bound and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """

    def __str__(self) -> str:
        return Text.for_terminal(super().__str__())


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


def how_to_install(extra: str) -> str:
    """Say how to install the packages of an extra, which are in `pyproject.toml`."""
    return f'run pip install -e ".[{extra}]" in the source folder of oasis-bench'


def require_packages(what: str, packages: Sequence[str], extra: str) -> None:
    """Raise UsageError where packages are missing that `extra` installs; import none of them.

    `what` needs them, the subject of the message.
    """
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise UsageError(f"{what} needs {names}: {how_to_install(extra)}")


Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called as ``progress(what, done, total)``; ``total`` is None where it is not known."""


def no_progress(what: str, done: int, total: int | None) -> None:
    """Ignore progress: for callers that show none."""


def without_options(
    words: Iterable[str], options: Collection[str], switches: Collection[str] = ()
) -> list[str]:
    """Return the words without `options`, each with its value, and without `switches`."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options and word not in switches:
            kept.append(word)
    return kept


# --- values that a user gives, as text on the command line or in a TOML file


class Value:
    """A value that a user gives, as text on the command line or in a TOML file."""

    NEEDED: ClassVar[dict[type, str]] = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
    }
    """The types of values, in plain words."""

    MOST = 10**12
    """No whole number that a user gives is larger, where no lower bound is said."""

    @staticmethod
    def of_text(text: str, kind: type) -> Any:
        """Read a text as a value of type `kind`.

        A text that is no such value is returned as it is: `check` then refuses it with the same
        message as for the same mistake in a file.
        """
        if kind is bool:
            return {"true": True, "false": False}.get(text, text)
        try:
            return kind(text)
        except ValueError:
            return text

    @staticmethod
    def check(
        name: str, value: object, kind: type, least: int | None = None, most: int = MOST
    ) -> None:
        """Refuse a value of another type, below `least`, or a whole number above `most`.

        True and False are no numbers.
        """
        kinds = (int, float) if kind is float else kind
        right = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
        if not right or (least is not None and value < least):  # type: ignore[operator]
            bound = "" if least is None else f" of at least {least}"
            raise UsageError(f"{name} = {Text.shown(value)}: {Value.NEEDED[kind]}{bound} is needed")
        if isinstance(value, int) and value > most:
            raise UsageError(
                f"{name} = {Text.shown(value)}: {Value.NEEDED[kind]} of at most {most} is needed"
            )
