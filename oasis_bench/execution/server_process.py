"""The processes below the harness: the server, a guard for each trial, and the trial's process.

- The server has done the imports.  It runs no learner, so it can always end what is below it.
- A guard is the parent of the process that runs the learner.  A learner that kills or
  stops its parent harms only the guard.
- The trial's process runs the learner.  On Linux the server becomes the parent of its orphans and
  kills them.
"""

from __future__ import annotations

import gc
import os
import pickle
import pkgutil
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import recv_handle
from typing import NoReturn

from oasis_bench.execution.fork_server import END, Call
from oasis_bench.system import adopt_orphans, die_first, die_with_parent, kill_below

_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The harness handles these, and then ends its servers."""


def serve(prepare: str, descriptor: int) -> None:
    """Make one call after the other for the harness, until the harness is gone.

    For each `Call` the exit status of its process is sent back, once.  `END` changes nothing where
    the call has ended already.

    Parameters
    ----------
    prepare : str
        See `ForkServer`.
    descriptor : int
        The server's end of its connection with the harness.
    """
    adopt_orphans()
    for number in _NOT_FOR_SERVERS:
        signal.signal(number, signal.SIG_IGN)
    control = Connection(descriptor)
    gc.disable()  # imports leave no garbage, and looking for it takes a fifth of their time
    pkgutil.resolve_name(prepare)()
    gc.enable()
    with suppress(EOFError, OSError):
        control.send("ready")
        while True:
            call = control.recv_bytes()
            if call != END:
                control.send(_run(call, recv_handle(control), control))
    os._exit(0)  # without the interpreter's own end, which has nothing to clear up


def _run(call: bytes, line: int, control: Connection) -> int:
    """Start a guard, wait for its end or for the order to end, kill what is left."""
    ended, of_guard = Pipe(duplex=False)
    if os.fork() == 0:
        control.close()
        ended.close()
        _guard(call, line, of_guard)
    os.close(line)
    of_guard.close()
    status: int = -signal.SIGKILL
    try:
        if control in wait([control, ended]):
            control.recv_bytes()
        else:
            with suppress(EOFError):  # the guard was killed
                status = ended.recv()
    finally:
        ended.close()
        _end_all()
    return status


def _end_all() -> None:
    """Kill all that is below this process, and wait until nothing is left."""
    with suppress(ChildProcessError):  # no child is left: an orphan would be one
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if not ended:
                kill_below(os.getpid())
                os.waitpid(-1, 0)


def _guard(call: bytes, line: int, of_guard: Connection) -> NoReturn:
    """Start the process that makes the call, and send its exit status."""
    os.setpgid(0, 0)  # a learner that signals its group, or its parent's, does not reach the server
    die_with_parent()
    child = os.fork()
    if child == 0:
        of_guard.close()
        _make_call(call, line)
    os.close(line)
    _, status = os.waitpid(child, 0)
    of_guard.send(os.waitstatus_to_exitcode(status))
    os._exit(0)


def _make_call(pickled: bytes, line: int) -> NoReturn:
    """Make the `Call`, as the only thing that this process does."""
    status = 1
    try:
        die_with_parent()
        die_first()
        for number in _NOT_FOR_SERVERS:
            signal.signal(number, signal.SIG_DFL)
        call: Call = pickle.loads(pickled)
        sys.path[:] = call.import_path
        os.environ.clear()
        os.environ.update(call.environment)
        with suppress(FileNotFoundError):
            os.chdir(call.folder or ".")
        call.function(*call.arguments, line)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)
