"""How the reports write numbers and lists: seconds, hyper-parameters, shortened texts."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import pandas as pd

from oasis_bench.system import printable

SUMMARY_WIDTH = 110
"""Characters of a line in a terminal."""


def clip(text: str, width: int) -> str:
    """Shorten `text` to `width` characters; the last one is an ellipsis where that cuts it."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Write a number of things: '1 trial', '2 trials'."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def series(items: Sequence[str]) -> str:
    """Write a list of things: 'a, b and c'."""
    return " and ".join([part for part in (", ".join(items[:-1]), *items[-1:]) if part])


def some(items: Sequence[str], most: int = 4) -> str:
    """Write a list of things as `series` does, but of more than `most` only the first."""
    return series(
        items if len(items) <= most else [*items[: most - 1], f"{len(items) - most + 1} more"]
    )


def number_text(value: float, pattern: str, missing: str = "n/a") -> str:
    """Write a number by a pattern of `str.format`, or `missing` for NaN."""
    return missing if pd.isna(value) else pattern.format(value)


def numbers_as(pattern: str, missing: str = "n/a") -> Callable[[float], str]:
    """Return what writes the numbers of a column, as `number_text` does."""
    return lambda value: number_text(value, pattern, missing)


def interval_text(low: float, high: float, pattern: str = "{:z.3f}", missing: str = "-") -> str:
    """Write an interval by a pattern for each end, or `missing` where the ends are NaN."""
    return missing if pd.isna(low) else f"{pattern.format(low)} to {pattern.format(high)}"


def seconds_text(seconds: float) -> str:
    """Write seconds with two or three digits."""
    if 0 < seconds < 0.01:
        return f"{seconds:.2g}"
    digits = next((n for bound, n in ((1, 3), (10, 2), (100, 1)) if seconds < bound), 0)
    return number_text(seconds, f"{{:,.{digits}f}}") if seconds else "0"


def p_text(p_value: float) -> str:
    """Write a p-value with two digits; '< 0.0001' below that, '-' for NaN."""
    if math.isnan(p_value):
        return "-"
    if p_value < 1e-4:
        return "< 0.0001"
    return f"{p_value:#.2g}" if p_value < 0.1 else f"{p_value:.2f}"


def params_text(params: str) -> str:
    """Write hyper-parameters, given as JSON, as 'name=value, ...'."""
    return ", ".join(f"{name}={value}" for name, value in json.loads(params).items()) or "none"


def counted(texts: Iterable[str]) -> str:
    """Write texts that may be equal, each once, with their numbers where they differ."""
    numbers = Counter(texts).most_common()
    return "; ".join(f"{text} ({number})" if numbers[1:] else text for text, number in numbers)


def wrapped(text: str) -> list[str]:
    """Cut a text into lines of at most 110 characters; paths with hyphens stay whole."""
    return textwrap.wrap(
        printable(text), SUMMARY_WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )


def aligned(lines: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """Pad the cells of each column to one width; the columns `left` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
