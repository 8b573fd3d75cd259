"""What a trial came to: the columns and the rows that the store keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrialRecord:
    """One finished trial: the columns of `trials` and the rows of its further tables.

    `files` are those that it was asked to keep, by the folder that is for them: 'models',
    'predictions'.  Who stores the record moves them there.
    """

    columns: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]] = ()
    measures: Sequence[Mapping[str, Any]] = ()
    confusion: Sequence[Mapping[str, Any]] = ()
    validation: Sequence[Mapping[str, Any]] = ()
    traces: Sequence[Mapping[str, Any]] = ()
    symmetry: Sequence[Mapping[str, Any]] = ()
    retrievals: Sequence[Mapping[str, Any]] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
