"""What raters send back: files of the rating page, and the ratings that a run keeps of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.reports.formatting import plural
from oasis_bench.reports.rating_page import FORMAT, MARKS
from oasis_bench.reports.rating_questions import data_key
from oasis_bench.reports.run.retrieved_images import retrievals
from oasis_bench.reports.table import to_csv
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

RATINGS = "ratings.csv"
COLUMNS = ("rater_id", "rater", "query", "candidate", "mark")
ONCE = ["rater_id", "query", "candidate"]

MOST_BYTES = 20_000_000
"""A file of the page has some 30 bytes a mark."""

RATER_ID = re.compile(r"[0-9a-f]{16}")
LONGEST_NAME = 80


def collect_ratings(folder: Path, files: Sequence[Path]) -> str:
    """Add what raters sent to the ratings of a run, all of it or nothing.

    A rater's later mark of a pair replaces an earlier one.

    Parameters
    ----------
    folder : Path
        The run's; ratings.csv in it is written.
    files : sequence of Path
        Files that the rating page of the run saved.

    Returns
    -------
    str
        What was collected, and what the run has now.

    Raises
    ------
    UsageError
        Where there is no run, a file is not one of its page or is damaged, or the ratings cannot be
        read or written.
    """
    run = read_run(folder)
    before = read_ratings(folder)
    asked = set(retrievals(run)[["query", "retrieved"]].itertuples(index=False, name=None))
    read = [_read_file(path, run, asked) for path in files]
    new = pd.concat(read).drop_duplicates(ONCE, keep="last")
    parts = [new] if before is None else [before, new]
    ratings = pd.concat(parts).drop_duplicates(ONCE, keep="last")
    path = folder / RATINGS
    try:
        write_whole(folder, RATINGS, to_csv(ratings))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: nothing is changed") from error
    return f"collected: {_count(new)}; {path} has {_count(ratings)}"


def _count(ratings: pd.DataFrame) -> str:
    return f"{plural(len(ratings), 'mark')} of {plural(ratings['rater_id'].nunique(), 'rater')}"


def read_ratings(folder: Path) -> pd.DataFrame | None:
    """Return the ratings that a run keeps; None where it has none.

    Returns
    -------
    DataFrame or None
        A row for each mark: rater_id, rater (a name, or ''), query and candidate (row numbers of
        the data set), mark (one of `MARKS`).

    Raises
    ------
    UsageError
        Where they are damaged.
    """
    path = path_below(folder, RATINGS)
    try:
        with open_below(folder, RATINGS) as file:
            ratings = pd.read_csv(
                file, dtype={"rater_id": str, "rater": str, "mark": str}, keep_default_na=False
            )
        if tuple(ratings.columns) != COLUMNS:
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


def _read_file(path: Path, run: StoredRun, asked: Collection[tuple[int, int]]) -> pd.DataFrame:
    """Read a file of a rater; whatever it holds, the error is one line that names it."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise _OtherFileError(f"it has more than {MOST_BYTES:,} bytes")
        return pd.DataFrame(_rows(json.loads(content), run, asked), columns=list(COLUMNS))
    except OSError as error:
        reason = error.strerror or str(error)
    except _OtherFileError as error:
        reason = str(error)
    except (ValueError, RecursionError):
        reason = "it is no JSON"
    raise UsageError(
        f"{path}: {reason}: nothing is collected: have the rater save it again, or leave it out"
    )


class _OtherFileError(ValueError):
    """A file that the rating page of the run does not save."""


def _rows(
    content: Any, run: StoredRun, asked: Collection[tuple[int, int]]
) -> Iterator[tuple[str, str, int, int, str]]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _OtherFileError(f"it is not of the format {FORMAT!r}")
    if content.get("data") != data_key(run):
        raise _OtherFileError("it is of a page of another data set")
    rater_id, rater, ratings = (content.get(key) for key in ("rater_id", "rater", "ratings"))
    if not isinstance(rater_id, str) or not RATER_ID.fullmatch(rater_id):
        raise _OtherFileError(f"rater_id is {shown(rater_id)}: 16 hexadecimal digits are needed")
    if not isinstance(rater, str) or len(rater) > LONGEST_NAME:
        raise _OtherFileError(f"rater is {shown(rater)}: at most {LONGEST_NAME} characters")
    if not isinstance(ratings, list) or not ratings:
        raise _OtherFileError("it has no ratings")
    seen = set()
    for rating in ratings:
        if not (isinstance(rating, list) and [type(it) for it in rating] == [int, int, str]):
            raise _OtherFileError(f"rating {shown(rating)}: query, candidate and mark are needed")
        query, candidate, mark = rating
        if mark not in MARKS:
            raise _OtherFileError(f"mark {shown(mark)}: {', '.join(MARKS)} are known")
        if (query, candidate) not in asked or (query, candidate) in seen:
            pair = f"query {shown(query)}, candidate {shown(candidate)}"
            raise _OtherFileError(f"{pair} comes twice, or the run does not retrieve it")
        seen.add((query, candidate))
        yield rater_id, printable(rater.strip()), query, candidate, mark
