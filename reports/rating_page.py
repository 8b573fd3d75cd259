"""The page on which people rate what learners retrieve (JMLR 2010, 5.2.3 and appendix A)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from oasis_bench.reports.formatting import plural
from oasis_bench.reports.rating_questions import Question, data_key, questions, whole_depths
from oasis_bench.reports.report_files import data_uri, render, write_files
from oasis_bench.reports.run.retrieved_images import retrievals
from oasis_bench.runs import StoredRun, read_run

PAGE = "judge.html"

MARKS = ("relevant", "not relevant", "cannot tell")

FORMAT = "oasis-bench ratings 1"
"""What a file of the page says that it is."""


class RatingPage(NamedTuple):
    """The page, what it asks, and what of the wish the run does not have, a line each."""

    path: Path
    summary: str
    notes: list[str]


def write_rating_page(
    folder: Path,
    n_queries: int = 25,
    n_candidates: int = 20,
    output: Path | None = None,
) -> RatingPage:
    """Write the rating page of a run, one file that names no learner and no class.

    Parameters
    ----------
    folder : Path
        The run's.
    n_queries, n_candidates : int
        At most so many queries (default 25), and candidates of each (default 20).
    output : Path, optional
        The page; judge.html in the run's folder if not given.

    Raises
    ------
    UsageError
        Where the folder holds no run, the run has no retrieved pictures, or the page cannot be
        written.
    """
    run = read_run(folder)
    asked = questions(run, n_queries, n_candidates)
    uris = {
        int(row): data_uri(thumbnail, "image/jpeg")
        for row, thumbnail in zip(run.pictures["row"], run.pictures["thumbnail"], strict=True)
        if thumbnail is not None
    }
    shown = {row for question in asked for row in (question.query, *question.candidates)}
    values = {
        "format": FORMAT,
        "data": data_key(run),
        "marks": MARKS,
        "questions": [[question.query, question.candidates] for question in asked],
        "pictures": {row: uris[row] for row in sorted(shown)},
    }
    page = render("judge.html.j2", script="judge.js", asked=values, marks=MARKS)
    path = folder / PAGE if output is None else output
    write_files(path.parent, path.name, page, (), ())
    n_pairs = sum(len(question.candidates) for question in asked)
    summary = f"asked: {plural(n_pairs, 'candidate')} of {plural(len(asked), 'query picture')}"
    return RatingPage(path, summary, _notes(run, asked, n_queries, n_candidates))


def _notes(run: StoredRun, asked: list[Question], n_queries: int, n_candidates: int) -> list[str]:
    notes = []
    if len(asked) < n_queries:
        notes.append(
            f"--queries {n_queries}: the run keeps {plural(len(asked), 'query picture')}: "
            f"'run --examples {n_queries}' keeps more, where there are as many test pictures"
        )
    fewest = min(len(question.candidates) for question in asked)
    rows = retrievals(run)
    if fewest < n_candidates:
        notes.append(
            f"--candidates {n_candidates}: for some query all learners together retrieve {fewest} "
            f"different pictures among their first {rows['rank'].max()}: take fewer candidates, or "
            "a run of more test pictures or learners"
        )
    pairs = [(question.query, row) for question in asked for row in question.candidates]
    depths = whole_depths(rows[rows["query"].isin([query for query, _ in pairs])], pairs)
    notes.append(f"the page has the first {depths.min()} of every learner for every query")
    return notes
