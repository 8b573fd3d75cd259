"""One trial in processes of its own: started, listened to, and held to its budget.

The trial's process runs a plugin's code: what it sends is read as lines of JSON, and never waited
for.  Above it stands a process that runs none, and ends all that the trial has started when the
trial has ended, or nobody listens any more.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing import connection, forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from oasis_bench.account import Account
from oasis_bench.budget import Budget
from oasis_bench.execution.processes import (
    exceeds,
    isolate,
    kill_tree,
    limit_memory,
    run_supervised,
    system_kills,
    tree_bytes,
)
from oasis_bench.execution.rows_file import map_rows
from oasis_bench.plan import TrialSpec
from oasis_bench.store import TrialRecord
from oasis_bench.trial import run_stage

LOOK_SECONDS, LONG_LOOK_SECONDS = 0.05, 1.0
"""How often a trial with a limit of memory is looked at, and any other."""

LONGEST_LOG = 64 * 2**20
"""Bytes of output that are kept."""


def trial_context() -> BaseContext:
    """Fork trials off a server that has done the imports; where there is none, start Python."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["oasis_bench.execution.warm_server"])
    # The server inherits the mask: Ctrl-C is the parent's, which ends the server.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


class TrialProcess:
    """A trial under way.

    Parameters
    ----------
    context : BaseContext
    spec : TrialSpec
    n_features : int
        Of the rows.
    rows_folder : Path
        Holds them, as `write_rows` wrote them.
    output_log : Path
        Where what the learner prints is appended.
    """

    def __init__(
        self,
        context: BaseContext,
        spec: TrialSpec,
        n_features: int,
        rows_folder: Path,
        output_log: Path,
    ) -> None:
        self._context, self._paths = context, (rows_folder, output_log)
        self._account = Account(spec, n_features)
        self._unfinished = b""  # a line whose end has not come yet
        self._start(None)

    @property
    def waits_for(self) -> list[Any]:
        """What `multiprocessing.connection.wait` should wait for before `look` is called."""
        return [self._messages, self._process.sentinel]

    @property
    def next_look(self) -> float:
        """Seconds until `look` must be called at the latest."""
        longest = LONG_LOOK_SECONDS if self._budget.n_bytes is None else LOOK_SECONDS
        if self._deadline is None:
            return longest
        return min(longest, max(0.0, self._deadline - time.monotonic()))

    def look(self) -> TrialRecord | None:
        """Take in what there is to know; return the record once the trial has ended."""
        account = self._account
        alive = self._process.is_alive()  # before listening: what it sent last is still heard
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
        elif account.record is None and not alive:
            account.stop(*self._cause_of_death())
        elif account.record is None:
            self._hold_to_budget()
        if account.record is not None:
            self.kill()
        _shorten(self._paths[1])
        return account.record

    def kill(self) -> None:
        """End the process and all that it started."""
        # Where it has ended it has done so itself, and its number may be that of another.
        if self._process.is_alive():
            kill_tree(self._process.pid)
        self._process.join()
        self._messages.close()

    def _lines(self) -> Iterator[bytes]:
        """Yield the whole lines that have come, without waiting."""
        with suppress(BlockingIOError):
            while part := os.read(self._messages.fileno(), 2**20):
                *lines, self._unfinished = (self._unfinished + part).split(b"\n")
                yield from lines

    @property
    def _budget(self) -> Budget:
        return self._account.spec.budget

    def _start(self, choice: Mapping[str, Any] | None) -> None:
        self._messages, send = self._context.Pipe(duplex=False)
        os.set_blocking(self._messages.fileno(), False)
        self._unfinished = b""
        self._process = self._context.Process(  # type: ignore[attr-defined]
            target=_main, args=(self._account.spec, choice, *self._paths, send)
        )
        self._kills_before = system_kills()
        self._process.start()
        send.close()
        self._allow()

    def _allow(self) -> None:
        """Give the phase that begins its time."""
        seconds = self._budget.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def _hold_to_budget(self) -> None:
        budget, account = self._budget, self._account
        if self._deadline is not None and time.monotonic() > self._deadline:
            reason = f"{account.phase} took longer than the budget of {budget.seconds:g} s"
            account.stop("timeout", reason)
        elif budget.n_bytes is not None and exceeds(
            self._process.pid, account.first_bytes + budget.n_bytes
        ):
            limit = f"{budget.n_bytes / 2**20:,.0f} MiB"
            account.stop("out of memory", f"{account.phase} took more than {limit}")

    def _cause_of_death(self) -> tuple[str, str]:
        code = self._process.exitcode
        if code == -signal.SIGKILL and system_kills() > self._kills_before:
            return "out of memory", f"the system killed it during {self._account.phase}"
        how = (
            f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        )
        return "crashed", f"{how} during {self._account.phase}"


def _main(
    spec: TrialSpec,
    choice: Mapping[str, Any] | None,
    rows_folder: Path,
    output_log: Path,
    send: connection.Connection,
) -> None:
    """Run one stage of a trial: the main function of its process."""
    isolate()
    _let_server_go()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which kills this
    run_supervised(send.fileno())
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(spec.experiment.threads)
    log = os.open(output_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())

    def tell(message: Mapping[str, Any]) -> None:
        line = json.dumps(message, default=lambda value: value.item())  # NumPy's scalars
        left = memoryview(line.encode() + b"\n")
        while left:
            left = left[os.write(send.fileno(), left) :]

    rows = map_rows(rows_folder)
    if spec.budget.n_bytes is not None:
        tell({"memory": tree_bytes(os.getpid())})
        limit_memory(spec.budget.n_bytes)
    run_stage(spec, rows, choice, tell)
    sys.stdout.flush()
    signal.pause()  # the parent kills this with all that it started


def _let_server_go() -> None:
    """Do not keep alive the server that forked this process, with whose end this one ends."""
    server: Any = getattr(forkserver, "_forkserver", None)
    descriptor = getattr(server, "_forkserver_alive_fd", None)
    if descriptor is not None:
        os.close(descriptor)
        server._forkserver_alive_fd = None


def _shorten(log: Path) -> None:
    """Empty a log that grew too long: it must not fill the disk."""
    with suppress(OSError):
        if log.stat().st_size > LONGEST_LOG:
            os.truncate(log, 0)
            with log.open("a") as file:
                file.write(f"[what was printed before exceeded {LONGEST_LOG} bytes: dropped]\n")
