"""Trials on this machine: each in fresh processes, at most `jobs` at a time.

Where a trial hangs, crashes or takes all memory, its record says so, and the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Self

from oasis_bench.data.rows import LabelledRows
from oasis_bench.execution.fork_server import borrow, give_back
from oasis_bench.execution.rows_file import rows_on_disk
from oasis_bench.execution.trial_process import TrialProcess
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.trial.record import TrialRecord


@dataclass(frozen=True)
class ThisMachine:
    """The processes of this machine.

    Parameters
    ----------
    jobs : int
        Trials at a time, started in the order in which they are given.
    on_look : callable, optional
        Called at least once a second while trials run; what it raises ends them.
    """

    jobs: int
    on_look: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        """Start a fork server: it imports while the data set is loaded."""
        give_back(borrow())
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: a run ends its trials, and idle servers are for the next run."""

    @property
    def shares_cores(self) -> bool:
        """Whether trials run side by side."""
        return self.jobs > 1

    def provenance(self) -> dict[str, Any]:
        """Tell how many trials ran at a time."""
        return {"jobs": self.jobs}

    @contextmanager
    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> Iterator[Iterator[TrialRecord]]:
        """Run trials and yield their records as they end; see `Executor`."""
        running: list[TrialProcess] = []
        with rows_on_disk(rows) as file:
            start = partial(
                TrialProcess,
                n_features=rows.X.shape[1],
                rows_file=file,
                output_log=output_log,
            )
            try:
                yield self._records(deque(specs), running, start)
            finally:
                for trial in running:
                    trial.end()

    def _records(
        self,
        waiting: deque[TrialSpec],
        running: list[TrialProcess],
        start: Callable[[TrialSpec], TrialProcess],
    ) -> Iterator[TrialRecord]:
        while waiting or running:
            while waiting and len(running) < self.jobs:
                running.append(start(waiting.popleft()))
            self.on_look()
            connection.wait(
                [item for trial in running for item in trial.waits_for],
                timeout=min(trial.next_look for trial in running),
            )
            for trial in [*running]:
                trial.look()
                if trial.record is not None:
                    running.remove(trial)
                    yield trial.record
