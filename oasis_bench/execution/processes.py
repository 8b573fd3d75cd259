"""Processes of other people's code: bound to this one, limited, killed with all their children.

What needs Linux (memory of a tree of processes, orphans) does nothing elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import select
import signal
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from oasis_bench.memory import read_size

_HAS_PROC = Path("/proc/self/stat").exists()
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def isolate() -> None:
    """Make this process one that `kill_tree` ends whole: a group, which adopts its orphans."""
    os.setpgid(0, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def run_supervised(told: int) -> None:
    """Return in a child of this process, which stays, runs nothing else, and ends with the child.

    It ends as the child does, after it has killed all that the child has started; and it does so,
    too, when nobody reads the pipe `told` any more.  The child holds no lock that could keep it
    from that.  Where the system has no `pidfd_open`, this is no function.
    """
    if not hasattr(os, "pidfd_open"):
        return
    child = os.fork()
    if child:
        poller = select.poll()
        poller.register(os.pidfd_open(child), select.POLLIN)
        poller.register(told, 0)  # no event asked for: it wakes when the reader is gone
        poller.poll()
        _end_as(child)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):  # where memory is short the system is to kill this first
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_as(child: int) -> NoReturn:
    """Kill all children, and end by the signal or with the status that ended one of them."""
    ended, status = os.waitpid(child, os.WNOHANG)
    kill_tree(os.getpid(), and_itself=False)
    if ended and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if ended else 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def limit_memory(n_bytes: int) -> None:
    """Make allocations of this process fail where they exceed what it has by `n_bytes`; Linux."""
    if sys.platform == "linux":
        limit = _bytes_of(os.getpid(), "status", "VmData") + n_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def kill_tree(pid: int, and_itself: bool = True) -> None:
    """Kill a process that called `isolate`, with all that it started, also what left its group."""
    if and_itself:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # it starts no more
    killed: set[int] = set()
    while found := _descendants(pid) - killed:
        for child in found:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        killed |= found
    if and_itself:
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
    return found


def _bytes_of(pid: int, file: str, field: str) -> int:
    """Read a size that /proc tells of a process; 0 where it tells none, as of a zombie."""
    with suppress(OSError):
        return read_size(field, Path(f"/proc/{pid}/{file}"))
    return 0
