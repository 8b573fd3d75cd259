"""Memory of this process: the peak of a stretch of code, and how much more it may take.

Read from what the Linux kernel tells; elsewhere there is no figure.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath

_PROCESS = Path("/proc/self/status")
_MACHINE = Path("/proc/meminfo")
_GROUPS = Path("/proc/self/cgroup")
_GROUP_LIMITS = Path("/sys/fs/cgroup")
_CLEAR = Path("/proc/self/clear_refs")

SMALL_BYTES = 64 * 2**20
"""What takes no more is never refused: such figures are not exact to less."""


class PeakMemory:
    """Measure resident memory above a start; Linux only, elsewhere there is no figure.

    The kernel counts resident pages to within some hundred kilobytes.
    """

    def __init__(self) -> None:
        _return_free_memory()
        try:
            _CLEAR.write_text("5")  # sets the high-water mark back to what is resident now
            self._start: int | None = read_size("VmRSS", _PROCESS)
        except OSError:
            self._start = None

    def peak(self) -> int | None:
        """Return the bytes resident at the peak since the start, or None."""
        return None if self._start is None else read_size("VmHWM", _PROCESS)

    def above_start(self) -> int | None:
        """Return bytes at the peak since the start above those at the start, or None."""
        peak = self.peak()
        return None if self._start is None or peak is None else max(0, peak - self._start)


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Say that memory is short before it is taken, and not by a killed process.

    Parameters
    ----------
    n_bytes : int
        What is about to be allocated.
    what : str
        What takes it, the subject of the message.
    remedy : str
        What the user can do, the end of the message.

    Raises
    ------
    MemoryError
        Where `n_bytes` exceeds both `SMALL_BYTES` and `available_bytes`.
    """
    if n_bytes <= SMALL_BYTES:
        return
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise MemoryError(f"{what} needs {_size(n_bytes)}, but {_size(free)} are free: {remedy}")


def available_bytes() -> int | None:
    """Return how much more memory this process may take, or None where the system does not say.

    The least of what these leave: the limits of the process (RLIMIT_AS, RLIMIT_DATA), those of
    its control groups, version 1 or 2, and the memory of the machine.  File cache counts as free,
    swap space does not.
    """
    if sys.platform != "linux":
        return None
    rooms: list[int] = []
    with suppress(OSError):
        rooms += _within_process_limits()
    with suppress(OSError):
        rooms.append(read_size("MemAvailable", _MACHINE))
    with suppress(OSError):
        rooms += within_group_limits(_GROUPS.read_text(), _GROUP_LIMITS)
    return max(0, min(rooms)) if rooms else None


def within_group_limits(groups: str, root: Path) -> list[int]:
    """Return what the control groups of a process leave, one number for each that has a limit.

    Parameters
    ----------
    groups : str
        The text of /proc/self/cgroup.
    root : Path
        Where the groups' limits are, /sys/fs/cgroup.
    """
    rooms = []
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, names = root, ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            folder = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        path = PurePosixPath(group.lstrip("/"))
        # In a container the group's own folder may be out of sight, and its limit at the top.
        rooms += [_room_of_group(folder / part, *names) for part in (path, *path.parents)]
    return [room for room in rooms if room is not None]


def _room_of_group(folder: Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        most = (folder / limit).read_text().strip()
        used = int((folder / usage).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split(maxsplit=1) for line in lines)
    cached = sum(int(counts.get(f"{cache}{age}_file", 0)) for age in ("active", "inactive"))
    return None if most == "max" else int(most) - used + cached


def _within_process_limits() -> list[int]:
    import resource  # not on Windows

    limits = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
    soft_limits = [(resource.getrlimit(kind)[0], field) for kind, field in limits]
    return [
        limit - read_size(field, _PROCESS)
        for limit, field in soft_limits
        if limit != resource.RLIM_INFINITY
    ]


def _return_free_memory() -> None:
    """Give freed memory back to the system: what stays would hide what the next code takes."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


def read_size(field: str, path: Path) -> int:
    """Return the bytes that a file of /proc gives for a field; OSError where it gives none."""
    match = re.search(rf"^{field}:\s+(\d+) kB$", path.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{path} has no {field}")
    return int(match[1]) * 1024


def _size(n_bytes: int) -> str:
    if n_bytes < 2**30:
        return f"{n_bytes / 2**20:.0f} MiB"
    return f"{n_bytes / 2**30:,.1f} GiB"
