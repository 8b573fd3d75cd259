"""Runs trials on a Dask cluster; a worker runs each trial in fresh processes, as a machine does.

It does not start a cluster.  `oasis_bench.algorithms.oasis_parallel` learns one model on many
machines.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from oasis_bench.data import LabelledRows
from oasis_bench.execution.machine import ThisMachine
from oasis_bench.experiment import TrialSpec, package_hash
from oasis_bench.plugins import Registry
from oasis_bench.system import (
    Folder,
    OutputError,
    UsageError,
    describe_machine,
    error_line,
    how_to_install,
)
from oasis_bench.trial import TrialResult

try:
    import dask
    from distributed import Client, Future, KilledWorker, Reschedule, get_worker, wait
    from distributed.client import ClosedClientError
    from distributed.core import Status
except ImportError as error:
    raise UsageError(
        f"a cluster needs Dask ({error}): {how_to_install('cluster')}, here and on each worker"
    ) from error

CONNECT_SECONDS = 10

WORKER_SECONDS = 60
"""How long to wait for a worker if none is left: a nanny starts another in a few seconds."""

POLL_SECONDS = 0.5
"""Time between two checks whether a worker is left."""

ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}
"""Dask's setting for large rows without a warning."""

RETRIES = 2
"""How often Dask repeats a trial that a worker could not run, such as for its disk."""


Ended: TypeAlias = tuple[TrialResult, Mapping[str, bytes], bytes]
"""A trial that has ended on a worker: its result, its files by kind, the learner's output."""


class Cluster:
    """The workers of a Dask cluster, by the address of its scheduler: ``tcp://head:8786``."""

    def __init__(self, address: str) -> None:
        # If the scheduler is lost, our one message is enough: Dask would log tracebacks.
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
            return {"workers": dict(self._client.run(describe_machine))}

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
        """Run trials and yield their results as they end; see `ThisMachine`.

        If a worker dies, Dask repeats its trial, as often as its setting
        ``distributed.scheduler.allowed-failures`` says; then the result is 'crashed'.
        """
        under_way: dict[Future, TrialSpec] = {}
        try:
            yield self._results(deque(specs), under_way, rows, output_log)
        finally:
            with suppress(ClosedClientError):  # the scheduler is gone
                self._client.cancel(list(under_way), force=True)

    def _results(
        self,
        waiting: deque[TrialSpec],
        under_way: dict[Future, TrialSpec],
        rows: LabelledRows,
        output_log: Path,
    ) -> Iterator[TrialResult]:
        with self._cluster_errors(), dask.config.set(ANY_SIZE):
            # The rows are a result of Dask: it makes them again if all workers with them died.
            shared = self._client.submit(_same, replace(rows, images=None), pure=False)

        @self._cluster_errors()
        def submit() -> None:
            # Submit only as many as can run at once: a dead worker then loses only running trials.
            n_threads = sum(worker["nthreads"] for worker in self._workers().values())
            while waiting and len(under_way) < max(1, n_threads):
                spec = waiting.popleft()
                future = self._client.submit(
                    _run_on_worker, spec, shared, pure=False, retries=RETRIES
                )
                under_way[future] = spec

        while waiting or under_way:
            submit()
            for future in self._ended(under_way):
                spec = under_way.pop(future)
                result, files, printed = self._result(future, spec, rows.X.shape[1])
                future.release()  # else Dask would repeat it if its worker dies
                submit()  # the workers go on while the result is stored
                folder = Folder(output_log.parent)
                if printed:
                    folder.append(output_log.name, printed)
                yield _with_files(result, files, folder)

    def _ended(self, under_way: Collection[Future]) -> Collection[Future]:
        """Wait for trials to end, for a limited time, so that a loss of all workers is seen."""
        with self._cluster_errors():
            with suppress(TimeoutError):
                return list(wait(list(under_way), POLL_SECONDS, "FIRST_COMPLETED").done)
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
            return []

    def _result(self, future: Future, spec: TrialSpec, n_features: int) -> Ended:
        """Return the result of a trial, also if no worker could run it."""
        with self._cluster_errors():
            try:
                return future.result()  # type: ignore[no-any-return]
            except UsageError:
                raise
            except KilledWorker as error:
                reason = f"its workers died: {error.last_worker} was the last"
                return TrialResult.lost(spec, n_features, "crashed", reason), {}, b""
            except Exception as error:
                if self._client.status != "running":
                    raise
                reason = f"its worker failed: {error_line(error)}"
                return TrialResult.lost(spec, n_features, "failed", reason), {}, b""

    @contextmanager
    def _cluster_errors(self) -> Iterator[None]:
        """Raise UsageError if the scheduler or the last worker is gone.

        A client that has lost its scheduler tries to reach it for `CONNECT_SECONDS`.  Then it
        closes itself, and its calls raise errors of many types.
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
                "go on with 'run --resume', or begin anew where no trial had ended"
            ) from error

    def _workers(self) -> dict[str, Any]:
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])


def _with_files(result: TrialResult, files: Mapping[str, bytes], folder: Folder) -> TrialResult:
    """Write the files of a trial into the folder of its run; return its result with their paths."""
    written = {}
    for kind, content in files.items():
        written[kind] = path = folder.path(f"{Folder.UNFINISHED}/{result.files[kind].name}")
        with OutputError.at(folder.root / kind):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
    return replace(result, files=written)


def _same(rows: LabelledRows) -> LabelledRows:
    return rows


def _run_on_worker(spec: TrialSpec, rows: LabelledRows) -> Ended:
    """Run one trial."""
    what = "oasis-bench" if spec.identity["code"] != package_hash() else None
    if not spec.has_source(Registry.load(spec.plugin_files).algorithms[spec.algorithm]):
        what = spec.learner
    if what:
        raise UsageError(
            f"the worker has another source of {what}: install the same oasis-bench in the same "
            "way, and put the same plugins in the same place"
        )
    # When the next worker starts, Dask removes the folder of a killed worker.
    with tempfile.TemporaryDirectory(dir=get_worker().local_directory) as folder:
        log = Path(folder) / Folder.OUTPUT_LOG
        here = ThisMachine(jobs=1, on_poll=_leave_if_unwanted)
        try:
            with here.run([spec], rows, log) as results:
                (result,) = results
        except UsageError as error:  # an error of this machine's disk
            raise OSError(str(error)) from error
        printed = b""
        with suppress(FileNotFoundError):
            printed = log.read_bytes()
        files = {kind: path.read_bytes() for kind, path in result.files.items()}
    return result, files, printed


def _leave_if_unwanted() -> None:
    """Raise `Reschedule` if the scheduler has released this task or is gone.

    Dask itself lets such a task continue.  The scheduler releases a task if its client cancels the
    task, closes or dies.
    """
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    left = worker.status in (Status.closing, Status.closed, Status.failed)
    if left or task is None or task.state != "executing":
        raise Reschedule
