"""Learners that take their time, in the fit or after it."""

import os
import sys
import time

from oasis_bench.algorithms import OASIS, Euclidean

N_TRAIN = 18
"""All training rows: more than the warm-up has, which are 16."""


class SlowsDown(Euclidean):
    name = "SlowsDown"

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def fit(self, X, y=None):
        time.sleep(self.seconds)
        return super().fit(X, y)


class NeverWarm(Euclidean):
    """Does not converge on the few rows of the warm-up."""

    name = "NeverWarm"

    def fit(self, X, y=None):
        while len(X) < N_TRAIN:
            time.sleep(0.01)
        return super().fit(X, y)


class ImportsMuch(Euclidean):
    """Needs a package that is to be there before its warm-up."""

    name = "ImportsMuch"
    imports = ("wave",)

    def fit(self, X, y=None):
        if "wave" not in sys.modules:
            raise ImportError("wave was not imported before the fit")
        return super().fit(X, y)


class HangsInReplay(OASIS):
    """Learns at once what it learns step by step for ever: only the replay of the traces hangs."""

    name = "HangsInReplay"
    search_space = {}  # noqa: RUF012

    def partial_fit(self, X, y, n_steps=None, progress=None):
        if len(X) == N_TRAIN:  # not the rows of a fold
            time.sleep(3600)
        return super().partial_fit(X, y, n_steps)


class RaisesInReplay(HangsInReplay):
    """Its message cannot be written as UTF-8."""

    name = "RaisesInReplay"

    def partial_fit(self, X, y, n_steps=None, progress=None):
        if len(X) == N_TRAIN:
            raise ValueError("\udcff")
        return super().partial_fit(X, y, n_steps)


def spin():
    """Take 0.3 seconds of processor time."""
    start = time.process_time()
    while time.process_time() - start < 0.3:
        pass


class Spins(Euclidean):
    name = "Spins"

    def fit(self, X, y=None):
        spin()
        return super().fit(X, y)


class SpinsInChild(Euclidean):
    name = "SpinsInChild"

    def fit(self, X, y=None):
        if (child := os.fork()) == 0:
            spin()
            os._exit(0)
        os.waitpid(child, 0)
        return super().fit(X, y)
