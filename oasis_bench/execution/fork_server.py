"""Processes that fork others, which run other people's code; what those do is not known here.

All is forked off one process that has done the imports: see `serving`, which is the other side.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from oasis_bench.execution import serving
from oasis_bench.system import threads
from oasis_bench.system.errors import UsageError
from oasis_bench.system.processes import kill_below

READY_SECONDS = 120.0
"""How long it may take until there is a server: the imports, on a slow disk."""

END_SECONDS = 10.0
"""How long a server may take to end a fork, lest a plugin has stopped it."""


class _Template:
    """The process that servers are forked off."""

    def __init__(self, prepare: str) -> None:
        self._socket, theirs = socket.socketpair()
        path, module = _import_path(), serving.__name__
        code = f"import sys; sys.path[:] = {path!r}; from {module} import be_template as b; b()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(threads.VARIABLES, "1")},  # forks make their own
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for this process, which ends the others
        )
        theirs.close()
        self._is_sweeping = False
        serving.send(self._socket, prepare)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def fork_server(self, of_server: socket.socket) -> None:
        """Ask for one that has this socket."""
        with suppress(OSError):  # it is dead: nobody has the socket then
            socket.send_fds(self._socket, [serving.SERVER], [of_server.fileno()])

    def sweep(self) -> None:
        """Let it kill what was left by a server that has died."""
        self._is_sweeping = True
        with suppress(OSError):
            self._socket.sendall(serving.SWEEP)

    def close(self) -> None:
        """End it; servers stay until their sockets are closed."""
        self._socket.close()
        if self._is_sweeping:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Close what this process, a fork, has of it."""
        self._socket.close()
        self._process.returncode = 0  # it is another's child


class ForkServer:
    """A server, for one fork at a time; see `borrow`.

    Parameters
    ----------
    prepare : str
        ``module:function``, called once, before anything is forked.
    """

    def __init__(self, prepare: str) -> None:
        self.prepare = prepare
        self._socket, theirs = socket.socketpair()
        _template(prepare).fork_server(theirs)
        theirs.close()
        self._pid: int | None = None
        self._has_fork = False
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        """The number of the process above the forks."""
        if self._pid is None:
            try:
                if not connection.wait([self._socket], READY_SECONDS):
                    raise OSError
                self._pid = serving.receive_number(self._socket)
            except (EOFError, OSError):
                raise UsageError(
                    "the process that trials are forked off ended before it was ready, or took "
                    f"longer than {READY_SECONDS:g} s: what it printed is above"
                ) from None
        return self._pid

    @property
    def sentinel(self) -> socket.socket:
        """What is ready to be read when the fork has ended."""
        return self._socket

    @property
    def lives(self) -> bool:
        """Whether it can fork once more."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def start(self, function: Callable[..., object], *args: Any, messages: int) -> None:
        """Fork a process that calls ``function(*args, messages)`` and ends.

        It has the environment and the working folder of this process.

        Parameters
        ----------
        function : callable
            Of a module.
        *args : object
        messages : int
            A file descriptor for the fork.

        Raises
        ------
        UsageError
            Where the server could not prepare.
        """
        assert self.pid  # it is ready
        self._exit_code, self._has_fork = None, True
        with suppress(OSError):  # it is dead: `exit_code` tells
            serving.send(self._socket, (function, args, _surroundings()), messages)

    def exit_code(self) -> int | None:
        """Return the status with which the fork has ended, -N for signal N; None while it runs.

        By then all that it had started is dead.
        """
        if self._exit_code is None and connection.wait([self._socket], timeout=0):
            self._read_status()
        return self._exit_code

    def end(self) -> None:
        """End the fork and all that it has started, if they have not ended."""
        if not self._has_fork:
            return
        self._has_fork = False
        finished = False
        try:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)
                self._socket.sendall(serving.END)
            if self._exit_code is None and connection.wait([self._socket], timeout=END_SECONDS):
                self._read_status()
            finished = self._exit_code is not None
        finally:
            if not finished:  # or this is interrupted: nobody knows what is still to be read
                self.close()

    def release(self) -> None:
        """Go idle, for the next who borrows."""
        if not self.lives:
            self.close()
            if self.prepare in _templates:
                _templates[self.prepare].sweep()
        elif self not in _idle:
            _idle.append(self)

    def close(self) -> None:
        """End the server, and a fork that it has."""
        if self._pid is not None and self.lives:  # else its number may be that of another
            kill_below(self._pid)
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.forget()
        self._exit_code = -signal.SIGKILL

    def forget(self) -> None:
        """Close what this process has of it."""
        self._socket.close()

    def _read_status(self) -> None:
        try:
            self._exit_code = serving.receive_number(self._socket)
        except (EOFError, OSError):  # a fork has killed it, or the system
            self._exit_code = -signal.SIGKILL


_templates: dict[str, _Template] = {}
_templates_lock = threading.Lock()
_idle: list[ForkServer] = []


def borrow(prepare: str) -> ForkServer:
    """Return an idle server, or a new one, to be released after its last fork's `end`."""
    for server in list(_idle):
        if server.prepare == prepare:
            with suppress(ValueError):  # another thread was quicker
                _idle.remove(server)
                if server.lives:
                    return server
                server.close()
    return ForkServer(prepare)


def keep_ready(n_servers: int, prepare: str) -> None:
    """Start servers, without waiting for them, so that so many are idle."""
    servers = [borrow(prepare) for _ in range(n_servers)]
    _idle.extend(servers)


def _template(prepare: str) -> _Template:
    """Return the template for servers that are prepared so."""
    with _templates_lock:
        template = _templates.get(prepare)
        if template is None or not template.lives:
            if template is not None:
                template.close()
            template = _templates[prepare] = _Template(prepare)
        return template


@atexit.register
def _close_all() -> None:
    while _idle:
        _idle.pop().close()
    while _templates:
        _templates.popitem()[1].close()


def _forget_all() -> None:
    """In a fork of this process: its servers are not this one's."""
    global _templates_lock
    _templates_lock = threading.Lock()
    while _idle:
        _idle.pop().forget()
    while _templates:
        _templates.popitem()[1].forget()


os.register_at_fork(after_in_child=_forget_all)


def _import_path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


def _surroundings() -> tuple[list[str], dict[str, str], str | None]:
    """Return what a fork is to have of this process: sys.path, environment, working folder."""
    try:
        folder: str | None = os.getcwd()
    except FileNotFoundError:
        folder = None
    return _import_path(), dict(os.environ), folder
