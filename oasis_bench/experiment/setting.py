"""What is known of one setting of an experiment: its help, and how its value is read and checked.

The settings themselves are the fields of `oasis_bench.experiment.settings.Experiment`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oasis_bench.system.errors import UsageError, unknown_name
from oasis_bench.system.values import check_value, value_of_text


@dataclass(frozen=True)
class Setting:
    """What the command line, the experiment file and the checks need to know of a setting.

    Attributes
    ----------
    help : str
    default_in_words : str
    read : callable
        Reads the value from the text of an option.  A text of another type stays text, which
        `check` refuses.
    check : callable
        Called with the name and a value; raises UsageError where the value is wrong.
    metavar : str
        What stands for the value in the help; empty where the option is a switch without a value.
    flag : str
        The option, where it is not the name with - in place of _.
    """

    help: str
    default_in_words: str
    read: Callable[[str], Any]
    check: Callable[[str, Any], object]
    metavar: str = ""
    flag: str = ""


def whole_number(default: int, help: str, *, least: int, flag: str = "") -> Any:
    """Make the field of a whole number."""
    return _field(
        default,
        help,
        read=lambda text: value_of_text(text, int),
        check=lambda name, value: check_value(name, value, int, least),
        metavar="N",
        flag=flag,
    )


def share(default: float, help: str) -> Any:
    """Make the field of a number between 0 and 1."""
    return _field(
        default, help, read=lambda text: value_of_text(text, float), check=_check_share, metavar="P"
    )


def switch(default: bool, help: str) -> Any:
    """Make the field of a switch."""
    return _field(
        default,
        help,
        words="yes" if default else "no",
        read=lambda text: value_of_text(text, bool),
        check=lambda name, value: check_value(name, value, bool),
    )


def limit(default: str, help: str, *, check: Callable[[str, Any], object], metavar: str) -> Any:
    """Make the field of a limit of time or memory, as `oasis_bench.experiment.budget` reads it."""
    return _field(default, help, read=str, check=check, metavar=metavar)


def normalization(help: str) -> Any:
    """Make the field of what is done to rows; its default is None."""
    return _field(
        None,
        help,
        words="as the data set says",
        read=str,
        check=_check_normalization,
        metavar="KIND",
    )


def class_subsets(default: tuple[int, ...], help: str) -> Any:
    """Make the field of the class subsets."""
    return _field(
        default,
        help,
        words=",".join(map(str, default)),
        read=_subsets_of_text,
        check=_check_subsets,
        metavar="N,NAME",
    )


def _field(default: Any, help: str, words: str = "", **known: Any) -> Any:
    setting = Setting(help, words or str(default), **known)
    return field(default=default, metadata={"setting": setting})


def _check_share(name: str, value: object) -> None:
    check_value(name, value, float)
    if not (isinstance(value, float) and 0 < value < 1):
        raise UsageError(f"{name} = {value}: a number between 0 and 1 is needed")


def _check_normalization(name: str, value: object) -> None:
    from oasis_bench.data.scaling import NORMALISATIONS  # here: it imports SciPy, which is slow

    if value is not None:
        check_value(name, value, str)
        if value not in NORMALISATIONS:
            raise UsageError(unknown_name("normalization", str(value), NORMALISATIONS))


def _subsets_of_text(text: str) -> tuple[int | str | tuple[str, ...], ...]:
    """Read class subsets as they are written on the command line, such as '2,B10,bear+dog'."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(
        int(part) if part.isdecimal() else tuple(part.split("+")) if "+" in part else part
        for part in parts
    )


def _check_subsets(name: str, subsets: object) -> None:
    if not isinstance(subsets, tuple) or not subsets:
        raise UsageError(f"{name} = {subsets!r}: a list of class subsets is needed")
    for subset in subsets:
        if isinstance(subset, tuple):
            if not all(isinstance(item, str) for item in subset) or len(set(subset)) < 2:
                raise UsageError(f"{name} = {list(subset)}: at least 2 names of classes are needed")
        elif not isinstance(subset, str):
            check_value(name, subset, int, least=2)
    if len(set(subsets)) < len(subsets):
        raise UsageError(f"{name} = {list(subsets)}: name each class subset once")
