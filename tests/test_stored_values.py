"""Stores of strangers: any value in any column is read, or refused in one line, by every reader.

The values come from a fixed seed; STORE_EXAMPLES asks for more of them.
"""

import json
import os
import random
import shutil
import sqlite3
import warnings
from contextlib import closing
from functools import partial

import pytest
from small_runs import small

from oasis_bench.notebook import RunResult
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.runs.store import FILE_NAME
from oasis_bench.system import UsageError

N_EXAMPLES = int(os.environ.get("STORE_EXAMPLES", "60"))

VALUES = [None, "", "x", "null", "[]", '{"a": [[]]}', "[" * 100_000, "[0.5]", b"\xff", "a\nb"]
VALUES += [-1, 0, 1, 7, 2**62, 0.5, -1.0, 1e308, float("inf")]
IN_JSON = [None, "", "x", "'", -1, 0, 1.5, 10**30, float("inf"), [], [1], ["x"], {}, {"x": 1}, True]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a run with values in most tables, and its scores."""
    folder = tmp_path_factory.mktemp("stored") / "run"
    few = {"tasks": ("retrieval", "classification"), "partitions": 2, "traces": True, "search": "2"}
    experiment = small(["OASIS", "Euclidean"], **few, examples=2, max_steps=1000)
    run_experiment(experiment, folder, How(keep=["predictions"]))
    return folder


def paths(value, path=()):
    """List where a value may be changed inside of a JSON value."""
    yield path
    inside = enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in value.items() if isinstance(value, dict) else inside:
        yield from paths(one, (*path, key))


def changed(text, rng):
    """Replace, remove or rename a part of a JSON value."""
    box = {"it": json.loads(text)}
    *above, last = ("it", *rng.choice([*paths(box["it"])]))
    holder = box
    for key in above:
        holder = holder[key]
    kind = rng.choice(["replace", "replace", "remove", "rename"])
    if kind == "remove" and above:
        del holder[last]
    elif kind == "rename" and isinstance(holder, dict) and above:
        holder["other"] = holder.pop(last)
    else:
        holder[last] = rng.choice(IN_JSON)
    return json.dumps(box["it"])


def mutate(path, rng):
    """Change one column of one row or of all rows, whatever its table demands."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        tables = dict(tables.fetchall())
        table = rng.choice([*tables, *["run"] * 6, *["trials"] * 4])
        rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()
        if not rows:
            return f"nothing in {table}"
        where = rng.choice(["true", f"rowid = {rng.choice(rows)[0]}"])
        if table == "run":
            key, text = rng.choice(connection.execute("SELECT key, value FROM run").fetchall())
            value, column, where = changed(text, rng), "value", f"key = '{key}'"
        else:
            column = rng.choice(connection.execute(f"PRAGMA table_info({table})").fetchall())[1]
            value = rng.choice(VALUES)
        connection.execute("PRAGMA writable_schema = ON")  # for the time, columns take anything
        loose = tables[table].replace("STRICT", "").replace(" NOT NULL", "")
        for sql in (loose, tables[table]):
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
            connection.execute(f"PRAGMA schema_version = {rng.randrange(10**6)}")
            connection.commit()
            connection.execute("SELECT * FROM sqlite_schema").fetchall()
            if sql is loose:
                update = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}"
                connection.execute(update, (value,))
    return f"{table}.{column} = {str(value)[:100]!r} where {where}"


READERS = {
    "report": lambda command, run, other: command("report", run),
    "compare": lambda command, run, other: command("compare", run, other),
    "compare reversed": lambda command, run, other: command("compare", other, run),
    "evaluate": lambda command, run, other: command("evaluate", run, "--tasks", "retrieval"),
    "summary": lambda command, run, other: command("export", run, "--format", "summary"),
    "csv": lambda command, run, other: command("export", run, "--format", "csv"),
    "trec": lambda command, run, other: command("export", run, "--format", "trec"),
    "best": lambda command, run, other: RunResult(run).best(),
}


def outcome_of(read, what):
    """Return the line that refuses what is read, '' where nothing does; anything else fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = read()
    except UsageError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"after {what}") from error
    return "\n".join(outcome[2]) if isinstance(outcome, tuple) and outcome[0] == 2 else ""


def test_every_reader_takes_or_refuses_any_value(stored, tmp_path, command):
    rng, refused = random.Random(0), 0
    for number in range(N_EXAMPLES):
        run = tmp_path / str(number)
        shutil.copytree(stored, run)
        what = mutate(run / FILE_NAME, rng)
        line = outcome_of(partial(read_run, run), what)
        refused += bool(line)
        if not line:
            name = [*READERS][number % len(READERS)]
            what = f"{what}, {name}"
            line = outcome_of(partial(READERS[name], command, run, stored), what)
        assert "\n" not in line, what
    assert N_EXAMPLES / 4 < refused < N_EXAMPLES
