"""What is known of one setting of an experiment: its help, and how its value is read and checked.

The settings themselves are the fields of `oasis_bench.experiment.settings.Experiment`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, cast

from oasis_bench.system import MOST, UsageError, check_value, shown, unknown_name, value_of_text


@dataclass(frozen=True)
class Setting:
    """What the command line, the experiment file and the checks need to know of a setting.

    Attributes
    ----------
    read : callable
        Reads the value from the text of an option; what it cannot read, `check` refuses.
    check : callable
        Called with the name and a value; raises UsageError where the value is wrong.
    metavar : str
        What stands for the value in the help; empty where the option is a switch without a value.
    flag : str
        The option, where it is not the name with - in place of _.
    is_list : bool
        Whether an experiment holds a tuple of values.
    numbers_as_text : bool
        Whether a whole number stands for the text of it, as the value or as one of a list.
    """

    help: str
    default: Any
    default_in_words: str
    read: Callable[[str], Any]
    check: Callable[[str, Any], object]
    metavar: str
    flag: str
    is_list: bool
    numbers_as_text: bool

    def held(self, given: Any) -> Any:
        """Return a value of an experiment file, or of Python, as an experiment holds it.

        For a list one value may stand alone, and a text is read as on the command line.  A value
        that is wrong is left for `check`.
        """
        if given is None or not self.is_list:
            return self._as_text(given)
        if isinstance(given, str):
            return self.read(given)
        values = given if isinstance(given, Sequence) else [given]
        return tuple(tuple(v) if isinstance(v, list) else self._as_text(v) for v in values)

    def _as_text(self, value: Any) -> Any:
        is_number = isinstance(value, Integral) and not isinstance(value, bool)
        return str(value) if self.numbers_as_text and is_number else value


def setting(
    default: Any,
    help: str,
    kind: type,
    *,
    least: int | None = None,
    most: int = MOST,
    words: str = "",
    read: Callable[[str], Any] | None = None,
    check: Callable[[str, Any], object] | None = None,
    metavar: str = "N",
    flag: str = "",
    numbers_as_text: bool = False,
) -> Any:
    """Make a field of a dataclass that is a setting of type `kind`, from `least` to `most`.

    `words` say what the default is, where its value does not.  `read` and `check` replace those
    of the type and the bound.  The kind of a list is tuple.
    """
    known = Setting(
        help,
        default,
        words or str(default),
        read or partial(value_of_text, kind=kind),
        check or partial(check_value, kind=kind, least=least, most=most),
        metavar,
        flag,
        kind is tuple,
        numbers_as_text,
    )
    return field(default=default, metadata={"setting": known})


def check_share(name: str, value: object) -> None:
    """Raise UsageError where a value is not a number above 0 and at most 1."""
    check_value(name, value, float)
    if not (isinstance(value, float) and 0 < value <= 1):
        raise UsageError(f"{name} = {shown(value)}: a number above 0 and at most 1 is needed")


def check_scalings(name: str, value: object) -> None:
    """Raise UsageError where there is no such way to scale rows; None is the data set's."""
    if value is None:
        return
    from oasis_bench.data import SCALINGS  # here: it imports SciPy, which is slow

    check_names(name, value)
    for kind in cast(tuple[str, ...], value):
        if kind not in SCALINGS:
            raise UsageError(unknown_name(name, kind, SCALINGS))


def check_optional_count(name: str, value: object, least: int = 1) -> None:
    """Raise UsageError where a value is neither a whole number of at least `least` nor None."""
    if value is not None:
        check_value(name, value, int, least=least)


def check_optional_text(name: str, value: object) -> None:
    """Raise UsageError where a value is neither a text nor None."""
    if value is not None:
        check_value(name, value, str)


def check_optional_names(name: str, value: object) -> None:
    """Raise UsageError where a value is neither a tuple of different names nor None."""
    if value is not None:
        check_names(name, value)


def names_of_text(text: str) -> tuple[str, ...]:
    """Read names that commas separate."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def check_names(name: str, value: object) -> None:
    """Raise UsageError where a value is not a tuple of different names."""
    if not (isinstance(value, tuple) and value and all(isinstance(one, str) for one in value)):
        given: Any = value
        if isinstance(value, tuple):
            given = value[0] if len(value) == 1 else list(value)
        raise UsageError(f"{name} = {shown(given)}: names are needed")
    if len(set(value)) < len(value):
        raise UsageError(f"{name} = {shown(list(value))}: name each once")


def subsets_of_text(text: str) -> tuple[int | str | tuple[str, ...], ...]:
    """Read class subsets as they are written on the command line, such as '2,B10,bear+dog'."""
    return tuple(
        value_of_text(part, int)
        if part.isdecimal()
        else tuple(part.split("+"))
        if "+" in part
        else part
        for part in names_of_text(text)
    )


def check_subsets(name: str, subsets: object) -> None:
    """Raise UsageError where a value is not a tuple of different class subsets."""
    if not isinstance(subsets, tuple) or not subsets:
        raise UsageError(f"{name} = {shown(subsets)}: a list of class subsets is needed")
    for subset in subsets:
        if isinstance(subset, tuple):
            if not all(isinstance(item, str) for item in subset) or len(set(subset)) < 2:
                raise UsageError(
                    f"{name} = {shown(list(subset))}: at least 2 names of classes are needed"
                )
        elif not isinstance(subset, str):
            check_value(name, subset, int, least=2)
    if len(set(subsets)) < len(subsets):
        raise UsageError(f"{name} = {shown(list(subsets))}: name each class subset once")
