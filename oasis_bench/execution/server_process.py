"""The processes of a fork server: a keeper, the server below it, and the fork below that.

Only the fork runs a plugin's code.  The server has done the imports; it is the parent of the fork
and (on Linux) of every orphan below it, and ends them all when the fork ends, when it is told to,
and when the harness is gone.  The fork may kill or stop its parent: then the keeper, which has not
imported much and is nobody's parent but the server's, ends all that is left, and itself.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import recv_handle
from typing import Any, NoReturn

from oasis_bench.execution.fork_server import END, Call
from oasis_bench.system import linux
from oasis_bench.system.processes import kill_below
from oasis_bench.system.quick_imports import no_collections

_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The harness handles these, and then ends its servers."""


def keep(prepare: str, descriptor: int) -> None:
    """Start a server, and end all that is left when it ends or the harness is gone.

    Parameters
    ----------
    prepare : str
        See `ForkServer`.
    descriptor : int
        The server's end of its connection with the harness.
    """
    for number in _NOT_FOR_SERVERS:
        signal.signal(number, signal.SIG_IGN)
    linux.adopt_orphans()
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve"
    server = subprocess.Popen(
        [sys.executable, "-c", f"{code}({prepare!r}, {descriptor})"],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        process_group=0,  # a fork that signals the group of its parent does not reach the keeper
    )
    os.close(descriptor)

    def end_with_harness() -> None:
        sys.stdin.read()
        server.kill()

    threading.Thread(target=end_with_harness, daemon=True).start()
    server.wait()
    _end_all()
    os._exit(0)


def serve(prepare: str, descriptor: int) -> None:
    """Fork for the harness, at the other end of a connection, until it is gone.

    For each `Call` the exit status of its fork is sent back, once.  `END` changes nothing where
    the fork has ended already.
    """
    linux.adopt_orphans()
    handlers: dict[int, Any] = {
        number: signal.signal(number, signal.SIG_IGN) for number in _NOT_FOR_SERVERS
    }
    control = Connection(descriptor)
    with no_collections():
        pkgutil.resolve_name(prepare)()
    with suppress(EOFError, OSError):
        control.send(os.getpid())
        while True:
            call = control.recv_bytes()
            if call != END:
                control.send(_run(call, recv_handle(control), control, handlers))
    os._exit(0)  # without the interpreter's own end, which has nothing to clear up


def _run(call: bytes, messages: int, control: Connection, handlers: Mapping[int, Any]) -> int:
    """Fork, wait for the end or for the order to end, kill what is left; return the status."""
    server = os.getpid()
    fork = os.fork()
    if fork == 0:
        control.close()
        _make_call(call, messages, server, handlers)
    os.close(messages)
    ended, open_until_end = Pipe(duplex=False)
    watcher = threading.Thread(target=_close_at_end, args=(open_until_end, fork))
    watcher.start()
    try:
        if control in wait([control, ended]):
            control.recv_bytes()
    finally:
        os.kill(fork, signal.SIGKILL)
        watcher.join()
        _, code = os.waitpid(fork, 0)
        _end_all()
        ended.close()
    return os.waitstatus_to_exitcode(code)


def _close_at_end(connection: Connection, pid: int) -> None:
    """Close a connection when a child of this process has ended; the child is not reaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    connection.close()


def _end_all() -> None:
    """Kill all that is below this process, and wait until nothing is left."""
    with suppress(ChildProcessError):  # no child is left: an orphan would be one
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if not ended:
                kill_below(os.getpid())
                os.waitpid(-1, 0)


def _make_call(pickled: bytes, messages: int, server: int, handlers: Mapping[int, Any]) -> NoReturn:
    """Make the `Call`, as the only thing that this process does."""
    status = 1
    try:
        os.setpgid(0, 0)  # a fork that signals its own group does not reach the server
        linux.die_with_parent()
        linux.die_first()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if os.getppid() == server:  # else it died before this process asked to die with it
            call: Call = pickle.loads(pickled)
            sys.path[:] = call.import_path
            os.environ.clear()
            os.environ.update(call.environment)
            with suppress(FileNotFoundError):
                os.chdir(call.folder or ".")
            call.function(*call.arguments, messages)
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)
