"""What raters are asked of a run: its example queries, each with candidates of all learners."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from oasis_bench.reports.run.retrieved_images import retrievals
from oasis_bench.runs import StoredRun
from oasis_bench.system import UsageError

ORDER_SEED = 5_2_3
"""Draws the order of queries and candidates: the same page each time."""


@dataclass(frozen=True)
class Question:
    """A query and its candidates, in the order of the page: row numbers of the data set."""

    query: int
    candidates: Sequence[int]


def data_key(run: StoredRun) -> str:
    """Return what row numbers are of: a hash of the data set's content."""
    data = sorted({str(identity["data"]) for identity in run.info.identities.values()})
    return hashlib.sha256(" ".join(data).encode()).hexdigest()[:16]


def questions(run: StoredRun, n_queries: int, n_candidates: int) -> list[Question]:
    """Choose queries and candidates: at most so many, of those that have a picture.

    Candidates are the first that the learners retrieve, all learners' first ones before any second
    one, each once; their order on the page is drawn, and tells nothing of ranks or learners.

    Raises
    ------
    UsageError
        Where the run keeps no retrieved pictures.
    """
    seen = run.pictures.loc[run.pictures["thumbnail"].notna(), "row"]
    rows = retrievals(run)
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

    Parameters
    ----------
    rows : DataFrame
        Retrievals.
    marked : sequence of (int, int)
        The (query, candidate) that have a mark.
    """
    missing = rows[~pd.MultiIndex.from_frame(rows[["query", "retrieved"]]).isin(marked)]
    whole = rows.groupby(["query", "subset", "learner"])["rank"].max().groupby("query").min()
    first_missing = missing.groupby("query")["rank"].min() - 1
    return whole.clip(upper=first_missing.reindex(whole.index)).astype(int)
