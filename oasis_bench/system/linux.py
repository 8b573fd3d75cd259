"""What only Linux reports or does: prctl, /proc, control groups, glibc; the one module with these.

On other systems each function does nothing, or returns None or 0 for 'not known'.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil

_IS_LINUX = sys.platform == "linux"
_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, Windows' subsystem
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

SEAL_SECONDS = 5.0
"""How long the kernel is asked to seal a file of which something holds a page."""

# --- processes


def adopt_orphans() -> None:
    """Make this process the parent of each process below it whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Let the system kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def children(pid: int) -> list[int] | None:
    """List the children of a process; None where the system does not tell.

    psutil looks at all processes of the machine for this, which takes some milliseconds.
    """
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    return [int(child) for text in texts for child in text.split()] if texts else None


def scheduled_seconds() -> tuple[float, float] | None:
    """Return how long the threads of this process have run, and have waited for a core."""
    try:
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/schedstat")]
    except OSError:
        return None
    times = [[int(number) / 1e9 for number in text.split()[:2]] for text in texts]
    return (sum(ran for ran, _ in times), sum(waited for _, waited in times)) if times else None


# --- memory


def die_first() -> None:
    """Let the system kill this process before others when the machine is out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def oom_kills() -> int:
    """Return how many processes the machine has killed for lack of memory since it started."""
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE):
            return int(found[1])
    return 0


def limit_memory(n_bytes: int) -> None:
    """Make allocations fail that take more than `n_bytes` beyond what this process has now."""
    if _IS_LINUX:
        limit = psutil.Process().memory_info().data + n_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def return_free_memory() -> None:
    """Give memory that was freed back to the system; only with glibc."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


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


def limits_left() -> list[int]:
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
    """Return the bytes that control groups leave, one number for each group with a limit.

    File cache counts as free.

    Parameters
    ----------
    groups : str
        The text of /proc/self/cgroup, of version 1 or 2.
    root : Path
        Where the groups' limits are, /sys/fs/cgroup.
    """
    left = []
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
        for part in (path, *path.parents):
            with suppress(OSError):
                left += _group_limit_left(folder / part, *names)
    return left


def _group_limit_left(folder: Path, limit: str, usage: str, cache: str) -> list[int]:
    """Return the limit less what is used, or nothing where there is no limit."""
    most = (folder / limit).read_text().strip()
    used = int((folder / usage).read_text())
    lines = (folder / "memory.stat").read_text().splitlines()
    counts = dict(line.split(maxsplit=1) for line in lines)
    cached = sum(int(counts.get(f"{cache}{age}_file", 0)) for age in ("active", "inactive"))
    return [] if most == "max" else [int(most) - used + cached]


def memory_file() -> int | None:
    """Make a file that lies in memory and has no name; return its descriptor."""
    if not _IS_LINUX:
        return None
    return os.memfd_create("oasis-bench", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal_memory_file(descriptor: int) -> None:
    """Forbid for ever, to every process, to change the file or its length.

    The kernel refuses (EBUSY) while anybody could still write to a page of the file, and while it
    holds a page itself, as where it moves memory.  So it is asked again for `SEAL_SECONDS`.
    """
    deadline = time.monotonic() + SEAL_SECONDS
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def is_sealed(descriptor: int) -> bool | None:
    """Tell whether `seal_memory_file` was called for a file; None where there is no such thing."""
    if not _IS_LINUX:
        return None
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() == _seals()
    except OSError:  # it is no file in memory
        return False


def _seals() -> int:
    return fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


# --- the machine


def has_gpu_driver() -> bool:
    """Tell whether a driver of GPUs is there; whether a library can use it is not said."""
    return any(map(os.path.exists, _GPU_FILES))


def processor_name() -> str | None:
    """Return the processor's name as /proc/cpuinfo has it."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        if match := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return match[1]
    return None


def frequency_governor() -> str | None:
    """Return the rule by which the first core's frequency is chosen, such as 'performance'."""
    with suppress(OSError):
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    return None
