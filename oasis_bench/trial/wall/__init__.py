"""The wall of a trial: all that passes between the learner's side and the harness's side.

The learner's side runs a plugin's code: it never has a test label, and its clock is not trusted.
The harness's side has the test labels and the clock.  Neither imports the other.  What passes is
here: stages, phases that have a budget each, items in sealed files, and messages.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from oasis_bench.data import Encoding, Scaling
from oasis_bench.experiment import TrialSpec
from oasis_bench.plugins import IncrementalLearner, MetricLearner, is_the_baseline
from oasis_bench.system import Machine, Text, UsageError

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


# --- items and models in sealed files: they have no name, and nobody can change them
#
# Other processes map them by their descriptors.  On Linux such a file lies in memory; elsewhere it
# is a temporary one, opened for reading only.  Nothing is left of it when the last process that has
# it ends.

_IS_LINUX = sys.platform == "linux"

SEAL_SECONDS = 5.0
"""How long the kernel is asked to seal a file of which something holds a page."""

ALIGNMENT = 64
"""Bytes; arrays begin at multiples of it, as kernels like it."""


def seal_items(**parts: Any) -> int:
    """Write arrays, CSR arrays, patches and judgements into a sealed file; return its descriptor.

    The numbers of each array lie there as they are, after a pickle of what is made of them.
    """
    buffers: list[pickle.PickleBuffer] = []
    dense = {name: _in_rows(part) for name, part in parts.items()}
    whole = pickle.dumps(dense, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = pickle.dumps((whole, [view.nbytes for view in views]))

    def write(file: Any) -> None:
        for part in (len(head).to_bytes(8, "little") + head, *views):
            file.write(part)
            file.write(bytes(-len(part) % ALIGNMENT))

    return seal(write)


def map_items(descriptor: int) -> dict[str, Any]:
    """Map what `seal_items` wrote, for reading only; return it by name."""
    content = memoryview(map_bytes(descriptor))
    place = 8 + int.from_bytes(content[:8], "little")
    whole, sizes = pickle.loads(content[8:place])
    buffers = []
    for n_bytes in sizes:
        place += -place % ALIGNMENT
        buffers.append(content[place : place + n_bytes])
        place += n_bytes
    items: dict[str, Any] = pickle.loads(whole, buffers=buffers)
    return items


def _in_rows(part: Any) -> Any:
    """Return an array row after row; others as they are."""
    return np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part


def seal(write: Callable[[Any], object]) -> int:
    """Let `write` fill a new nameless file; return a descriptor that can only be read."""
    try:
        descriptor = memory_file()
        if descriptor is not None:
            with open(descriptor, "wb", closefd=False) as file:
                write(file)
            seal_memory_file(descriptor)
            return descriptor
        with tempfile.NamedTemporaryFile(prefix="oasis-bench-") as file:
            write(file)
            file.flush()
            return os.open(file.name, os.O_RDONLY)
    except OSError as error:
        raise UsageError(
            f"cannot keep the items of a trial in memory: {error.strerror or error}: free some"
        ) from error


def is_sealed(descriptor: int) -> bool:
    """Tell whether a file that came from elsewhere is one as `seal` makes them.

    Nobody can change such a file, and it takes as much memory as it is long: a copy of it cannot
    fill the disk because of a length that was only claimed.  On other systems than Linux this says
    only that it is a regular file.
    """
    status = os.fstat(descriptor)
    if not _IS_LINUX:
        return stat.S_ISREG(status.st_mode)
    try:
        has_seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() == _seals()
    except OSError:  # it is no file in memory
        return False
    return has_seals and 512 * status.st_blocks >= status.st_size


def map_bytes(descriptor: int) -> mmap.mmap:
    """Map a sealed file of at least one byte, for reading only."""
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def memory_file() -> int | None:
    """Make a file that lies in memory and has no name; return its descriptor."""
    if not _IS_LINUX:
        return None
    return os.memfd_create("oasis-bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal_memory_file(descriptor: int) -> None:
    """Forbid for ever, to every process, to change the file or its length.

    The kernel refuses (EBUSY) while anybody could still write to a page of the file, and while it
    holds a page itself, as where it moves memory.  So it is asked again for `SEAL_SECONDS`.
    """
    deadline = time.monotonic() + SEAL_SECONDS
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _seals() -> int:
    return fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
