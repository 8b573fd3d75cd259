"""What the harness sees of a trial's processes: what they send, put together, and their time.

Nothing here waits: those processes run a plugin's code.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from oasis_bench.system import Processes
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import ScoreReader
from oasis_bench.trial.harness_side.findings import task_at_work

LONGEST_LINE = 2**20
"""Bytes of a message, without the scores that follow it."""


class Inbox:
    """Puts together messages, their files, and scores."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line = line
        self._text = bytearray()
        self._content: bytearray | None = None  # of scores, not all of which have come
        self._missing = 0
        self._file: int | None = None
        self.is_open = True

    def read(self) -> bool:
        """Read once what has come, without waiting; tell whether anything has."""
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

    def next_message(self) -> tuple[wall.Message | None, int | None]:
        """Return the next message that is complete, and the file with it; None without one.

        Raise MessageError where what came is no message.
        """
        line, end, rest = self._text.partition(b"\n")
        if not end:
            if len(line) > LONGEST_LINE:
                raise wall.MessageError("a line without an end")
            return None, None
        message = wall.from_line(bytes(line))
        self._text = rest
        file = None
        if isinstance(message, wall.WITH_FILE):
            file, self._file = self._file, None
        self._drop_file()
        return message, file

    def next_bytes(self, n_bytes: int) -> bytearray | None:
        """Return so many bytes when all have come; None before."""
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

    def close(self) -> None:
        """Close the line."""
        self._drop_file()
        self._line.close()

    def _drop_file(self) -> None:
        """Close a file that belongs to no message."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


# --- the harness's clock, which no learner reaches: what a stage took, read from outside
#
# It also sees what a process does around the code that is timed.  So what that process says stands
# where it is within a tolerance of this clock; else this clock is charged.

SHARE, CPU_SECONDS, WALL_SECONDS = 0.1, 0.03, 0.3
"""The tolerance: a share of what is said, and seconds of processor time and of wall-clock time.

Messages wait for a core: on a busy machine wall-clock time is seen from outside less exactly.
"""

ROUGH_SECONDS = 1.0
"""In place of these for tuning, and for wall-clock time where trials share cores."""

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
    """A clock for what is timed of a stage, whose processes are all below the process `server`.

    A learner may replace the clocks of its process, or work there before they start.
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
        """Return what a stage says that it took, or what it took by this clock; see above."""
        cpu = Processes(self._server).cpu_seconds(but=os.getpid()) - self._cpu_start
        elapsed = time.monotonic() - self._start
        if cpu > cpu_seconds * (1 + SHARE) + self._tolerance:
            return max(seconds, elapsed), cpu
        is_near = elapsed <= seconds * (1 + SHARE) + self._wall_tolerance
        return seconds if is_near else elapsed, cpu_seconds


Expected: TypeAlias = type[wall.Message] | tuple[type[wall.Message], ...] | int
"""The type of the message that is to come next, the types of those that may, or so many bytes."""

Talk: TypeAlias = Generator[Expected, Any, None]


class Line:
    """The line to the process of one stage after the other.

    `rough` says that the harness may be at work for another trial when a message comes.
    """

    inbox: Inbox
    stage: wall.StageName

    def __init__(self, rough: bool) -> None:
        self.phase = "the start"
        self._wall_tolerance = ROUGH_SECONDS if rough else WALL_SECONDS
        self._file: int | None = None  # that came with the last message

    def connect(self, server: int, line: socket.socket, begin_phase: Callable[[], object]) -> None:
        """Begin with the process of the next stage, which is below the process `server`."""
        self.inbox = Inbox(line)
        self.server, self._begin_phase = server, begin_phase

    def give(self, file: int) -> None:
        """Send a file to the process."""
        self.inbox.send_file(file)

    def clock(self) -> HarnessClock:
        """Start the harness's clock."""
        return HarnessClock(self.server, self._wall_tolerance)

    def next_message(self) -> wall.Message | None:
        """Return the next message that has come, if one has; its file is kept for `take_file`."""
        message, self._file = self.inbox.next_message()
        return message

    def began(self, phase: str) -> Talk:
        """Expect that a phase begins."""
        self.begin((yield wall.PhaseBegan), phase)

    def begin(self, message: wall.PhaseBegan, *phases: str) -> None:
        """Begin one of these phases, with the whole budget of time."""
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
        """Evaluate the scores of one gallery; the time that it takes here is off the clock."""
        while not reader.is_complete:
            message = yield wall.Scores
            scores = yield reader.n_bytes(message)
            start = time.monotonic()
            with task_at_work():
                reader.add(message, scores)
            keep(message, scores)
            if clock is not None:
                clock.subtract(time.monotonic() - start, len(scores))

    @property
    def has_file(self) -> bool:
        """Whether a file came with the last message."""
        return self._file is not None

    def take_file(self) -> int:
        """Return the file that came with a message, which its process can no longer change.

        It could do so when it knows the test items.
        """
        if self._file is None:
            raise wall.MessageError("the fitted learner did not come with the message")
        if not wall.is_sealed(self._file):
            raise wall.MessageError("the file that came with the message is not sealed")
        file, self._file = self._file, None
        return file

    def drop_file(self) -> None:
        """Close a file that came and was not taken."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def refuse(self, message: wall.Message) -> NoReturn:
        """Raise MessageError for a message that may not come now."""
        raise wall.MessageError(f"{type(message).__name__} may not come in stage {self.stage!r}")
