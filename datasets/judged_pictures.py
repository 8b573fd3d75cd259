"""What data sets share whose pictures people judged: a table of triplets, and a folder of pictures.

Not for what a table means: each data set knows that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.data import JudgedTriplets, LabelledRows
from oasis_bench.datasets.delimited import csv_cells
from oasis_bench.datasets.features.asked_features import HISTOGRAMS, asked_features
from oasis_bench.datasets.features.blocks import picture_histograms
from oasis_bench.datasets.features.codebook_pictures import teachers_of
from oasis_bench.datasets.features.picture_files import (
    Picture,
    PictureRows,
    Workers,
    hashed_pictures,
)
from oasis_bench.datasets.features.pixels import check_side, pixels_of
from oasis_bench.datasets.files.folders import dataset_folder
from oasis_bench.datasets.pictures import warn
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, check_value, no_progress, open_regular

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

CODEBOOK_SOURCE = "caltech101"

VOTES = ("votes_positive", "votes_negative")


class Judgements(NamedTuple):
    """What a table says: pictures (paths below the folder), their classes, and the triplets."""

    paths: list[Path]
    y: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    triplets: JudgedTriplets
    left_out: tuple[str, ...] = ()


class JudgedPictures(Dataset):
    """Pictures with triplets that people judged.

    A row is, by default, the histograms of a picture's quarters: 59 local binary patterns and 64
    colours each, 492 numbers, for which nothing is learned.

    Class attributes
    ----------------
    folder, table : str
        The folder, in `OASIS_BENCH_DATA` or in the cache folder, and the CSV file in it.
    columns, optional : tuple of str
        The columns that the table has, and those that it may have.

    Parameters
    ----------
    pixels : int, optional
        Decode each picture to so many pixels in width and height too, for learners that take
        pixels.
    features : str, default 'histograms'
        What a row is: histograms, or what `ImageDataset` takes beside visterms.  Codebooks of
        hand-made features are learned from caltech101.
    max_triplets : int, optional
        Use only the first `max_triplets` triplets of the table, and their pictures: for a quick try
        of features that take long.
    """

    items = "images"
    gives = ("rows", "pixels", "patches")
    folder: ClassVar[str]
    table: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        pixels: int | None = None,
        features: str = HISTOGRAMS,
        max_triplets: int | None = None,
    ) -> None:
        check_side(pixels)
        if max_triplets is not None:
            check_value("max_triplets", max_triplets, int, least=1)
        self.pixels = pixels
        self.max_triplets = max_triplets
        self.asked_features = asked_features(features, HISTOGRAMS)

    @property
    def title(self) -> str:
        """The data set, its features where they are no histograms, and the part that is taken."""
        features = f" {self.asked_features.option}" if self.asked_features else ""
        part = f", first {self.max_triplets} triplets" if self.max_triplets else ""
        return f"{self.name}{features}{part}"

    def location(self) -> str | None:
        """Return the folder of the table, or None where it is not on this machine."""
        table, _ = self._places()
        return str(table.parent) if table.is_file() else None

    def _places(self) -> tuple[Path, Path]:
        """Return the path of the table, and the folder that names of pictures are below."""
        folder = dataset_folder(self.folder)
        return folder / self.table, folder

    @abstractmethod
    def _judgements(self, cells: pd.DataFrame) -> Judgements:
        """Read the table, of texts alone."""

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the triplets, and describe each picture; earlier descriptions are on disk."""
        table, folder = self._places()
        cells = self._cells(table)
        try:
            read = self._judgements(cells[: self.max_triplets])
        except UsageError as error:
            raise UsageError(f"{table}: {error}") from error
        images = tuple(folder / path for path in read.paths)
        workers = Workers(progress)
        pictures = hashed_pictures(images, workers)
        rows = self._rows(pictures, workers)
        return LabelledRows(
            *(rows.X, read.y, read.class_names, images, read.left_out, read.triplets),
            pixels=None if self.pixels is None else pixels_of(pictures, self.pixels, workers),
            patches=rows.patches,
            remarks=rows.remarks,
        )

    def _rows(self, pictures: Sequence[Picture], workers: Workers) -> PictureRows:
        """Make the rows; a picture that cannot be used is an error."""
        if self.asked_features is None:
            return PictureRows(picture_histograms(pictures, workers), range(len(pictures)), ())
        teachers = partial(teachers_of, CODEBOOK_SOURCE, self.name, pictures, workers, warn)
        result = self.asked_features.rows_of(pictures, workers, teachers)
        for path, fault in result.left_out:
            raise UsageError(f"{path} cannot be used: {fault.reason}")
        return result

    def _cells(self, path: Path) -> pd.DataFrame:
        if not path.is_file():
            raise UsageError(f"there is no {path}: {self.home}")
        try:
            with open_regular(path) as file:
                cells = csv_cells(file, header=0, dtype=str, na_filter=False)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        unknown = set(cells.columns) - {*self.columns, *self.optional}
        if unknown or not set(self.columns) <= set(cells.columns):
            more = f", and {', '.join(self.optional)} may be there" if self.optional else ""
            raise UsageError(
                f"{path} has the columns {', '.join(cells.columns)}: {', '.join(self.columns)} are "
                f"needed{more}"
            )
        if cells.empty:
            raise UsageError(f"{path} has no line below the names of its columns: give triplets")
        for name, column in cells.items():
            if (column == "").any():
                line = int((column == "").argmax()) + 2
                raise UsageError(f"{path}: line {line}: {name} is empty: fill it in")
        return cells


def judged_by_name(cells: pd.DataFrame) -> Judgements:
    """Read triplets of file names: query, positive and negative, and what else there is.

    With a column text_query, this is a triplet's group, and a picture's class is its text query,
    the first of those that it was found for.  Else triplets are grouped by their query, and each
    picture is a class of its own.  Columns votes_positive and votes_negative are votes.  A triplet
    that holds a picture twice is left out.
    """
    names, items = numbered(cells[["query", "positive", "negative"]])
    class_names, y, groups = [Path(name).stem for name in names], np.arange(len(names)), items[:, 0]
    if "text_query" in cells:
        class_names, numbers = numbered(cells[["text_query"]])
        groups = numbers[:, 0]
        y = np.full(len(names), len(class_names))
        np.minimum.at(y, items.ravel(), np.repeat(groups, 3))
    votes = votes_of(cells, VOTES) if set(VOTES) & set(cells.columns) else None
    sound = np.array([len(set(triplet)) == 3 for triplet in items.tolist()])
    if not sound.any():
        raise UsageError("each triplet holds a picture twice: three different ones are needed")
    return Judgements(
        [Path(name) for name in names],
        y,
        tuple(class_names),
        JudgedTriplets(items[sound], None if votes is None else votes[sound], groups[sound]),
        () if sound.all() else (f"left out: {(~sound).sum()} triplets with a picture twice",),
    )


def votes_of(cells: pd.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the votes of two columns (n_triplets, 2)."""
    for name in columns:
        if name not in cells:
            raise UsageError(f"there is no column {name}: both columns of votes are needed")
        if other := [vote for vote in cells[name] if not vote.isdecimal()]:
            raise UsageError(f"{name} {other[0]!r}: a whole number is needed")
    return cells[list(columns)].to_numpy(dtype=np.int64)


def numbered(values: pd.DataFrame) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the different texts in a table in order, and the number of each cell's text."""
    names, numbers = np.unique(values.to_numpy(str), return_inverse=True)
    return names.tolist(), numbers.reshape(values.shape).astype(np.int64)
