"""Values that a user gives, as text on the command line or in a TOML file: read and checked."""

from __future__ import annotations

from typing import Any

from oasis_bench.system.errors import UsageError
from oasis_bench.system.plain_text import shown

NEEDED: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
}
"""The types of values, in plain words."""


def value_of_text(text: str, kind: type) -> Any:
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


MOST = 10**12
"""No whole number that a user gives is larger, where no lower bound is said."""


def check_value(
    name: str, value: object, kind: type, least: int | None = None, most: int = MOST
) -> None:
    """Refuse a value of another type, below `least`, or a whole number above `most`.

    True and False are no numbers.
    """
    kinds = (int, float) if kind is float else kind
    right = isinstance(value, kinds) and isinstance(value, bool) == (kind is bool)
    if not right or (least is not None and value < least):  # type: ignore[operator]
        bound = "" if least is None else f" of at least {least}"
        raise UsageError(f"{name} = {shown(value)}: {NEEDED[kind]}{bound} is needed")
    if isinstance(value, int) and value > most:
        raise UsageError(f"{name} = {shown(value)}: {NEEDED[kind]} of at most {most} is needed")
