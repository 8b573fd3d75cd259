"""A process that has done the imports, and forks others that run a plugin's code.

The other side is in `server_process`.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import send_handle
from typing import Any

from oasis_bench.system import threads
from oasis_bench.system.errors import UsageError
from oasis_bench.system.processes import kill_below

PREPARE_TRIALS = "oasis_bench.execution.trial_process:warm_up"

READY_SECONDS = 120.0
"""How long a server may take to start: the imports, on a slow disk."""

END_SECONDS = 10.0
"""How long a server may take to end a fork; a plugin may have stopped the server."""

END = b""
"""The order to end the fork."""


@dataclass(frozen=True)
class Call:
    """What a fork is to do, and what it takes over from this process."""

    function: Callable[..., object]
    arguments: tuple[Any, ...]
    import_path: list[str]
    environment: Mapping[str, str]
    folder: str | None


class ForkServer:
    """A fork server, for one fork at a time.

    Parameters
    ----------
    prepare : str
        ``module:function``, called once in the server, before anything is forked.

    Attributes
    ----------
    pid : int or None
        The number of the server's process: the fork and all that it starts are below it.  None
        until the server is ready.
    """

    def __init__(self, prepare: str = PREPARE_TRIALS) -> None:
        self._connection, theirs = Pipe()
        code = "import sys; sys.path[:] = {!r}; from {} import keep; keep({!r}, {})".format(
            _import_path(), "oasis_bench.execution.server_process", prepare, theirs.fileno()
        )
        self._keeper = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,  # its end is the order to end, also where this process is killed
            env={**os.environ, **dict.fromkeys(threads.VARIABLES, "1")},  # forks set their own
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for this process, which ends the others
        )
        theirs.close()
        self.pid: int | None = None
        self._ready_by = time.monotonic() + READY_SECONDS
        self._exit_code: int | None = -signal.SIGKILL

    @property
    def lives(self) -> bool:
        """Whether it can fork once more."""
        return not self._connection.closed and self._keeper.poll() is None

    @property
    def sentinel(self) -> Connection:
        """What can be read when the fork has ended."""
        return self._connection

    def start(self, function: Callable[..., object], *arguments: Any, messages: int) -> None:
        """Order a fork that calls ``function(*arguments, messages)`` and ends; do not wait for it.

        It has the environment, the working folder and the import path of this process.

        Parameters
        ----------
        function : callable
            Of a module.
        *arguments : object
        messages : int
            A file descriptor, which the fork gets a copy of.
        """
        call = Call(function, arguments, _import_path(), dict(os.environ), _working_folder())
        self._exit_code = None
        with suppress(OSError):  # the server is dead: `exit_code` tells
            self._connection.send_bytes(pickle.dumps(call))
            send_handle(self._connection, messages, self._keeper.pid)

    def exit_code(self) -> int | None:
        """Return the status with which the fork has ended, -N for signal N; None while it runs.

        By then all that it had started is dead.

        Raises
        ------
        UsageError
            Where the server ended before it was ready, or takes too long to be so.
        """
        while self._exit_code is None and self._connection.poll():
            self._receive()
        if self.pid is None and (self._exit_code is not None or time.monotonic() > self._ready_by):
            self.close()
            raise UsageError(
                "the process that trials are forked off ended before it was ready, or took "
                f"longer than {READY_SECONDS:g} s: what it printed is above"
            )
        return self._exit_code

    def end(self) -> None:
        """End the fork and all that it has started, if they have not ended."""
        if self._exit_code is not None:
            return
        try:
            with suppress(OSError):  # the server is dead
                if self.pid is not None:
                    os.kill(self.pid, signal.SIGCONT)  # the fork may have stopped it
                self._connection.send_bytes(END)
            while self._exit_code is None and self._connection.poll(END_SECONDS):
                self._receive()
        finally:
            if self._exit_code is None:  # no answer, or interrupted before the answer
                self.close()

    def close(self) -> None:
        """End the server and all that is below it."""
        self._connection.close()
        assert self._keeper.stdin
        self._keeper.stdin.close()
        try:
            self._keeper.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_below(self._keeper.pid)
            self._keeper.kill()
            self._keeper.wait()
        self._exit_code = -signal.SIGKILL

    def _receive(self) -> None:
        """Read one message of the server: first its number, then the status of each fork."""
        try:
            number = self._connection.recv()
        except (EOFError, OSError):  # the server has ended
            self.close()
            return
        if self.pid is None:
            self.pid = number
        else:
            self._exit_code = number


_idle: list[ForkServer] = []
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
    """Keep a server whose fork has ended, for the next that borrows: a new one takes a second."""
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
