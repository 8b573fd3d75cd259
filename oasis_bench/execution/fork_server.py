"""A process that has done the imports, which take a second, and forks trials at once.

`ForkServer` is the harness's side of it.  Below the harness are:

- The server (`serve`) has done the imports.  It runs no learner, so it can always end what is
  below it.  On Linux it becomes the parent of orphans and kills them.
- A guard is the parent of the process that runs the learner.  A learner that kills or stops its
  parent harms only the guard.
- The process of a call runs the learner.

Python's own, the start method 'forkserver' of multiprocessing with these imports preloaded, starts
and joins a child that does nothing in 38 ms, this one in 65 ms (medians of 50 each, in turn, on two
busy cores).  The 27 ms buy three things that learners must not take from a run:

- The guard.  With multiprocessing the server is the parent: a learner that kills or stops its
  parent would end all trials after it.
- When a call has ended, all that it has started is dead, also what left its group and session,
  and also where the server itself was killed.
- A call gets a socket, by which files go to and fro.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench.system import (
    THREAD_VARIABLES,
    Processes,
    UsageError,
    adopt_orphans,
    die_with_parent,
    kill_marked,
)

PREPARE_TRIALS = "oasis_bench.trial.learner_side.stages:warm_up"

READY_SECONDS = 120.0
"""How long a server may take to start: the imports, on a slow disk."""

END_SECONDS = 10.0
"""How long a server may take to end a call."""

END = b""
"""The order to end the call."""

_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The harness handles these, and then ends its servers."""

MARK = "OASIS_BENCH_SERVER"
"""In the environment of all processes of a server: how they are found after its death."""


class ForkServer:
    """A fork server, for one call at a time.

    It calls `prepare`, as ``module:function``, once before anything is forked; then `is_ready`.
    All that a call starts is below its process, `pid`.
    """

    def __init__(self, prepare: str = PREPARE_TRIALS) -> None:
        self._connection, theirs = Pipe()
        self._mark = uuid.uuid4().hex
        code = (
            f"import sys; sys.path[:] = {_import_path()!r}; "
            "from oasis_bench.execution.fork_server import serve; "
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

        It has the environment, the working folder and the import path of the harness, and a copy
        of the file descriptor `line`.
        """
        environment = {**os.environ, MARK: self._mark}
        call = (function, arguments, _import_path(), environment, _working_folder())
        self._exit_code = None
        self._wake()
        with suppress(OSError):  # the server is dead: `exit_code` reports it
            self._connection.send_bytes(pickle.dumps(call))
            send_handle(self._connection, line, self.pid)

    def exit_code(self) -> int | None:
        """Return the exit status of the call, -N for signal N; None while it runs.

        When there is a status, all processes that the call has started are dead.  The server's
        own death by a signal ends the call with that signal.  Raise UsageError where it ended by
        itself before it was ready, or takes too long to be so.
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
            Processes(self.pid).kill()
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


def start_early() -> None:
    """Start a server, if none is idle: it imports while this process does something else."""
    give_back(borrow())


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


def serve(prepare: str, descriptor: int) -> None:
    """Make one call after the other for the harness, until the harness is gone.

    For each call the exit status of its process is sent back, once.  `END` changes nothing where
    the call has ended already.  The `descriptor` is that of the connection with the harness.
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
                Processes(os.getpid()).kill()
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


def _die_first() -> None:
    """Let the system kill this process before others when the machine is out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _make_call(pickled: bytes, line: int) -> NoReturn:
    """Make the call that `ForkServer.start` pickled, as the only thing that this process does."""
    status = 1
    try:
        die_with_parent()
        _die_first()
        for number in _NOT_FOR_SERVERS:
            signal.signal(number, signal.SIG_DFL)
        function, arguments, import_path, environment, folder = pickle.loads(pickled)
        sys.path[:] = import_path
        os.environ.clear()
        os.environ.update(environment)
        with suppress(FileNotFoundError):
            os.chdir(folder or ".")
        function(*arguments, line)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)
