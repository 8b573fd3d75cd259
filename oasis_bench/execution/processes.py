"""Processes of other people's code: bound to this one, limited, killed with all their children.

What needs Linux (memory of a tree of processes, orphans) does nothing elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def isolate() -> None:
    """Make this process one that `kill_tree` ends whole.

    It leads a group of its own, adopts what its children leave behind, dies with its parent, and
    is the first that the system kills where memory is short.
    """
    os.setpgid(0, 0)
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(n_bytes: int) -> None:
    """Make allocations of this process fail where they exceed what it has by `n_bytes`; Linux."""
    if sys.platform == "linux":
        import resource

        limit = _bytes_of(os.getpid(), "status", "VmData") + n_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def kill_tree(pid: int) -> None:
    """Kill a process that called `isolate`, with all that it started, also what left its group."""
    if pid != os.getpid():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # it starts no more
    killed: set[int] = set()
    while found := _descendants(pid) - killed:
        for child in found:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        killed |= found
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def tree_bytes(pid: int) -> int:
    """Return the memory of a process and all that it started, shared pages once; Linux, else 0."""
    return sum(_bytes_of(member, "smaps_rollup", "Pss") for member in (pid, *_descendants(pid)))


def exceeds(pid: int, n_bytes: int) -> bool:
    """Tell whether `tree_bytes` is more than `n_bytes`, at little cost where it is far from it."""
    members = (pid, *_descendants(pid))
    resident = sum(_bytes_of(member, "status", "VmRSS") for member in members)
    return resident > n_bytes and tree_bytes(pid) > n_bytes


def system_kills() -> int:
    """Return how often the system has killed for want of memory since it started."""
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def _descendants(pid: int) -> set[int]:
    """Find the children of a process, theirs and so on; none where /proc does not tell."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name may hold anything: the fields after it are state and parent.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            children[int(fields[1])].append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children[waiting.pop()]:
            found.add(child)
            waiting.append(child)
    return found


def _bytes_of(pid: int, file: str, field: str) -> int:
    """Read a size that /proc tells of a process; 0 where it tells none, as of a zombie."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/{file}").read_text()
        if found := re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE):
            return int(found[1]) * 1024
    return 0
