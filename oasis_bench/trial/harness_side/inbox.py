"""The harness's view of a trial's processes: the messages they send, and the time they take.

Nothing here waits for these processes, because they run a plugin's code.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from oasis_bench.system import Processes
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import KeptRows, ScoreReader
from oasis_bench.trial.harness_side.findings import task_at_work

LONGEST_LINE = 2**20
"""Limit of the bytes of a message, without the scores that follow it."""


class Inbox:
    """Assembles messages, their files, and scores."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line = line
        self._text = bytearray()
        self._content: bytearray | None = None  # scores, not complete yet
        self._missing = 0
        self._file: int | None = None
        self.is_open = True

    def read(self) -> bool:
        """Read once from the line, without waiting; return whether any bytes came."""
        try:
            if self._content is not None and self._missing:
                n_read = self._line.recv_into(memoryview(self._content)[-self._missing :])
                self._missing -= n_read
            else:
                part, files, _, _ = socket.recv_fds(self._line, 2**20, 1)
                n_read = len(part)
                self._text += part
                for file in files:
                    self._drop_file()
                    self._file = file
        except BlockingIOError:
            return False
        except OSError:  # the process has died
            n_read = 0
        self.is_open = n_read > 0
        return self.is_open

    def next_message(self) -> wall.Message | None:
        """Return the next complete message, or None; its file is kept for `take_file`.

        Raise MessageError if a line is not a message.
        """
        line, end, rest = self._text.partition(b"\n")
        if not end:
            if len(line) > LONGEST_LINE:
                raise wall.MessageError("a line without an end")
            return None
        message = wall.from_line(bytes(line))
        self._text = rest
        if not isinstance(message, wall.WITH_FILE):
            self._drop_file()
        return message

    def take_file(self) -> int:
        """Return the file that came with the message; raise MessageError if it is not sealed.

        Otherwise the process could change it after it has seen the test items.
        """
        if self._file is None:
            raise wall.MessageError("the fitted learner did not come with the message")
        if not wall.is_sealed(self._file):
            raise wall.MessageError("the file that came with the message is not sealed")
        file, self._file = self._file, None
        return file

    def next_bytes(self, n_bytes: int) -> bytearray | None:
        """Return the next `n_bytes`, or None until all have come."""
        if self._content is None:
            self._content = bytearray(n_bytes)
            here = min(len(self._text), n_bytes)
            self._content[:here] = self._text[:here]
            self._text = self._text[here:]
            self._missing = n_bytes - here
        if self._missing:
            return None
        content, self._content = self._content, None
        return content

    def send_file(self, file: int) -> None:
        """Send a file to the process."""
        with suppress(OSError):  # it has died: the server reports it
            socket.send_fds(self._line, [b"f"], [file])

    def go_on(self) -> None:
        """Let the process go on."""
        with suppress(OSError):
            self._line.send(b"g")

    def close(self) -> None:
        """Close the line."""
        self._drop_file()
        self._line.close()

    def _drop_file(self) -> None:
        """Close a file that belongs to no message."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


# --- the harness's clock: it measures a stage from outside, where no learner can reach it
#
# It also measures work around the timed code.  So the time that the process reports is used if it
# is within a tolerance of this clock; otherwise the time of this clock is used.

SHARE, CPU_SECONDS, WALL_SECONDS = 0.1, 0.03, 0.3
"""The tolerance: a share of the reported time, and seconds of processor and wall-clock time.

Messages wait for a core, so on a busy machine the wall-clock time from outside is less exact.
"""

ROUGH_SECONDS = 1.0
"""The tolerance for tuning, and for wall-clock time if trials share cores."""

UNCLOCKED_RATE = 100e6
"""Bytes a second that a stage copies for the harness."""

CLOCK_IN_WORDS = (
    "The learner’s process reports its times, and the harness also measures them from outside. The "
    "reported time is used if the time measured from outside is hardly longer: by at most "
    f"{SHARE:.0%}, plus {1000 * CPU_SECONDS:.0f} ms of processor time or {1000 * WALL_SECONDS:.0f} "
    f"ms of wall-clock time ({ROUGH_SECONDS:g} s for tuning, and for wall-clock time if trials "
    f"share cores), plus {1e9 / UNCLOCKED_RATE:.0f} ms for each MB that the process sends. "
    "Otherwise the time measured from outside is used."
)
"""For reports."""


class HarnessClock:
    """Times a stage from outside; all processes of the stage run below the process `server`.

    A learner may replace the clocks of its own process, or work before they start.
    """

    def __init__(
        self, server: int, wall_tolerance: float = WALL_SECONDS, tolerance: float = CPU_SECONDS
    ) -> None:
        self._server = server
        self._tolerance, self._wall_tolerance = tolerance, wall_tolerance
        self._cpu_start = Processes(server).cpu_seconds(but=os.getpid())
        self._start = time.monotonic()

    def subtract(self, seconds: float = 0.0, n_bytes: int = 0) -> None:
        """Leave out time that the harness took, and the time to copy so many bytes."""
        self._start += seconds + n_bytes / UNCLOCKED_RATE
        self._cpu_start += n_bytes / UNCLOCKED_RATE

    def charge(self, seconds: float, cpu_seconds: float) -> tuple[float, float]:
        """Return the reported times, or this clock's if they are longer than tolerated."""
        cpu = Processes(self._server).cpu_seconds(but=os.getpid()) - self._cpu_start
        elapsed = time.monotonic() - self._start
        if cpu > cpu_seconds * (1 + SHARE) + self._tolerance:
            return max(seconds, elapsed), cpu
        is_near = elapsed <= seconds * (1 + SHARE) + self._wall_tolerance
        return seconds if is_near else elapsed, cpu_seconds


Expected: TypeAlias = type[wall.Message] | tuple[type[wall.Message], ...] | int
"""The next message's type, the types that are allowed, or the number of bytes that come next."""

Talk: TypeAlias = Generator[Expected, Any, None]
PointsTalk: TypeAlias = Generator[Expected, Any, npt.NDArray[np.float64]]


class Line:
    """The line to the process of the current stage.

    With `rough` the harness may be busy with another trial when a message comes.
    """

    inbox: Inbox
    stage: wall.StageName

    def __init__(self, rough: bool) -> None:
        self.phase = "the start"
        self._wall_tolerance = ROUGH_SECONDS if rough else WALL_SECONDS

    def connect(self, server: int, line: socket.socket, begin_phase: Callable[[], object]) -> None:
        """Connect to the process of the next stage, which runs below the process `server`."""
        self.inbox = Inbox(line)
        self.server, self._begin_phase = server, begin_phase

    def give(self, file: int) -> None:
        """Send a file to the process."""
        self.inbox.send_file(file)

    def clock(self) -> HarnessClock:
        """Start the harness's clock."""
        return HarnessClock(self.server, self._wall_tolerance)

    def began(self, phase: str) -> Talk:
        """Receive the beginning of a phase."""
        self.begin((yield wall.PhaseBegan), phase)

    def begin(self, message: wall.PhaseBegan, *phases: str) -> None:
        """Begin one of these phases, with the full time budget."""
        if message.phase not in phases:
            self.refuse(message)
        self.phase = message.phase
        self._begin_phase()

    def scores(
        self,
        reader: ScoreReader,
        clock: HarnessClock | None = None,
        keep: Callable[[wall.Scores, bytearray], object] = lambda message, scores: None,
    ) -> Talk:
        """Evaluate the scores of one gallery; the time for this is not charged."""
        while not reader.is_complete:
            message = yield wall.Scores
            scores = yield reader.n_bytes(message)
            start = time.monotonic()
            with task_at_work():
                reader.add(message, scores)
            keep(message, scores)
            if clock is not None:
                clock.subtract(time.monotonic() - start, len(scores))
                self.inbox.go_on()

    def points(self, gallery: str, n_items: int, n_classes: int) -> PointsTalk:
        """Receive the points of items, one for each, of shape (n_items, n_classes)."""
        kept = KeptRows(range(n_items), n_classes)
        yield from self.scores(ScoreReader(gallery, n_items, n_classes, (kept,)))
        return kept.rows

    def refuse(self, message: wall.Message) -> NoReturn:
        """Raise MessageError for a message that is not allowed now."""
        raise wall.MessageError(f"{type(message).__name__} may not come in stage {self.stage!r}")
