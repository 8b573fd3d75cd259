"""The harness's end of the line to a trial's process, as the stages use it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from typing import Any, NoReturn, TypeAlias

from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import ScoreReader
from oasis_bench.trial.harness_side.findings import task_at_work
from oasis_bench.trial.harness_side.inbox import ROUGH_SECONDS, WALL_SECONDS, HarnessClock, Inbox

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
