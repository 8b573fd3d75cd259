"""The result of a trial: its rows of the store's tables, and its files.

The files are the printed output and, on request, the scores and the fitted learner.  Scores are an
uncompressed .npz: ``numpy.load(path)["scores_test"]`` gives the scores of all test items (rows)
against all test items, and ``["test_rows"]`` gives their row numbers in the data set.
"""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from oasis_bench.data import Patches, row_hashes
from oasis_bench.experiment import TrialSpec
from oasis_bench.plugins import Blend, MetricLearner, complete_model
from oasis_bench.system import (
    LONGEST_REASON,
    ArrayArchive,
    Folder,
    OutputError,
    encodable,
    printable,
)
from oasis_bench.tasks import Task
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.items import TrialItems
from oasis_bench.trial.harness_side.rows import (
    AnswerRow,
    FitNumberRow,
    GroupRow,
    MeasureRow,
    PredictedRow,
    ProjectionRow,
    RetrievalRow,
    Status,
    SymmetryRow,
    TraceRow,
    TrialRow,
    TunedRow,
    ValidationRow,
)


@dataclass
class TrialResult:
    """One finished trial: its row of the table `trials`, and its rows of the other tables.

    `files` are the files to keep, by the folder where they belong: 'models' or 'predictions'.  The
    code that stores the result moves them there.
    """

    row: TrialRow
    answers: Sequence[AnswerRow] = ()
    measures: Sequence[MeasureRow] = ()
    groups: Sequence[GroupRow] = ()
    predicted_classes: Sequence[PredictedRow] = ()
    validation: Sequence[ValidationRow] = ()
    traces: Sequence[TraceRow] = ()
    symmetry: Sequence[SymmetryRow] = ()
    retrievals: Sequence[RetrievalRow] = ()
    projections: Sequence[ProjectionRow] = ()
    fit_numbers: Sequence[FitNumberRow] = ()
    tuned: Sequence[TunedRow] = ()
    blend_values: Sequence[float] = ()  # of the first tuned blend on the inner folds
    posterior_values: Sequence[float] = ()  # of its posterior use, if this is offered
    files: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def lost(cls, spec: TrialSpec, n_features: int, status: Status, reason: str) -> Self:
        """Make the result of a trial without measurements."""
        return cls(ended(_row(spec, n_features), status, reason))


def _row(spec: TrialSpec, n_features: int) -> TrialRow:
    """Return the row of a trial before it begins."""
    settings, where = spec.experiment, spec.where
    return TrialRow(
        trial_id=spec.trial_id,
        learner=spec.learner,
        algorithm=spec.algorithm,
        dataset=encodable(settings.dataset),
        split=where.split,
        subset=where.subset,
        n_classes=len(where.classes),
        partition=where.partition,
        n_train=where.n_train,
        n_test=where.n_test,
        rho=where.rho,
        n_features=n_features,
        threads=settings.threads,
        shared_cores=int(spec.shares_cores),
        status="ok",
        finished="",
    )


def row_of(spec: TrialSpec, items: TrialItems, learner: type[MetricLearner]) -> TrialRow:
    """Return the row of a trial after its items are drawn."""
    row = _row(spec, items.n_features)
    row.n_train, row.n_test = len(items.ties["training"]), len(items.test_rows)
    row.transductive = int(bool(learner.transductive))  # read once: it cannot change later
    return row


def ended(
    row: TrialRow, status: Status, reason: str | None = None, traceback: str | None = None
) -> TrialRow:
    """Return the row of a trial that has ended; long texts are cut."""
    row.finished = datetime.now(UTC).isoformat(timespec="milliseconds")
    row.status = status
    row.reason = reason and printable(reason, "\n\t", LONGEST_REASON)
    row.traceback = traceback and printable(traceback, "\n\t", wall.LONGEST_TEXT)
    return row


class Votes(NamedTuple):
    """The posteriors of items for a gallery, as points whose inner product is the affinity."""

    test: npt.NDArray[np.float64]  # (n_test, n_classes)
    training: npt.NDArray[np.float64]  # those of the training items; of other galleries empty
    blend: Blend  # of the affinity with the baseline
    classes: npt.NDArray[np.int64] | None  # of the columns; None: not those of the data set


END_BYTES = 64 * 2**10
"""Bytes of a trial's output that are kept from its start, and from its end."""

MOST_PRINTED = 16 * 2**20
"""Beyond so many bytes the output of a running trial is cut, so that the disk stays free."""


class PrintedOutput:
    """The output of the processes of one trial, in a nameless file until the trial ends.

    It is not a pipe, which could block a learner, and not a named file, which a learner could
    replace.  When the trial has ended, the output is appended to the `log`.
    """

    def __init__(self, spec: TrialSpec, log: Path) -> None:
        self._title = printable(f"{spec.cell}, partition {spec.where.partition}")
        self._log, self._n_cut = log, 0
        with OutputError.at(log):
            self._file = TemporaryFile(dir=log.parent)  # noqa: SIM115 - `end` closes it
        self.descriptor = self._file.fileno()
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_APPEND)

    def shorten(self, most: int = MOST_PRINTED) -> None:
        """Cut the middle if the output is longer than `most`."""
        if (size := os.fstat(self.descriptor).st_size) > most:
            end = os.pread(self.descriptor, END_BYTES, size - END_BYTES)
            os.ftruncate(self.descriptor, END_BYTES)
            os.write(self.descriptor, end)
            self._n_cut += size - 2 * END_BYTES

    def end(self) -> None:
        """Append the output, if any, to the log; raise OutputError if this fails."""
        with self._file:
            self.shorten(2 * END_BYTES)
            text = os.pread(self.descriptor, 2 * END_BYTES, 0)
        if self._n_cut:
            cut = f"\n[... {self._n_cut:,} bytes of {self._title} are cut here ...]\n".encode()
            text = text[:END_BYTES] + cut + text[END_BYTES:]
        if text:
            text = f"[{self._title}]\n".encode() + text.rstrip(b"\n") + b"\n"
            Folder(self._log.parent).append(self._log.name, text)


class KeptFiles:
    """The files that a running trial keeps in the folder of the run, as its spec says.

    Each method raises OutputError if it cannot write.
    """

    def __init__(self, spec: TrialSpec, items: TrialItems, folder: Path) -> None:
        self._spec, self._items, self._folder = spec, items, folder
        self._files: dict[str, Path] = {}
        self._scores: ScoresFile | None = None
        self._steps: Sequence[Any] | None = None

    def add_scores(self, message: wall.Scores, content: bytes | bytearray) -> None:
        """Write the next block of scores, if they are kept."""
        if not self._spec.keeps_scores:
            return
        with OutputError.at(self._folder / Folder.PREDICTIONS):
            if self._scores is None:
                self._scores = ScoresFile(self._new(Folder.PREDICTIONS), self._items)
            self._scores.add(message, content)

    def add_votes(self, gallery: str, votes: Votes) -> None:
        """Write the votes for a gallery, if scores are kept; they come after its scores."""
        if self._scores is not None:
            with OutputError.at(self._folder / Folder.PREDICTIONS):
                self._scores.add_votes(gallery, votes)

    def add_model(self, file: int, steps: Sequence[Any] | None) -> None:
        """Copy the model file that a trial's process has sent; close it.

        The `steps` come before a learner of rows, so that the model takes rows as the data set
        gives them.
        """
        try:
            with OutputError.at(self._folder / Folder.MODELS):
                self._new(Folder.MODELS).write_bytes(wall.map_bytes(file))
        finally:
            os.close(file)
        self._steps = steps

    def finish(self, blend: Blend | None) -> dict[str, Path]:
        """Close the files; return them by folder.

        A model gets the `blend` and, for rows, the hashes of its training rows.
        """
        if self._scores is not None:
            with OutputError.at(self._folder / Folder.PREDICTIONS):
                self._scores.close()
            self._scores = None
        if Folder.MODELS in self._files:
            items, hashes = self._items, None
            if not isinstance(items.X, Patches):
                hashes = row_hashes(items.X[items.train_rows])
            path = self._files[Folder.MODELS]
            with OutputError.at(self._folder / Folder.MODELS):
                complete_model(path, self._steps, hashes, blend, items.schema)
        files, self._files = self._files, {}
        return files

    def discard(self) -> None:
        """Remove the unfinished files."""
        with suppress(OSError):  # a full disk
            if self._scores is not None:
                self._scores.close(is_whole=False)
        for path in self._files.values():
            path.unlink(missing_ok=True)
        self._files = {}

    def _new(self, kind: str) -> Path:
        name = f"{Folder.UNFINISHED}/{self._spec.trial_id}.{kind}"
        self._files[kind] = Folder(self._folder).path(name)
        self._files[kind].parent.mkdir(exist_ok=True)
        return self._files[kind]


class ScoresFile:
    """Writes the scores of one trial, the row numbers of its items and the order within ties."""

    def __init__(self, path: Path, items: TrialItems) -> None:
        self._items = items
        self._file = ArrayArchive(path, "w")
        self._array: IO[bytes] | None = None
        self._gallery = ""
        self._dtype = np.dtype(np.float64)

    def add(self, message: wall.Scores, content: bytes | bytearray) -> None:
        """Write the next block; the scores of one gallery come after those of the other."""
        if message.gallery != self._gallery:
            self._begin(message.gallery, np.dtype(message.dtype))
        assert self._array is not None
        if message.dtype != self._dtype:  # the first block decides
            content = np.frombuffer(content, message.dtype).astype(self._dtype).tobytes()
        self._array.write(content)

    def add_votes(self, gallery: str, votes: Votes) -> None:
        """Write the votes for a gallery, whose scores are written."""
        self._end_array()
        self._file.write_array(f"votes_{gallery}.npy", votes.test)
        if gallery == "training":
            self._file.write_array("votes_of_training.npy", votes.training)

    def close(self, is_whole: bool = True) -> None:
        """Close the file; if it is whole, first write the rows that were scored."""
        self._end_array()
        for name, array in what_was_scored(self._items).items() if is_whole else ():
            self._file.write_array(f"{name}.npy", array)
        self._file.close()

    def _begin(self, gallery: str, dtype: np.dtype[Any]) -> None:
        self._end_array()
        self._gallery, self._dtype = gallery, dtype
        shape = len(self._items.test_rows), len(self._items.ties[gallery])
        entry = zipfile.ZipInfo(f"scores_{gallery}.npy")
        self._array = self._file.open(entry, "w", force_zip64=True)
        header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._array, header)

    def _end_array(self) -> None:
        if self._array is not None:
            self._array.close()
            self._array = None


def what_was_scored(items: TrialItems) -> dict[str, npt.NDArray[np.intp]]:
    """Return the row numbers of the items, and the order within ties, by their names in a file."""
    rows = {"test_rows": items.test_rows, "training_rows": items.train_rows}
    return rows | {f"ties_{gallery}": items.ties[gallery] for gallery in Task.GALLERIES}
