"""Trials on a Dask cluster: a worker runs each in fresh processes, as one machine does.

Not for starting a cluster, nor for learning one model on many machines, which
`oasis_bench.algorithms.oasis.cluster` does.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oasis_bench.data import LabelledRows
from oasis_bench.execution.machine import ThisMachine
from oasis_bench.experiment import TrialSpec, source_hash
from oasis_bench.plugins import load_registry
from oasis_bench.system import OutputError, UsageError, error_line, path_below, provenance
from oasis_bench.trial import OUTPUT_LOG, UNFINISHED, TrialResult, append_to, lost_record

try:
    from distributed import Client, Future, KilledWorker, Reschedule, as_completed, get_worker
    from distributed.client import ClosedClientError
    from distributed.core import Status
except ImportError as error:
    raise UsageError(
        f"a cluster needs Dask ({error}): pip install 'oasis-bench[cluster]', here and there"
    ) from error

CONNECT_SECONDS = 10

WORKER_SECONDS = 60
"""How long to wait for a worker where none is left: a nanny starts another in a few seconds."""

MOST_SENDS = 3
"""How often a trial is sent: all workers dying under it once or twice may be chance."""


PART_BYTES = 32 * 2**20
"""Of a trial's files, fetched at a time."""


class _WorkerLostError(Exception):
    """A worker does not answer."""


@dataclass(frozen=True)
class Result:
    """A trial that has ended on a worker.

    Attributes
    ----------
    record : TrialResult
        Its files are on the worker.
    printed : bytes
        What the learner printed.
    worker : str
        The address.
    """

    record: TrialResult
    printed: bytes = b""
    worker: str = ""


class Cluster:
    """The workers of a Dask cluster.

    Parameters
    ----------
    address : str
        That of the scheduler, such as ``tcp://head:8786``.

    Raises
    ------
    UsageError
        Where nobody answers there, or no worker is there.
    """

    def __init__(self, address: str) -> None:
        # Where the scheduler is lost, one message of ours is enough: Dask would log tracebacks.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self._address = address
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {address!r} ({error}): start one with "
                "'dask scheduler', and workers with 'dask worker ADDRESS --nthreads 1'"
            ) from error
        if not self._workers():
            self._client.close()
            raise UsageError(f"the Dask cluster at {address!r} has no workers: start some")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def provenance(self) -> dict[str, Any]:
        """Describe the machine and the installation of each worker, by its address."""
        with self._cluster_errors():
            return {"workers": dict(self._client.run(provenance))}

    @property
    def shares_cores(self) -> bool:
        """Whether a machine of the cluster runs several trials at a time."""
        threads: Counter[str] = Counter()
        with self._cluster_errors():
            for worker in self._workers().values():
                threads[worker["host"]] += worker["nthreads"]
        return max(threads.values(), default=0) > 1

    @contextmanager
    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> Iterator[Iterator[TrialResult]]:
        """Run trials and yield their records as they end; see `Executor`.

        The rows are sent to every worker once, and anew where the last worker that had them dies.
        A trial whose worker dies runs again on another, as often as Dask's setting
        ``distributed.scheduler.allowed-failures`` or `MOST_SENDS` says; then it is a record
        'crashed'.  Where a worker cannot run it, it is a record 'failed'.

        Raises
        ------
        UsageError
            Where the scheduler is gone, no worker is left, or one has other code.
        """
        under_way: dict[Future, TrialSpec] = {}
        try:
            yield self._records(deque(specs), under_way, rows, output_log)
        finally:
            with suppress(ClosedClientError):  # the scheduler is gone
                self._client.cancel(list(under_way), force=True)

    def _records(
        self,
        waiting: deque[TrialSpec],
        under_way: dict[Future, TrialSpec],
        rows: LabelledRows,
        output_log: Path,
    ) -> Iterator[TrialResult]:
        ended = as_completed(loop=self._client.loop)
        sends: Counter[str] = Counter()
        shared = self._send(rows)

        @self._cluster_errors()
        def submit() -> None:
            # Only as many as can run at once: a worker that dies then loses only running trials.
            n_threads = sum(worker["nthreads"] for worker in self._workers().values())
            while waiting and len(under_way) < max(1, n_threads):
                spec = waiting.popleft()
                sends[spec.trial_id] += 1
                future = self._client.submit(_run_on_worker, spec, shared, pure=False)
                under_way[future] = spec
                ended.add(future)

        while waiting or under_way:
            if waiting and shared.cancelled():
                shared = self._send(rows)
            submit()
            future = next(ended)
            spec = under_way.pop(future)
            result = _result(future, spec, rows.X.shape[1])
            if result is not None:
                result = self._fetched(result, output_log.parent)
            if result is None and sends[spec.trial_id] < MOST_SENDS:
                waiting.append(spec)
                continue
            submit()  # the workers go on while the record is stored
            if result is None:
                reason = f"its workers died {MOST_SENDS} times"
                result = Result(lost_record(spec, rows.X.shape[1], "crashed", reason))
            record, printed = result.record, result.printed
            if printed:
                append_to(output_log, printed)
            yield record

    def _fetched(self, result: Result, folder: Path) -> Result | None:
        """Bring the files of a trial here, in pieces; None where they were lost with the worker."""
        files = {}
        for kind, there in result.record.files.items():
            here = files[kind] = path_below(folder, f"{UNFINISHED}/{there.name}")
            try:
                here.parent.mkdir(exist_ok=True)
                with here.open("wb") as copy:
                    while part := self._ask(result.worker, _read_part, there, copy.tell()):
                        copy.write(part)
            except OSError as error:
                raise OutputError.of(folder / kind, error.strerror) from error
            except _WorkerLostError:
                return None
        return replace(result, record=replace(result.record, files=files))

    def _ask(self, worker: str, function: Callable[..., bytes], *arguments: Any) -> bytes:
        """Call a function on a worker at once, beside its trials."""
        try:
            answers = self._client.run(function, *arguments, workers=[worker])
            return bytes(answers[worker])
        except Exception as error:
            raise _WorkerLostError(worker) from error

    def _send(self, rows: LabelledRows) -> Future:
        """Send the rows to all workers that are there."""
        with self._cluster_errors():
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
            return self._client.scatter(replace(rows, images=None), broadcast=True, hash=False)

    @contextmanager
    def _cluster_errors(self) -> Iterator[None]:
        """Raise UsageError where the scheduler or the last worker is gone.

        A client that has lost its scheduler tries to reach it for `CONNECT_SECONDS`; then it
        closes itself, and answers calls with errors of many types.
        """
        try:
            yield
        except Exception as error:
            connected = self._client.status == "running"
            if connected and not isinstance(error, OSError):  # a TimeoutError is one
                raise
            lost = f"its workers ({error})" if connected else "its scheduler"
            raise UsageError(
                f"the Dask cluster at {self._address!r} has lost {lost}: start what is missing and "
                "go on with --resume, or begin anew where no trial had ended"
            ) from error

    def _workers(self) -> dict[str, Any]:
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])


def _result(future: Future, spec: TrialSpec, n_features: int) -> Result | None:
    """Return the result of a trial; None where it was lost with its worker."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except UsageError:
        raise
    except KilledWorker as error:
        reason = f"its workers died: {error.last_worker} was the last"
        return Result(lost_record(spec, n_features, "crashed", reason))
    except Exception as error:
        if future.status != "error":  # it is cancelled, or its result did not arrive
            return None
        reason = f"its worker failed: {error_line(error)}"
        return Result(lost_record(spec, n_features, "failed", reason))


def _run_on_worker(spec: TrialSpec, rows: LabelledRows) -> Result:
    """Run one trial."""
    learner = load_registry(spec.plugin_files).algorithms[spec.algorithm]
    if source_hash(learner) != spec.identity["source"]:
        raise UsageError(
            f"the worker has another source of {spec.learner}: install the same oasis-bench, and "
            "put the same plugins in the same place"
        )
    # Dask removes the folder of a worker that was killed when the next one starts.
    with tempfile.TemporaryDirectory(dir=get_worker().local_directory) as folder:
        log = Path(folder) / OUTPUT_LOG
        here = ThisMachine(jobs=1, on_poll=_leave_if_unwanted)
        try:
            with here.run([spec], rows, log) as records:
                (record,) = records
        except UsageError as error:  # of this machine's disk, not of the run
            raise OSError(str(error)) from error
        printed = b""
        with suppress(FileNotFoundError):
            printed = log.read_bytes()
        worker = get_worker()
        files = {  # until they are fetched; Dask removes that folder with the worker
            kind: Path(shutil.move(path, worker.local_directory))
            for kind, path in record.files.items()
        }
    return Result(replace(record, files=files), printed, worker.address)


def _read_part(path: Path, start: int) -> bytes:
    """Read a part of a file, which is removed when its end has been read."""
    with path.open("rb") as file:
        file.seek(start)
        part = file.read(PART_BYTES)
    if not part:
        path.unlink()
    return part


def _leave_if_unwanted() -> None:
    """Raise `Reschedule` where the scheduler has released this task or is gone.

    Dask itself lets such a task run on.  The scheduler releases a task that its client cancels,
    and all tasks of a client that closes or dies.
    """
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    left = worker.status in (Status.closing, Status.closed, Status.failed)
    if left or task is None or task.state != "executing":
        raise Reschedule
