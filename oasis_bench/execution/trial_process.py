"""One trial in processes of its own: started, followed by its messages, and held to its budget.

Those processes run a plugin's code: nothing here waits for what they send without a limit of time.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.data.scaling import learn_preparation
from oasis_bench.execution.fork_server import borrow, give_back
from oasis_bench.execution.rows_file import RowsFile
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.plugins.registry import load_registry
from oasis_bench.system import linux, threads
from oasis_bench.system.processes import bytes_below, exceeds
from oasis_bench.tasks.retrieval import evaluate_ranking
from oasis_bench.trial.messages import Chosen, Message, MessageError, Started, from_line, to_line
from oasis_bench.trial.record import TrialRecord
from oasis_bench.trial.record_builder import RecordBuilder
from oasis_bench.trial.stages import run_stage

LOOK_SECONDS, LONG_LOOK_SECONDS = 0.05, 1.0
"""Seconds between two looks at a trial with a limit of memory, and at one without."""

LONGEST_LINE = 16 * 2**20
"""Bytes of a message."""

LONGEST_LOG = 64 * 2**20
"""Bytes of output that are kept."""


def warm_up() -> None:
    """Make the slow first calls once, in the fork server, so that no trial has to make them."""
    learner = load_registry().algorithms["Euclidean"]()
    with threadpool_limits(1):
        rows = np.eye(4)
        y = np.array([0, 0, 1, 1])
        rows = learn_preparation("l2", rows)(rows)
        evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
    # Then a fork's garbage collector does not write to pages that it shares with the server.
    gc.collect()
    gc.freeze()


class TrialProcess:
    """A trial under way; what its learner prints is appended to `output_log`."""

    def __init__(
        self, spec: TrialSpec, n_features: int, rows_file: RowsFile, output_log: Path
    ) -> None:
        self._rows_file, self._output_log = rows_file, output_log
        self._builder = RecordBuilder(spec, n_features)
        self._budget = spec.budget
        self._deadline: float | None = None
        self._unfinished = b""  # a line whose end has not come yet
        self._start_stage(None)

    @property
    def record(self) -> TrialRecord | None:
        """The result of the trial, once it has ended."""
        return self._builder.record

    @property
    def waits_for(self) -> list[Any]:
        """What `multiprocessing.connection.wait` should wait for before `look` is called."""
        return [self._server.sentinel, *([self._messages] if self._may_send else [])]

    @property
    def next_look(self) -> float:
        """Seconds until `look` must be called at the latest."""
        longest = LONG_LOOK_SECONDS if self._budget.n_bytes is None else LOOK_SECONDS
        if self._deadline is None:
            return longest
        return min(longest, max(0.0, self._deadline - time.monotonic()))

    def look(self) -> None:
        """Read what was sent, hold the trial to its budget, make its record where it has ended."""
        builder = self._builder
        exit_code = self._server.exit_code()  # first: what it sent before its end is still read
        try:
            for line in self._lines():
                builder.add(from_line(line))
                if self._budget.seconds is not None:  # each phase has the whole of it
                    self._deadline = time.monotonic() + self._budget.seconds
        except MessageError:
            builder.end("crashed", "what its process sent cannot be read")
        if builder.record is None and builder.chosen is not None:
            self.end()
            chosen, builder.chosen = builder.chosen, None
            self._start_stage(chosen)
        elif builder.record is None and exit_code is not None:
            builder.end(*self._cause_of_death(exit_code))
        elif builder.record is None and builder.first_bytes is not None:
            self._hold_to_budget(builder.first_bytes)
        if builder.record is not None:
            self.end()
        _shorten(self._output_log)

    def end(self) -> None:
        """End the process of the stage and all that it started."""
        self._messages.close()
        self._server.end()
        give_back(self._server)

    def _lines(self) -> Iterator[bytes]:
        """Yield the complete lines that have arrived, without waiting.

        Each `look` reads once, up to 1 MiB, which is more than a pipe holds; so the budget is
        checked between two reads.
        """
        try:
            part = os.read(self._messages.fileno(), 2**20)
        except BlockingIOError:
            return
        self._may_send = bool(part)
        *lines, self._unfinished = (self._unfinished + part).split(b"\n")
        yield from lines
        if len(self._unfinished) > LONGEST_LINE:
            raise MessageError("a line without an end")

    def _start_stage(self, chosen: Chosen | None) -> None:
        self._server = borrow()
        self._messages, theirs = connection.Pipe(duplex=False)
        os.set_blocking(self._messages.fileno(), False)
        self._unfinished, self._may_send = b"", True
        self._kills_before = linux.oom_kills()
        stage = self._builder.spec, chosen, self._rows_file, self._output_log
        self._server.start(_main, *stage, self._server.pid, messages=theirs.fileno())
        theirs.close()
        self._deadline = None  # the time begins with the first message

    def _hold_to_budget(self, first_bytes: int) -> None:
        budget, builder = self._budget, self._builder
        if self._deadline is not None and time.monotonic() > self._deadline:
            reason = f"{builder.phase} took longer than the budget of {budget.seconds:g} s"
            builder.end("timeout", reason)
        elif budget.n_bytes is not None and exceeds(self._server.pid, first_bytes + budget.n_bytes):
            limit = f"{budget.n_bytes / 2**20:,.0f} MiB"
            builder.end("out of memory", f"{builder.phase} took more than {limit}")

    def _cause_of_death(self, code: int) -> tuple[str, str]:
        phase = self._builder.phase
        if code == -signal.SIGKILL and linux.oom_kills() > self._kills_before:
            return "out of memory", f"the system killed it during {phase}"
        how = (
            f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        )
        return "crashed", f"{how} during {phase}"


def _main(
    spec: TrialSpec,
    chosen: Chosen | None,
    rows_file: RowsFile,
    output_log: Path,
    server: int,
    messages: int,
) -> None:
    """Run one stage of a trial: the main function of its process, below the process `server`."""
    os.environ.update(dict.fromkeys(threads.VARIABLES, str(spec.experiment.threads)))
    log = os.open(output_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())

    def send(message: Message) -> None:
        left = memoryview(to_line(message))
        while left:
            left = left[os.write(messages, left) :]

    rows = rows_file.map()
    if spec.budget.n_bytes is None:
        send(Started(0))
    else:
        send(Started(bytes_below(server)))
        linux.limit_memory(spec.budget.n_bytes)
    run_stage(spec, rows, chosen, send)


def _shorten(log: Path) -> None:
    """Empty a log that grew too long: it must not fill the disk."""
    with suppress(OSError):
        if log.stat().st_size > LONGEST_LOG:
            os.truncate(log, 0)
            with log.open("a") as file:
                file.write(f"[what was printed before exceeded {LONGEST_LOG} bytes: dropped]\n")
