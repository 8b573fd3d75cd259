"""The machine: its processes and their memory; where and with what a run was made.

What only Linux reports or does (prctl, /proc, control groups, glibc) does nothing on other systems,
or returns None or 0 for 'not known'.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
from threadpoolctl import threadpool_info

_IS_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

SMALL_BYTES = 64 * 2**20
"""The figures of free memory are not exact enough to refuse an array of at most this size."""

# --- trees of processes


class Processes:
    """The processes below another one: its children, their children and so on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def all(self) -> list[psutil.Process]:
        """List the children of the process, their children and so on; none where it has ended."""
        if (numbers := _children(self._pid)) is None:
            with suppress(psutil.NoSuchProcess):
                return list(psutil.Process(self._pid).children(recursive=True))
            return []
        found = []
        while numbers:
            child = numbers.pop()
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(child))
            numbers += _children(child) or []
        return found

    def kill(self) -> None:
        """Kill them all, also those that are started meanwhile."""
        _kill_all(self.all)

    def cpu_seconds(self, but: int) -> float:
        """Return the processor time of what is below, ended processes included.

        Process `but` and its ended children are left out.
        """
        # A process that ends while one sum is made may be missing in it; then the other has it.
        return max(self._sum_of_cpu_seconds(but) for _ in range(2))

    def _sum_of_cpu_seconds(self, but: int) -> float:
        total = 0.0
        with suppress(psutil.Error):
            # Ended children, and orphans that it adopted.
            times = psutil.Process(self._pid).cpu_times()
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        for process in self.all():
            if process.pid != but:
                with suppress(psutil.Error):
                    user, system, *of_children = process.cpu_times()[:4]  # of those that have ended
                    own = user + system
                    if _IS_LINUX:  # the clock of clock_getcpuclockid(3): no ticks of 10 ms
                        with suppress(OSError):
                            own = time.clock_gettime((~process.pid << 3) | 2)
                    total += own + sum(of_children)
        return total

    def n_bytes(self) -> int:
        """Return the memory of all; on Linux, pages that they share count once."""
        total = 0
        for process in self.all():
            with suppress(psutil.Error):
                memory = process.memory_full_info()
                total += getattr(memory, "pss", memory.rss)
        return total

    def take_more_than(self, n_bytes: int) -> bool:
        """Tell whether they take more than `n_bytes`, at little cost where it is far from it."""
        resident = 0
        for process in self.all():
            with suppress(psutil.Error):
                resident += process.memory_info().rss
        return resident > n_bytes and self.n_bytes() > n_bytes


def adopt_orphans() -> None:
    """Make this process the parent of each process below it whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Let the system kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_marked(name: str, value: str) -> None:
    """Kill all processes with a variable in the environment, which children inherit."""

    def has_mark(process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            return bool(process.environ().get(name) == value)
        return False

    _kill_all(lambda: list(filter(has_mark, psutil.process_iter())))


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _children(pid: int) -> list[int] | None:
    """List the children of a process; None where the system does not tell.

    psutil looks at all processes of the machine for this, which takes some milliseconds.
    """
    while True:
        # The file of a thread that has ended is gone, and its children are another thread's.
        with suppress(FileNotFoundError, ProcessLookupError):
            texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
            return [int(child) for text in texts for child in text.split()] if texts else None


def _kill_all(find: Callable[[], list[psutil.Process]]) -> None:
    killed: set[psutil.Process] = set()
    while found := set(find()) - killed:
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        killed |= found


# --- memory


class PeakMemory:
    """Measures resident memory above a start, to some hundred kilobytes; on Linux only."""

    def __init__(self) -> None:
        # Memory that is free but resident would hide what the next code takes.
        gc.collect()
        _return_free_memory()
        resident = resident_bytes() if reset_peak() else None
        self._start = None if resident is None else resident[0]

    def peak(self) -> int | None:
        """Return the bytes resident at the peak since the start, or None."""
        resident = None if self._start is None else resident_bytes()
        return None if resident is None else resident[1]

    def above_start(self) -> int | None:
        """Return bytes at the peak since the start above those at the start, or None."""
        peak = self.peak()
        return None if self._start is None or peak is None else max(0, peak - self._start)


def reset_peak() -> bool:
    """Set the peak of resident memory to what is resident now; tell whether that worked."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def resident_bytes() -> tuple[int, int] | None:
    """Return the resident memory of this process: now, and at its peak since `reset_peak`."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    now, peak = (re.search(rf"^{key}:\s+(\d+) kB$", status, re.M) for key in ("VmRSS", "VmHWM"))
    return (int(now[1]) * 1024, int(peak[1]) * 1024) if now and peak else None


def _return_free_memory() -> None:
    """Give memory that was freed back to the system; only with glibc."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise MemoryError where so much cannot be had, before the system kills the process for it.

    `what` takes it, the subject of the message; `remedy` is what the user can do, its end.
    """
    if n_bytes <= SMALL_BYTES:
        return
    free = available_bytes()
    if n_bytes > free:
        raise MemoryError(f"{what} needs {_size(n_bytes)}, but {_size(free)} are free: {remedy}")


def available_bytes() -> int:
    """Return how much more memory this process may take.

    The least of what these leave: the memory of the machine and, on Linux, the limits of the
    process (RLIMIT_AS, RLIMIT_DATA) and of its control groups.  File cache counts as free, swap
    space does not.
    """
    of_machine: int = psutil.virtual_memory().available
    return max(0, min([of_machine, *_limits_left()]))


def _limits_left() -> list[int]:
    """Return the bytes that each limit on this process and its control groups leaves."""
    if not _IS_LINUX:
        return []
    used = psutil.Process().memory_info()
    left = []
    for kind, n_bytes in ((resource.RLIMIT_AS, used.vms), (resource.RLIMIT_DATA, used.data)):
        soft_limit, _ = resource.getrlimit(kind)
        if soft_limit != resource.RLIM_INFINITY:
            left.append(soft_limit - n_bytes)
    with suppress(OSError):
        left += group_limits_left(Path("/proc/self/cgroup").read_text(), Path("/sys/fs/cgroup"))
    return left


def group_limits_left(groups: str, root: Path) -> list[int]:
    """Return the bytes that each control group with a limit leaves; file cache counts as free.

    `groups` is the text of /proc/self/cgroup, of version 2, and `root` is /sys/fs/cgroup.
    """
    left = []
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        path = PurePosixPath(group.lstrip("/"))
        # In a container the group's own folder may be out of sight, and its limit at the top.
        for part in (path, *path.parents) if not controllers else ():
            with suppress(OSError):
                most = (root / part / "memory.max").read_text().strip()
                used = int((root / part / "memory.current").read_text())
                lines = (root / part / "memory.stat").read_text().splitlines()
                counts = dict(line.split(maxsplit=1) for line in lines)
                cached = sum(int(counts.get(f"{age}_file", 0)) for age in ("active", "inactive"))
                left += [] if most == "max" else [int(most) - used + cached]
    return left


def _size(n_bytes: int) -> str:
    if n_bytes < 2**30:
        return f"{n_bytes / 2**20:.0f} MiB"
    return f"{n_bytes / 2**30:,.1f} GiB"


# --- machine, versions, commit, thread pools, load

DISTRIBUTIONS = (
    "oasis-bench",
    "numpy",
    "scipy",
    "scikit-learn",
    "metric-learn",
    "pandas",
    "threadpoolctl",
)


def describe_machine() -> dict[str, Any]:
    """Describe this machine and this installation, for the store."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "processor": processor_name(),
        "cores": n_cores(),
        "commit": _commit(),
        "versions": _versions(),
        "thread pools": [
            {
                "library": pool["internal_api"],
                "version": pool["version"],
                "architecture": pool.get("architecture"),
            }
            for pool in threadpool_info()
        ],
    }


def n_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Return the model of this machine's processor.

    On x86 with its family and number: a virtual machine's name may be 'AMD EPYC' for all of them.
    """
    lines = (rf"{key}\s*:\s*(.+)" for key in ("cpu family", "model", "model name"))
    with suppress(OSError):
        if match := re.search("\n".join(lines), Path("/proc/cpuinfo").read_text()):
            return "{2} (family {0}, model {1})".format(*match.groups())
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the checkout's commit, marked where the tree has changes; None outside one.

    Changed results do not count: a suite writes them while it runs.
    """
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head, status = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (
                ("rev-parse", "HEAD"),
                ("status", "--porcelain", "--", ".", ":!docs/results"),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} (with uncommitted changes)" if status else head


_distributions_of_modules = cache(packages_distributions)
"""It reads the list of files of every installed distribution: as long as a small trial takes."""


def _versions() -> dict[str, str]:
    """Return the versions of `DISTRIBUTIONS` and of all distributions with a loaded module."""
    of_modules = _distributions_of_modules()
    loaded = {name.partition(".")[0] for name in list(sys.modules)} & of_modules.keys()
    names = {name for module in loaded for name in of_modules[module]}
    return {name: _version(name) for name in sorted({*DISTRIBUTIONS, *names})}


_version = cache(version)
