"""The files of a trial: what it prints, and on request its scores and the fitted learner."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from oasis_bench.data import Patches, row_hashes
from oasis_bench.experiment import TrialSpec, cell_name
from oasis_bench.plugins import add_training_rows
from oasis_bench.system import OutputError, open_below, path_below, printable
from oasis_bench.trial.items import TrialItems
from oasis_bench.trial.messages import Scores
from oasis_bench.trial.predictions import ScoresFile

MODELS, PREDICTIONS = "models", "predictions"
"""Folders of a run, in which these files get their names when the trial has ended well."""

UNFINISHED = ".unfinished"
"""The folder where they are until then."""

COPY_BYTES = 16 * 2**20

OUTPUT_LOG = "output.log"
"""The file of a run with what its learners printed, one trial after the other."""

END_BYTES = 64 * 2**10
"""How much of a trial's output is kept from its start, and as much from its end."""

MOST_PRINTED = 16 * 2**20
"""Bytes of a trial under way beyond which its output is cut: it must not fill the disk."""


class PrintedOutput:
    """What the processes of one trial print, in a file that has no name until the trial ends.

    It is neither a pipe, which a learner would have to wait for, nor a file that it could replace.

    Parameters
    ----------
    spec : TrialSpec
    log : Path
        Where it is appended when the trial has ended.
    """

    def __init__(self, spec: TrialSpec, log: Path) -> None:
        cell = cell_name(spec.learner, spec.where.subset, spec.where.split)
        self._title, self._log = printable(f"{cell}, partition {spec.where.partition}"), log
        self._n_cut = 0
        try:
            self._file = TemporaryFile(dir=log.parent)  # noqa: SIM115 - `end` closes it
        except OSError as error:
            raise OutputError.of(log, error.strerror) from error
        self.descriptor = self._file.fileno()
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_APPEND)

    def shorten(self, most: int = MOST_PRINTED) -> None:
        """Cut the middle where it is longer than `most`."""
        if (size := os.fstat(self.descriptor).st_size) > most:
            end = os.pread(self.descriptor, END_BYTES, size - END_BYTES)
            os.ftruncate(self.descriptor, END_BYTES)
            os.write(self.descriptor, end)
            self._n_cut += size - 2 * END_BYTES

    def end(self) -> None:
        """Append it to the log, if there is any.

        Raises
        ------
        OutputError
            Where that is not possible.
        """
        with self._file:
            self.shorten(2 * END_BYTES)
            text = os.pread(self.descriptor, 2 * END_BYTES, 0)
        if self._n_cut:
            cut = f"\n[... {self._n_cut:,} bytes of {self._title} are cut here ...]\n".encode()
            text = text[:END_BYTES] + cut + text[END_BYTES:]
        if text:
            append_to(self._log, f"[{self._title}]\n".encode() + text.rstrip(b"\n") + b"\n")


def append_to(log: Path, text: bytes) -> None:
    """Append to a run's log; raise OutputError where that is not possible."""
    try:
        with open_below(log.parent, log.name, "ab") as file:
            file.write(text)
    except OSError as error:
        raise OutputError.of(log, error.strerror) from error


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
        if not self._spec.keeps.scores:
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
        if MODELS in self._files and not isinstance(self._items.X, Patches):
            with self._disk(MODELS):
                training = self._items.X[self._items.train_rows]
                add_training_rows(self._files[MODELS], row_hashes(training))
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
        name = f"{UNFINISHED}/{self._spec.trial_id}.{kind}"
        self._files[kind] = path_below(self._folder, name)
        self._files[kind].parent.mkdir(exist_ok=True)
        return self._files[kind]

    @contextmanager
    def _disk(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError.of(self._folder / kind, error.strerror) from error
