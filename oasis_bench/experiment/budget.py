"""How much time and memory one call of a learner may take, and how users write it: 10m, 4GiB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from oasis_bench.system.errors import UsageError

OFF = "off"

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
BYTES = {
    **{unit: 2 ** (10 * power) for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
    **{unit: 10 ** (3 * power) for power, unit in enumerate(("kB", "MB", "GB", "TB"), start=1)},
}


@dataclass(frozen=True)
class Budget:
    """Limits of a learner: of each fit, each stage of a fit by steps, each ranking.

    Attributes
    ----------
    seconds : float or None
        Wall clock; None is no limit.
    n_bytes : int or None
        Memory of the trial's process, its children and the rows of the trial included, above what
        it took when the trial began; None is no limit.
    """

    seconds: float | None = None
    n_bytes: int | None = None

    @classmethod
    def parse(cls, seconds: str, n_bytes: str) -> Self:
        """Read limits as users write them.

        Raises
        ------
        UsageError
            Where one is neither a positive number with a unit nor 'off'.
        """
        time = _parse("budget", seconds, SECONDS, "90s, 10m or 2h")
        memory = _parse("memory", n_bytes, BYTES, "500MiB or 4GiB")
        return cls(time, None if memory is None else int(memory))


def _parse(name: str, text: object, units: Mapping[str, int], examples: str) -> float | None:
    if text == OFF:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text) if isinstance(text, str) else None
    if found is None or found[2] not in units or float(found[1]) == 0:
        raise UsageError(
            f"{name} = {text!r}: a number above 0 with a unit ({', '.join(units)}) is needed, "
            f"such as {examples}, or {OFF}"
        )
    return float(found[1]) * units[found[2]]
