"""What a stretch of code costs, also on systems that tell less than Linux."""

import os
import subprocess
import sys
import time

import pytest

from oasis_bench.system import machine
from oasis_bench.trial.harness_side.inbox import HarnessClock
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
    monkeypatch.setattr(machine, "reset_peak", lambda: False)
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


@pytest.mark.parametrize(
    ("work", "said", "charged"),
    [
        (0.0, (0.2, 0.01), (0.2, 0.01)),  # small times are as the process says
        (0.02, (0.001, 0.001), (0.001, 0.001)),  # the harness's work around a fit
        (0.2, (0.001, 0.001), None),
        (0.2, (0.001, 5.0), None),  # it says too little of the wall clock alone
    ],
)
def test_where_the_harness_reads_far_more_its_reading_is_charged(work, said, charged):
    """A child of this process works for some time: one that no clock of its own is asked about."""
    code = (
        "import sys, time\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "end = time.process_time() + float(sys.argv[1])\n"
        "while time.process_time() < end: pass\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", code, str(work)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        before = time.monotonic()
        clock = HarnessClock(os.getpid(), wall_tolerance=0.1 if said[1] > 1 else 10.0)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        found = clock.charge(*said)
        took = time.monotonic() - before
        child.communicate(b"\n")
    if charged is not None:
        assert found == charged
    else:
        assert work <= found[0] <= took
        assert found[1] == said[1] if said[1] > 1 else work <= found[1] < work + 0.1


ENDING_THREADS = """
import subprocess, threading
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
while True:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
"""


def test_a_child_is_found_while_threads_of_its_parent_end():
    command = [sys.executable, "-c", ENDING_THREADS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        below = machine.Processes(parent.pid)
        child = int(parent.stdout.readline())
        found = [child in [process.pid for process in below.all()] for _ in range(10_000)]
        below.kill()
        parent.kill()
    assert all(found)


ENDS_ITS_CHILDREN = """
import os, sys, threading, time
from oasis_bench.system import Processes
below, most = Processes(os.getpid()), 0.0
for _ in range(60):
    child = os.fork()
    if child == 0:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        os._exit(0)
    reaper = threading.Thread(target=os.waitpid, args=(child, 0))
    reaper.start()
    while reaper.is_alive():
        now = below.cpu_seconds(but=-1)
        if now < most - 0.015:
            sys.exit(f"{now} after {most}")
        most = max(most, now)
"""


def test_the_time_of_a_process_that_ends_meanwhile_is_not_lost():
    made = subprocess.run(
        [sys.executable, "-c", ENDS_ITS_CHILDREN], capture_output=True, text=True, timeout=120
    )
    assert (made.returncode, made.stderr) == (0, "")
