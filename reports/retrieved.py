"""The images that each learner retrieves for example queries (JMLR 2010, tables 2 and 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from oasis_bench.reports.report_files import data_uri
from oasis_bench.reports.view import RunView

SHOWN_RANKS = 5
"""Of what a query retrieves a report shows so many, best first; the store has more."""


@dataclass(frozen=True)
class Picture:
    """An image of the data set.

    Attributes
    ----------
    key : str
        Its name in the page's style sheet, which holds each picture once.
    row : int
        Its number in the data set.
    caption : str
        Its class or words.
    uri : str or None
        Its thumbnail as a data URI; None where there is none.
    """

    key: str
    row: int
    caption: str
    uri: str | None


@dataclass(frozen=True)
class Line:
    """What one learner retrieves for a query: pictures, best first, and whether each is a hit."""

    learner: str
    found: Sequence[tuple[Picture, bool]]

    @property
    def hits(self) -> int:
        """The number of relevant pictures."""
        return sum(hit for _, hit in self.found)


@dataclass(frozen=True)
class Query:
    """A test image and what each learner retrieves for it; `note` says where it is an end."""

    picture: Picture
    lines: Sequence[Line]
    note: str = ""

    @property
    def share(self) -> float:
        """The share of relevant pictures among what is shown, of all learners together."""
        shown = sum(len(line.found) for line in self.lines)
        return sum(line.hits for line in self.lines) / shown if shown else 0.0


def retrieved(view: RunView, pictures: Mapping[int, Picture]) -> dict[str, list[Query]]:
    """Return the queries of each subset that has any, with the pictures of the run."""
    rows = _shown(view).sort_values("rank")
    queries: dict[str, list[Query]] = {}
    for subset in view.subsets:
        of_subset = rows[rows["subset"] == subset]
        for number in sorted(set(of_subset["query"])):
            of_query, lines = of_subset[of_subset["query"] == number], []
            for learner in view.learners:
                own = of_query[of_query["learner"] == learner]
                pairs = zip(own["retrieved"], own["relevant"], strict=True)
                if found := [(pictures[image], bool(hit)) for image, hit in pairs]:
                    lines.append(Line(learner, found))
            queries.setdefault(subset, []).append(Query(pictures[number], lines))
    return {subset: _ends_first(_varied(own)) for subset, own in queries.items()}


def _ends_first(queries: list[Query]) -> list[Query]:
    """Put the queries with the most and with the fewest hits first, where these differ."""
    best, worst = (end(queries, key=lambda query: query.share) for end in (max, min))
    if best.share == worst.share:
        return queries
    others = [query for query in queries if query not in (best, worst)]
    return [replace(best, note="most hits"), replace(worst, note="fewest hits"), *others]


def _varied(queries: list[Query]) -> list[Query]:
    """Put the first query of each class before any second one: the page folds the last ones up."""
    seen: Counter[str] = Counter()
    turns = []
    for query in queries:
        turns.append(seen[query.picture.caption])
        seen[query.picture.caption] += 1
    order = sorted(range(len(queries)), key=turns.__getitem__)
    return [queries[place] for place in order]


def all_pictures(view: RunView) -> dict[int, Picture]:
    """Return every image that is a query or retrieved for one, by its row number."""
    kept = view.stored.pictures.set_index("row")
    rows = _shown(view)
    shown = sorted({int(row) for row in (*rows["query"], *rows["retrieved"])})
    # Some data sets have no pictures.
    return {
        row: _picture(row, *kept.loc[row, ["caption", "thumbnail"]])
        if row in kept.index
        else _picture(row, f"row {row}", None)
        for row in shown
    }


def _shown(view: RunView) -> pd.DataFrame:
    rows = view.retrievals
    return rows[rows["rank"] <= SHOWN_RANKS]


def _picture(row: int, caption: str, thumbnail: bytes | None) -> Picture:
    uri = None if thumbnail is None else data_uri(thumbnail, "image/jpeg")
    return Picture(f"p{row}", row, caption, uri)
