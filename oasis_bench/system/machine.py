"""Where and with what a run was made: machine, versions, commit, thread pools, load."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

DISTRIBUTIONS = (
    "oasis-bench",
    "numpy",
    "scipy",
    "scikit-learn",
    "metric-learn",
    "pandas",
    "threadpoolctl",
)


def provenance() -> dict[str, Any]:
    """Describe this machine and this installation, for the store."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "processor": processor_name(),
        "cores": available_cores(),
        "governor": _frequency_governor(),
        "commit": _commit(),
        "kernel": os.environ.get("OASIS_BENCH_KERNEL", "compiled"),
        "versions": _versions(),
        "thread pools": [
            {key: pool.get(key) for key in ("internal_api", "version", "architecture")}
            for pool in threadpool_info()
        ],
    }


def available_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float | None:
    """Return the load of the last minute, or None where the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def processor_name() -> str:
    """Return the model of this machine's processor."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        if match := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return match[1]
    return platform.processor() or platform.machine()


def _frequency_governor() -> str | None:
    """Return the rule for the first core's frequency, such as 'performance'; None if unknown."""
    with suppress(OSError):
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    return None


def _commit() -> str | None:
    """Return the checkout's commit, marked where the tree has changes; None outside one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head, status = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain"))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} (with uncommitted changes)" if status else head


def _versions() -> dict[str, str | None]:
    """Return the versions of `DISTRIBUTIONS` and of all distributions with a loaded module."""
    loaded = {name.partition(".")[0] for name in list(sys.modules)}
    names = {one.metadata["Name"] for one in distributions() if loaded & _top_modules(one)}
    return {name: _version(name) for name in sorted({*DISTRIBUTIONS, *names})}


def _top_modules(distribution: Distribution) -> set[str]:
    """Return the names that a distribution is imported by.

    `importlib.metadata.packages_distributions` does, too, but makes an object of every file.
    """
    if declared := distribution.read_text("top_level.txt"):
        return set(declared.split())
    lines = (distribution.read_text("RECORD") or "").split("\n")
    files = (line.partition(",")[0] for line in lines)
    return {file.partition("/")[0].removesuffix(".py") for file in files if file.endswith(".py")}


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
