"""What a learner and its search may take, and how users write it: 10m, 4GiB, 20 candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oasis_bench.system import UsageError, shown

OFF = "off"

CANDIDATE_DIGITS = 9
"""Of a number of candidates, at most."""

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


@dataclass(frozen=True)
class SearchBudget:
    """What the search of each learner may cost; None is no limit.

    Attributes
    ----------
    candidates : int or None
    seconds : float or None
        Wall clock of learning and validating on the inner folds, of each trial.
    """

    candidates: int | None = None
    seconds: float | None = None


def seconds_of(name: str, text: object) -> float | None:
    """Read a limit of time, such as '10m'; None is no limit.

    Raises
    ------
    UsageError
        Where it is neither a positive number with a unit nor 'off'.
    """
    return _parse(name, text, SECONDS, "90s, 10m or 2h", "3650d")


def bytes_of(name: str, text: object) -> int | None:
    """Read a limit of memory, such as '4GiB', as `seconds_of` does one of time."""
    n_bytes = _parse(name, text, BYTES, "500MiB or 4GiB", "1000TiB")
    return None if n_bytes is None else int(n_bytes)


def search_of(name: str, text: object) -> SearchBudget:
    """Read a budget of search, such as '20' (candidates), '60s', '5m' or 'off'.

    Raises
    ------
    UsageError
        Where it is none of these, or below one candidate.
    """
    if isinstance(text, str) and text.isdecimal() and len(text) <= CANDIDATE_DIGITS and int(text):
        return SearchBudget(candidates=int(text))
    try:
        return SearchBudget(seconds=seconds_of(name, text))
    except UsageError:
        raise UsageError(
            f"{name} = {shown(text)}: a number of candidates above 0, such as 20, a time, such as "
            f"60s or 5m, or {OFF} is needed"
        ) from None


def _parse(
    name: str, text: object, units: Mapping[str, int], examples: str, most: str
) -> float | None:
    if text == OFF:
        return None
    value = _amount(text, units) if isinstance(text, str) else 0
    if value == 0:
        raise UsageError(
            f"{name} = {shown(text)}: a number above 0 with a unit ({', '.join(units)}) is needed, "
            f"such as {examples}, or {OFF}"
        )
    if value > _amount(most, units):
        raise UsageError(f"{name} = {shown(text)}: {most} at most is needed, or {OFF}")
    return value


def _amount(text: str, units: Mapping[str, int]) -> float:
    """Return a number with a unit as a number; 0 where the text is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    return float(found[1]) * units[found[2]] if found and found[2] in units else 0.0
