"""The messages that the process of a trial sends to the harness, one line of JSON each.

That process runs a plugin's code, so each line is checked when it arrives.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints


class MessageError(ValueError):
    """A line that is not a message of a trial."""


@dataclass(frozen=True)
class Started:
    """The first message of each of the two processes.

    Attributes
    ----------
    n_bytes : int
        Memory of the trial's processes before the trial began; 0 where memory has no limit.
    """

    n_bytes: int


@dataclass(frozen=True)
class PhaseBegan:
    """A phase of the trial began; each has the whole budget of time."""

    phase: str


@dataclass(frozen=True)
class TableRow:
    """One more row of the table 'validation', 'traces' or 'symmetry'."""

    table: str
    row: dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """The inner folds have chosen: a fresh process is to fit this.

    Attributes
    ----------
    params : dict
        Hyper-parameters.
    n_steps : int or None
        The chosen checkpoint; None where there was none to choose.
    last_checkpoint : int or None
        The largest checkpoint that was validated with these parameters.
    fit_seconds, score_seconds : float
        What the choice took on all inner folds.
    """

    params: dict[str, Any]
    n_steps: int | None
    last_checkpoint: int | None
    fit_seconds: float
    score_seconds: float


@dataclass(frozen=True)
class Measured:
    """The final fit is measured; only traces may follow.

    Attributes
    ----------
    columns : dict
        Columns of the table `trials`.
    precision_at_k, retrievals : list of dict
        The rows of these tables.
    """

    columns: dict[str, Any]
    precision_at_k: list[dict[str, Any]]
    retrievals: list[dict[str, Any]]


@dataclass(frozen=True)
class Ended:
    """The last message: the status of the trial, and why it is not 'ok'."""

    status: str
    reason: str | None = None
    traceback: str | None = None


Message: TypeAlias = Started | PhaseBegan | TableRow | Chosen | Measured | Ended
Send: TypeAlias = Callable[[Message], None]

KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


def to_line(message: Message) -> bytes:
    """Write a message as a line of JSON; scalars of NumPy become numbers."""
    fields = {"kind": type(message).__name__, **vars(message)}
    return json.dumps(fields, default=lambda value: value.item()).encode() + b"\n"


def from_line(line: bytes) -> Message:
    """Read what `to_line` wrote.

    Raises
    ------
    MessageError
        Where the line is something else.
    """
    try:
        fields = json.loads(line)
        message = KINDS[fields.pop("kind")](**fields)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise MessageError(f"not a message of a trial: {type(error).__name__}") from error
    for name, kind in get_type_hints(type(message)).items():
        if not _is_a(getattr(message, name), kind):
            raise MessageError(f"{name} of {type(message).__name__} is not of type {kind}")
    return message


def _is_a(value: object, kind: Any) -> bool:
    """Tell whether a value has the type of a field: plain, a union of such, a dict or rows."""
    if kind == list[dict[str, Any]]:
        return isinstance(value, list) and all(isinstance(row, dict) for row in value)
    return isinstance(value, kind if isinstance(kind, UnionType) else get_origin(kind) or kind)
