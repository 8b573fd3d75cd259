"""A learner that says that it has begun, and then learns for an hour."""

import os
import time
from pathlib import Path

from oasis_bench.algorithms import Euclidean


class Sleeper(Euclidean):
    name = "Sleeper"

    def __init__(self, marker=""):
        self.marker = marker

    def fit(self, X, y=None):
        partial = Path(f"{self.marker}.{os.getpid()}")  # folds sleep side by side
        partial.write_text(str(os.getpid()))
        partial.rename(self.marker)
        time.sleep(3600)
