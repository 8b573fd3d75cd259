"""Processes that have done the imports and fork others, which run other people's code.

A server runs none of it.  It ends all that a fork has started when the fork ends, when it is told
to, and when the process that started the server is gone.  Not for what the forks do.
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
from multiprocessing import connection
from typing import Any

from oasis_bench import threads
from oasis_bench.execution.processes import adopt_orphans, die_with_parent, kill_below

_HEAD, _STATUS = struct.Struct("!Q"), struct.Struct("!i")
_READY, _END = b"r", b"e"

_idle: list[ForkServer] = []


class ForkServer:
    """A server, for one fork at a time; see `borrow`.

    Parameters
    ----------
    prepare : callable
        Called by the server once, before it forks; a function of a module, without arguments.
    """

    def __init__(self, prepare: Callable[[], object]) -> None:
        self._socket, theirs = socket.socketpair()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _serve; _serve()"
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
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        """The number of the process above the forks."""
        return self._process.pid

    @property
    def sentinel(self) -> socket.socket:
        """What is ready to be read when the fork has ended."""
        return self._socket

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
        """
        self._await_readiness()
        self._exit_code = None
        surroundings = list(sys.path), dict(os.environ), os.getcwd()
        with suppress(OSError):  # it is dead: `exit_code` tells
            _send(self._socket, (function, args, surroundings), messages)

    def exit_code(self) -> int | None:
        """Return the status with which the fork has ended, -N for signal N; None while it runs.

        By then all that it had started is dead.
        """
        if self._exit_code is None and connection.wait([self._socket], timeout=0):
            self._hear_of_end()
        return self._exit_code

    def end(self) -> None:
        """End the fork and all that it has started, if they have not ended."""
        with suppress(OSError):
            self._socket.sendall(_END)
        if self._exit_code is None:
            self._hear_of_end()

    def release(self) -> None:
        """Go idle, for the next who borrows."""
        if self._process.poll() is None:
            _idle.append(self)
        else:
            self.close()

    def close(self) -> None:
        """End the server, which has no fork."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _await_readiness(self) -> None:
        if not self._is_ready:
            with suppress(EOFError, OSError):  # it is dead: `exit_code` tells
                _receive(self._socket, len(_READY))
            self._is_ready = True

    def _hear_of_end(self) -> None:
        try:
            (self._exit_code,) = _STATUS.unpack(_receive(self._socket, _STATUS.size))
        except (EOFError, OSError):
            self._exit_code = self._process.wait()


def borrow(prepare: Callable[[], object]) -> ForkServer:
    """Return an idle server, or a new one, to be released after its last fork's `end`."""
    try:
        return _idle.pop()
    except IndexError:
        return ForkServer(prepare)


def keep_ready(n_servers: int, prepare: Callable[[], object]) -> None:
    """Start servers, without waiting for them, so that so many are idle."""
    servers = [borrow(prepare) for _ in range(n_servers)]
    _idle.extend(servers)


@atexit.register
def _close_all() -> None:
    while _idle:
        _idle.pop().close()


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
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    warnings.simplefilter("ignore", DeprecationWarning)  # BLAS has threads when this forks: idle
    with suppress(EOFError, ConnectionError):  # the other process is gone
        prepare, _ = _receive_sent(source)
        prepare()
        source.sendall(_READY)
        while True:
            (function, args, surroundings), (messages,) = _receive_sent(source)
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (source.detach(), woken, wake):
                    os.close(descriptor)
                _run(function, *args, messages, surroundings=surroundings)
            os.close(messages)
            _see_to_end(child, source, woken)
    kill_below(os.getpid())


def _run(
    function: Callable[..., object], *args: Any, surroundings: tuple[list[str], dict[str, str], str]
) -> None:
    """Call a function, as the only thing that this process does."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent()
        sys.path[:], environment, folder = surroundings
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        function(*args)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _see_to_end(child: int, source: socket.socket, woken: int) -> None:
    """Wait for a child's end, or bring it about when told to; kill what is below; tell why."""
    told, status = False, None
    while status is None:
        watched: list[Any] = [woken] if told else [woken, source]
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if source in ready:
            _receive(source, 1)
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
        _receive(source, 1)


def _kill_all(child: int) -> None:
    """Kill the group of a child, and all that left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    kill_below(os.getpid())
