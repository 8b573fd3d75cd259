"""Where trials run: on this machine or on a Dask cluster, each in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from oasis_bench.system import UsageError

if TYPE_CHECKING:  # importing them takes a second
    from oasis_bench.data import LabelledRows
    from oasis_bench.experiment import TrialSpec
    from oasis_bench.trial import TrialResult


class Executor(Protocol):
    """Runs trials; a context manager, which ends its processes when it is left."""

    @property
    def shares_cores(self) -> bool:
        """Whether trials run side by side on one machine."""

    def provenance(self) -> dict[str, Any]:
        """Return facts for the store that the provenance of this machine does not hold."""

    def run(
        self, specs: Sequence[TrialSpec], rows: LabelledRows, output_log: Path
    ) -> AbstractContextManager[Iterator[TrialResult]]:
        """Run trials and yield their records as they end; leaving the context kills the others.

        Parameters
        ----------
        specs : sequence of TrialSpec
        rows : LabelledRows
        output_log : Path
            Where what the learners print is appended.
        """


def executor(jobs: int, cluster: str | None) -> AbstractContextManager[Executor]:
    """Make what runs trials: `jobs` at a time here, or a cluster by its scheduler's address.

    Raises
    ------
    UsageError
        For fewer than 1 job, jobs together with a cluster, or a cluster that is not there.
    """
    if jobs < 1:
        raise UsageError(f"jobs = {jobs}: at least 1 is needed")
    if cluster is None:
        from oasis_bench.execution.local import ThisMachine

        return ThisMachine(jobs)
    if jobs > 1:
        raise UsageError(
            f"jobs = {jobs} with a cluster: its workers say how many trials run at a time: leave "
            "one of the two away"
        )
    from oasis_bench.execution.cluster import Cluster  # Dask is an extra

    return Cluster(cluster)
