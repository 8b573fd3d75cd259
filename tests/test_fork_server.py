"""Fork servers: what their forks get, and what a fork cannot do to others."""

import importlib
import os
import signal
import subprocess
import sys
import time
from multiprocessing import connection

import psutil
import pytest
from small_runs import lives

from oasis_bench.execution import fork_server
from oasis_bench.execution.fork_server import END_SECONDS, ForkServer
from oasis_bench.system import UsageError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's prctl")

FUNCTIONS = """
import os, signal, subprocess
import psutil

def nothing():
    pass

def without_pidfd():
    del os.pidfd_open

def fail():
    raise RuntimeError("cannot be prepared")

def send_folder(messages):
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = "none"
    os.write(messages, f"{folder} {os.environ.get('SAID', '')}".encode())

def wait(messages):
    os.write(messages, b"waits")
    signal.pause()

def exit_at_once(messages):
    raise SystemExit(7)

def stop_the_parent(messages):
    os.kill(os.getppid(), signal.SIGSTOP)
    os.write(messages, b"stopped")
    signal.pause()

def signal_the_group_of_the_parent(messages):
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    signal.pause()

def leave_a_process(messages):
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    os.write(messages, str(child.pid).encode())

def leave_processes_and_kill_the_parent(messages):
    forked = os.fork()
    if forked == 0:
        os.setsid()
        signal.pause()
    started = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    os.write(messages, f"{forked} {started.pid}".encode())
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()

def tell_modules(messages):
    import sys
    os.write(messages, " ".join(sys.modules).encode())
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """Return a module that servers can import too."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions_of_forks.py").write_text(FUNCTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("functions_of_forks")
    del sys.modules["functions_of_forks"]


@pytest.fixture
def server(functions):
    server = ForkServer("functions_of_forks:nothing")
    yield server
    server.close()


def start(server, function, module=""):
    """Start a fork and return the end of the pipe on which it sends."""
    ours, theirs = connection.Pipe(duplex=False)
    server.start(function, line=theirs.fileno(), module=module)
    theirs.close()
    return ours


def exit_code_of(server):
    """Wait until the fork has ended."""
    while (code := server.exit_code()) is None:
        assert connection.wait([server.sentinel], timeout=60)
    return code


def sent_by(server, function, module=""):
    """Let a fork run to its end and return what it sent."""
    ours = start(server, function, module)
    assert exit_code_of(server) == 0
    with ours:
        return os.read(ours.fileno(), 2**16).decode()


def test_a_fork_has_the_environment_and_the_folder_of_now(server, functions, monkeypatch, tmp_path):
    monkeypatch.setenv("SAID", "first")
    assert sent_by(server, functions.send_folder) == f"{os.getcwd()} first"
    monkeypatch.setenv("SAID", "second")
    monkeypatch.chdir(tmp_path)
    assert sent_by(server, functions.send_folder) == f"{tmp_path} second"


def test_where_no_process_can_be_waited_for_calls_end_too(functions):
    server = ForkServer("functions_of_forks:without_pidfd")
    try:
        assert sent_by(server, functions.send_folder)
        with start(server, functions.wait) as messages:
            assert os.read(messages.fileno(), 10) == b"waits"
            server.end()
            assert exit_code_of(server) == -signal.SIGKILL
    finally:
        server.close()


def test_a_working_folder_that_was_removed_does_not_stop_a_fork(
    server, functions, monkeypatch, tmp_path
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert sent_by(server, functions.send_folder)
    monkeypatch.undo()


def test_a_fork_that_is_ended_before_the_server_is_ready_is_ended(server, functions):
    with start(server, functions.wait):
        server.end()
        assert exit_code_of(server) == -signal.SIGKILL


def test_sys_exit_in_a_fork_is_its_end_and_the_server_lives(server, functions):
    with start(server, functions.exit_at_once):
        assert exit_code_of(server) == 1
    assert sent_by(server, functions.send_folder)


def test_a_process_that_a_fork_leaves_is_dead_when_the_fork_has_ended(server, functions):
    left = int(sent_by(server, functions.leave_a_process))
    assert not psutil.pid_exists(left)
    assert server.lives


def test_a_fork_that_stops_its_parent_can_be_ended(server, functions):
    with start(server, functions.stop_the_parent) as messages:
        assert os.read(messages.fileno(), 10) == b"stopped"
        assert server.exit_code() is None
        server.end()
        assert exit_code_of(server) == -signal.SIGKILL
    assert sent_by(server, functions.send_folder)


def test_a_fork_that_signals_the_group_of_its_parent_ends_its_own_call(server, functions):
    with start(server, functions.signal_the_group_of_the_parent):
        assert exit_code_of(server) == -signal.SIGKILL
    assert not server.lives


def test_a_fork_dies_with_its_server(server, functions):
    with start(server, functions.wait) as messages:
        assert os.read(messages.fileno(), 10) == b"waits"
        below = psutil.Process(server.pid).children(recursive=True)
        assert len(below) == 1
        os.kill(server.pid, signal.SIGKILL)
        assert exit_code_of(server) == -signal.SIGKILL
    assert not server.lives
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive


def test_what_a_fork_leaves_is_dead_when_it_has_killed_its_server(server, functions):
    with start(server, functions.leave_processes_and_kill_the_parent) as messages:
        left = os.read(messages.fileno(), 100).split()
        assert len(left) == 2
        assert exit_code_of(server) == -signal.SIGKILL
    assert not server.lives
    assert server.sentinel.closed
    _, alive = psutil.wait_procs([psutil.Process(int(pid)) for pid in left if lives(pid)], 10)
    assert not any(lives(process.pid) for process in alive)


def test_a_server_that_is_killed_before_it_is_ready_ends_its_call(server, functions):
    os.kill(server.pid, signal.SIGKILL)
    with start(server, functions.wait):
        assert exit_code_of(server) == -signal.SIGKILL


def test_a_server_that_was_stopped_goes_on(server, functions):
    for _ in ("before it is ready", "between two calls"):
        os.kill(server.pid, signal.SIGSTOP)
        assert sent_by(server, functions.send_folder)
    with start(server, functions.wait) as messages:
        assert os.read(messages.fileno(), 10) == b"waits"
        os.kill(server.pid, signal.SIGSTOP)
        before = time.monotonic()
        server.end()
        assert time.monotonic() - before < END_SECONDS / 2
    assert sent_by(server, functions.send_folder)
    os.kill(server.pid, signal.SIGSTOP)
    before = time.monotonic()
    server.close()
    assert time.monotonic() - before < END_SECONDS / 2


def test_a_server_that_cannot_prepare_is_a_clear_error(functions, capfd):
    server = ForkServer("functions_of_forks:fail")
    with start(server, functions.wait), pytest.raises(UsageError, match="before it was ready"):
        exit_code_of(server)
    assert "RuntimeError: cannot be prepared" in capfd.readouterr().err


def test_a_server_with_packages_is_borrowed_for_them_alone(functions, monkeypatch):
    """A fork finds them imported; one that is not installed changes nothing."""
    monkeypatch.setattr(fork_server, "_idle", [])  # servers of other tests have other paths
    packages = ("tabnanny", "no_such_package")
    server = fork_server.borrow(packages)
    try:
        assert "tabnanny" in sent_by(server, functions.tell_modules).split()
        fork_server.give_back(server)
        other = fork_server.borrow()
        assert other is not server
        assert "tabnanny" not in sent_by(other, functions.tell_modules).split()
        assert fork_server.borrow(packages) is server
        other.close()
    finally:
        server.close()


def test_an_interrupted_end_closes_the_server(server, functions, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    with start(server, functions.wait) as messages:
        assert os.read(messages.fileno(), 10) == b"waits"
        monkeypatch.setattr(server, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            server.end()
    assert not server.lives


def test_a_harness_that_is_killed_leaves_no_process_of_its_servers():
    code = (
        "import time\n"
        "from oasis_bench.execution import fork_server\n"
        "server = fork_server.ForkServer('os:getpid')\n"
        "server.sentinel.poll(60)\n"
        "print(server.pid, flush=True); time.sleep(3600)\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(harness.stdout.readline())
    below = psutil.Process(harness.pid).children(recursive=True)
    assert pid in {process.pid for process in below}
    harness.kill()
    harness.communicate()
    deadline = time.monotonic() + 60
    while any(map(psutil.Process.is_running, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(process.is_running() for process in below)


def test_a_server_imports_the_module_of_our_learners_and_of_no_other(functions):
    first = ForkServer()  # after a change of a file it imports all, to remember their names
    sent_by(first, functions.tell_modules)
    first.close()
    server = ForkServer()
    lego, user_file = "oasis_bench.algorithms.lego", "tabnanny"
    before = sent_by(server, functions.tell_modules).split()
    assert "sklearn" in before
    assert not {lego, "pandas"} & set(before)
    assert lego in sent_by(server, functions.tell_modules, lego).split()
    assert lego in sent_by(server, functions.tell_modules).split()
    assert user_file not in sent_by(server, functions.tell_modules, user_file).split()
    broken = "oasis_bench.algorithms.no_such_module"  # the process of the trial reports it
    assert broken not in sent_by(server, functions.tell_modules, broken).split()
    server.close()


def test_trials_begin_with_nothing_of_the_harness_side():
    code = """
import pkgutil, sys
from oasis_bench.execution.fork_server import PREPARE_TRIALS

pkgutil.resolve_name(PREPARE_TRIALS)()
print("oasis_bench.trial.learner_side.stages" in sys.modules)
print([name for name in sys.modules if "oasis_bench.trial.harness_side" in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "[]"]
