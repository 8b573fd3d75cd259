"""Fixtures of several tests: throw-away plugins, a tiny experiment and its data, made-up runs.

Also what makes the whole suite fast: one thread of BLAS a process.
"""

import os
import signal
from pathlib import Path

# Before NumPy reads them: on rows as few as those of tests, threads of BLAS wait for each other.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import browser
import fake_runs
import numpy as np
import pytest
from local_server import serve
from sklearn.preprocessing import normalize
from small_runs import small

from oasis_bench.command_line import main
from oasis_bench.data import LabelledRows
from oasis_bench.execution.machine import ThisMachine


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Let Ctrl-C reach the tests of it, also where a shell started them in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def plugins():
    """Return the folder of the throw-away plugins."""
    return Path(__file__).parent / "plugins"


@pytest.fixture
def command(capsys):
    """Call the command line; return its exit status, output and error lines."""

    def call(*words):
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:  # argparse's way out
            status = stop.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err.splitlines()

    return call


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve the folder `site` of `tmp_path`, which is empty, by HTTP."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "site").mkdir()
    with serve(tmp_path / "site") as server:
        yield server


@pytest.fixture(scope="module")
def driver():
    """Start a Chromium for the tests of a file."""
    started = browser.start()
    yield started
    started.quit()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the folder of the cache, which is empty; the folder of data sets is `tmp_path`."""
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    return tmp_path / "cache"


@pytest.fixture
def numbered_rows():
    """6 classes of 12 rows whose column 0 is the row's number; the others hold noise."""
    X = np.random.default_rng(0).normal(size=(72, 4))
    X[:, 0] = np.arange(72)
    return LabelledRows(X, np.arange(72) % 6, tuple("abcdef"))


@pytest.fixture
def rows():
    """Sparse rows of unit length, one empty, and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.3)
    X[7] = 0
    return normalize(X), rng.integers(4, size=40)


@pytest.fixture
def experiment():
    """A small experiment on rows such as `numbered_rows`."""
    sizes = {"classes": (2, 3), "partitions": 2, "train_per_class": 6, "test_per_class": 4}
    return small(["OASIS", "Euclidean"], **sizes)


@pytest.fixture
def run_trial(tmp_path):
    """Return what runs one trial in its own processes, as a run does, and gives its record."""

    def run(spec, rows):
        with ThisMachine(jobs=1).run([spec], rows, tmp_path / "output.log") as records:
            (record,) = records
        return record

    return run


@pytest.fixture
def write_run(tmp_path):
    """Return what writes a run of made-up trials into a new folder, given by its name."""

    def write(name, trials, **others):
        return fake_runs.write_run(tmp_path / name, trials, **others)

    return write
