"""Processes of other people's code: bound to this one, limited, counted and killed as a tree.

What needs Linux (memory of a tree of processes, orphans) does nothing elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from oasis_bench.system.memory import read_size

_HAS_PROC = Path("/proc/self/stat").exists()
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_C = ctypes.CDLL(None) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Make what descends from this process its child when the parent dies; Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Kill this process when its parent ends, and before others where memory is short; Linux."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _prctl(option: int, value: int) -> None:
    if _C is not None:
        _C.prctl(option, value, 0, 0, 0)


def limit_memory(n_bytes: int) -> None:
    """Make allocations of this process fail where they exceed what it has by `n_bytes`; Linux."""
    if sys.platform == "linux":
        limit = _bytes_of(os.getpid(), "status", "VmData") + n_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def kill_below(pid: int) -> None:
    """Kill all that a process has started, and what this has started; Linux."""
    killed: set[int] = set()
    while found := descendants(pid) - killed:
        for child in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        killed |= found


def bytes_below(pid: int) -> int:
    """Return the memory of all that a process has started, shared pages once; Linux, else 0."""
    return sum(_bytes_of(member, "smaps_rollup", "Pss") for member in descendants(pid))


def exceeds(pid: int, n_bytes: int) -> bool:
    """Tell whether `bytes_below` is more than `n_bytes`, at little cost where it is far from it."""
    resident = sum(_bytes_of(member, "status", "VmRSS") for member in descendants(pid))
    return resident > n_bytes and bytes_below(pid) > n_bytes


def system_kills() -> int:
    """Return how often the system has killed for want of memory since it started."""
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def descendants(pid: int) -> frozenset[int]:
    """Find the children of a process, theirs and so on; none where /proc does not tell."""
    children: dict[int, list[int]] = defaultdict(list)
    numbers = [name for name in os.listdir("/proc") if name.isdecimal()] if _HAS_PROC else []
    for number in numbers:
        with suppress(OSError), open(f"/proc/{number}/stat", "rb") as stat:
            # The name may hold anything: the fields after it are state and parent.
            parent = stat.read().rpartition(b")")[2].split(maxsplit=2)[1]
            children[int(parent)].append(int(number))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children[waiting.pop()]:
            found.add(child)
            waiting.append(child)
    return frozenset(found)


def _bytes_of(pid: int, file: str, field: str) -> int:
    """Read a size that /proc tells of a process; 0 where it tells none, as of a zombie."""
    with suppress(OSError):
        return read_size(field, Path(f"/proc/{pid}/{file}"))
    return 0
