"""Data sets whose pictures people judged: a table of triplets, and a folder of pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from oasis_bench.data import JudgedTriplets, LabelledRows
from oasis_bench.datasets import picture_files
from oasis_bench.datasets.delimited import layout_of
from oasis_bench.datasets.features import asked_features, feature_rows
from oasis_bench.datasets.files import dataset_folder, named_in_errors
from oasis_bench.datasets.hand_made import HISTOGRAMS
from oasis_bench.datasets.pictures import ImageDataset, teachers_of, warn
from oasis_bench.plugins import Dataset, Fields
from oasis_bench.system import Progress, UsageError, no_progress

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

VOTES = ("votes_positive", "votes_negative")

Numbers: TypeAlias = "npt.NDArray[np.int64]"


class JudgedPictures(Fields, Dataset, kw_only=True):
    """Pictures with triplets that people judged.

    By default, a row has histograms of the four quarters of a picture: 59 local binary patterns and
    64 colours each, together 492 numbers.  Nothing is learned for them.

    Class attributes
    ----------------
    table : str
        The CSV file in the folder that has the name of the data set, in `OASIS_BENCH_DATA` or in
        the cache folder.
    columns : tuple of str
        The columns that the table must have.
    meanings : mapping of str to str
        For columns with other names: their names in `judged_by_name`.
    home_of_pictures : str
        The folder of pictures in the folder of the table.

    Parameters
    ----------
    pixels : int, optional
        Also decode each picture to this width and height in pixels, for learners of pixels.
    features : str, default 'histograms'
        The features of a row: those of `ImageDataset`, except visterms.  The codebooks of hand-made
        features are learned from caltech101.
    max_triplets : int, optional
        Use only the first `max_triplets` triplets of the table, and their pictures, for a quick try
        of slow features.
    """

    items = "images"
    gives = ("rows", "pixels", "patches")
    table: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    meanings: ClassVar[Mapping[str, str]] = {}
    home_of_pictures: ClassVar[str] = ""

    pixels: int | None = None
    features: str = HISTOGRAMS
    max_triplets: int | None = None

    def __post_init__(self) -> None:
        picture_files.check_count("pixels", self.pixels)
        picture_files.check_count("max_triplets", self.max_triplets)
        self.asked_features = asked_features(self.features)

    @property
    def title(self) -> str:
        """The data set, its features if they are not histograms, and the part that is used."""
        features = "+".join(self.asked_features)
        features = "" if features == HISTOGRAMS else f" {features}"
        part = f", first {self.max_triplets} triplets" if self.max_triplets else ""
        return f"{self.name}{features}{part}"

    def location(self) -> str | None:
        """Return the folder of the table, or None if it is not on this machine."""
        table, _ = self._places()
        return str(table.parent) if table.is_file() else None

    def _places(self) -> tuple[Path, Path]:
        """Return the path of the table, and the folder that names of pictures are below."""
        folder = dataset_folder(self.name)
        return folder / self.table, folder / self.home_of_pictures

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the triplets, and describe each picture; earlier descriptions are on disk."""
        table, folder = self._places()
        with named_in_errors(table):
            cells = self._cells(table).rename(columns=self.meanings)
            names, y, class_names, triplets, left_out = judged_by_name(cells[: self.max_triplets])
        images = tuple(folder / name for name in names)
        pictures = picture_files.hashed_pictures(images, progress)
        source = ImageDataset.codebook_source
        teachers = partial(teachers_of, source, self.name, pictures, progress, warn)
        rows = feature_rows(self.asked_features, pictures, progress, teachers)
        picture_files.refuse_left_out(rows.left_out)
        pixels = None
        if self.pixels is not None:
            pixels, _, broken = picture_files.pixels_of(pictures, self.pixels, progress)
            picture_files.refuse_left_out(broken)
        return LabelledRows(
            *(rows.X, y, class_names, images, left_out, triplets),
            pixels=pixels,
            patches=rows.patches,
            remarks=rows.remarks,
        )

    def _cells(self, path: Path) -> pd.DataFrame:
        if not path.is_file():
            raise UsageError(f"there is no such file: {self.home}")
        cells = layout_of(path, header="1").read(dtype=str, na_filter=False)
        if missing := [name for name in self.columns if name not in cells]:
            raise UsageError(
                f"there is no column {missing[0]}: {', '.join(self.columns)} are needed"
            )
        if cells.empty:
            raise UsageError("there are no triplets below the names of the columns: add some")
        for name in cells.columns.intersection([*self.columns, "text_query", *VOTES]):
            if (empty := cells[name] == "").any():
                line = int(empty.argmax()) + 2
                raise UsageError(f"line {line} has an empty {name}: fill it in, or leave it out")
        return cells


def judged_by_name(
    cells: pd.DataFrame,
) -> tuple[list[str], Numbers, tuple[str, ...], JudgedTriplets, tuple[str, ...]]:
    """Read triplets of file names: query, positive and negative, and what else there is.

    Return the names, the class of each, the names of the classes, the triplets, and what is left
    out.

    With a column text_query, this is a triplet's group, and a picture's class is its text query,
    the first of those that it was found for.  Else triplets are grouped by their query, and each
    picture is a separate class.  Columns votes_positive and votes_negative are votes.  A triplet
    with the same picture twice is left out.
    """
    names, items = numbered(cells[["query", "positive", "negative"]])
    class_names, y, groups = [Path(name).stem for name in names], np.arange(len(names)), items[:, 0]
    if "text_query" in cells:
        class_names, numbers = numbered(cells[["text_query"]])
        groups = numbers[:, 0]
        y = np.full(len(names), len(class_names))
        np.minimum.at(y, items.ravel(), np.repeat(groups, 3))
        # All pictures of a text query may be of earlier ones, too: then it is no class.
        held, y = np.unique(y, return_inverse=True)
        class_names = [class_names[number] for number in held]
    votes = None
    if set(VOTES) & set(cells.columns):
        if missing := [name for name in VOTES if name not in cells]:
            raise UsageError(f"there is no column {missing[0]}: both columns of votes are needed")
        texts = cells[list(VOTES)]
        if other := [text for text in texts.to_numpy().ravel() if not text.isdecimal()]:
            raise UsageError(f"a vote {other[0]!r}: a whole number is needed")
        votes = texts.to_numpy(dtype=np.int64)
    sound = np.array([len(set(triplet)) == 3 for triplet in items.tolist()])
    if not sound.any():
        raise UsageError("each triplet has a picture twice: three different ones are needed")
    return (
        names,
        y,
        tuple(class_names),
        JudgedTriplets(items[sound], None if votes is None else votes[sound], groups[sound]),
        () if sound.all() else (f"left out: {(~sound).sum()} triplets with a picture twice",),
    )


def numbered(values: pd.DataFrame) -> tuple[list[str], Numbers]:
    """Return the different texts in a table in order, and the number of each cell's text."""
    names, numbers = np.unique(values.to_numpy(str), return_inverse=True)
    return names.tolist(), numbers.astype(np.int64)


class SimilarityTriplets(JudgedPictures):
    """Triplets of pictures that web search found for one text query, judged by three people each.

    All three people chose the same picture as more similar to the query, so there are no votes.
    The class of a picture is the first text query that found it.  Triplets are grouped by their
    text query.  A triplet with the same picture as query and positive is left out.

    The file ``triplets.csv`` has a line for each triplet: text_query, query, positive, negative.
    The last three are paths in the folder.
    """

    name = "similarity-triplets"
    summary = "2672 pictures of 222 text queries with 1004 triplets that people judged"
    citation = (
        "J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. "
        "Learning fine-grained image similarity with deep ranking. CVPR, 2014 (section 6.2)"
    )
    licence = "not stated; the pictures were found on the web and belong to their owners"
    home = "put triplets.csv and images/ of the release into $OASIS_BENCH_DATA/similarity-triplets"
    table = "triplets.csv"
    columns = ("text_query", "query", "positive", "negative")


class MaterialAppearance(JudgedPictures):
    """Which of two materials looks more like a reference: 22801 triplets of 100 pictures.

    Each material has one picture, 298 x 298 pixels, and is a separate class.  Triplets are grouped
    by their reference.  Each triplet has the votes for a and for b, which may be equal.  The best
    possible answers agree with .838 of the votes.

    The file ``judgements.csv`` has a line for each triplet: reference, a, b, votes_a, votes_b.  The
    pictures are in ``images``.
    """

    name = "material-appearance"
    summary = "100 rendered materials with 22801 triplets that people judged, and 92892 votes"
    citation = (
        "M. Lagunas, S. Malpica, A. Serrano, E. Garces, D. Gutierrez and B. Masia. A similarity "
        "measure for material appearance. ACM Transactions on Graphics 38(4), SIGGRAPH, 2019"
    )
    licence = "not stated: name the paper where you use it"
    home = (
        "put judgements.csv and images/ of the release into $OASIS_BENCH_DATA/material-appearance"
    )
    table = "judgements.csv"
    columns = ("reference", "a", "b", "votes_a", "votes_b")
    meanings: ClassVar[Mapping[str, str]] = dict(
        zip(columns, ("query", "positive", "negative", *VOTES), strict=True)
    )
    home_of_pictures = "images"


class OwnTriplets(JudgedPictures):
    """Triplets of the user: which of two pictures people found more similar to a third picture.

    A CSV file has the columns query, positive and negative with the names of picture files.  The
    optional column text_query groups triplets, so that a split keeps a group together; by default
    the query does so.  The optional columns votes_positive and votes_negative have votes; by
    default all votes are for the positive.

    Parameters
    ----------
    path : Path
        The CSV file, or a folder with the CSV file ``triplets.csv``.
    images : str, optional
        The folder of the pictures.  Default: the folder of the CSV file.
    pixels, features, max_triplets
        As for `JudgedPictures`.
    """

    name = "judged-triplets"
    summary = "your own pictures with triplets that people judged"
    citation = "none"
    licence = "not known: the pictures are yours"
    home = "--dataset PATH.csv, which has the columns query, positive and negative"
    table = "triplets.csv"
    columns = ("query", "positive", "negative")

    path: Path
    images: str | None = field(default=None, kw_only=True)

    def _places(self) -> tuple[Path, Path]:
        table = self.path / self.table if self.path.is_dir() else self.path
        folder = table.parent if self.images is None else Path(self.images)
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} of pictures: correct its path")
        return table, folder
