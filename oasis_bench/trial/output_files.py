"""The files that a trial writes on request: its scores as they come, and the fitted learner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oasis_bench.experiment import TrialSpec
from oasis_bench.system import OutputError
from oasis_bench.trial.items import TrialItems
from oasis_bench.trial.messages import Scores
from oasis_bench.trial.predictions import ScoresFile

MODELS, PREDICTIONS = "models", "predictions"
"""Folders of a run, in which these files get their names when the trial has ended well."""

UNFINISHED = ".unfinished"
"""The folder where they are until then."""

COPY_BYTES = 16 * 2**20


class OutputFiles:
    """The files that one trial under way writes.

    Parameters
    ----------
    spec : TrialSpec
        It says which files are kept.
    items : TrialItems
    folder : Path
        That of the run.
    """

    def __init__(self, spec: TrialSpec, items: TrialItems, folder: Path) -> None:
        self._spec, self._items, self._folder = spec, items, folder
        self._files: dict[str, Path] = {}
        self._scores: ScoresFile | None = None

    def add_scores(self, message: Scores, content: bytes | bytearray) -> None:
        """Write the next block of scores, where they are kept.

        Raises
        ------
        OutputError
            Where they cannot be written; likewise below.
        """
        if not self._spec.keeps_scores:
            return
        with self._disk(PREDICTIONS):
            if self._scores is None:
                self._scores = ScoresFile(self._new(PREDICTIONS), self._items)
            self._scores.add(message, content)

    def add_model(self, file: int) -> None:
        """Copy the model file that a trial's process has sent; close it."""
        try:
            with self._disk(MODELS), self._new(MODELS).open("wb") as copy:
                while part := os.pread(file, COPY_BYTES, copy.tell()):
                    copy.write(part)
        finally:
            os.close(file)

    def finish(self) -> dict[str, Path]:
        """Close the files; return them by the folder that they are for."""
        if self._scores is not None:
            with self._disk(PREDICTIONS):
                self._scores.finish()
            self._scores = None
        files, self._files = self._files, {}
        return files

    def discard(self) -> None:
        """Remove the files that are not finished."""
        with suppress(OSError):  # a full disk
            if self._scores is not None:
                self._scores.abandon()
        for path in self._files.values():
            path.unlink(missing_ok=True)
        self._files = {}

    def _new(self, kind: str) -> Path:
        self._files[kind] = self._folder / UNFINISHED / f"{self._spec.trial_id}.{kind}"
        self._files[kind].parent.mkdir(exist_ok=True)
        return self._files[kind]

    @contextmanager
    def _disk(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError.of(self._folder / kind, error.strerror) from error
