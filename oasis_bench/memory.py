"""Peak memory of a stretch of code in this process, from the kernel's own high-water mark."""

from __future__ import annotations

import ctypes
import gc
import re
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class PeakMemory:
    """Measure resident memory above a start; Linux only, elsewhere there is no figure.

    The kernel counts resident pages to within some hundred kilobytes.
    """

    def __init__(self) -> None:
        _return_free_memory()
        try:
            _CLEAR.write_text("5")  # sets the high-water mark back to what is resident now
            self._start: int | None = _read("VmRSS")
        except OSError:
            self._start = None

    def above_start(self) -> int | None:
        """Return bytes at the peak since the start above those at the start, or None."""
        return None if self._start is None else max(0, _read("VmHWM") - self._start)


def _return_free_memory() -> None:
    """Give freed memory back to the system: what stays would hide what the next code takes."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


def _read(field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise OSError(f"{_STATUS} has no {field}")
    return int(match[1]) * 1024
