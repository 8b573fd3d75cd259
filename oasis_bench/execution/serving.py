"""The other side of `fork_server`: a template that has done the imports, and servers forked off it.

A template forks servers, a server forks one process at a time, and that runs other people's code;
the first two run none of it.  A server ends all that its fork has started when the fork ends, when
it is told to, and when the process that asked for it is gone.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import select
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from oasis_bench.system.processes import adopt_orphans, descendants, die_with_parent, kill_below
from oasis_bench.system.quick_imports import no_collections

SERVER, SWEEP = b"s", b"w"
"""What a template is told: with the socket of a new server; and where one has died."""

END = b"e"
"""What a server is told."""

_HEAD, _NUMBER = struct.Struct("!Q"), struct.Struct("!i")
_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_Handlers = Sequence[tuple[int, Any]]


def send(to: socket.socket, value: object, *descriptors: int) -> None:
    """Send a value, and file descriptors with it."""
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


def receive_number(source: socket.socket) -> int:
    """Read the number of a server or the status of a fork, or raise EOFError."""
    number: int = _NUMBER.unpack(_receive(source, _NUMBER.size))[0]
    return number


def _receive_sent(source: socket.socket) -> tuple[Any, list[int]]:
    """Read what `send` wrote, or raise EOFError."""
    head, descriptors = _receive_with_descriptors(source, _HEAD.size)
    head += _receive(source, _HEAD.size - len(head))
    return pickle.loads(_receive(source, *_HEAD.unpack(head))), descriptors


def _receive_with_descriptors(source: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Read up to `size` bytes and what came with them, or raise EOFError."""
    part, descriptors, _, _ = socket.recv_fds(source, size, 1)
    if not part:
        raise EOFError
    return part, descriptors


def be_template() -> None:
    """Fork servers for the process at the other end of a socket, until that process is gone."""
    source = socket.socket(fileno=int(sys.argv[1]))
    adopt_orphans()
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in _NOT_FOR_SERVERS]
    servers: set[int] = set()
    with suppress(EOFError, ConnectionError):
        prepare, _ = _receive_sent(source)
        with no_collections():
            pkgutil.resolve_name(prepare)()
        before.append((signal.SIGCHLD, signal.signal(signal.SIGCHLD, signal.SIG_IGN)))  # reaps them
        while True:
            _, descriptors = _receive_with_descriptors(source, len(SERVER))
            _kill_all_but(servers)
            if not descriptors:
                continue
            (descriptor,) = descriptors
            server = _fork()
            if not server:
                source.close()
                _serve(socket.socket(fileno=descriptor), before)
                os._exit(0)
            servers.add(server)
            os.close(descriptor)
    _kill_all_but(servers)
    os._exit(0)  # an end without the interpreter's: nobody has what it would clear up


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS has threads: idle ones
        return os.fork()


def _kill_all_but(servers: Iterable[int]) -> None:
    """Kill what forks have left whose server is dead: it is this process's now."""
    below = descendants(os.getpid())  # first: what a server's fork starts in between is not left
    for left in below - set(servers).union(*map(descendants, servers)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(left, signal.SIGKILL)


def _serve(source: socket.socket, before: _Handlers) -> None:
    """Fork for the process at the other end of a socket, until that process is gone."""
    os.setpgid(0, 0)  # a fork that signals its parent's group ends itself alone
    adopt_orphans()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    server = os.getpid()
    with suppress(EOFError, ConnectionError):  # the other process is gone
        source.sendall(_NUMBER.pack(server))
        while True:
            (function, args, surroundings), (messages,) = _receive_sent(source)
            child = _fork()
            if not child:
                signal.set_wakeup_fd(-1)
                for number, handler in before:
                    signal.signal(number, handler)
                for descriptor in (source.detach(), woken, wake):
                    os.close(descriptor)
                _run(partial(function, *args, messages), server, *surroundings)
            os.close(messages)
            _wait_and_reap(child, source, woken)
    kill_below(server)


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
            _become(environment)
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


def _become(environment: dict[str, str]) -> None:
    """Make this the environment; most of it is as it was when the template began."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _wait_and_reap(child: int, source: socket.socket, woken: int) -> None:
    """Wait for a child's end, or bring it about when told to; kill what is below; tell why."""
    told, status = False, None
    while status is None:
        watched: list[Any] = [woken] if told else [woken, source]
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if source in ready:
            _receive(source, len(END))
            told = True
            os.kill(child, signal.SIGKILL)
        ended, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if ended else None
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ChildProcessError):  # none is left: what left the group is below this process now
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if not ended:
                kill_below(os.getpid())
                os.waitpid(-1, 0)
    source.sendall(_NUMBER.pack(status))
    if not told:
        _receive(source, len(END))
