"""A process that has done the imports, which take a second, and then forks trials quickly.

`ForkServer` is the harness's side of it.  Below the harness are:

- The server (`serve`) has done the imports.  It runs no learner, so it can always end the processes
  below it.  On Linux it becomes the parent of orphans and kills them.
- The process of a call runs the learner.  If it kills the server, its parent, the next trial gets
  another server.

Beyond what the start method 'forkserver' of multiprocessing does, when a call has ended all
processes that it started are dead, even if they left its group and session, and even if the server
itself was killed.  And a call gets a socket, which sends files in both directions.

A fork takes time for each page of memory and each library of the server: 14 ms of processor time to
start and end one with pandas, 8 ms without.  So the server imports nothing that no trial needs, and
the module of a learner before the first fork that uses it.
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
from collections.abc import Callable, Sequence
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
    import_packages,
    kill_marked,
)

PREPARE_TRIALS = "oasis_bench.trial.learner_side.stages:warm_up"

READY_SECONDS = 120.0
"""How long a server may take to start, with imports from a slow disk."""

END_SECONDS = 10.0
"""How long a server may take to end a call."""

POLL_SECONDS = 0.05
"""Where the system cannot wait for a process, a server looks so often whether it has ended."""

END = b""
"""The order to end the call."""

_NOT_FOR_SERVERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The harness handles these, and then ends its servers."""

MARK = "OASIS_BENCH_SERVER"
"""It marks the environment of all processes of a server, to find them after its death."""


class ForkServer:
    """A fork server, for one call at a time.

    It imports `packages`, those that are installed, and calls `prepare`, as ``module:function``,
    once before any fork; then `is_ready` is True.  All processes of a call are below the server's
    process, `pid`.
    """

    def __init__(self, prepare: str = PREPARE_TRIALS, packages: Sequence[str] = ()) -> None:
        self.packages = tuple(packages)
        self._connection, theirs = Pipe()
        self._mark = uuid.uuid4().hex
        code = (
            f"import sys; sys.path[:] = {_import_path()!r}; "
            "from oasis_bench.execution.fork_server import serve; "
            f"serve({prepare!r}, {theirs.fileno()}, {self.packages!r})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            # Trials set their own number of threads.
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), MARK: self._mark},
            pass_fds=[theirs.fileno()],
            process_group=0,  # only the harness gets Ctrl-C; it ends the others
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

    def start(
        self, function: Callable[..., object], *arguments: Any, line: int, module: str = ""
    ) -> None:
        """Start ``function(*arguments, line)`` in a new process; do not wait for it.

        The process has the environment, the working folder and the import path of the harness, and
        a copy of the file descriptor `line`.  The server first imports `module`, if it is ours.
        """
        environment = {**os.environ, MARK: self._mark}
        call = (function, arguments, _import_path(), environment, _working_folder())
        self._exit_code = None
        self._wake()
        with suppress(OSError):  # the server is dead: `exit_code` reports it
            ours = [module] if module.partition(".")[0] == __name__.partition(".")[0] else []
            self._connection.send_bytes(pickle.dumps((ours, pickle.dumps(call))))
            send_handle(self._connection, line, self.pid)

    def exit_code(self) -> int | None:
        """Return the exit status of the call, -N for signal N; None while it runs.

        When there is a status, all processes that the call has started are dead.  If a signal
        kills the server, the call ends with that signal.  Raise UsageError if the server exited
        before it was ready, or takes too long to start.
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
        """End the call and all processes that it has started, if they still run."""
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
        """End the server and all processes below it."""
        self._connection.close()  # tells the server to end
        self._wake()
        try:
            self._process.wait(END_SECONDS if self.is_ready else 0)
        except subprocess.TimeoutExpired:
            Processes(self.pid).kill()
            self._process.kill()
            self._process.wait()
        if self._process.returncode < 0:  # it could not end the processes below it
            kill_marked(MARK, self._mark)
        self._exit_code = min(self._process.returncode, 0) or -signal.SIGKILL

    def _wake(self) -> None:
        """Let the server continue, in case it was stopped."""
        self._process.send_signal(signal.SIGCONT)

    def _receive(self) -> None:
        """Read a message of the server: the first says 'ready', others the status of a call."""
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

os.register_at_fork(after_in_child=_idle.clear)  # a fork must not use them


def borrow(packages: Sequence[str] = ()) -> ForkServer:
    """Return a server for trials that has imported `packages`: an idle one, or a new one."""
    for server in [*_idle]:
        if server.packages == tuple(packages):
            try:
                _idle.remove(server)
            except ValueError:  # another thread has taken it
                continue
            if server.lives:
                return server
            server.close()
    return ForkServer(packages=packages)


def give_back(server: ForkServer) -> None:
    """Keep a server whose call has ended, for the next call of `borrow`."""
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


def serve(prepare: str, descriptor: int, packages: Sequence[str]) -> None:
    """Make calls for the harness, one after another, until the harness is gone.

    After each call the exit status of its process is sent back, once.  `END` has no effect if the
    call has already ended.  `descriptor` is the connection with the harness.
    """
    adopt_orphans()
    for number in _NOT_FOR_SERVERS:
        signal.signal(number, signal.SIG_IGN)
    control = Connection(descriptor)
    gc.disable()  # imports leave no garbage, and looking for it takes a fifth of their time
    # scikit-learn imports pandas, a third of the memory, only to ask for its version.
    sys.modules["pandas"] = None  # type: ignore[assignment]
    prepare_forks = pkgutil.resolve_name(prepare)
    del sys.modules["pandas"]
    with suppress(Exception):  # the process of the call raises it again
        import_packages(packages)
    prepare_forks()
    gc.collect()
    gc.enable()
    with suppress(EOFError, OSError):
        control.send("ready")
        while True:
            message = control.recv_bytes()
            if message != END:
                line = recv_handle(control)
                modules, call = pickle.loads(message)
                with suppress(Exception):  # the process of the call raises it again
                    import_packages(modules)
                gc.freeze()  # the collector of a fork does not write to pages that it shares
                control.send(_run(call, line, control))
    os._exit(0)  # the interpreter has nothing to clean up


def _run(call: bytes, line: int, control: Connection) -> int:
    """Make the call in a process, wait until it ends or `END` comes, and kill what is left."""
    child = os.fork()
    if child == 0:
        control.close()
        _make_call(call, line)
    os.close(line)
    ended = None
    with suppress(AttributeError, OSError):  # Linux has it since version 5.3
        ended = os.pidfd_open(child)
    try:
        while True:
            ready = wait([control, *filter(None, [ended])], None if ended else POLL_SECONDS)
            has_ended, status = os.waitpid(child, os.WNOHANG)
            if has_ended:
                return os.waitstatus_to_exitcode(status)
            if control in ready:
                control.recv_bytes()
                return -signal.SIGKILL
    finally:
        if ended:
            os.close(ended)
        _end_all()


def _end_all() -> None:
    """Kill all processes below this one, and wait until none is left."""
    with suppress(ChildProcessError):  # no child is left, nor an orphan
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if not ended:
                Processes(os.getpid()).kill()
                os.waitpid(-1, 0)


def _die_first() -> None:
    """Let the system kill this process before others when the machine is out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _make_call(pickled: bytes, line: int) -> NoReturn:
    """Make the call that `ForkServer.start` pickled, then end this process."""
    status = 1
    try:
        os.setpgid(0, 0)  # signals to its group do not reach the server
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
