"""The result of a trial: the columns and the rows that the store keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from oasis_bench.experiment import TrialSpec
from oasis_bench.system import Text


@dataclass(frozen=True)
class TrialResult:
    """One finished trial: the columns of `trials` and the rows of its further tables.

    `files` are those that it was asked to keep, by the folder where they belong: 'models',
    'predictions'.  The code that stores the record moves them there.
    """

    columns: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]] = ()
    measures: Sequence[Mapping[str, Any]] = ()
    groups: Sequence[Mapping[str, Any]] = ()
    predicted_classes: Sequence[Mapping[str, Any]] = ()
    validation: Sequence[Mapping[str, Any]] = ()
    traces: Sequence[Mapping[str, Any]] = ()
    symmetry: Sequence[Mapping[str, Any]] = ()
    retrievals: Sequence[Mapping[str, Any]] = ()
    projections: Sequence[Mapping[str, Any]] = ()
    fit_numbers: Sequence[Mapping[str, Any]] = ()
    tuned: Sequence[Mapping[str, Any]] = ()
    blend_values: Sequence[float] = ()  # of the first tuned blend on the inner folds
    files: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def lost(cls, spec: TrialSpec, n_features: int, status: str, reason: str) -> Self:
        """Make the result of a trial of which only the reason is known."""
        return cls(columns_of(spec, n_features, status, reason))


def columns_of(
    spec: TrialSpec,
    n_features: int,
    status: str,
    reason: str | None = None,
    traceback: str | None = None,
) -> dict[str, Any]:
    """Return what is known of every trial that has ended: columns of the table `trials`."""
    settings, where = spec.experiment, spec.where
    return {
        "learner": spec.learner,
        "algorithm": spec.algorithm,
        "dataset": Text.encodable(settings.dataset),
        "split": where.split,
        "subset": where.subset,
        "n_classes": len(where.classes),
        "partition": where.partition,
        "n_train": where.n_train,
        "n_test": where.n_test,
        "rho": where.rho,
        "n_features": n_features,
        "transductive": 0,
        "threads": settings.threads,
        "shared_cores": int(spec.shares_cores),
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "trial_id": spec.trial_id,
        "status": status,
        "reason": reason and Text.printable(Text.cut(reason, Text.LONGEST_REASON), keep="\n\t"),
        "traceback": traceback and Text.printable(Text.cut(traceback), keep="\n\t"),
    }
