"""The messages between the two sides of a trial: lines of JSON, some of them with a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from oasis_bench.system import printable

WARM_UP, FIT, ANSWER = "the warm-up", "the final fit", "answering"
LOAD, REPLAY = "reading the model", "the replay for the traces"
VOTE = "voting"
LEARNING, VALIDATION = "learning on inner folds", "validation"

MOST_SCORE_BYTES = 64 * 2**20
"""Limit for one message."""

LONGEST_TEXT = 20_000
"""Characters of a reason or a traceback."""

MOST_NUMBERS, LONGEST_NAME = 50, 60
"""Limits for the single numbers of a fit, and for their names."""


class MessageError(ValueError):
    """A trial's process sent bytes that are not a message, or an unexpected message."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NotNegative = Annotated[float, Meta(ge=0)]
Seconds = NotNegative
Numbers = Annotated[
    dict[Annotated[str, Meta(pattern=r"^[^\W\d]\w*\Z", max_length=LONGEST_NAME)], float],
    Meta(max_length=MOST_NUMBERS),
]


Use: TypeAlias = Literal["direct", "posterior"]
"""How a fitted learner is used: by its own similarity, or by the votes of the training rows."""


class _Message(Struct, tag=True, tag_field="kind", forbid_unknown_fields=True):
    """A line of JSON; the decoder refuses it if a field is missing or of another type."""


class Started(_Message):
    """The first message of each process: the memory that the trial's processes already use."""

    n_bytes: Count  # 0 if memory has no limit


class PhaseBegan(_Message):
    """A phase of the trial began; each has the whole budget of time."""

    phase: str


class Validated(_Message):
    """The values of a candidate on one inner fold, one for each tuning measure."""

    scaling: str
    params: dict[str, Any]
    n_steps: Count | None
    fold: Count
    values: list[float]


class Tuned(_Message):
    """The candidate with the highest mean over the inner folds, by one of the tuning measures.

    `n_steps` is the best checkpoint; None if the learner has no steps or the candidates give it.
    The seconds are summed over all folds and measures.
    """

    scaling: str
    params: dict[str, Any]
    n_steps: Count | None = None
    last_checkpoint: Count | None = None  # the largest that was validated with these parameters
    blend: float | None = None  # the weight b (see `plugins.blending`); None if not blended
    baseline_scaling: str | None = None  # of its baseline, tuned separately
    blend_values: list[float] = []  # of this blend on the inner folds
    use: Use = "direct"
    tau: float | None = None  # of the posterior use (see `plugins.posterior`); None: not offered
    posterior_blend: float | None = None  # the weight b of the posterior use
    posterior_values: list[float] = []  # of this use on the inner folds
    fit_seconds: Seconds = 0.0
    score_seconds: Seconds = 0.0


class Fitted(_Message):
    """The final fit has ended; the fitted learner comes with this message, as a file.

    `oasis_bench.trial.learner_side.meter.Cost` defines its costs.
    """

    threads: Count  # of the largest pool
    seconds: Seconds
    cpu_seconds: Seconds
    waiting_seconds: Seconds | None
    peak_bytes: Count | None
    symmetry_index: float | None  # of W
    numbers: Numbers = {}  # the fitted attributes that are single numbers


class Compared(_Message):
    """The standard deviation of the fitted learner's similarity on pairs of training items.

    It follows the fit of a blended learner, and is not timed.  Do not send it directly before a
    message with a file: one read could mix them up.
    """

    learned_sd: NotNegative


class Voted(_Message):
    """The training rows have voted; for each gallery the posteriors follow, as `Scores`.

    First come those of the test items; for the gallery of training items, then theirs.  Each has a
    number for each training class.
    """

    n_classes: Count = 0
    sds: list[NotNegative] = []  # for each gallery: of the affinity on pairs of training items
    reason: str | None = None  # why there are no votes


class Saved(_Message):
    """The model file of the learner comes with this message, or the reason why there is none."""

    reason: str | None = None


class Loaded(_Message):
    """A saved model replaces the fit; the learner comes as a file, as with `Fitted`."""

    threads: Count
    symmetry_index: float | None
    numbers: Numbers = {}
    tau: NotNegative | None = None  # of a model of the posterior use


class Scores(_Message):
    """The scores of the next `n_queries` items against a gallery; their bytes follow the line."""

    gallery: Annotated[str, Meta(pattern=r"^(test|training)\Z")]
    n_queries: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    dtype: Annotated[str, Meta(pattern=r"^float(32|64)\Z")]

    def n_bytes(self, n_gallery: int) -> int:
        """Return how many bytes follow; raise MessageError if they are too many."""
        n_bytes = self.n_queries * n_gallery * np.dtype(self.dtype).itemsize
        if self.n_queries > 1 and n_bytes > MOST_SCORE_BYTES:
            raise MessageError(f"{n_bytes} bytes of scores in one message")
        return n_bytes


class Queried(_Message):
    """All scores have been sent; the time that computing them took."""

    seconds: Seconds
    cpu_seconds: Seconds


class Replayed(_Message):
    """The replay has reached `n_steps`; the scores that follow are of this learner."""

    n_steps: Count
    symmetry_index: float | None


class Ended(_Message):
    """The last message of a stage: its status, and why it is not 'ok'; long texts are cut."""

    status: Literal["ok", "failed", "out of memory", "timeout", "not applicable"]
    reason: str | None = None
    traceback: str | None = None

    def __post_init__(self) -> None:
        self.reason = self.reason and printable(self.reason, "\n\t", LONGEST_TEXT)
        self.traceback = self.traceback and printable(self.traceback, "\n\t", LONGEST_TEXT)


Message: TypeAlias = (
    Started
    | PhaseBegan
    | Validated
    | Tuned
    | Fitted
    | Compared
    | Voted
    | Saved
    | Loaded
    | Scores
    | Queried
    | Replayed
    | Ended
)
WITH_FILE = (Fitted, Saved, Loaded)
"""The messages that come with a file."""

_encoder = msgspec.json.Encoder(enc_hook=lambda value: value.item())  # scalars of NumPy
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def to_line(message: Message) -> bytes:
    """Write a message as a line of JSON."""
    return _encoder.encode(message) + b"\n"


def from_line(line: bytes) -> Message:
    """Read a line of `to_line`; raise MessageError if it is not a message."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MessageError(f"not a message of a trial: {error}") from error
