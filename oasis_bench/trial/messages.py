"""The messages that the process of a trial sends to the harness: a line of JSON, perhaps scores.

That process runs a plugin's code.  Each message is checked as data from a stranger; nothing that is
read here can do more than end its trial.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from oasis_bench.system import cut

MOST_SCORE_BYTES = 64 * 2**20
"""Of one message."""

MOST_NUMBERS, LONGEST_NAME = 50, 60
"""Of the single numbers of a fit, and of their names."""


class MessageError(ValueError):
    """What a trial's process sent is not a message, or not one that may come now."""


@dataclass(frozen=True)
class Started:
    """The first message of each process.

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
class Validated:
    """The value of a setting on one inner fold, by the measure that chooses."""

    scaling: str
    params: dict[str, Any]
    n_steps: int | None
    fold: int
    value: float


@dataclass(frozen=True)
class Chosen:
    """The inner folds have chosen.

    Attributes
    ----------
    scaling : str
        How rows are scaled.
    params : dict
        Hyper-parameters.
    n_steps : int or None
        The chosen checkpoint; None where there was none to choose.
    last_checkpoint : int or None
        The largest checkpoint that was validated with these parameters.
    fit_seconds, score_seconds : float
        What the choice took on all inner folds, as if one had followed the other.
    """

    scaling: str
    params: dict[str, Any]
    n_steps: int | None = None
    last_checkpoint: int | None = None
    fit_seconds: float = 0.0
    score_seconds: float = 0.0


@dataclass(frozen=True)
class Fitted:
    """The final fit has ended; the fitted learner comes with this message, as a file.

    Attributes
    ----------
    threads : int
        The largest thread pool during the fit.
    seconds, cpu_seconds, waiting_seconds, peak_bytes
        See `oasis_bench.trial.clock.Cost`.
    symmetry_index : float or None
        Of W; None where there is none.
    numbers : dict
        The fitted attributes that are single numbers, by name.
    """

    threads: int
    seconds: float
    cpu_seconds: float
    waiting_seconds: float | None
    peak_bytes: int | None
    symmetry_index: float | None
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Saved:
    """The fitted learner as a model file comes with this message, or the reason why it cannot."""

    reason: str | None = None


@dataclass(frozen=True)
class Loaded:
    """A saved model takes the place of a fit; the fitted learner comes with this message.

    Attributes are those of `Fitted`.
    """

    threads: int
    symmetry_index: float | None
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """The scores of the next `n_queries` items; their bytes follow the line.

    Attributes
    ----------
    gallery : {'test', 'training'}
        What the items were compared with.
    n_queries : int
    dtype : {'float32', 'float64'}
    """

    gallery: str
    n_queries: int
    dtype: str

    def n_bytes(self, n_gallery: int) -> int:
        """Return how many bytes follow.

        Raises
        ------
        MessageError
            Where they are too many, or the type is none of the two.
        """
        if self.dtype not in ("float32", "float64") or self.n_queries < 1:
            raise MessageError(f"{self.n_queries} rows of scores of type {self.dtype!r}")
        n_bytes = self.n_queries * n_gallery * np.dtype(self.dtype).itemsize
        if self.n_queries > 1 and n_bytes > MOST_SCORE_BYTES:
            raise MessageError(f"{n_bytes} bytes of scores in one message")
        return n_bytes


@dataclass(frozen=True)
class Answered:
    """All scores have been sent; what computing them took, and what reading the learner took."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Replayed:
    """The replay has come to `n_steps`: the scores that follow are of that learner."""

    n_steps: int
    symmetry_index: float | None


@dataclass(frozen=True)
class Ended:
    """The last message: the status of the stage, and why it is not 'ok'."""

    status: str
    reason: str | None = None
    traceback: str | None = None


Message: TypeAlias = (
    Started
    | PhaseBegan
    | Validated
    | Chosen
    | Fitted
    | Saved
    | Loaded
    | Scores
    | Answered
    | Replayed
    | Ended
)
WITH_FILE = (Fitted, Saved, Loaded)
"""The messages that a file comes with."""

ScoreArray = npt.NDArray[np.floating]

KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}
STATUSES = ("ok", "failed", "out of memory", "timeout", "not applicable")


def to_line(message: Message) -> bytes:
    """Write a message as a line of JSON; scalars of NumPy become numbers."""
    fields = {"kind": type(message).__name__, **vars(message)}
    return json.dumps(fields, default=lambda value: value.item()).encode() + b"\n"


def from_line(line: bytes) -> Message:
    """Read what `to_line` wrote; long texts are cut.

    Raises
    ------
    MessageError
        Where the line is something else.
    """
    try:
        fields = json.loads(line, parse_constant=_refuse_constant)
        kind = KINDS[fields.pop("kind")]
        types = get_type_hints(kind)
        message = kind(**{name: _checked(value, types[name]) for name, value in fields.items()})
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise MessageError(f"not a message of a trial: {type(error).__name__}") from error
    times = [value for name, value in vars(message).items() if name.endswith("seconds")]
    if any(seconds is not None and seconds < 0 for seconds in times):
        raise MessageError("a time below zero")
    if isinstance(message, Fitted | Loaded):
        _refuse_numbers(message.numbers)
    if isinstance(message, Ended) and message.status not in STATUSES:
        raise MessageError(f"a trial cannot end as {message.status!r}")
    return message


def _checked(value: object, kind: Any) -> Any:
    """Return the value of a field, which must be of its type, finite, and a count not negative."""
    types = get_args(kind) if isinstance(kind, UnionType) else (get_origin(kind) or kind,)
    if float in types and type(value) is int:
        value = float(value)
    if type(value) not in types:
        raise TypeError(f"{value!r:.50} is not of type {kind}")
    if isinstance(value, int) and not 0 <= value < 2**63:
        raise ValueError("a number out of bounds")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    return cut(value) if isinstance(value, str) else value


def _refuse_numbers(numbers: Mapping[str, object]) -> None:
    """Check names and values of fitted numbers.

    Raises
    ------
    MessageError
        Where they are too many, or one is not a finite number with the name of an attribute.
    """
    for name, value in numbers.items():
        is_number = type(value) is float and math.isfinite(value)
        if not (name.isidentifier() and len(name) <= LONGEST_NAME and is_number):
            raise MessageError(f"{name!r:.50} is not a fitted number")
    if len(numbers) > MOST_NUMBERS:
        raise MessageError(f"{len(numbers)} fitted numbers")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")
