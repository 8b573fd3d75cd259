"""The user's own judged triplets: a CSV file that names pictures.

Not for the data sets that have a name: each of those has a module of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oasis_bench.datasets.features.asked_features import HISTOGRAMS
from oasis_bench.datasets.judged_pictures import VOTES, JudgedPictures, Judgements, judged_by_name
from oasis_bench.system import UsageError

if TYPE_CHECKING:
    import pandas as pd


class OwnTriplets(JudgedPictures):
    """Triplets of the user's: which of two pictures people found more similar to a third.

    A CSV file has the columns query, positive and negative, names of picture files; and may have
    text_query (what else groups triplets: a split never parts a group; default: the query), and
    votes_positive and votes_negative (default: all chose the positive).

    Parameters
    ----------
    path : Path
        The CSV file, or a folder that holds it as ``triplets.csv``.
    images : str, optional
        The folder that the names of pictures are below.  Default: that of the CSV file.
    pixels, features, max_triplets
        As `JudgedPictures` has them.
    """

    name = "judged-triplets"
    summary = "pictures of yours with triplets that people judged: --dataset PATH.csv"
    citation = "none"
    licence = "not known: the pictures are yours"
    home = "give a CSV file with the columns query, positive and negative"
    folder = ""
    table = "triplets.csv"
    columns = ("query", "positive", "negative")
    optional = ("text_query", *VOTES)

    def __init__(
        self,
        path: Path,
        images: str | None = None,
        pixels: int | None = None,
        features: str = HISTOGRAMS,
        max_triplets: int | None = None,
    ) -> None:
        super().__init__(pixels, features, max_triplets)
        self.path = path
        self.images = images

    def _places(self) -> tuple[Path, Path]:
        table = self.path / self.table if self.path.is_dir() else self.path
        folder = table.parent if self.images is None else Path(self.images)
        if not folder.is_dir():
            raise UsageError(f"images = {self.images}: there is no such folder of pictures")
        return table, folder

    def _judgements(self, cells: pd.DataFrame) -> Judgements:
        return judged_by_name(cells)
