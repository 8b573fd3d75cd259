"""Pictures of web search with triplets that people judged (Wang et al. 2014)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oasis_bench.datasets.judged_pictures import JudgedPictures, Judgements, judged_by_name

if TYPE_CHECKING:
    import pandas as pd


class SimilarityTriplets(JudgedPictures):
    """Triplets of pictures that web search found for one text query, judged by three people each.

    All three chose the same picture as more similar to the query, so that there are no votes.  The
    class of a picture is its text query, the first of those that it was found for; triplets are
    grouped by their text query.  A triplet whose query is its own positive is left out.

    Read from ``triplets.csv``, a line a triplet: text_query, query, positive, negative, the last
    three as paths below the folder.
    """

    name = "similarity-triplets"
    summary = "2672 pictures of 222 text queries with 1004 triplets that people judged"
    citation = (
        "J. Wang, Y. Song, T. Leung, C. Rosenberg, J. Wang, J. Philbin, B. Chen and Y. Wu. "
        "Learning fine-grained image similarity with deep ranking. CVPR, 2014 (section 6.2)"
    )
    licence = "not stated; the pictures were found on the web and are their owners'"
    home = "put triplets.csv and images/ of the release into $OASIS_BENCH_DATA/similarity-triplets"
    folder = "similarity-triplets"
    table = "triplets.csv"
    columns = ("text_query", "query", "positive", "negative")

    def _judgements(self, cells: pd.DataFrame) -> Judgements:
        return judged_by_name(cells)
