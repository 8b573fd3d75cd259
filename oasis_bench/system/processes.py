"""Trees of processes, seen through psutil: what they take together, and their end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import psutil

from oasis_bench.system import linux


def descendants(pid: int) -> list[psutil.Process]:
    """List the children of a process, their children and so on; none where it has ended."""
    if (numbers := linux.children(pid)) is None:
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(pid).children(recursive=True))
        return []
    found = []
    while numbers:
        child = numbers.pop()
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(child))
        numbers += linux.children(child) or []
    return found


def kill_below(pid: int) -> None:
    """Kill all descendants of a process, also those that are started meanwhile."""
    _kill_all(lambda: descendants(pid))


def kill_marked(name: str, value: str) -> None:
    """Kill all processes with a variable in the environment, which children inherit."""

    def has_mark(process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            return bool(process.environ().get(name) == value)
        return False

    _kill_all(lambda: list(filter(has_mark, psutil.process_iter())))


def _kill_all(find: Callable[[], list[psutil.Process]]) -> None:
    killed: set[psutil.Process] = set()
    while found := set(find()) - killed:
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        killed |= found


def cpu_seconds_below(pid: int, but: int) -> float:
    """Return the processor time of what is below a process, ended processes included.

    Process `but` and its ended children are left out.
    """
    total = 0.0
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()  # ended children and orphans that it adopted
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    for process in descendants(pid):
        if process.pid != but:
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])  # user, system, and ended children's
    return total


def bytes_below(pid: int) -> int:
    """Return the memory of all descendants; on Linux, pages that they share count once."""
    total = 0
    for process in descendants(pid):
        with suppress(psutil.Error):
            memory = process.memory_full_info()
            total += getattr(memory, "pss", memory.rss)
    return total


def exceeds(pid: int, n_bytes: int) -> bool:
    """Tell whether `bytes_below` is more than `n_bytes`, at little cost where it is far from it."""
    resident = 0
    for process in descendants(pid):
        with suppress(psutil.Error):
            resident += process.memory_info().rss
    return resident > n_bytes and bytes_below(pid) > n_bytes
