"""One trial in processes of its own: started, followed by its messages, and held to its budget.

Those processes run a plugin's code: nothing here waits without a limit of time for what they send.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.data import learn_scaling
from oasis_bench.execution.fork_server import END_SECONDS, borrow, give_back
from oasis_bench.plugins import load_registry
from oasis_bench.system import (
    THREAD_VARIABLES,
    OutputError,
    blas_threads,
    bytes_below,
    exceeds,
    limit_memory,
    oom_kills,
)
from oasis_bench.tasks import USUAL, evaluate_ranking
from oasis_bench.trial import (
    WITH_FILE,
    Message,
    MessageError,
    PhaseBegan,
    PrintedOutput,
    ScoreArray,
    Scores,
    Stage,
    Started,
    TrialResult,
    TrialState,
    from_line,
    run_stage,
    to_line,
)

POLL_SECONDS, LONG_POLL_SECONDS = 0.05, 1.0
"""Seconds between two looks at a trial with a limit of memory, and at one without."""

LONGEST_LINE = 2**20
"""Bytes of a message, without the scores that follow it."""


def warm_up() -> None:
    """Make the slow first calls once, in the fork server, so that no trial has to make them."""
    registry = load_registry()
    _ = registry.splits[USUAL]  # it imports the folds of scikit-learn
    learner = registry.algorithms["Euclidean"]()
    with threadpool_limits(1):
        rows = np.eye(4)
        y = np.array([0, 0, 1, 1])
        rows = learn_scaling("l2", rows)(rows)
        evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
    blas_threads()
    # Then a fork's garbage collector does not write to pages that it shares with the server.
    gc.collect()
    gc.freeze()


class _Inbox:
    """The harness's end of the line: puts together messages, their scores and their files."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line = line
        self._text = bytearray()
        self._message: Message | None = None  # whose scores have not all come
        self._content = bytearray()
        self._missing = 0
        self._file: int | None = None
        self.is_open = True

    def read(self) -> bool:
        """Read once what has come, without waiting; tell whether anything has."""
        try:
            if self._missing:
                n_read = self._line.recv_into(memoryview(self._content)[-self._missing :])
                self._missing -= n_read
            else:
                part, files, _, _ = socket.recv_fds(self._line, 2**20, 1)
                n_read = len(part)
                self._text += part
                for file in files:
                    self.drop_file()
                    self._file = file
        except BlockingIOError:
            return False
        except OSError:  # the process has died
            n_read = 0
        self.is_open = n_read > 0
        return self.is_open

    def next(self, state: TrialState) -> tuple[Message, bytearray, int | None] | None:
        """Return the next message that is complete, its scores and its file; None without one.

        Raises
        ------
        MessageError
            Where what came is none.
        """
        if self._message is None:
            line, end, rest = self._text.partition(b"\n")
            if not end:
                if len(line) > LONGEST_LINE:
                    raise MessageError("a line without an end")
                return None
            self._message = from_line(bytes(line))
            self._content = bytearray(state.n_bytes_after(self._message))
            here = min(len(rest), len(self._content))
            self._content[:here] = rest[:here]
            self._missing = len(self._content) - here
            self._text = rest[here:]
        if self._missing:
            return None
        found = self._message, self._content, self._file
        self._message, self._content, self._file = None, bytearray(), None
        return found

    def drop_file(self) -> None:
        """Close a file that belongs to no message."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def send_file(self, file: int) -> None:
        """Send a file to the process."""
        with suppress(OSError):  # it has died: the server reports it
            socket.send_fds(self._line, [b"f"], [file])

    def close(self) -> None:
        """Close the line."""
        self.drop_file()
        self._line.close()


class TrialProcess:
    """A trial under way; what its learner prints is appended to `output_log`."""

    def __init__(self, state: TrialState, output_log: Path) -> None:
        self._state = state
        self._printed = PrintedOutput(state.spec, output_log)
        self._budget = state.spec.budget
        self._start_stage()

    @property
    def record(self) -> TrialResult | None:
        """The result of the trial, once it has ended."""
        return self._state.record

    @property
    def waits_for(self) -> list[Any]:
        """What `multiprocessing.connection.wait` should wait for before `poll` is called."""
        server = self._server.sentinel  # closed where the server has died
        return [
            *([] if server.closed else [server]),
            *([self._line] if self._inbox.is_open else []),
        ]

    @property
    def seconds_to_poll(self) -> float:
        """Seconds until `poll` must be called at the latest."""
        longest = LONG_POLL_SECONDS if self._budget.n_bytes is None else POLL_SECONDS
        return min(longest, max(0.0, self._deadline - time.monotonic()))

    def poll(self) -> None:
        """Read what was sent, hold the trial to its budget, make its record where it has ended."""
        state = self._state
        exit_code = self._server.exit_code()  # first: what it sent before its end is still read
        if self._deadline == math.inf and self._server.is_ready:
            self._begin_phase()
        try:
            has_read = self._inbox.read()
            while state.record is None and (found := self._inbox.next(state)) is not None:
                self._take(*found)
                if state.stage_has_ended:
                    break
        except MessageError as error:
            state.end("crashed", f"what its process sent cannot be read: {error}")
        if state.record is None and state.stage_has_ended:
            self.end()
            self._start_stage()
        elif state.record is None and exit_code is not None and not has_read:
            state.end(*self._cause_of_death(exit_code))
        elif state.record is None:
            self._hold_to_budget()
        if state.record is not None:
            self.end()
            self._printed.end()
        else:
            self._printed.shorten()

    def end(self) -> None:
        """End the process of the stage and all that it started."""
        self._inbox.close()
        self._server.end()
        give_back(self._server)

    def close(self) -> None:
        """End the trial, where it has not ended."""
        if self._state.record is None:
            self.end()
            self._state.close()
            with suppress(OutputError):  # what ended the run is raised
                self._printed.end()

    def _take(self, message: Message, content: bytearray, file: int | None) -> None:
        start = time.monotonic()
        if file is not None and not isinstance(message, WITH_FILE):
            os.close(file)
            file = None
        try:
            self._state.add(message, content, file)
        except MessageError:
            if file is not None:
                os.close(file)
            raise
        if self._state.record is not None:
            return
        for sent in self._state.files(message):
            self._inbox.send_file(sent)
        now = time.monotonic()
        if isinstance(message, PhaseBegan):
            self._begin_phase()
        elif isinstance(message, Scores):
            self._deadline += now - start  # evaluating them is not the learner's time

    def _start_stage(self) -> None:
        self._server = borrow()
        self._line, theirs = socket.socketpair()
        self._inbox = _Inbox(self._line)
        self._kills_before = oom_kills()
        stage = self._state.stage(self._server.pid)
        self._state.stage_has_ended = False
        self._server.start(_main, stage, line=theirs.fileno())
        theirs.close()
        self._inbox.send_file(self._printed.descriptor)
        self._deadline = math.inf  # the time begins when the server is ready

    def _begin_phase(self) -> None:
        """Give a phase, of which the start of the process is the first, the whole budget."""
        self._deadline = time.monotonic() + (self._budget.seconds or math.inf)

    def _hold_to_budget(self) -> None:
        budget, state, now = self._budget, self._state, time.monotonic()
        if not self._inbox.is_open:  # then the end of its process is due
            self._deadline = min(self._deadline, now + END_SECONDS)
        if now > self._deadline and not self._inbox.is_open:
            state.end("crashed", f"closed its connection with the harness during {state.phase}")
        elif now > self._deadline:
            reason = f"{state.phase} took longer than the budget of {budget.seconds:g} s"
            state.end("timeout", reason)
        elif (
            budget.n_bytes is not None
            and state.first_bytes is not None
            and exceeds(self._server.pid, state.first_bytes + budget.n_bytes)
        ):
            limit = f"{budget.n_bytes / 2**20:,.0f} MiB"
            state.end("out of memory", f"{state.phase} took more than {limit}")

    def _cause_of_death(self, code: int) -> tuple[str, str]:
        phase = self._state.phase
        if code == -signal.SIGKILL and oom_kills() > self._kills_before:
            return "out of memory", f"the system killed it during {phase}"
        how = f"exited with status {code}"
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"killed by {names.get(-code, f'signal {-code}')}"  # some have no name
        return "crashed", f"{how} during {phase}"


class _SocketLine:
    """The process's end of the line; see `oasis_bench.trial.stages.Line`."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, message: Message, descriptor: int | None = None) -> None:
        line = to_line(message)
        files = [] if descriptor is None else [descriptor]
        n_sent = socket.send_fds(self._socket, [line], files)
        if n_sent < len(line):
            self._socket.sendall(line[n_sent:])

    def send_scores(self, message: Scores, scores: ScoreArray) -> None:
        self.send(message)
        self._socket.sendall(scores.data.cast("B"))

    def receive_file(self) -> int:
        _, files, _, _ = socket.recv_fds(self._socket, 1, 1)
        return files[0]


def _main(stage: Stage, line: int) -> None:
    """Run one stage of a trial: the main function of its process."""
    spec = stage.spec
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(spec.experiment.threads)))
    messages = _SocketLine(line)
    printed = messages.receive_file()
    for stream in (sys.stdout, sys.stderr):
        os.dup2(printed, stream.fileno())
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8", errors="backslashreplace")
    os.close(printed)
    if spec.budget.n_bytes is None:
        messages.send(Started(0))
    else:
        messages.send(Started(bytes_below(stage.server)))
        limit_memory(spec.budget.n_bytes)
    run_stage(stage, messages)
