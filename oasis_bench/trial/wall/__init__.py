"""The wall of a trial: all that passes between the learner's side and the harness's side.

The learner's side runs a plugin's code: it never has a test label, and its clock is not trusted.
The harness's side has the test labels and the clock.  Neither imports the other.  What passes is
here: stages, phases that have a budget each, items in sealed files, and messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from oasis_bench.data import Encoding, Scaling
from oasis_bench.experiment import TrialSpec
from oasis_bench.plugins import IncrementalLearner, MetricLearner, is_the_baseline
from oasis_bench.system import Machine, Text
from oasis_bench.trial.wall.sealed import (
    is_sealed as is_sealed,
    map_bytes as map_bytes,
    map_items as map_items,
    memory_file as memory_file,
    seal as seal,
    seal_items as seal_items,
    seal_memory_file as seal_memory_file,
)

StageName = Literal["tune", "fit", "load", "score alone", "replay", "score training items"]

WARM_UP, FIT, ANSWER = "the warm-up", "the final fit", "answering"
LOAD, REPLAY = "reading the model", "the replay for the traces"
LEARNING, VALIDATION = "learning on inner folds", "validation"

FIRST_CHECKPOINT = 500

MOST_SCORE_BYTES = 64 * 2**20
"""Of one message."""

MOST_NUMBERS, LONGEST_NAME = 50, 60
"""Of the single numbers of a fit, and of their names."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


class MessageError(ValueError):
    """What a trial's process sent is not a message, or not one that may come now."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NotNegative = Annotated[float, Meta(ge=0)]
Seconds = NotNegative
Numbers = Annotated[
    dict[Annotated[str, Meta(pattern=r"^[^\W\d]\w*\Z", max_length=LONGEST_NAME)], float],
    Meta(max_length=MOST_NUMBERS),
]


class _Message(Struct, tag=True, tag_field="kind", forbid_unknown_fields=True):
    """A line of JSON, refused by the decoder where a field is missing or not of its type."""


class Started(_Message):
    """The first message of each process: the bytes of the trial's processes before it began."""

    n_bytes: Count  # 0 where memory has no limit


class PhaseBegan(_Message):
    """A phase of the trial began; each has the whole budget of time."""

    phase: str


class Validated(_Message):
    """The values of a setting on one inner fold, by each of the measures that tune."""

    scaling: str
    params: dict[str, Any]
    n_steps: Count | None
    fold: Count
    values: list[float]


class Tuned(_Message):
    """The candidate with the highest mean over the inner folds, by one of the measures that tune.

    `n_steps` is the best checkpoint, None for a learner without steps or where the candidates name
    it.  The seconds are those of all folds and measures, as if one had followed the other.
    """

    scaling: str
    params: dict[str, Any]
    n_steps: Count | None = None
    last_checkpoint: Count | None = None  # the largest that was validated with these parameters
    blend: float | None = None  # the weight b (see `plugins.blending`); None where not blended
    baseline_scaling: str | None = None  # of the rows of its baseline, tuned apart
    blend_values: list[float] = []  # of this blend on the inner folds
    fit_seconds: Seconds = 0.0
    score_seconds: Seconds = 0.0


class Fitted(_Message):
    """The final fit has ended; the fitted learner comes with this message, as a file.

    What it took is as `oasis_bench.trial.learner_side.meter.Cost` says.
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

    It comes last of a fit, off the clock, where the learner is blended.  What has no file must not
    come just before what has one: both may be read at once.
    """

    learned_sd: NotNegative


class Saved(_Message):
    """The fitted learner as a model file comes with this message, or the reason why it cannot."""

    reason: str | None = None


class Loaded(_Message):
    """A saved model takes the place of a fit; the fitted learner comes as with `Fitted`."""

    threads: Count
    symmetry_index: float | None
    numbers: Numbers = {}


class Scores(_Message):
    """The scores of the next `n_queries` items against a gallery; their bytes follow the line."""

    gallery: Annotated[str, Meta(pattern=r"^(test|training)\Z")]
    n_queries: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    dtype: Annotated[str, Meta(pattern=r"^float(32|64)\Z")]

    def n_bytes(self, n_gallery: int) -> int:
        """Return how many bytes follow; raise MessageError where they are too many."""
        n_bytes = self.n_queries * n_gallery * np.dtype(self.dtype).itemsize
        if self.n_queries > 1 and n_bytes > MOST_SCORE_BYTES:
            raise MessageError(f"{n_bytes} bytes of scores in one message")
        return n_bytes


class Queried(_Message):
    """All scores have been sent; what computing them took, and what reading the learner took."""

    seconds: Seconds
    cpu_seconds: Seconds


class Replayed(_Message):
    """The replay has come to `n_steps`: the scores that follow are of that learner."""

    n_steps: Count
    symmetry_index: float | None


class Ended(_Message):
    """The last message of a stage: its status, and why it is not 'ok'; long texts are cut."""

    status: Annotated[str, Meta(pattern=r"^(ok|failed|out of memory|timeout|not applicable)\Z")]
    reason: str | None = None
    traceback: str | None = None

    def __post_init__(self) -> None:
        self.reason = self.reason and Text.printable(Text.cut(self.reason), keep="\n\t")
        self.traceback = self.traceback and Text.printable(Text.cut(self.traceback), keep="\n\t")


Message: TypeAlias = (
    Started
    | PhaseBegan
    | Validated
    | Tuned
    | Fitted
    | Compared
    | Saved
    | Loaded
    | Scores
    | Queried
    | Replayed
    | Ended
)
WITH_FILE = (Fitted, Saved, Loaded)
"""The messages that a file comes with."""

ScoreArray = npt.NDArray[np.floating]

_encoder = msgspec.json.Encoder(enc_hook=lambda value: value.item())  # scalars of NumPy
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def to_line(message: Message) -> bytes:
    """Write a message as a line of JSON."""
    return _encoder.encode(message) + b"\n"


def from_line(line: bytes) -> Message:
    """Read what `to_line` wrote; raise MessageError where the line is something else."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MessageError(f"not a message of a trial: {error}") from error


@dataclass(frozen=True)
class Stage:
    """One stage of a trial, as its process gets it."""

    name: StageName
    spec: TrialSpec  # as `for_learner` makes it: without what the learner must not know
    tuned: Tuned  # what to fit; in the stage 'tune' the first candidate
    galleries: tuple[str, ...]  # of the tasks that this fit is for: 'test', 'training'
    server: int  # the process number below which all processes of the trial are


def checkpoints(max_steps: int) -> list[int]:
    """Space the checkpoints by a factor of sqrt(2), from 500 steps to `max_steps`."""
    steps = (FIRST_CHECKPOINT * 2 ** (power / 2) for power in range(80))
    return [*(round(step) for step in steps if step < max_steps), max_steps]


def is_blended(spec: TrialSpec, learner: type[MetricLearner]) -> bool:
    """Tell whether a learner's similarity is blended with the Euclidean baseline's."""
    is_on = spec.experiment.blend == "on" and learner.takes == "rows"
    return is_on and not is_the_baseline(learner)


def needs_search(spec: TrialSpec, learner: type[MetricLearner]) -> bool:
    """Tell whether the inner folds have hyper-parameters or a number of steps to choose."""
    by_steps = (
        issubclass(learner, IncrementalLearner) and "n_steps" not in spec.candidates[0].params
    )
    return by_steps or len(spec.candidates) > 1


def needs_tuning(spec: TrialSpec, learner: type[MetricLearner]) -> bool:
    """Tell whether the inner folds have anything to choose: the weight of a blend, too."""
    return needs_search(spec, learner) or is_blended(spec, learner)


def folds_at_once(spec: TrialSpec) -> int:
    """Return how many inner folds may be at work at a time: off the clock, on cores that are idle.

    One where trials share cores, where fits use several threads, and where memory has a limit,
    which side by side could be too small for what fits into it in turn.
    """
    alone = spec.experiment.threads == 1 and not spec.shares_cores and spec.memory.n_bytes is None
    return min(Machine.cores(), spec.experiment.inner_folds) if alone else 1


def learn_preparation(
    learner: type[MetricLearner],
    scaling: str,
    X: Any,
    encoding: Encoding | None = None,
    saved: Sequence[Any] | None = None,
) -> list[Any]:
    """Fit the transformers that turn items as the data set gives them into those of a learner.

    Rows are prepared, where they have an `encoding`, and scaled with statistics of `X`, or by
    steps that were `saved` with a model, then made dense for a learner that takes no sparse ones;
    pixels and patches stay as they are.
    """
    if learner.takes != "rows":
        return []
    return Scaling.learn_steps(scaling, X, learner.takes_sparse, encoding, saved)
