"""The files of a trial: what it prints, and on request its scores and the fitted learner.

The scores are an uncompressed .npz: ``numpy.load(path)["scores_test"]`` gives the scores of all
test items (rows) against all test items, ``["test_rows"]`` the row numbers of these in the data
set.
"""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from oasis_bench.data import LabelledRows, Patches, Prepare, row_hashes
from oasis_bench.experiment import TrialSpec, cell_name, saved_steps
from oasis_bench.plugins import Blend, Registry, complete_model, load_blend
from oasis_bench.system import (
    ArrayArchive,
    Folder,
    OutputError,
    Text,
    UsageError,
    open_regular,
    slices,
)
from oasis_bench.tasks import Task
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import (
    Evaluator,
    Rows,
    answer,
    mix_of,
    reason_against,
)
from oasis_bench.trial.harness_side.items import SealedItems, TrialItems, draw_items

GALLERIES = ("test", "training")

COPY_BYTES = 16 * 2**20

END_BYTES = 64 * 2**10
"""How much of a trial's output is kept from its start, and as much from its end."""

MOST_PRINTED = 16 * 2**20
"""Bytes of a trial under way beyond which its output is cut: it must not fill the disk."""


class PrintedOutput:
    """What the processes of one trial print, in a file that has no name until the trial ends.

    It is neither a pipe, which a learner would have to wait for, nor a file that it could replace.
    When the trial has ended, it is appended to the `log`.
    """

    def __init__(self, spec: TrialSpec, log: Path) -> None:
        cell = cell_name(spec.learner, spec.where.subset, spec.where.split)
        self._title, self._log = Text.printable(f"{cell}, partition {spec.where.partition}"), log
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
        """Append it to the log, if there is any; raise OutputError where that is not possible."""
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
    """The files that one trial under way keeps in the folder of the run, as its spec says.

    Each method raises OutputError where it cannot write.
    """

    def __init__(self, spec: TrialSpec, items: TrialItems, folder: Path) -> None:
        self._spec, self._items, self._folder = spec, items, folder
        self._files: dict[str, Path] = {}
        self._scores: ScoresFile | None = None
        self._steps: Sequence[Any] | None = None

    def add_scores(self, message: wall.Scores, content: bytes | bytearray) -> None:
        """Write the next block of scores, where they are kept."""
        if not self._spec.keeps.scores:
            return
        with self._disk(Folder.PREDICTIONS):
            if self._scores is None:
                self._scores = ScoresFile(self._new(Folder.PREDICTIONS), self._items)
            self._scores.add(message, content)

    def add_model(self, file: int, steps: Sequence[Any] | None) -> None:
        """Copy the model file that a trial's process has sent; close it.

        A learner of rows gets the `steps` before it, so that it takes rows as the data set gives
        them.
        """
        try:
            with self._disk(Folder.MODELS), self._new(Folder.MODELS).open("wb") as model:
                while part := os.pread(file, COPY_BYTES, model.tell()):
                    model.write(part)
        finally:
            os.close(file)
        self._steps = self._named(steps)

    def _named(self, steps: Sequence[Any] | None) -> Sequence[Any] | None:
        """Return steps that know the names of the columns, which those of the trial do not."""
        columns = self._spec.keeps.columns
        if not steps or columns is None or len(columns) != self._items.X.shape[1]:
            return steps
        named = copy(steps[0])
        named.feature_names_in_ = np.array(columns, dtype=object)
        return (named, *steps[1:])

    def finish(self, blend: Blend | None) -> dict[str, Path]:
        """Close the files; return them by the folder that they are for.

        A model of rows gets their hashes, and the `blend` of the learner.
        """
        if self._scores is not None:
            with self._disk(Folder.PREDICTIONS):
                self._scores.finish()
            self._scores = None
        if Folder.MODELS in self._files:
            hashes = None
            if not isinstance(self._items.X, Patches):
                training = self._items.X[self._items.train_rows]
                hashes = row_hashes(Prepare.without_left_out(training, self._items.encoding))
            if blend is not None and blend.steps:
                blend = replace(blend, steps=tuple(self._named(blend.steps) or ()))
            with self._disk(Folder.MODELS):
                complete_model(self._files[Folder.MODELS], self._steps, hashes, blend)
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
        name = f"{Folder.UNFINISHED}/{self._spec.trial_id}.{kind}"
        self._files[kind] = Folder(self._folder).path(name)
        self._files[kind].parent.mkdir(exist_ok=True)
        return self._files[kind]

    @contextmanager
    def _disk(self, kind: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError.of(self._folder / kind, error.strerror) from error


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

    def finish(self) -> None:
        """Write what the scores are of, and close the file."""
        self._end_array()
        for name, array in what_was_scored(self._items).items():
            self._file.write_array(f"{name}.npy", array)
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        self._end_array()
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
    return rows | {f"ties_{gallery}": items.ties[gallery] for gallery in GALLERIES}


class Predictions:
    """The kept scores of one trial, as it is planned now: of the learner alone, and blended.

    `blends` has the blend of each gallery, with the baseline's scaling; `galleries` are those whose
    scores were kept.  Raise UsageError where the file is damaged, or its scores are of other items
    than are drawn now.
    """

    def __init__(
        self,
        path: Path,
        spec: TrialSpec,
        rows: LabelledRows,
        blends: Mapping[str, tuple[Blend, str | None]],
    ) -> None:
        self.path, self.spec, self._rows, self._blends = path, spec, rows, blends
        self._learner = Registry.load(spec.plugin_files).algorithms[spec.algorithm]
        items = draw_items(spec, rows, self._learner)
        arrays = what_was_scored(items)
        with (
            _damage_as_usage_error(path),
            open_regular(path) as file,
            ArrayArchive(file) as archive,
        ):
            kept = {name: archive.read_array(f"{name}.npy") for name in arrays}
            names = archive.namelist()
            self.galleries = [one for one in GALLERIES if f"scores_{one}.npy" in names]
        if not all(np.array_equal(kept[name], array) for name, array in arrays.items()):
            raise UsageError(
                f"{path}: its scores are of other items than this oasis-bench draws: put it back, "
                "use the version that ran it, or start a new run"
            )
        self.items = replace(items, X=None)  # of which each trial may have a copy

    def evaluate(self, tasks: Sequence[Task]) -> Iterator[tuple[str, Mapping[str, Rows]]]:
        """Yield, for each task, its name and its rows of the tables."""
        prepared = {gallery: self._prepared(gallery) for gallery in self._blends}
        for task in tasks:
            status, reason = "not applicable", reason_against(task, self._learner)
            if reason is None:
                try:
                    evaluator = Evaluator([task], self.items, 0, 0, chooses_by=self.spec.chooses_by)
                    gallery = task.gallery
                    if gallery in self._blends:
                        blend, _ = self._blends[gallery]
                        evaluator.blend(gallery, blend, self._learner, prepared[gallery])
                    for message, content in self.blocks(gallery):
                        evaluator.readers[gallery].add(message, content)
                    yield task.name, evaluator.tables()
                    continue
                except UsageError:
                    raise
                except Exception as error:  # of a task of the user's own
                    status, reason = "failed", Text.of_error(error)
            nothing: dict[str, Rows] = {"measures": [], "groups": [], "predicted_classes": []}
            yield task.name, {"answers": [answer(task.name, status, reason)], **nothing}

    def blended(self) -> Iterator[tuple[int, wall.ScoreArray]]:
        """Yield the scores among test items as tasks are evaluated by them, with their start."""
        mix, start = None, 0
        if "test" in self._blends:
            blend, _ = self._blends["test"]
            mix = mix_of(blend, self._learner, self._prepared("test"), "test")
        for message, content in self.blocks("test"):
            block = np.frombuffer(content, message.dtype).reshape(message.n_queries, -1)
            yield start, block if mix is None else mix(start, block)
            start += len(block)

    def _prepared(self, gallery: str) -> SealedItems:
        """Return the items as the baseline of a blend gets them."""
        learner, (_, scaling) = self._learner, self._blends[gallery]
        items = draw_items(self.spec, self._rows, learner)
        if self.spec.model is None:
            return SealedItems(items, learner, scaling)
        blend = load_blend(self.spec.model)
        if blend is not None and blend.steps is not None:
            return SealedItems(items, learner, "none", blend.steps)
        saved = saved_steps(self.spec.model, Registry.load(self.spec.plugin_files))
        return SealedItems(items, learner, "none", saved)

    def blocks(self, gallery: str) -> Iterator[tuple[wall.Scores, bytes]]:
        """Read the scores against a gallery in blocks, as they once came.

        Raise UsageError where the file is damaged, or a score is NaN.
        """
        shape = n_queries, n_gallery = len(self.items.test_rows), len(self.items.ties[gallery])
        with (
            _damage_as_usage_error(self.path),
            open_regular(self.path) as file,
            ArrayArchive(file) as archive,
            archive.open_array(f"scores_{gallery}.npy") as (stream, header),
        ):
            found, _, dtype = header
            if header != (shape, False, dtype) or dtype not in (np.float32, np.float64):
                raise UsageError(
                    f"its scores have shape {found} and type {dtype}: {shape} of float32 or "
                    "float64, row after row, are needed"
                )
            row_bytes = n_gallery * dtype.itemsize
            for part in slices(n_queries, max(1, wall.MOST_SCORE_BYTES // row_bytes)):
                n_rows = part.stop - part.start
                content = stream.read(n_rows * row_bytes)
                if len(content) < n_rows * row_bytes:
                    raise UsageError("it ends early")
                if np.isnan(np.frombuffer(content, dtype)).any():
                    raise UsageError("it holds scores that are NaN")
                yield wall.Scores(gallery, n_rows, dtype.name), content


@contextmanager
def _damage_as_usage_error(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # libraries raise nearly anything for a damaged file
        reason = str(error) if isinstance(error, UsageError) else Text.of_error(error)
        raise UsageError(
            f"{path}: cannot be read as kept scores ({Text.cut(reason, Text.LONGEST_REASON)}): "
            "put it back, or run the trials again into a new folder"
        ) from error
