"""A process that has done the imports, which take a second, and forks trials at once.

This is the harness's side of it; the other side is in `server_process`.

Python's own, the start method 'forkserver' of multiprocessing with these imports preloaded, starts
and joins a child that does nothing in 38 ms, this one in 65 ms (medians of 50 each, in turn, on two
busy cores).  The 27 ms buy three things that learners must not take from a run:

- A guard process is the parent of the learner's process.  With multiprocessing the server is: a
  learner that kills or stops its parent would end all trials after it.
- When a call has ended, all that it has started is dead, also what left its group and session,
  and also where the server itself was killed.
- A call gets a socket, by which files go to and fro.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import send_handle
from typing import Any

from oasis_bench.system import THREAD_VARIABLES, UsageError, kill_below, kill_marked

PREPARE_TRIALS = "oasis_bench.trial.learner_side.process:warm_up"

READY_SECONDS = 120.0
"""How long a server may take to start: the imports, on a slow disk."""

END_SECONDS = 10.0
"""How long a server may take to end a call."""

END = b""
"""The order to end the call."""

MARK = "OASIS_BENCH_SERVER"
"""In the environment of all processes of a server: how they are found after its death."""


@dataclass(frozen=True)
class Call:
    """What a process is to call, and what it takes over from the harness."""

    function: Callable[..., object]
    arguments: tuple[Any, ...]
    import_path: list[str]
    environment: Mapping[str, str]
    folder: str | None


class ForkServer:
    """A fork server, for one call at a time.

    Parameters
    ----------
    prepare : str
        ``module:function``, called once in the server, before anything is forked.

    Attributes
    ----------
    pid : int
        The number of the server's process: all that a call starts is below it.
    is_ready : bool
        Whether it has done the imports, so that a call begins when it is ordered.
    """

    def __init__(self, prepare: str = PREPARE_TRIALS) -> None:
        self._connection, theirs = Pipe()
        self._mark = uuid.uuid4().hex
        code = (
            f"import sys; sys.path[:] = {_import_path()!r}; "
            "from oasis_bench.execution.server_process import serve; "
            f"serve({prepare!r}, {theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            # Trials set their own number of threads.
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), MARK: self._mark},
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for the harness, which ends the others
        )
        theirs.close()
        self.pid = self._process.pid
        self.is_ready = False
        self._ready_by = time.monotonic() + READY_SECONDS
        self._exit_code: int | None = -signal.SIGKILL

    @property
    def lives(self) -> bool:
        """Whether it can make one more call."""
        return not self._connection.closed and self._process.poll() is None

    @property
    def sentinel(self) -> Connection:
        """The connection with the server, which becomes readable when the call has ended."""
        return self._connection

    def start(self, function: Callable[..., object], *arguments: Any, line: int) -> None:
        """Order ``function(*arguments, line)`` in a process of its own; do not wait for it.

        It has the environment, the working folder and the import path of the harness.

        Parameters
        ----------
        function : callable
            Of a module.
        *arguments : object
        line : int
            A file descriptor, which the process gets a copy of.
        """
        environment = {**os.environ, MARK: self._mark}
        call = Call(function, arguments, _import_path(), environment, _working_folder())
        self._exit_code = None
        self._wake()
        with suppress(OSError):  # the server is dead: `exit_code` reports it
            self._connection.send_bytes(pickle.dumps(call))
            send_handle(self._connection, line, self.pid)

    def exit_code(self) -> int | None:
        """Return the exit status of the call, -N for signal N; None while it runs.

        When there is a status, all processes that the call has started are dead.  The server's
        own death by a signal ends the call with that signal.

        Raises
        ------
        UsageError
            Where the server ended by itself before it was ready, or takes too long to be so.
        """
        self._wake()
        while self._exit_code is None and self._connection.poll():
            self._receive()
        is_late = self._exit_code is None and time.monotonic() > self._ready_by
        if not self.is_ready and (is_late or (self._process.returncode or -1) >= 0):
            self.close()
            raise UsageError(
                "the process that trials are forked off ended before it was ready, or took "
                f"longer than {READY_SECONDS:g} s: what it printed is above"
            )
        return self._exit_code

    def end(self) -> None:
        """End the call and all that it has started, if they have not ended."""
        try:
            if self._exit_code is None:
                self._wake()
                with suppress(OSError):  # the server is dead
                    self._connection.send_bytes(END)
            while self._exit_code is None and self._connection.poll(END_SECONDS):
                self._receive()
        finally:
            if self._exit_code is None:  # no answer, or interrupted before the answer
                self.close()

    def close(self) -> None:
        """End the server and all that is below it."""
        self._connection.close()  # for the server, the order to end
        self._wake()
        try:
            self._process.wait(END_SECONDS if self.is_ready else 0)
        except subprocess.TimeoutExpired:
            kill_below(self.pid)
            self._process.kill()
            self._process.wait()
        if self._process.returncode < 0:  # it could not end what was below it
            kill_marked(MARK, self._mark)
        self._exit_code = min(self._process.returncode, 0) or -signal.SIGKILL

    def _wake(self) -> None:
        """Let the server go on, where something has stopped it."""
        self._process.send_signal(signal.SIGCONT)

    def _receive(self) -> None:
        """Read one message of the server: first that it is ready, then the status of each call."""
        try:
            message = self._connection.recv()
        except (EOFError, OSError):  # the server has ended
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            self.close()
            return
        if self.is_ready:
            self._exit_code = message
        self.is_ready = True


_idle: list[ForkServer] = []
"""Servers for the next trial, and for the next run of this process."""

os.register_at_fork(after_in_child=_idle.clear)  # servers of this process are not its fork's


def borrow() -> ForkServer:
    """Return a server for trials: an idle one, or a new one."""
    while _idle:
        server = _idle.pop()
        if server.lives:
            return server
        server.close()
    return ForkServer()


def give_back(server: ForkServer) -> None:
    """Keep a server whose call has ended, for the next that borrows."""
    if server.lives:
        _idle.append(server)


@atexit.register
def _close_idle() -> None:
    while _idle:
        _idle.pop().close()


def _import_path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
