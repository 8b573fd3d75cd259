"""Trials on this machine: each in fresh processes, at most `jobs` at a time.

What a trial does to its process - hang, crash, take all memory - is a record; the others go on.
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
from oasis_bench.execution import WARM_UP
from oasis_bench.execution.fork_server import keep_ready
from oasis_bench.execution.rows_file import rows_on_disk
from oasis_bench.execution.trial_process import TrialProcess
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.trial.record import TrialRecord


@dataclass(frozen=True)
class ThisMachine:
    """The processes of this machine.

    While a trial that is off the clock is evaluated, one more prepares; it goes on when the other
    has ended.

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
        """Start what trials are forked off: it imports while the data set is loaded."""
        keep_ready(1, WARM_UP)
        return self

    def __exit__(self, *exc: object) -> None:
        """End nothing: idle servers are for the next run, and end with this process."""

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
        keep_ready(min(self.jobs + 1, len(specs)), WARM_UP)
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
                    trial.kill()

    def _records(
        self,
        waiting: deque[TrialSpec],
        running: list[TrialProcess],
        start: Callable[[TrialSpec], TrialProcess],
    ) -> Iterator[TrialRecord]:
        while waiting or running:
            while waiting and self._has_room_beside(running):
                running.append(start(waiting.popleft()))
            for trial in running[: self.jobs]:
                trial.let_go()
            self.on_look()
            if all(trial.record is None for trial in running[: self.jobs]):
                _look_at([trial for trial in running if trial.record is None])
            for trial in running[: self.jobs]:  # what ends before its turn waits with its record
                if trial.record is not None:
                    running.remove(trial)
                    yield trial.record

    def _has_room_beside(self, running: Sequence[TrialProcess]) -> bool:
        off_the_clock = sum(trial.is_off_the_clock for trial in running)
        return len(running) - min(1, off_the_clock) < self.jobs


def _look_at(trials: Sequence[TrialProcess]) -> None:
    """Wait until there is something to see, and look."""
    connection.wait(
        [item for trial in trials for item in trial.waits_for],
        timeout=min(trial.next_look for trial in trials),
    )
    for trial in trials:
        trial.look()
