"""What people are asked to rate of a run, the page that asks, and what they send back.

Raters judge the candidates of its example queries (JMLR 2010, 5.2.3 and appendix A); the run keeps
their marks in ratings.csv.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import pandas as pd

from oasis_bench.reports.formatting import plural
from oasis_bench.reports.report_files import data_uri, render, write_files
from oasis_bench.reports.table import to_csv
from oasis_bench.reports.view import view_of
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import (
    UsageError,
    open_below,
    open_regular,
    path_below,
    printable,
    shown,
    write_whole,
)

PAGE, RATINGS = "judge.html", "ratings.csv"

ORDER_SEED = 5_2_3
"""Draws the order of queries and candidates: the same page each time."""

Mark = Literal["relevant", "not relevant", "cannot tell"]
MARKS: tuple[str, ...] = get_args(Mark)

Format = Literal["oasis-bench ratings 1"]
FORMAT: str = get_args(Format)[0]
"""What a file of the page says that it is."""

COLUMNS = ["rater_id", "rater", "query", "candidate", "mark"]
ONCE = ["rater_id", "query", "candidate"]

MOST_BYTES = 20_000_000
"""A file of the page has some 30 bytes a mark."""


class Question(NamedTuple):
    """A query and its candidates, in the order of the page: row numbers of the data set."""

    query: int
    candidates: Sequence[int]


class RatingFile(msgspec.Struct):
    """What the page saves: marks (query, candidate, mark) of the data set with this `data_key`."""

    format: Format
    data: str
    rater_id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    rater: Annotated[str, msgspec.Meta(max_length=80)]
    ratings: Annotated[list[tuple[int, int, Mark]], msgspec.Meta(min_length=1)]


def data_key(run: StoredRun) -> str:
    """Return what row numbers are of: a hash of the data set's content."""
    data = sorted({str(identity["data"]) for identity in run.info.identities.values()})
    return hashlib.sha256(" ".join(data).encode()).hexdigest()[:16]


def questions(run: StoredRun, n_queries: int, n_candidates: int) -> list[Question]:
    """Choose queries and candidates: at most so many, of those that have a picture.

    Candidates are the first that the learners retrieve, all learners' first ones before any second
    one, each once; their order on the page is drawn, and tells nothing of ranks or learners.
    """
    seen = run.pictures.loc[run.pictures["thumbnail"].notna(), "row"]
    rows = view_of(run).retrievals
    rows = rows[rows["query"].isin(seen) & rows["retrieved"].isin(seen)]
    if rows.empty:
        raise UsageError(
            "the run keeps no retrieved pictures to judge: they are of a data set of pictures, a "
            "task among test items such as retrieval, and 'run --examples 25'"
        )
    rng = np.random.default_rng(ORDER_SEED)
    first = rows.sort_values("rank", kind="stable").drop_duplicates(["query", "retrieved"])
    return [
        Question(
            int(query),
            rng.permutation(first.loc[first["query"] == query, "retrieved"].head(n_candidates))
            .astype(int)
            .tolist(),
        )
        for query in rng.permutation(first["query"].unique())[:n_queries]
    ]


def whole_depths(rows: pd.DataFrame, marked: Sequence[tuple[int, int]]) -> pd.Series[int]:
    """Return for each query how many of the first ranks of every learner are marked.

    `rows` are retrievals, `marked` the pairs (query, candidate) that have a mark.
    """
    missing = rows[~pd.MultiIndex.from_frame(rows[["query", "retrieved"]]).isin(marked)]
    whole = rows.groupby(["query", "subset", "learner"])["rank"].max().groupby("query").min()
    first_missing = missing.groupby("query")["rank"].min() - 1
    return whole.clip(upper=first_missing.reindex(whole.index)).astype(int)


def write_rating_page(
    folder: Path, n_queries: int = 25, n_candidates: int = 20, output: Path | None = None
) -> tuple[Path, str]:
    """Write the rating page of a run, one file that names no learner and no class.

    It asks at most `n_queries` queries and `n_candidates` candidates of each; it is judge.html in
    the run's folder where no `output` is given.  Return its path, and what it asks.
    """
    run = read_run(folder)
    asked = questions(run, n_queries, n_candidates)
    uris = {
        int(row): data_uri(thumbnail, "image/jpeg")
        for row, thumbnail in zip(run.pictures["row"], run.pictures["thumbnail"], strict=True)
        if thumbnail is not None
    }
    pictured = {row for question in asked for row in (question.query, *question.candidates)}
    values = {
        "format": FORMAT,
        "data": data_key(run),
        "marks": MARKS,
        "questions": asked,
        "pictures": {row: uris[row] for row in sorted(pictured)},
    }
    page = render("judge.html.j2", script="judge.js", asked=values, marks=MARKS)
    path = folder / PAGE if output is None else output
    write_files(path.parent, path.name, page, (), ())
    pairs = [(question.query, row) for question in asked for row in question.candidates]
    rows = view_of(run).retrievals
    depths = whole_depths(rows[rows["query"].isin([one.query for one in asked])], pairs)
    return path, (
        f"asked: {plural(len(pairs), 'candidate')} of {plural(len(asked), 'query picture')}, with "
        f"the first {depths.min()} of every learner; 'run --examples N' keeps more queries"
    )


def collect_ratings(folder: Path, files: Sequence[Path]) -> str:
    """Add files of a run's rating page to its ratings, all or nothing, and say what it has now.

    A rater's later mark of a pair replaces an earlier one.
    """
    run = read_run(folder)
    before = read_ratings(folder)
    asked = set(view_of(run).retrievals[["query", "retrieved"]].itertuples(index=False, name=None))
    new = pd.concat([_read_file(path, data_key(run), asked) for path in files])
    new = new.drop_duplicates(ONCE, keep="last")
    ratings = pd.concat([before, new]).drop_duplicates(ONCE, keep="last")
    path = folder / RATINGS
    try:
        write_whole(folder, RATINGS, to_csv(ratings))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: nothing is changed") from error
    return f"collected: {_count(new)}; {path} has {_count(ratings)}"


def _count(ratings: pd.DataFrame) -> str:
    return f"{plural(len(ratings), 'mark')} of {plural(ratings['rater_id'].nunique(), 'rater')}"


def read_ratings(folder: Path) -> pd.DataFrame | None:
    """Return the ratings that a run keeps, a row for each mark; None where it has none.

    The columns are `COLUMNS`: `rater` is a name, or ''; query and candidate are row numbers of the
    data set; mark is one of `MARKS`.
    """
    path = path_below(folder, RATINGS)
    try:
        with open_below(folder, RATINGS) as file:
            texts = dict.fromkeys(("rater_id", "rater", "mark"), str)
            ratings = pd.read_csv(file, dtype=texts, keep_default_na=False)
        if list(ratings.columns) != COLUMNS:
            raise ValueError(f"its columns are {', '.join(map(str, ratings.columns))}")
        ratings = ratings.astype({"query": int, "candidate": int})
        if not ratings["mark"].isin(MARKS).all() or ratings.duplicated(ONCE).any():
            raise ValueError("a mark is unknown, or comes twice")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError) as error:  # ParserError is a ValueError
        raise UsageError(
            f"{path} is damaged: {printable(str(error))}: remove it and collect the raters' files "
            "again"
        ) from error
    return ratings


def _read_file(path: Path, data: str, asked: Collection[tuple[int, int]]) -> pd.DataFrame:
    """Read what a rater sent; whatever the file holds, the error is one line that names it."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        sent = msgspec.json.decode(content, type=RatingFile)
        if sent.data != data:
            raise ValueError("it is of a page of another data set")
        marks = pd.DataFrame(sent.ratings, columns=COLUMNS[2:])
        pairs = [(query, candidate) for query, candidate, _ in sent.ratings]
        if others := [shown(pair) for pair in pairs if pair not in asked]:
            raise ValueError(f"the run does not retrieve (query, candidate) = {others[0]}")
        if len(set(pairs)) < len(pairs):
            raise ValueError("a query and candidate come twice")
    except (OSError, ValueError, RecursionError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or printable(str(error))
        raise UsageError(
            f"{path}: {reason}: nothing is collected: have the rater save it again, or leave it out"
        ) from error
    return marks.assign(rater_id=sent.rater_id, rater=printable(sent.rater.strip()))[COLUMNS]
