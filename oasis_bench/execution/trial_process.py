"""One trial in a process of its own: started, listened to, and held to its budget.

That process runs a plugin's code: what it sends is read as lines of JSON, and never waited for.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.data.scaling import learn_preparation
from oasis_bench.execution import WARM_UP
from oasis_bench.execution.fork_server import borrow
from oasis_bench.execution.rows_file import RowsFile
from oasis_bench.experiment.budget import Budget
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.plugins.registry import load_registry
from oasis_bench.system import threads
from oasis_bench.system.processes import bytes_below, exceeds, limit_memory, system_kills
from oasis_bench.tasks.retrieval import evaluate_ranking
from oasis_bench.trial.messages import WAIT, Account
from oasis_bench.trial.record import TrialRecord
from oasis_bench.trial.stages import run_stage

LOOK_SECONDS, LONG_LOOK_SECONDS = 0.05, 1.0
"""How often a trial with a limit of memory is looked at, and any other."""

LONGEST_LINE = 16 * 2**20
"""Bytes of a message."""

LONGEST_LOG = 64 * 2**20
"""Bytes of output that are kept."""

_TURN = b"t"


def warm_up() -> None:
    """Do once, in a process that trials are forked off, what each would do again: first calls."""
    learner = load_registry().algorithms["Euclidean"]()
    with threadpool_limits(1):
        rows = np.eye(4)
        y = np.array([0, 0, 1, 1])
        rows = learn_preparation("l2", rows)(rows)
        evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
    # A trial's collections look at what it has made itself, and free nothing that it shares.
    gc.collect()
    gc.freeze()


class TrialProcess:
    """A trial under way: it prepares, and waits to be let go before anything of it is timed.

    Parameters
    ----------
    spec : TrialSpec
    n_features : int
        Of the rows.
    rows_file : RowsFile
    output_log : Path
        Where what the learner prints is appended.
    """

    def __init__(
        self,
        spec: TrialSpec,
        n_features: int,
        rows_file: RowsFile,
        output_log: Path,
    ) -> None:
        self._rows_file, self._output_log = rows_file, output_log
        self._account = Account(spec, n_features)
        self._has_turn = False
        self._unfinished = b""  # a line whose end has not come yet
        self._start(None)

    @property
    def record(self) -> TrialRecord | None:
        """What it came to, once it has ended."""
        return self._account.record

    @property
    def is_off_the_clock(self) -> bool:
        """Whether all that is timed is over."""
        return self._account.is_off_the_clock

    @property
    def waits_for(self) -> list[Any]:
        """What `multiprocessing.connection.wait` should wait for before `look` is called."""
        return [self._server.sentinel, *([self._messages] if self._may_tell else [])]

    @property
    def next_look(self) -> float:
        """Seconds until `look` must be called at the latest."""
        longest = LONG_LOOK_SECONDS if self._budget.n_bytes is None else LOOK_SECONDS
        if self._deadline is None:
            return longest
        return min(longest, max(0.0, self._deadline - time.monotonic()))

    def let_go(self) -> None:
        """Let it take the time, now or as soon as it is prepared; what it begins has its budget."""
        if not self._has_turn:
            self._has_turn = True
            self._kills_before = system_kills()
            self._give_turn()
            self._allow()

    def look(self) -> None:
        """Take in what there is to know, while there is no record; make it where it has ended."""
        account = self._account
        exit_code = self._server.exit_code()  # first: what it sent last is still heard
        try:
            for line in self._lines():
                account.hear(json.loads(line))
                self._allow()
        except (ValueError, TypeError, LookupError):
            account.stop("crashed", "what its process sent cannot be read")
        if account.record is None and account.choice is not None:
            self.kill()
            choice, account.choice = account.choice, None
            self._start(choice)
        elif account.record is None and exit_code is not None:
            account.stop(*self._cause_of_death(exit_code))
        elif account.record is None:
            self._hold_to_budget()
        if account.record is not None:
            self.kill()
        _shorten(self._output_log)

    def kill(self) -> None:
        """End the process and all that it started."""
        self._server.end()
        self._server.release()
        self._messages.close()

    def _lines(self) -> Iterator[bytes]:
        """Yield the whole lines that have come, without waiting.

        One read a look, more than a socket holds by default: the budget is looked at in between.
        """
        try:
            part = os.read(self._messages.fileno(), 2**20)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it has ended, and had not read that it is its turn
            part = b""
        self._may_tell = bool(part)
        *lines, self._unfinished = (self._unfinished + part).split(b"\n")
        yield from lines
        if len(self._unfinished) > LONGEST_LINE:
            raise ValueError("a line without an end")

    @property
    def _budget(self) -> Budget:
        return self._account.spec.budget

    def _start(self, choice: Mapping[str, Any] | None) -> None:
        self._server = borrow(WARM_UP)
        self._messages, theirs = connection.Pipe()
        os.set_blocking(self._messages.fileno(), False)
        self._unfinished, self._may_tell = b"", True
        self._kills_before = system_kills()
        arguments = self._account.spec, choice, self._rows_file, self._output_log
        self._server.start(_main, *arguments, messages=theirs.fileno())
        theirs.close()
        if self._has_turn:
            self._give_turn()
        self._allow()

    def _give_turn(self) -> None:
        with suppress(OSError):  # it is dead
            os.write(self._messages.fileno(), _TURN)

    def _allow(self) -> None:
        """Give the phase that begins its time."""
        waits = self._account.phase == WAIT and not self._has_turn
        seconds = None if waits else self._budget.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def _hold_to_budget(self) -> None:
        budget, account = self._budget, self._account
        if self._deadline is not None and time.monotonic() > self._deadline:
            reason = f"{account.phase} took longer than the budget of {budget.seconds:g} s"
            account.stop("timeout", reason)
        elif budget.n_bytes is not None and exceeds(
            self._server.pid, account.first_bytes + budget.n_bytes
        ):
            limit = f"{budget.n_bytes / 2**20:,.0f} MiB"
            account.stop("out of memory", f"{account.phase} took more than {limit}")

    def _cause_of_death(self, code: int) -> tuple[str, str]:
        if code == -signal.SIGKILL and system_kills() > self._kills_before:
            return "out of memory", f"the system killed it during {self._account.phase}"
        how = (
            f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        )
        return "crashed", f"{how} during {self._account.phase}"


def _main(
    spec: TrialSpec,
    choice: Mapping[str, Any] | None,
    rows_file: RowsFile,
    output_log: Path,
    messages: int,
) -> None:
    """Run one stage of a trial: the main function of its process."""
    os.environ.update(dict.fromkeys(threads.VARIABLES, str(spec.experiment.threads)))
    log = os.open(output_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())

    def tell(message: Mapping[str, Any]) -> None:
        line = json.dumps(message, default=lambda value: value.item())  # NumPy's scalars
        left = memoryview(line.encode() + b"\n")
        while left:
            left = left[os.write(messages, left) :]

    def await_turn() -> None:
        tell({"phase": WAIT})
        os.read(messages, len(_TURN))

    rows = rows_file.map()
    if spec.budget.n_bytes is not None:
        tell({"memory": bytes_below(os.getppid())})
        limit_memory(spec.budget.n_bytes)
    run_stage(spec, rows, choice, tell, await_turn)


def _shorten(log: Path) -> None:
    """Empty a log that grew too long: it must not fill the disk."""
    with suppress(OSError):
        if log.stat().st_size > LONGEST_LOG:
            os.truncate(log, 0)
            with log.open("a") as file:
                file.write(f"[what was printed before exceeded {LONGEST_LOG} bytes: dropped]\n")
