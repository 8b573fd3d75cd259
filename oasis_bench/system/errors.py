"""Errors of the user's making and their words; what a user gives read and checked."""

from __future__ import annotations

import difflib
import importlib.util
import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self, TypeAlias

LONGEST_REASON, LONGEST_PATH, LONGEST_VALUE = 2000, 200, 80
"""Characters of a message, and in it of a path or another value."""


def printable(text: str, keep: str = "", longest: int | None = None) -> str:
    """Return `text` with control characters replaced, but for those to `keep`.

    A text of more than `longest` characters loses its middle.
    """
    if longest is not None and len(text) > longest:
        half = longest // 2
        text = f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def encodable(text: str) -> str:
    """Return a text with the bytes of paths that are no UTF-8 as Python writes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def for_terminal(text: str) -> str:
    """Return an `encodable` text of some lines, what a terminal would obey in it replaced."""
    return text if text.isprintable() else printable(encodable(text), keep=_KEPT)


def quoted(value: object) -> str:
    """Return a value as messages show it: as Python does, a long one without its middle."""
    try:
        return printable(repr(value), longest=LONGEST_VALUE)
    except ValueError:  # Python writes no number of more than 4300 digits
        return f"a number of type {type(value).__name__}, too long to be shown"


def short_path(path: object) -> str:
    """Return a path as messages show it: a long one without its middle."""
    return printable(str(path), longest=LONGEST_PATH)


def error_line(error: BaseException) -> str:
    """Return the type and the message of an error on one `printable` line of bounded length.

    Those of a plugin may raise errors themselves.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__}: its message cannot be made"
    return printable(" ".join(text.split()), longest=LONGEST_REASON)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Word the error for a name that is not among `known`, with the nearest that is."""
    known = list(known)
    there = ", ".join(known) or "none"
    return f"unknown {kind} {quoted(name)}: {did_you_mean(name, known)}there are {there}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask whether the nearest of `known` was meant; '' where none is near."""
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.65)
    return f"did you mean {quoted(folded[near[0]])}? " if near else ""


_OTHER_FLAGS = {
    "train_per_class": "train",
    "test_per_class": "test",
    "params": "param",
    "plugin_files": "plugin",
    "dataset_options": "data-option",
}
"""Names of the command line, by what the same is called in Python, where they differ."""

_IN_PYTHON = ContextVar("_IN_PYTHON", default=False)


@contextmanager
def in_python() -> Iterator[None]:
    """Let messages name settings as keyword arguments: for the functions of a notebook.

    Messages of trials, which are processes of their own, name them as on the command line.
    """
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


def spelled(name: str, value: object = None, metavar: str = "") -> str:
    """Return a setting, with its value if there is one, as a message names it.

    On the command line ``--test-share 0.5``, or with a `metavar` ``--test-share P``; in Python
    ``test_share=0.5`` and ``test_share``.
    """
    if _IN_PYTHON.get():
        return name if value is None else f"{name}={value!r}"
    flag = f"--{_OTHER_FLAGS.get(name, name.replace('_', '-'))}"
    if value is None:
        return f"{flag} {metavar}".rstrip()
    return f"{flag}{'=' if str(value).startswith('-') else ' '}{shlex.quote(str(value))}"


_KEPT = "\n\t\xa0\u202f\u3000"
"""The end of a line, the tab, and blanks of French and Japanese."""


class UsageError(ValueError):
    """Bad input from the user, reported in one line that names the value, the bound and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """

    def __str__(self) -> str:
        return printable(encodable(super().__str__()), keep=_KEPT, longest=LONGEST_REASON)


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

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator[None]:
        """Raise errors of the disk as errors of a file in the run's folder."""
        try:
            yield
        except OSError as error:
            raise cls.of(path, error.strerror) from error


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

VALUES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
"""The types of values, in plain words."""

MOST = 10**12
"""No whole number that a user gives is larger, unless a smaller bound is said."""


def read_value(text: str, kind: type) -> Any:
    """Read a text as a value of type `kind`.

    A text that is no such value is returned as it is: `check_value` then refuses it with the same
    message as for the same mistake in a file.
    """
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    try:
        return kind(text)
    except ValueError:
        return text


def check_value(
    name: str, value: object, kind: type, least: int | None = None, most: int | None = None
) -> None:
    """Refuse a value of another type, below `least`, or a whole number above `most` or `MOST`.

    True and False are no numbers.
    """
    kinds = (int, float) if kind is float else kind
    right = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
    right &= not (isinstance(value, float) and math.isnan(value))
    if not right or (least is not None and value < least):  # type: ignore[operator]
        bound = "" if least is None else f" of at least {least}"
        raise UsageError(f"{name} = {quoted(value)}: {VALUES[kind]}{bound} is needed")
    most = MOST if most is None else most
    if isinstance(value, int) and value > most:
        raise UsageError(f"{name} = {quoted(value)}: {VALUES[kind]} of at most {most} is needed")
