"""Rendered materials with triplets that people judged, with their votes (Lagunas et al. 2019)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oasis_bench.data import JudgedTriplets
from oasis_bench.datasets.judged_pictures import JudgedPictures, Judgements, numbered, votes_of

if TYPE_CHECKING:
    import pandas as pd


class MaterialAppearance(JudgedPictures):
    """Which of two materials looks more like a reference: 22801 triplets of 100 pictures.

    Each material has one picture, 298 x 298 pixels, and is a class of its own.  Triplets are
    grouped by their reference; each has the votes for a and for b, ties among them.  The best
    possible answers agree with .838 of the votes.

    Read from ``judgements.csv``, a line a triplet: reference, a, b, votes_a, votes_b; the pictures
    are in ``images``.
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
    folder = "material-appearance"
    table = "judgements.csv"
    columns = ("reference", "a", "b", "votes_a", "votes_b")

    def _judgements(self, cells: pd.DataFrame) -> Judgements:
        names, items = numbered(cells[["reference", "a", "b"]])
        return Judgements(
            [Path("images", name) for name in names],
            np.arange(len(names)),
            tuple(Path(name).stem for name in names),
            JudgedTriplets(items, votes_of(cells, ("votes_a", "votes_b")), items[:, 0].copy()),
        )
