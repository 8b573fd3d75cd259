"""Makes the record of a trial of the messages that its process sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.system.plain_text import printable
from oasis_bench.trial.messages import (
    Chosen,
    Ended,
    Measured,
    Message,
    MessageError,
    PhaseBegan,
    Started,
    TableRow,
)
from oasis_bench.trial.record import TrialRecord


class RecordBuilder:
    """Makes the record of a trial, whose rows have `n_features` columns, of its messages.

    Attributes
    ----------
    phase : str
        What the trial does now.
    first_bytes : int or None
        Memory of its processes before it began; None where it has not begun.
    chosen : Chosen or None
        What the second process is to fit.
    record : TrialRecord or None
        Set when the trial has ended.
    """

    def __init__(self, spec: TrialSpec, n_features: int) -> None:
        self.spec = spec
        self.phase = "the start"
        self.first_bytes: int | None = None
        self.chosen: Chosen | None = None
        self.record: TrialRecord | None = None
        self._n_features = n_features
        self._measured = Measured({}, [], [])
        self._rows: dict[str, list[Mapping[str, Any]]] = {
            "validation": [],
            "traces": [],
            "symmetry": [],
        }

    def add(self, message: Message) -> None:
        """Take one more message into account.

        Raises
        ------
        MessageError
            Where it is a row of a table that a trial does not have.
        """
        match message:
            case Started(n_bytes):
                self.first_bytes = n_bytes
            case PhaseBegan(phase):
                self.phase = phase
            case TableRow(table, row):
                if table not in self._rows:
                    raise MessageError(f"no table {table!r}")
                self._rows[table].append(row)
            case Chosen():
                self.chosen = message
            case Measured():
                self._measured = message
            case Ended(status, reason, traceback):
                self.end(status, reason, traceback)

    def end(self, status: str, reason: str | None = None, traceback: str | None = None) -> None:
        """Make the record of a trial that has ended, or was ended.

        Where the final fit was measured already, only the replay for the traces was cut short:
        the measured result stays.
        """
        if status != "ok" and self._measured.columns:
            status, reason, traceback = "ok", f"traces end early: {status}: {reason}", None
        spec, settings = self.spec, self.spec.experiment
        columns = {
            "learner": spec.learner,
            "algorithm": spec.algorithm,
            "dataset": settings.dataset,
            "subset": spec.subset,
            "n_classes": len(spec.classes),
            "partition": spec.partition,
            "n_train": spec.n_train,
            "n_test": spec.n_test,
            "n_features": self._n_features,
            "threads": settings.threads,
            "shared_cores": int(spec.shares_cores),
            "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **self._measured.columns,
            "trial_id": spec.trial_id,
            "status": status,
            "reason": reason and printable(reason, keep="\n\t"),
            "traceback": traceback and printable(traceback, keep="\n\t"),
        }
        self.record = TrialRecord(
            columns,
            precision_at_k=self._measured.precision_at_k,
            retrievals=self._measured.retrievals,
            **self._rows,
        )


def lost_record(spec: TrialSpec, n_features: int, status: str, reason: str) -> TrialRecord:
    """Make the record of a trial of which only the reason is known."""
    builder = RecordBuilder(spec, n_features)
    builder.end(status, reason)
    assert builder.record is not None
    return builder.record
