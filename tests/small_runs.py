"""Small experiments on the scanned digits, and runs of them by the command line."""

import contextlib
import re
import sys
import time
from pathlib import Path

import psutil
from sklearn.datasets import load_digits

from oasis_bench.data import LabelledRows
from oasis_bench.datasets import Digits
from oasis_bench.experiment import Experiment, LearnerSpec, Plan
from oasis_bench.plugins import Registry
from oasis_bench.runs import Watcher


def small(learners, dataset="digits", **changes):
    """Make an experiment of a second; `learners` are names, or their settings by name."""
    if not isinstance(learners, dict):
        learners = {name: LearnerSpec(name) for name in learners}
    sizes = {"classes": (2,), "partitions": 1, "inner_folds": 2, "max_steps": 1000}
    sizes |= {"train_per_class": 8, "test_per_class": 6, "traces": False}
    return Experiment("Small", str(dataset), learners, **{**sizes, **changes})


def digit_rows():
    """Return the digits as a data set gives them."""
    return LabelledRows(*load_digits(return_X_y=True), tuple("0123456789"))


def trials_of(experiment, rows=None, plugin_files=()):
    """List the trials of an experiment on the digits, or on some other rows."""
    registry = Registry.load(plugin_files)
    rows = rows or digit_rows()
    return Plan.of(experiment, Digits(), rows, registry, plugin_files=plugin_files).trials


class OnTrial(Watcher):
    """Calls a function when a trial has ended, or the first begins."""

    def __init__(self, trial):
        self.trial = trial


def wait_for(condition, seconds):
    """Wait until a condition holds, but no longer than that."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def lives(pid):
    """Tell whether a process is there; where nobody waits for it, its number stays."""
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of_session(session):
    """List the live processes of a session: all that a command started, and zombies apart."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, state, _, _, of_session = re.match(
                r"\d+ (\(.*\)) (\S) (\S+) (\S+) (\d+)", stat.read_text(), re.DOTALL
            ).groups()
            if int(of_session) == session and state != "Z":
                found.append(name)
    return found


def bench(*words):
    """Return the command of a process of its own."""
    return [sys.executable, "-m", "oasis_bench", *map(str, words)]
