"""What a stretch of code costs, also on systems that tell less than Linux."""

import os
import subprocess
import sys
import time

import pytest

from oasis_bench.system import linux
from oasis_bench.trial.learner_side.meter import Meter

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak")


def cost_of(work):
    meter = Meter(os.getpid())
    with meter:
        work()
    return meter.cost()


def busy():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass


def test_where_the_system_does_not_tell_the_peak_the_rest_is_measured(monkeypatch):
    """As on macOS, whose Python has no os.waitid before 3.13."""
    monkeypatch.delattr(os, "waitid")
    monkeypatch.setattr(linux, "reset_peak", lambda: False)
    monkeypatch.setattr(f"{Meter.__module__}.scheduled_seconds", lambda: None)
    cost = cost_of(busy)
    assert cost.cpu_seconds >= 0.05
    assert cost.seconds >= 0.05
    assert cost.peak_bytes is None
    assert cost.waiting_seconds is None


@ON_LINUX
def test_the_peak_is_that_of_a_process_without_children():
    code = (
        "import os\n"
        "from oasis_bench.trial.learner_side.meter import Meter\n"
        "meter = Meter(os.getpid())\n"
        "with meter:\n"
        "    rows = bytearray(30_000_000)\n"
        "    del rows\n"
        "print(meter.cost().peak_bytes)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0)\n"
        "print(meter.cost().peak_bytes)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone, with_a_child = told.stdout.split()
    assert 29_000_000 < int(alone) < 40_000_000
    assert with_a_child == "None"
