"""Ratings by people: the rating page, the files of raters, and what a report shows of them.

Raters judge the candidates of a run's example queries (JMLR 2010, 5.2.3 and appendix A); the run
keeps their marks in ratings.csv.  Marks are 1 (relevant), 0 (not relevant) or NaN: a rater need not
have marked every candidate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from oasis_bench.reports.report_files import data_uri, write_page
from oasis_bench.reports.table import Column, Table, number_text, plural, to_csv
from oasis_bench.reports.view import RunView, view_of
from oasis_bench.reports.words import note
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import Folder, UsageError, open_regular, printable, quoted, refuse_input
from oasis_bench.tasks import human_level

PAGE, RATINGS = "judge.html", "ratings.csv"

ORDER_SEED = 5_2_3
"""Seed of the order of queries and candidates: the page is the same each time."""

Mark = Literal["relevant", "not relevant", "cannot tell"]
MARKS: tuple[str, ...] = get_args(Mark)

Format = Literal["oasis-bench ratings 1"]
FORMAT: str = get_args(Format)[0]
"""What a file of the page says that it is."""

COLUMNS = ["rater_id", "rater", "query", "candidate", "mark"]
ONCE = ["rater_id", "query", "candidate"]

MOST_BYTES = 20_000_000
"""A file of the page has some 30 bytes a mark."""

Floats = npt.NDArray[np.float64]

HUMAN = "human level"


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


def questions(run: StoredRun, n_queries: int, n_candidates: int) -> list[tuple[int, list[int]]]:
    """Select queries and candidates with a picture, at most the given numbers, as row numbers.

    Candidates are the first pictures that the learners retrieve: the first ones of all learners,
    then the second ones, each picture once.  Their order on the page is random, so it does not
    show ranks or learners.
    """
    seen = run.pictures.loc[run.pictures["thumbnail"].notna(), "row"]
    rows = view_of(run).retrievals
    rows = rows[rows["query"].isin(seen) & rows["retrieved"].isin(seen)]
    if rows.empty:
        raise UsageError(
            "the run has no retrieved pictures to judge: it needs a data set of pictures, a task "
            "among test items such as retrieval, and 'run --examples 25'"
        )
    rng = np.random.default_rng(ORDER_SEED)
    first = rows.sort_values("rank", kind="stable").drop_duplicates(["query", "retrieved"])
    return [
        (
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
    folder: Path, queries: int = 25, candidates: int = 20, output: Path | None = None
) -> tuple[Path, str]:
    """Write the rating page of a run; return its path and a summary of it.

    The page has at most that many `queries`, with at most that many `candidates` each.  It names no
    learner and no class.  Without `output` it is judge.html in the run's folder.
    """
    path = folder / PAGE if output is None else output
    run = read_run(folder)
    refuse_input(path, (file for file in folder.iterdir() if file.name != PAGE))
    asked = questions(run, queries, candidates)
    thumbnails = run.pictures.set_index("row")["thumbnail"]
    pictured = {row for query, candidates in asked for row in (query, *candidates)}
    values = {
        "format": FORMAT,
        "data": data_key(run),
        "marks": MARKS,
        "questions": asked,
        "pictures": {row: data_uri(thumbnails[row], "image/jpeg") for row in sorted(pictured)},
    }
    write_page(path.parent, path.name, "judge.html.j2", asked=values, marks=MARKS)
    pairs = [(query, row) for query, candidates in asked for row in candidates]
    rows = view_of(run).retrievals
    depths = whole_depths(rows[rows["query"].isin([query for query, _ in asked])], pairs)
    return path, (
        f"{plural(len(pairs), 'candidate')} for {plural(len(asked), 'query picture')}, with the "
        f"first {depths.min()} of every learner; 'run --examples N' stores more queries"
    )


def collect_ratings(folder: Path, files: Sequence[Path]) -> str:
    """Add the raters' files to the ratings of a run, all or none, and return a summary.

    If a rater marked a pair several times, the last mark counts.
    """
    run = read_run(folder)
    before = read_ratings(folder)
    asked = set(view_of(run).retrievals[["query", "retrieved"]].itertuples(index=False, name=None))
    new = pd.concat([_read_file(path, data_key(run), asked) for path in files])
    new = new.drop_duplicates(ONCE, keep="last")
    ratings = pd.concat([before, new]).drop_duplicates(ONCE, keep="last")
    path = folder / RATINGS
    Folder(folder).write(RATINGS, to_csv(ratings))
    return f"collected: {_count(new)}; {path} has {_count(ratings)}"


def _count(ratings: pd.DataFrame) -> str:
    return f"{plural(len(ratings), 'mark')} of {plural(ratings['rater_id'].nunique(), 'rater')}"


def read_ratings(folder: Path) -> pd.DataFrame | None:
    """Return the ratings that a run stores, a row for each mark; None if it has none.

    The columns are `COLUMNS`: `rater` is a name, or ''; query and candidate are row numbers of the
    data set; mark is one of `MARKS`.
    """
    path = Folder(folder).path(RATINGS)
    try:
        with Folder(folder).open(RATINGS) as file:
            texts = dict.fromkeys(("rater_id", "rater", "mark"), str)
            ratings = pd.read_csv(file, dtype=texts, keep_default_na=False)
        if list(ratings.columns) != COLUMNS:
            raise ValueError(f"its columns are {', '.join(map(str, ratings.columns))}")
        ratings = ratings.astype({"query": int, "candidate": int})
        if not ratings["mark"].isin(MARKS).all() or ratings.duplicated(ONCE).any():
            raise ValueError("a mark is unknown, or occurs twice")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError) as error:  # ParserError is a ValueError
        raise UsageError(
            f"{path} is damaged: {printable(str(error))}: remove it and collect the raters' "
            "files again"
        ) from error
    return ratings


def _read_file(path: Path, data: str, asked: Collection[tuple[int, int]]) -> pd.DataFrame:
    """Read what a rater sent; an error is one line that names the file."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        sent = msgspec.json.decode(content, type=RatingFile)
        if sent.data != data:
            raise ValueError("it is from the page of another data set")
        marks = pd.DataFrame(sent.ratings, columns=COLUMNS[2:])
        pairs = [(query, candidate) for query, candidate, _ in sent.ratings]
        if others := [quoted(pair) for pair in pairs if pair not in asked]:
            raise ValueError(f"the run does not retrieve (query, candidate) = {others[0]}")
        if len(set(pairs)) < len(pairs):
            raise ValueError("a pair of query and candidate occurs twice")
    except (OSError, ValueError, RecursionError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or printable(str(error))
        raise UsageError(
            f"{path}: {reason}: nothing is collected: ask the rater to save it again, or leave it "
            "out"
        ) from error
    return marks.assign(rater_id=sent.rater_id, rater=printable(sent.rater.strip()))[COLUMNS]


def precision_of_raters(marks: Floats) -> Floats:
    """Return the precision at each k by each rater, of marks (n_ranks, n_raters), best first.

    This is the mean of the rater's marks among the first k; NaN if there are none.
    """
    hits, n = np.nan_to_num(marks).cumsum(axis=0), (~np.isnan(marks)).cumsum(axis=0)
    shares: Floats = np.divide(hits, n, out=np.full(hits.shape, np.nan), where=n > 0)
    return shares


def marks_of(ratings: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each query and candidate, a column for each rater: 1, 0, or NaN."""
    value = ratings["mark"].map(dict(zip(MARKS, (1.0, 0.0, np.nan), strict=True)))
    table = ratings.assign(value=value).pivot(
        index=["query", "candidate"], columns="rater_id", values="value"
    )
    return table[table.notna().any(axis=1)]


def rating_tables(view: RunView, ratings: pd.DataFrame) -> list[Table]:
    """Make the table of precision at k by raters; none if too little is rated."""
    marks = marks_of(ratings)
    rows = view.retrievals
    rows = rows[rows["query"].isin(marks.index.get_level_values("query"))].sort_values("rank")
    numbers = [
        own
        for subset in view.subsets
        for own in _of_subset(subset, view.learners, rows[rows["subset"] == subset], marks)
    ]
    if not numbers:
        return []
    last = pd.concat([own.tail(1) for own in numbers])
    errors = [number_text(error, " ± {:.3f}", missing="") for error in last["standard_error"]]
    n_unclear = (ratings["mark"] == MARKS[2]).sum()
    by_chance = float(marks.mean(axis=1).groupby("query").mean().mean())
    return [
        Table(
            name="ratings",
            title=f"Precision at k by {plural(ratings['rater_id'].nunique(), 'rater')}, and by "
            "labels",
            columns=[
                view.subset_column(last),
                view.learner_column(last),
                Column("k", last["k"]),
                Column("Queries", last["queries"]),
                Column("By raters", map(str.__add__, map(_number, last["by_raters"]), errors)),
                Column("By labels", last["by_labels"], _number),
            ],
            numbers=pd.concat(numbers),
            notes=[
                note("ratings", chance=by_chance),
                note("not_counted", n=n_unclear, n_marks=len(ratings), mark=MARKS[2]),
            ],
        )
    ]


def _of_subset(
    subset: str, learners: Sequence[str], rows: pd.DataFrame, marks: pd.DataFrame
) -> Iterator[pd.DataFrame]:
    """Judge what each learner retrieves on a class subset: a row for each k; then `HUMAN`.

    The last rank k is the one for which k times the number of queries that are marked so far is
    largest; the other queries are left out.
    """
    depths = whole_depths(rows, marks.index.to_list())
    if not (depths > 0).any():
        return
    k = int(max(depths, key=lambda k: k * (depths >= k).sum()))
    queries = depths.index[depths >= k]
    rows = rows[(rows["rank"] <= k) & rows["query"].isin(queries)]
    of_queries = [marks.xs(query, level="query").to_numpy() for query in queries]
    for learner in (*learners, HUMAN):
        found = rows[rows["learner"] == learner].sort_values(["query", "rank"])
        if learner == HUMAN:
            by_raters = np.stack([human_level(one, k) for one in of_queries])
            by_labels = np.full(k, np.nan)
        elif len(found) == k * len(queries):
            pairs = pd.MultiIndex.from_frame(found[["query", "retrieved"]])
            of_ranks = marks.reindex(pairs).to_numpy().reshape(len(queries), k, -1)
            by_raters = np.stack([precision_of_raters(one) for one in of_ranks])
            hits = found["relevant"].to_numpy(float).reshape(len(queries), k)
            by_labels = (hits.cumsum(axis=1) / np.arange(1, k + 1)).mean(axis=0)
        else:
            continue
        of_raters = pd.DataFrame(_mean(by_raters))
        yield pd.DataFrame(
            {
                "subset": subset,
                "learner": learner,
                "queries": len(queries),
                "k": np.arange(1, k + 1),
                "by_raters": of_raters.mean(axis=1),
                "standard_error": of_raters.sem(axis=1),
                "by_labels": by_labels,
            }
        )


def _mean(values: Floats) -> Floats:
    """Return the mean over the queries that have a value; NaN if there are none."""
    means: Floats = np.ma.filled(np.ma.masked_invalid(values).mean(axis=0), np.nan)
    return means


def _number(value: float) -> str:
    return number_text(value, "{:.3f}", missing="–")
