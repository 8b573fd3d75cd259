"""Processes that have done the imports and fork others, which run other people's code.

A server runs none of it.  It ends all that a fork has started when the fork ends, when it is told
to, and when the process that started the server is gone; what a fork has started and then kills its
server may stay.  Not for what the forks do.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from typing import Any

from oasis_bench import threads
from oasis_bench.errors import UsageError
from oasis_bench.execution.processes import adopt_orphans, die_with_parent, kill_below

END_SECONDS = 10.0
"""How long a server may take to end a fork, lest a plugin has stopped it."""

_HEAD, _STATUS = struct.Struct("!Q"), struct.Struct("!i")
_READY, _END = b"r", b"e"
_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_idle: list[ForkServer] = []


class ForkServer:
    """A server, for one fork at a time; see `borrow`.

    Parameters
    ----------
    prepare : callable
        Called by the server once, before it forks; a function of a module, without arguments.
    """

    def __init__(self, prepare: Callable[[], object]) -> None:
        self.prepare = prepare
        self._socket, theirs = socket.socketpair()
        path = _import_path()
        code = f"import sys; sys.path[:] = {path!r}; from {__name__} import _serve; _serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(threads.VARIABLES, "1")},  # forks make their own
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for this process, which ends the others
        )
        theirs.close()
        _send(self._socket, prepare)
        self._is_ready = False
        self._has_fork = False
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        """The number of the process above the forks."""
        return self._process.pid

    @property
    def sentinel(self) -> socket.socket:
        """What is ready to be read when the fork has ended."""
        return self._socket

    @property
    def lives(self) -> bool:
        """Whether it can fork once more."""
        return self._process.poll() is None

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
        self._await_readiness()
        self._exit_code, self._has_fork = None, True
        with suppress(OSError):  # it is dead: `exit_code` tells
            _send(self._socket, (function, args, _surroundings()), messages)

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
                self._socket.sendall(_END)
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
        elif self not in _idle:
            _idle.append(self)

    def close(self) -> None:
        """End the server, and a fork that it has."""
        if self.lives:  # else its number may be that of another
            kill_below(self.pid)
            self._process.kill()
        self._exit_code = self._process.wait()
        self._socket.close()

    def _await_readiness(self) -> None:
        if self._is_ready:
            return
        try:
            _receive(self._socket, len(_READY))
        except (EOFError, OSError):
            raise UsageError(
                f"the process that trials are forked off ended with status {self._process.wait()} "
                "before it was ready: what it printed is above"
            ) from None
        self._is_ready = True

    def _read_status(self) -> None:
        try:
            (self._exit_code,) = _STATUS.unpack(_receive(self._socket, _STATUS.size))
        except (EOFError, OSError):
            self._exit_code = self._process.wait()


def borrow(prepare: Callable[[], object]) -> ForkServer:
    """Return an idle server, or a new one, to be released after its last fork's `end`."""
    for server in list(_idle):
        if server.prepare is prepare:
            with suppress(ValueError):  # another thread was quicker
                _idle.remove(server)
                if server.lives:
                    return server
                server.close()
    return ForkServer(prepare)


def keep_ready(n_servers: int, prepare: Callable[[], object]) -> None:
    """Start servers, without waiting for them, so that so many are idle."""
    servers = [borrow(prepare) for _ in range(n_servers)]
    _idle.extend(servers)


@atexit.register
def _close_all() -> None:
    while _idle:
        _idle.pop().close()


def _forget_all() -> None:
    """In a fork of this process: its servers are not this one's."""
    while _idle:
        _idle.pop()._socket.close()


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


def _send(to: socket.socket, value: object, *descriptors: int) -> None:
    body = pickle.dumps(value)
    socket.send_fds(to, [_HEAD.pack(len(body))], descriptors)
    to.sendall(body)


def _receive(source: socket.socket, size: int) -> bytes:
    """Read `size` bytes, or raise EOFError."""
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _receive_sent(source: socket.socket) -> tuple[Any, list[int]]:
    """Read what `_send` wrote, or raise EOFError."""
    head, descriptors, _, _ = socket.recv_fds(source, _HEAD.size, 1)
    if not head:
        raise EOFError
    head += _receive(source, _HEAD.size - len(head))
    return pickle.loads(_receive(source, *_HEAD.unpack(head))), descriptors


def _serve() -> None:
    """Fork for the process at the other end of a socket, until that process is gone."""
    source = socket.socket(fileno=int(sys.argv[1]))
    adopt_orphans()
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in _NOT_FOR_SERVERS]
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before.append((signal.SIGCHLD, signal.signal(signal.SIGCHLD, lambda number, frame: None)))
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    with suppress(EOFError, ConnectionError):  # the other process is gone
        prepare, _ = _receive_sent(source)
        prepare()
        source.sendall(_READY)
        while True:
            (function, args, surroundings), (messages,) = _receive_sent(source)
            server = os.getpid()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # BLAS has threads: idle ones
                child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                for number, handler in before:
                    signal.signal(number, handler)
                for descriptor in (source.detach(), woken, wake):
                    os.close(descriptor)
                _run(partial(function, *args, messages), server, *surroundings)
            os.close(messages)
            _wait_and_reap(child, source, woken)
    kill_below(os.getpid())


def _run(
    call: Callable[[], object],
    server: int,
    path: list[str],
    environment: dict[str, str],
    folder: str | None,
) -> None:
    """Make a call, as the only thing that this process does."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent()
        if os.getppid() == server:  # else it died before it was the one to die with
            sys.path[:] = path
            os.environ.clear()
            os.environ.update(environment)
            with suppress(FileNotFoundError):
                os.chdir(folder or ".")
            call()
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _wait_and_reap(child: int, source: socket.socket, woken: int) -> None:
    """Wait for a child's end, or bring it about when told to; kill what is below; tell why."""
    told, status = False, None
    while status is None:
        watched: list[Any] = [woken] if told else [woken, source]
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if source in ready:
            _receive(source, len(_END))
            told = True
            _kill_all(child)
        ended, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if ended else None
    _kill_all(child)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    source.sendall(_STATUS.pack(status))
    if not told:
        _receive(source, len(_END))


def _kill_all(child: int) -> None:
    """Kill the group of a child, and all that left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    kill_below(os.getpid())
