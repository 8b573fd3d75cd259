"""Runs trials on this machine: in fresh processes, at most `jobs` at a time, with a budget.

If a trial hangs, crashes or takes all memory, its result says so, and the others continue.  Nothing
here waits for a trial's processes without a time limit.
"""

from __future__ import annotations

import math
import re
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from oasis_bench.execution.fork_server import END_SECONDS, borrow, give_back, start_early
from oasis_bench.system import OutputError, Processes, UsageError
from oasis_bench.trial import Conversation, TrialResult, Trials, learner_process

if TYPE_CHECKING:
    from oasis_bench.data import LabelledRows
    from oasis_bench.execution.cluster import Cluster
    from oasis_bench.experiment import TrialSpec

POLL_SECONDS, LONG_POLL_SECONDS = 0.05, 1.0
"""Seconds between two checks of a trial with a memory limit, and of one without."""


Executor: TypeAlias = "ThisMachine | Cluster"
"""Runs trials; a context manager that ends its processes on exit."""


def executor(jobs: int, cluster: str | None) -> Executor:
    """Return an executor: `jobs` trials at a time here, or the cluster of a scheduler's address."""
    if jobs < 1:
        raise UsageError(f"jobs = {jobs}: at least 1 is needed")
    if cluster is None:
        return ThisMachine(jobs)
    if jobs > 1:
        raise UsageError(
            f"jobs = {jobs} with a cluster: its workers say how many trials run at a time: leave "
            "one of the two away"
        )
    from oasis_bench.execution.cluster import Cluster  # Dask is an extra

    return Cluster(cluster)


class ThisMachine:
    """The processes of this machine: `jobs` trials at a time, in the order of their specs.

    `on_poll` is called at least once a second while trials run; its exceptions end them.
    """

    def __init__(self, jobs: int, on_poll: Callable[[], None] = lambda: None) -> None:
        self.jobs, self._on_poll = jobs, on_poll

    def __enter__(self) -> Self:
        """Start a fork server, which imports while the data set is loaded."""
        start_early()
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: `run` ends its trials, and idle servers stay for the next run."""

    @property
    def shares_cores(self) -> bool:
        """Whether trials run in parallel."""
        return self.jobs > 1

    def provenance(self) -> dict[str, Any]:
        """Return how many trials ran at a time."""
        return {"jobs": self.jobs}

    @contextmanager
    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> Iterator[Iterator[TrialResult]]:
        """Run trials and yield their results as they end; leaving the context kills the others.

        The output of the learners is appended to `output_log`.
        """
        running: list[TrialProcess] = []
        with closing(Trials(rows, output_log)) as trials:
            try:
                yield self._results(deque(specs), running, trials)
            finally:
                for trial in running:
                    trial.close()

    def _results(
        self,
        waiting: deque[TrialSpec],
        running: list[TrialProcess],
        trials: Trials,
    ) -> Iterator[TrialResult]:
        while waiting or running:
            while waiting and len(running) < self.jobs:
                since = time.monotonic()
                begun = trials.begin(waiting.popleft())
                if isinstance(begun, TrialResult):
                    yield begun
                else:
                    running.append(TrialProcess(begun))
                _extend(running, since)
            self._on_poll()
            connection.wait(
                [item for trial in running for item in trial.waits_for],
                timeout=min((trial.seconds_to_poll for trial in running), default=0),
            )
            for trial in [*running]:
                since = time.monotonic()
                trial.poll()
                if trial.result is not None:
                    running.remove(trial)
                    yield trial.result
                _extend([other for other in running if other is not trial], since)


def _extend(running: Iterable[TrialProcess], since: float) -> None:
    """Give trials the time in which the harness worked on another one: they may have waited."""
    for trial in running:
        trial.deadline += time.monotonic() - since


class TrialProcess:
    """A running trial, with one process per stage."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._seconds = conversation.spec.budget.seconds
        self._n_bytes = conversation.spec.memory.n_bytes
        self._start_stage()

    @property
    def result(self) -> TrialResult | None:
        """The result of the trial, once it has ended."""
        return self._conversation.result

    @property
    def waits_for(self) -> list[Any]:
        """The objects for `multiprocessing.connection.wait` before `poll` is called."""
        server = self._server.sentinel  # closed if the server has died
        return [
            *([] if server.closed else [server]),
            *([self._line] if self._inbox.is_open else []),
        ]

    @property
    def seconds_to_poll(self) -> float:
        """Seconds until `poll` must be called at the latest."""
        longest = LONG_POLL_SECONDS if self._n_bytes is None else POLL_SECONDS
        return min(longest, max(0.0, self.deadline - time.monotonic()))

    def poll(self) -> None:
        """Read messages, enforce the budget, and end a finished stage or trial."""
        conversation = self._conversation
        exit_code = self._server.exit_code()  # first, so that its last messages are still read
        if self.deadline == math.inf and self._server.is_ready:
            self._begin_phase()
        has_read = self._inbox.read()
        self._since = time.monotonic()
        stage_has_ended = conversation.listen()
        self.deadline += time.monotonic() - self._since  # evaluating is not the learner's time
        if stage_has_ended and conversation.next_stage():
            self.end()
            self._start_stage()
        elif conversation.result is None and exit_code is not None and not has_read:
            conversation.end(*self._cause_of_death(exit_code))
        elif conversation.result is None and not has_read:  # a message may lack its end still
            self._hold_to_budget()
        if conversation.result is not None:
            self.end()
            self._conversation.printed.end()
        else:
            self._conversation.printed.shorten()

    def end(self) -> None:
        """End the process of the stage and all its child processes."""
        self._inbox.close()
        self._server.end()
        give_back(self._server)

    def close(self) -> None:
        """End the trial if it still runs."""
        if self._conversation.result is None:
            self.end()
            self._conversation.close()
            with suppress(OutputError):  # the error that ended the run is raised
                self._conversation.printed.end()

    def _start_stage(self) -> None:
        learner = self._conversation.learner
        self._server = borrow(learner.imports)
        self._line, theirs = socket.socketpair()
        self._kills_before = _oom_kills()
        stage = self._conversation.start(self._server.pid, self._line, self._begin_phase)
        self._inbox = self._conversation.line.inbox
        self._server.start(learner_process, stage, line=theirs.fileno(), module=learner.__module__)
        theirs.close()
        self._inbox.send_file(self._conversation.printed.descriptor)
        self.deadline = math.inf  # the time begins when the server is ready

    def _begin_phase(self) -> None:
        """Give a phase the whole budget; the start of the process is the first phase."""
        self._since = time.monotonic()
        self.deadline = self._since + (self._seconds or math.inf)

    def _hold_to_budget(self) -> None:
        conversation, now = self._conversation, time.monotonic()
        phase = conversation.line.phase
        if not self._inbox.is_open:  # then its process should end soon
            self.deadline = min(self.deadline, now + END_SECONDS)
        if now > self.deadline and not self._inbox.is_open:
            conversation.end("crashed", f"closed its connection with the harness during {phase}")
        elif now > self.deadline:
            reason = f"{phase} took longer than the budget of {self._seconds:g} s"
            conversation.end("timeout", reason)
        elif (
            self._n_bytes is not None
            and conversation.first_bytes is not None
            and Processes(self._server.pid).take_more_than(conversation.first_bytes + self._n_bytes)
        ):
            limit = f"{self._n_bytes / 2**20:,.0f} MiB"
            conversation.end("out of memory", f"{phase} took more than {limit}")

    def _cause_of_death(self, code: int) -> tuple[Literal["out of memory", "crashed"], str]:
        phase = self._conversation.line.phase
        if code == -signal.SIGKILL and _oom_kills() > self._kills_before:
            return "out of memory", f"the system killed it during {phase}"
        how = f"exited with status {code}"
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"killed by {names.get(-code, f'signal {-code}')}"  # some have no name
        return "crashed", f"{how} during {phase}"


def _oom_kills() -> int:
    """Return how many processes the machine has killed for lack of memory since it started."""
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE):
            return int(found[1])
    return 0
