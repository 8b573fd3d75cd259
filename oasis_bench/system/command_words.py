"""The words of a command line, with options left out: for the commands that texts name."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def without_options(
    words: Iterable[str], options: Collection[str], switches: Collection[str] = ()
) -> list[str]:
    """Return the words without `options`, each with its value, and without `switches`."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options and word not in switches:
            kept.append(word)
    return kept
