"""How trials are run, and who watches them: what changes no result of an experiment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from oasis_bench.trial import TrialResult


@dataclass(frozen=True)
class How:
    """How the trials of a run are run, and what is kept of them.

    Attributes
    ----------
    jobs
        Trials at a time; above one they share cores, and their timings are marked.
    cluster
        The address of a Dask scheduler whose workers run the trials.
    plugin_files
        Where learners, data sets, tasks and splits may come from, besides installed packages.
    keep
        What is kept of each trial in files: 'models', 'predictions'.
    command, remarks
        What the report says of how the run was made.
    """

    jobs: int = 1
    cluster: str | None = None
    plugin_files: Sequence[Path] = ()
    keep: Collection[str] = ()
    command: str | None = None
    remarks: Sequence[str] = ()


USUAL = How()


class Watcher:
    """Shows the progress of a run; this one shows nothing."""

    def trial(self, result: TrialResult | None, done: int, planned: int) -> None:
        """Show that a trial has ended, or with None that the first begins."""

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download or a preparation is."""

    def note(self, line: str) -> None:
        """Show what the user should know before the first trial, such as how rows are scaled."""


SILENT = Watcher()
