"""Servers that fork other people's code: what is said between them and this process."""

import importlib
import os
import signal
import subprocess
import sys
import time
from multiprocessing import connection
from pathlib import Path

import pytest

from oasis_bench.execution import fork_server
from oasis_bench.execution.fork_server import ForkServer, borrow, keep_ready
from oasis_bench.system.errors import UsageError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")


FUNCTIONS = """
import os, signal, subprocess

def nothing():
    pass

def fail():
    raise RuntimeError("cannot be prepared")

def tell_folder(messages):
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = "none"
    os.write(messages, f"{folder} {os.environ.get('SAID', '')}".encode())

def wait(messages):
    signal.pause()

def signal_the_group_of_the_server(messages):
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)

def leave_a_process_and_kill_the_server(messages):
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    os.write(messages, str(child.pid).encode())
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
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


@pytest.fixture(autouse=True)
def no_others(monkeypatch):
    """Servers of other tests, and those of these, are not seen by the next."""
    monkeypatch.setattr(fork_server, "_idle", [])
    monkeypatch.setattr(fork_server, "_templates", {})
    yield
    fork_server._close_all()


@pytest.fixture
def server(functions):
    server = ForkServer("functions_of_forks:nothing")
    yield server
    server.close()


def ask(server):
    """Let a fork tell its folder and the variable SAID."""
    ours, theirs = connection.Pipe(duplex=False)
    server.start(sys.modules["functions_of_forks"].tell_folder, messages=theirs.fileno())
    theirs.close()
    connection.wait([server.sentinel], timeout=20)
    assert server.exit_code() == 0
    told = os.read(ours.fileno(), 1000).decode()
    ours.close()
    server.end()
    return told


def test_a_fork_has_the_environment_and_the_folder_of_now(server, monkeypatch, tmp_path):
    monkeypatch.setenv("SAID", "first")
    assert ask(server) == f"{os.getcwd()} first"
    monkeypatch.setenv("SAID", "second")
    monkeypatch.chdir(tmp_path)
    assert ask(server) == f"{tmp_path} second"


def test_a_folder_that_is_gone_is_no_fault_of_a_fork(server, monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert ask(server)
    monkeypatch.undo()


def test_what_is_ended_or_released_twice_is_so_once(server, functions):
    with open(os.devnull, "w") as sink:
        server.start(functions.wait, messages=sink.fileno())
    server.end()
    assert server.exit_code() == -signal.SIGKILL
    server.end()
    for _ in range(2):
        server.release()
    assert fork_server._idle == [server]
    assert borrow("functions_of_forks:nothing") is server
    assert ask(server)


def test_a_server_that_died_idle_is_not_lent(server, functions):
    server.release()
    os.kill(server.pid, signal.SIGKILL)
    assert connection.wait([server.sentinel], timeout=20)
    other = borrow("functions_of_forks:nothing")
    assert other is not server
    assert ask(other)
    other.close()


def test_a_fork_that_signals_the_group_of_its_server_harms_no_other(server, functions):
    other = ForkServer("functions_of_forks:nothing")
    with open(os.devnull, "w") as sink:
        server.start(functions.signal_the_group_of_the_server, messages=sink.fileno())
    assert connection.wait([server.sentinel], timeout=20)
    assert not server.lives
    assert ask(other)
    other.close()


def test_what_a_fork_leaves_that_kills_its_server_is_killed(server, functions):
    other = ForkServer("functions_of_forks:nothing")
    other.release()
    ours, theirs = connection.Pipe(duplex=False)
    server.start(functions.leave_a_process_and_kill_the_server, messages=theirs.fileno())
    left = int(os.read(ours.fileno(), 100))
    assert connection.wait([server.sentinel], timeout=20)
    assert server.exit_code() == -signal.SIGKILL
    assert Path(f"/proc/{left}").exists()
    server.end()
    server.release()
    while Path(f"/proc/{left}").exists():
        time.sleep(0.01)
    assert borrow("functions_of_forks:nothing") is other
    assert ask(other)
    other.close()


def test_idle_servers_of_another_kind_are_not_lent(server, functions):
    server.release()
    other = borrow("functions_of_forks:fail")
    assert other is not server
    other.close()


def test_a_server_that_cannot_prepare_is_an_error_of_the_run(functions, capfd):
    with pytest.raises(UsageError, match="ended before it was ready"):
        ForkServer("functions_of_forks:fail").start(functions.wait, messages=0)
    assert "RuntimeError: cannot be prepared" in capfd.readouterr().err


def test_an_interrupted_end_leaves_no_server_that_could_mistake_the_next(
    server, functions, monkeypatch
):
    with open(os.devnull, "w") as sink:
        server.start(functions.wait, messages=sink.fileno())

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "_read_status", interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.end()
    server.release()
    assert not server.lives
    assert fork_server._idle == []


def test_a_path_object_on_the_import_path_is_passed_over(functions, monkeypatch):
    monkeypatch.setattr(sys, "path", [Path("/nowhere"), *sys.path])
    server = ForkServer("functions_of_forks:nothing")
    assert ask(server)
    server.close()


def test_the_servers_of_a_process_are_not_those_of_its_fork():
    code = (
        "import os, sys\n"
        "from oasis_bench.execution import fork_server\n"
        "fork_server.keep_ready(1, 'os:getpid')\n"
        "if os.fork() == 0: os._exit(len(fork_server._idle))\n"
        "print(os.wait()[1], len(fork_server._idle))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "1"]


def test_servers_are_kept_ready(server, functions):
    server.release()
    keep_ready(2, "functions_of_forks:nothing")
    assert len(fork_server._idle) == 2
    assert server in fork_server._idle
