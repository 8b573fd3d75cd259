"""The words of the reports that are the same in each: definitions, captions and notes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(
    resources.files("oasis_bench.reports").joinpath("templates/words.toml").read_text("utf-8")
)


def defined(what: str, /, **values: object) -> dict[str, str]:
    """Return the terms of a page and what they mean, with values filled in."""
    return {term: str(text.format(**values)) for term, text in WORDS[what].items()}


def note(name: str, /, **values: object) -> str:
    """Return a note of a table with its values filled in."""
    return str(WORDS["notes"][name].format(**values))


def sentence(name: str, /, **values: object) -> str:
    """Return a sentence of an answer with its values filled in."""
    return str(WORDS["sentences"][name].format(**values))


def notes_where(needed: Mapping[str, object], /, **values: object) -> list[str]:
    """Return the notes whose condition holds."""
    return [note(name, **values) for name, holds in needed.items() if holds]
