"""Learners that leave processes and kill the fork server, at a chosen stage of their trial."""

import os
import subprocess
import time
from pathlib import Path

import psutil

from oasis_bench.algorithms import OASIS, Euclidean

LEFT = Path(__file__).with_name("left")
"""The folder for the numbers of the processes that they leave."""

N_FOLD, N_TRAIN, N_TEST = 9, 18, 12
"""Rows of a fold, of the fit and of the test; the warm-up has 16."""


def kill_the_server():
    if (forked := os.fork()) == 0:
        os.setsid()
        time.sleep(3600)
        os._exit(0)
    started = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    for pid in (forked, started.pid):
        (LEFT / str(pid)).touch()
    forks = [one for one in psutil.Process().parents() if "serve(" in " ".join(one.cmdline())]
    forks[-1].kill()
    time.sleep(3600)


class KillsTheServer(Euclidean):
    name = "KillsTheServer"

    def __init__(self, when="never"):
        self.when = when

    def fit(self, X, y=None):
        if (self.when, len(X)) in [("fold", N_FOLD), ("fit", N_TRAIN)]:
            kill_the_server()
        return super().fit(X, y)

    def similarity(self, queries, gallery):
        if self.when == "similarity" and len(gallery) == N_TEST:
            kill_the_server()
        return super().similarity(queries, gallery)

    def __setstate__(self, state):
        super().__setstate__(state)
        if self.when == "copy":
            kill_the_server()


class KillsTheServerInReplay(OASIS):
    """Its fit takes all steps at once, its replay one checkpoint after the other."""

    name = "KillsTheServerInReplay"
    search_space = {}  # noqa: RUF012

    def partial_fit(self, X, y, n_steps=None, progress=None):
        if len(X) == N_TRAIN:
            kill_the_server()
        return super().partial_fit(X, y, n_steps)
