"""One setting of an experiment: its help, and how its value is read, typed and checked.

The settings themselves are the fields of `oasis_bench.experiment.settings.Experiment`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self, cast

from oasis_bench.system import UsageError, check_value, quoted, read_value

ON, OFF = "on", "off"
USES = "direct", "posterior", "tuned"

CANDIDATES, MOST_CANDIDATE_DIGITS = 12, 9

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
BYTES = {
    **{unit: 2 ** (10 * power) for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
    **{unit: 10 ** (3 * power) for power, unit in enumerate(("kB", "MB", "GB", "TB"), start=1)},
}


class Limit(str):
    """A limit as a user writes it: a text with its value; use `of` to make one."""

    UNITS: ClassVar[Mapping[str, int]] = {}
    EXAMPLES: ClassVar = ""
    MOST: ClassVar = ""

    amount: float | None
    """None: no limit."""

    @classmethod
    def of(cls, name: str, given: object) -> Self:
        """Read the limit `name`; return a limit that is already read unchanged."""
        if isinstance(given, cls):
            return given
        limit = cls(given)
        limit._read(name, given)
        return limit

    def _read(self, name: str, given: object) -> None:
        """Read a number with a unit, or 'off'."""
        self.amount = None if given == OFF else _amount(given, self.UNITS)
        if self.amount == 0:
            raise UsageError(
                f"{name} = {quoted(given)}: a number above 0 with a unit "
                f"({', '.join(self.UNITS)}) is needed, such as {self.EXAMPLES}, or {OFF}"
            )
        if self.amount is not None and self.amount > _amount(self.MOST, self.UNITS):
            raise UsageError(f"{name} = {quoted(given)}: {self.MOST} at most is needed, or {OFF}")


class Duration(Limit):
    """A time such as '90s', '10m' or 'off'."""

    UNITS, EXAMPLES, MOST = SECONDS, "90s, 10m or 2h", "3650d"

    @property
    def seconds(self) -> float | None:
        """None: no limit; likewise below."""
        return self.amount


class Size(Limit):
    """An amount of memory such as '500MiB', '4GiB' or 'off'."""

    UNITS, EXAMPLES, MOST = BYTES, "500MiB or 4GiB", "1000TiB"

    @property
    def n_bytes(self) -> int | None:
        """A whole number."""
        return None if self.amount is None else int(self.amount)


class Search(Limit):
    """The tuning budget of each learner: '20' (candidates) or 'off'.

    It is never a time, because results would then depend on the load of the machine.
    """

    candidates: int | None

    def _read(self, name: str, given: object) -> None:
        is_number = self.isdecimal() and len(self) <= MOST_CANDIDATE_DIGITS and int(self) > 0
        if not is_number and given != OFF:
            raise UsageError(
                f"{name} = {quoted(given)}: a number of candidates above 0, such as 20, or {OFF} "
                "is needed"
            )
        self.candidates = int(self) if is_number else None


def _amount(given: object, units: Mapping[str, int]) -> float:
    """Return a number with a unit as a number; 0 for any other text."""
    text = given if isinstance(given, str) else ""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    return float(found[1]) * units[found[2]] if found and found[2] in units else 0.0


@dataclass(frozen=True)
class Setting:
    """The properties of a setting, for the command line, the experiment file and the checks.

    `read` reads the text of an option.  ``check(name, value)`` raises UsageError for a wrong value.
    None is accepted only if it is the default.  The kind of a list is tuple.  `words` describe the
    default if its value does not.  `metavar` stands for the value in the help, and is empty for a
    switch.  With `numbers_as_text`, whole numbers are converted to text, alone or in a list.
    """

    help: str
    default: Any
    kind: type
    words: str
    read: Callable[[str], Any]
    check: Callable[[str, Any], object]
    metavar: str = "N"
    numbers_as_text: bool = False

    def typed(self, name: str, given: Any) -> Any:
        """Check a value of Python, a file or the store, and return it as an experiment has it."""
        value = self.held(given)
        if issubclass(self.kind, Limit):
            return self.kind.of(name, value)
        if value is not None or self.default is not None:
            self.check(name, value)
        return value

    def held(self, given: Any) -> Any:
        """Return a value in the form of an experiment, without a check.

        A list may be given as one value; a text is read as on the command line.
        """
        if given is None or self.kind is not tuple:
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
    most: int | None = None,
    **more: Any,
) -> Any:
    """Make a dataclass field for a setting of type `kind`, from `least` to `most`.

    `more` are other fields of `Setting`: `read` and `check` replace those of the type and the
    bounds.
    """
    usual: dict[str, Any] = {
        "words": str(default),
        "read": partial(read_value, kind=kind),
        "check": partial(check_value, kind=kind, least=least, most=most),
    }
    if issubclass(kind, Limit):
        default = kind.of("default", default)
        usual["read"] = str
    known = Setting(help, default, kind, **{**usual, **more})
    return field(default=default, metadata={"setting": known})


def check_share(name: str, value: object) -> None:
    """Raise UsageError if a value is not a number above 0 and at most 1."""
    check_value(name, value, float)
    if not 0 < cast("float", value) <= 1:
        raise UsageError(f"{name} = {quoted(value)}: a number above 0 and at most 1 is needed")


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise UsageError if a value is none of the known ones."""
    if value not in known:
        raise UsageError(
            f"{name} = {quoted(value)}: {', '.join(known[:-1])} or {known[-1]} is needed"
        )


def check_scalings(name: str, value: object) -> None:
    """Raise UsageError if there is no such scaling of rows."""
    from oasis_bench.data import Scaling  # imported here because SciPy is slow

    check_names(name, value)
    for kind in cast(tuple[str, ...], value):
        Scaling(kind)


def names_of_text(text: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def check_names(name: str, value: object) -> None:
    """Raise UsageError if a value is not a tuple of different names."""
    if not (isinstance(value, tuple) and value and all(isinstance(one, str) for one in value)):
        raise UsageError(f"{name} = {quoted(value)}: names are needed")
    if len(set(value)) < len(value):
        raise UsageError(f"{name} = {quoted(list(value))}: name each once")


def subsets_of_text(text: str) -> tuple[int | str | tuple[str, ...], ...]:
    """Read class subsets from the command line, such as '2,B10,bear+dog'."""
    return tuple(
        read_value(part, int)
        if part.isdecimal()
        else tuple(part.split("+"))
        if "+" in part
        else part
        for part in names_of_text(text)
    )


def check_subsets(name: str, subsets: object) -> None:
    """Raise UsageError if a value is not a tuple of different class subsets."""
    if not isinstance(subsets, tuple) or not subsets:
        raise UsageError(f"{name} = {quoted(subsets)}: a list of class subsets is needed")
    for subset in subsets:
        if isinstance(subset, tuple):
            if not all(isinstance(item, str) for item in subset) or len(set(subset)) < 2:
                raise UsageError(
                    f"{name} = {quoted(list(subset))}: at least 2 names of classes are needed"
                )
        elif not isinstance(subset, str):
            check_value(name, subset, int, least=2)
    if len(set(subsets)) < len(subsets):
        raise UsageError(f"{name} = {quoted(list(subsets))}: name each class subset once")
