"""What a trial tells of itself while it runs, and the record that this makes.

The messages are plain values that JSON can hold: they come from a process that ran a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.system.plain_text import printable
from oasis_bench.trial.record import TrialRecord

Tell = Callable[[Mapping[str, Any]], None]
"""Called with messages of one key each:

memory : int
    Bytes of the process before the trial began.
phase : str
    What begins now; its time is limited.
validation, trace, symmetry : dict
    One more row of the table of that name.
choice : dict
    What the inner folds chose, for a fresh process to fit.
measured : dict
    The columns and the rows of the other tables; what may follow are traces.
failure : dict
    status, reason and traceback: the last message.
end : True
    The last message of a trial that went well.
"""

WAIT = "the wait for its turn"
"""The phase before the first that is on the clock."""

EVALUATION, REPLAY = "evaluation", "the replay for the traces"
"""The phases after the last that is on the clock."""

COLLECTED = {"validation": "validation", "trace": "traces", "symmetry": "symmetry"}


class Account:
    """What a trial has told so far.

    Attributes
    ----------
    phase : str
        What it does now.
    first_bytes : int
        Memory of its process before it began.
    choice : dict or None
        Set where the next stage is due.
    record : TrialRecord or None
        Set when the trial has ended.
    """

    def __init__(self, spec: TrialSpec, n_features: int) -> None:
        self.spec = spec
        self.phase = "the start"
        self.first_bytes = 0
        self.choice: dict[str, Any] | None = None
        self.record: TrialRecord | None = None
        self._n_features = n_features
        self._measured: dict[str, Any] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLLECTED.values()}

    @property
    def is_off_the_clock(self) -> bool:
        """Whether all that is timed is over."""
        return self.phase in (EVALUATION, REPLAY)

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take in a message.

        Raises
        ------
        ValueError, TypeError, LookupError
            Where it is none: nothing is to be believed of this process any more.
        """
        ((kind, value),) = message.items()
        if kind == "phase":
            self.phase = str(value)
        elif kind == "memory":
            self.first_bytes = int(value)
        elif kind in COLLECTED:
            self._rows[COLLECTED[kind]].append(dict(value))
        elif kind == "choice":
            self.choice = dict(value)
        elif kind == "measured":
            self._measured = dict(value)
            dict(self._measured["columns"])
        elif kind == "failure":
            self.stop(str(value["status"]), str(value["reason"]), value["traceback"])
        elif kind == "end":
            self.record = self._make(status="ok")
        else:
            raise ValueError(f"{kind!r} is no message of a trial")

    def stop(self, status: str, reason: str, traceback: str | None = None) -> None:
        """End the account of a trial that did not end by itself, or not well.

        What was measured before stays: then only the replay of the traces was cut short.
        """
        reason = printable(reason, keep="\n\t")
        if self._measured:
            self.record = self._make(status="ok", reason=f"traces end early: {status}: {reason}")
        else:
            trace = None if traceback is None else printable(traceback, keep="\n\t")
            self.record = self._make(status=status, reason=reason, traceback=trace)

    def _make(self, **outcome: str | None) -> TrialRecord:
        measured = {name: value for name, value in self._measured.items() if name != "columns"}
        columns = {**identity(self.spec, self._n_features), **self._measured.get("columns", {})}
        return TrialRecord({**columns, **outcome}, **measured, **self._rows)


def lost_record(spec: TrialSpec, n_features: int, status: str, reason: str) -> TrialRecord:
    """Make the record of a trial of which nothing can be kept but why."""
    account = Account(spec, n_features)
    account.stop(status, reason)
    assert account.record is not None
    return account.record


def identity(spec: TrialSpec, n_features: int) -> dict[str, Any]:
    """Return the columns that are known before the trial, and when it ended."""
    e = spec.experiment
    return {
        "trial_id": spec.trial_id,
        "learner": spec.learner,
        "algorithm": spec.algorithm,
        "dataset": e.dataset,
        "subset": spec.subset,
        "n_classes": len(spec.classes),
        "partition": spec.partition,
        "n_train": spec.n_train,
        "n_test": spec.n_test,
        "n_features": n_features,
        "threads": e.threads,
        "shared_cores": int(spec.shares_cores),
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
