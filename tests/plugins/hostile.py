"""Learners that hang, crash, eat memory and leave things behind, as a week's run must survive."""

import ctypes
import inspect
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import OASIS, Euclidean


class Sleeps(Euclidean):
    name = "Sleeps"

    def fit(self, X, y=None):
        while True:
            try:
                time.sleep(3600)
            except BaseException:
                continue


class HoldsTheGIL(Euclidean):
    name = "HoldsTheGIL"

    def fit(self, X, y=None):
        # One call of C, with the lock: no other thread and no signal handler gets its turn.
        ctypes.PyDLL(None).sleep(3600)


class HangsInSimilarity(Euclidean):
    name = "HangsInSimilarity"

    def similarity(self, queries, gallery):
        time.sleep(3600)


class Allocates(Euclidean):
    name = "Allocates"

    def fit(self, X, y=None):
        held = []
        while True:
            held.append(np.ones(10**7))


class AllocatesInChildren(Euclidean):
    """Each of them stays below the limit, and its own process does."""

    name = "AllocatesInChildren"

    def fit(self, X, y=None):
        code = "x = bytearray(10**8); import time; time.sleep(3600)"
        children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
        children[0].wait()


class LeavesChildren(Euclidean):
    """One in its group, and one that left group and session; both write their process number."""

    name = "LeavesChildren"

    def __init__(self, folder="."):
        self.folder = folder

    def fit(self, X, y=None):
        for session in (False, True):
            if (child := os.fork()) == 0:
                if session:
                    os.setsid()
                Path(self.folder, f"{session}-{os.getpid()}").touch()
                time.sleep(3600)
                os._exit(0)
            while not Path(self.folder, f"{session}-{child}").exists():
                time.sleep(0.001)
        return super().fit(X, y)


class StartsChild:
    """Starts one that leaves group and session, and writes its process number."""

    def __init__(self, folder="."):
        self.folder = folder

    def start_child(self, letter):
        child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        Path(self.folder, f"{letter}-{child.pid}").touch()


class ExitsAfterChildren(StartsChild, Euclidean):
    """Dies by itself; its child is nobody's."""

    name = "ExitsAfterChildren"

    def fit(self, X, y=None):
        self.start_child("E")
        os._exit(3)


class HoldsTheGILWithChild(StartsChild, HoldsTheGIL):
    name = "HoldsTheGILWithChild"

    def fit(self, X, y=None):
        self.start_child("G")
        (Path(self.folder) / "holds").touch()
        return super().fit(X, y)


class RaisesNonsense(Euclidean):
    """Its message cannot be written as UTF-8."""

    name = "RaisesNonsense"

    def fit(self, X, y=None):
        raise ValueError("\udcff \x1b[2J\nline two")


class TakesNoNumber(Euclidean):
    """Gives the store a text for a number."""

    name = "TakesNoNumber"

    def __init__(self, n_steps="auto"):
        self.n_steps = n_steps


class PrintsMegabytes(Euclidean):
    name = "PrintsMegabytes"

    def fit(self, X, y=None):
        for _ in range(20):
            print("x" * 10**6)
        return super().fit(X, y)


class KillsItself(Euclidean):
    name = "KillsItself"

    def fit(self, X, y=None):
        os.kill(os.getpid(), signal.SIGKILL)


class KillsItsParent(Euclidean):
    name = "KillsItsParent"

    def fit(self, X, y=None):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)


class StopsItsParent(Euclidean):
    name = "StopsItsParent"

    def fit(self, X, y=None):
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(3600)


class FillsPipes(Euclidean):
    """Writes without an end to each pipe and socket that it finds."""

    name = "FillsPipes"

    def fit(self, X, y=None):
        pipes = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _takes_messages(fd)]
        while True:
            for fd in pipes:
                os.write(fd, b"x" * 2**16)


class SendsLine(Euclidean):
    """Writes a line to each pipe and socket that it finds."""

    name = "SendsLine"

    def __init__(self, line=""):
        self.line = line

    def fit(self, X, y=None):
        left = [(fd, self.line.encode() + b"\n") for fd in map(int, os.listdir("/proc/self/fd"))]
        for fd, content in left:
            while content and _takes_messages(fd):
                content = content[os.write(fd, content) :]
        return super().fit(X, y)


class ReplaysTwice(OASIS):
    """Tells of the same checkpoint twice."""

    name = "ReplaysTwice"

    def set_params(self, **params):
        if any(frame.function == "_replay" for frame in inspect.stack(0)):
            sys.modules["oasis_bench.trial.wall"].checkpoints = lambda max_steps: [500, 500]
        return super().set_params(**params)


def _takes_messages(descriptor):
    try:
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    except OSError:
        return False


class ChangesGlobals(Euclidean):
    name = "ChangesGlobals"

    def fit(self, X, y=None):
        np.random.seed(7)  # noqa: NPY002
        np.seterr(all="raise")
        warnings.simplefilter("error")
        os.chdir("/")
        os.environ["OMP_NUM_THREADS"] = "7"
        threadpool_limits(7)
        return super().fit(X, y)
