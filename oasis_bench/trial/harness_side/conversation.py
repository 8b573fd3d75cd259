"""A running trial on the harness's side: it receives the messages of its stages, in order.

Each stage is a generator of `harness_side.stages` that mirrors the learner's half
(`oasis_bench.trial.learner_side.stages`) line by line.  Where the learner sends a message, the
generator yields its type and gets the message; where the learner waits for items, the generator
sends them.  Any other message ends the trial.

`oasis_bench.execution` starts the processes and enforces their budget.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.findings import EndsTrialError
from oasis_bench.trial.harness_side.inbox import Expected, Line, Talk
from oasis_bench.trial.harness_side.result import PrintedOutput, TrialResult
from oasis_bench.trial.harness_side.rows import Status
from oasis_bench.trial.harness_side.stages import Trial, stages_of


class Conversation:
    """A running trial; `result` is set when it has ended.

    `line` has its current phase and the inbox for messages of its current process.
    The output of its processes is appended to `log`, a file in the folder of the run.
    """

    def __init__(self, trial: Trial, log: Path) -> None:
        self._trial, self.spec, self.learner = trial, trial.spec, trial.learner
        self.first_bytes: int | None = None  # memory of the processes before the stage
        self.result: TrialResult | None = None
        self.line = Line(rough=trial.spec.shares_cores)
        self._left = stages_of(self._trial, self.line)
        self.printed = PrintedOutput(trial.spec, log)
        self.next_stage()

    def next_stage(self) -> bool:
        """Begin the next stage and return True; without one, end the trial and return False."""
        self.line.phase, self.first_bytes = "the start", None
        stage = next(self._left, None)
        if stage is None:
            self.end("ok")
            return False
        self.line.stage, work = stage
        self._talk = self._whole(work)
        self._expected: Expected = next(self._talk)
        return True

    def start(
        self, server: int, line: socket.socket, begin_phase: Callable[[], object]
    ) -> wall.Stage:
        """Connect to the process of the stage, and return the stage.

        The process runs below `server`; ``begin_phase()`` restarts its time budget.
        """
        self.line.connect(server, line, begin_phase)
        return self._trial.begun(self.line.stage, server)

    def listen(self) -> bool:
        """Handle all received messages; return whether the stage has ended without error.

        An unexpected message ends the trial.
        """
        line = self.line
        try:
            while self.result is None:
                came: Any
                wanted: Any = self._expected
                if isinstance(wanted, int):
                    came, wanted = line.inbox.next_bytes(wanted), bytearray
                else:
                    came = line.inbox.next_message()
                if came is None:
                    return False
                if isinstance(came, wall.Ended) and came.status != "ok":
                    self.end(came.status, came.reason, came.traceback)
                elif isinstance(came, wanted):
                    self._expected = self._talk.send(came)
                else:
                    line.refuse(came)
        except StopIteration:
            return True
        except EndsTrialError as error:
            self.end("failed", *error.args)
        except wall.MessageError as error:
            self.end("crashed", f"what its process sent cannot be read: {error}")
        return False

    def _whole(self, work: Talk) -> Talk:
        """Handle the messages of one process."""
        self.first_bytes = (yield wall.Started).n_bytes
        yield from work
        yield wall.Ended

    def end(self, status: Status, reason: str | None = None, traceback: str | None = None) -> None:
        """Make the result of a trial that has ended or was stopped."""
        self.result = self._trial.findings.result(status, reason, traceback)
        self.close()

    def close(self) -> None:
        """Close the file of the fitted learner, and remove unfinished files."""
        self._trial.findings.discard()
