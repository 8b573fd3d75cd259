"""Whether a store holds what this program writes: its schema, its rows, and what it says of itself.

A store may be damaged, or come from a stranger; what reads it relies on these checks.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from functools import cache

import pandas as pd

from oasis_bench.experiment import RunInfo
from oasis_bench.store.schema import READ_SCHEMAS
from oasis_bench.system import UsageError, shown


def refuse_other_schema(connection: sqlite3.Connection, version: int) -> None:
    """Check that there are a version's tables and indexes, as declared, and nothing else.

    No row is read before: a view or a trigger of a stranger could run for ever.

    Raises
    ------
    UsageError
        Where something is missing, declared otherwise, or more than we write.
    """
    known, held = _declarations(version), _declared(connection)
    for name in sorted(known.keys() | held.keys()):
        if known.get(name) != held.get(name):
            problem = "is unknown" if name not in known else "is missing or declared otherwise"
            raise UsageError(f"{' '.join(map(shown, name))} {problem}")


def refuse_damaged_rows(connection: sqlite3.Connection) -> None:
    """Check the file's pages, the types and bounds of its columns, and that each row has its trial.

    Raises
    ------
    UsageError
        Where one of them is wrong.
    """
    [[verdict]] = connection.execute("PRAGMA quick_check(1)")
    if verdict != "ok":
        raise UsageError(" ".join(str(verdict).split()))
    orphan = connection.execute("PRAGMA foreign_key_check").fetchone()
    if orphan is not None:
        raise UsageError(f"a row of {orphan[0]} belongs to no trial")


def refuse_what_does_not_fit(
    info: RunInfo, trials: pd.DataFrame, answers: pd.DataFrame, validation: pd.DataFrame
) -> None:
    """Check that the run knows what its trials name, and that their parameters can be read.

    Raises
    ------
    UsageError
        Where it does not, or they cannot.
    """
    for what, names, known in (
        ("learner", trials["learner"], info.experiment.learners),
        ("class subset", trials["subset"], info.classes),
        ("task", answers["task"], info.sources.tasks),
    ):
        if unknown := set(names) - set(known):
            raise UsageError(f"a trial has the {what} {shown(min(unknown))}, unknown to its run")
    statuses = zip(trials["status"], trials["params"], strict=True)
    given = {text for status, text in statuses if status == "ok" or not pd.isna(text)}
    for text in given.union(validation["params"]):
        if not isinstance(text, str) or not _is_object(text):
            raise UsageError(f"the hyper-parameters {shown(text)} are no JSON object")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@cache
def _declarations(version: int) -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(READ_SCHEMAS[version])
        return _declared(connection)


def _declared(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return each declaration by its kind and name, without comments and white space.

    Indexes that SQLite makes by itself have none.
    """
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema")
    return {
        (kind, name): "".join(re.sub(r"--[^\n]*", "", sql or "").split())
        for kind, name, sql in rows
    }
