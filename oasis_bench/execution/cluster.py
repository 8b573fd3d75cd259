"""Trials on a Dask cluster: a worker runs each in fresh processes, as one machine does.

Not for starting a cluster, nor for learning one model on many machines, which
`oasis_bench.algorithms.oasis_cluster` does.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from oasis_bench.account import Account
from oasis_bench.dataset import LabelledRows
from oasis_bench.errors import UsageError
from oasis_bench.execution.local import ThisMachine
from oasis_bench.plan import TrialSpec
from oasis_bench.provenance import provenance
from oasis_bench.registry import load_registry, source_hash
from oasis_bench.store import TrialRecord

try:
    from distributed import Client, KilledWorker, as_completed
except ImportError as error:
    raise UsageError(
        f"a cluster needs Dask ({error}): pip install 'oasis-bench[cluster]', here and there"
    ) from error

CONNECT_SECONDS = 10


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
        return {"workers": dict(self._client.run(provenance))}

    @property
    def shares_cores(self) -> bool:
        """Whether a machine of the cluster runs several trials at a time."""
        threads: Counter[str] = Counter()
        for worker in self._workers().values():
            threads[worker["host"]] += worker["nthreads"]
        return max(threads.values()) > 1

    @contextmanager
    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> Iterator[Iterator[TrialRecord]]:
        """Run trials and yield their records as they end; see `Executor`.

        The rows are sent to every worker once.  A trial whose worker dies runs again on another,
        as often as Dask's setting ``distributed.scheduler.allowed-failures`` says; then it is a
        record 'crashed'.
        """
        shared = self._client.scatter(replace(rows, images=None), broadcast=True, hash=False)
        futures = {
            self._client.submit(_run_on_worker, spec, shared, pure=False): spec for spec in specs
        }
        try:
            yield (
                self._record(future, futures[future], rows, output_log)
                for future in as_completed(futures)
            )
        finally:
            self._client.cancel([*futures, shared], force=True)

    def _record(
        self, future: Any, spec: TrialSpec, rows: LabelledRows, output_log: Path
    ) -> TrialRecord:
        try:
            record, printed = future.result()
        except KilledWorker as error:
            account = Account(spec, rows.X.shape[1])
            account.stop("crashed", f"its workers died: {error.last_worker} was the last")
            assert account.record is not None
            return account.record
        future.release()
        if printed:
            with output_log.open("ab") as log:
                log.write(printed)
        return record  # type: ignore[no-any-return]

    def _workers(self) -> dict[str, Any]:
        return dict(self._client.scheduler_info(n_workers=-1)["workers"])


def _run_on_worker(spec: TrialSpec, rows: LabelledRows) -> tuple[TrialRecord, bytes]:
    """Run one trial; return its record and what it printed."""
    learner = load_registry(spec.plugin_files).algorithms[spec.algorithm]
    if source_hash(learner) != spec.identity["source"]:
        raise UsageError(
            f"the worker has another source of {spec.learner}: install the same oasis-bench, and "
            "put the same plugins in the same place"
        )
    # A worker that a nanny looks after may not have children: these end with it all the same.
    multiprocessing.current_process()._config.pop("daemon", None)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(prefix="oasis-bench-") as folder:
        log = Path(folder) / "output.log"
        with ThisMachine(jobs=1).run([spec], rows, log) as records:
            (record,) = records
        printed = b""
        with suppress(FileNotFoundError):
            printed = log.read_bytes()
    return record, printed
