"""The run's SQLite file: each trial is one transaction, and reports read the whole file.

Only this module and `oasis_bench.runs.schema` know SQL.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

import pandas as pd
from msgspec import Struct
from msgspec.structs import asdict

from oasis_bench.data import Scaling
from oasis_bench.experiment import cell_name
from oasis_bench.runs.schema import (
    NAMED_ROWS,
    PICTURED_ROWS,
    QUERIES,
    SCHEMA,
    SCHEMA_VERSION,
    TRIAL_TABLES,
    RunFacts,
)
from oasis_bench.system import Folder, OutputError, UsageError, quoted, require_memory, spelled
from oasis_bench.trial import Measured, TrialResult

FILE_NAME = "results.sqlite"

JOURNAL = f"{FILE_NAME}-journal"
"""The file that SQLite keeps during a transaction."""

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a file, which SQLite deletes when it rolls back."""

PANDAS_TYPES = {"TEXT": "string", "INTEGER": "Int64", "REAL": "float64", "BLOB": "object"}

DISK_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY")
"""Prefixes of SQLite's errors that the disk or another program causes."""

DEEPEST = 20
"""Deepest nesting of lists and mappings in the JSON of a store; a run needs half of it."""

WAIT_SECONDS = 60.0
"""How long a writer waits for a reader of the file, such as `report`, and a reader for a writer."""


LONGEST_NAME = 100
"""Characters of a name that are used in the name of a file or folder; systems allow 255."""


class RefusedRecordError(ValueError):
    """The tables refuse the values of a record; nothing of it is written."""


@dataclass(frozen=True, eq=False)  # equal only to itself, so that caches can hash it
class StoredRun:
    """A run as the reports read it; `runs.schema` describes each column.

    The tables from `answers` to `fit_numbers` also have the columns learner, subset, partition and
    split of their trial.  `confusion`, `retrievals`, `projections` and `pictures` need labels of
    test items: they have no rows until the last trial has ended.
    """

    info: RunFacts  # the table `run`
    trials: pd.DataFrame  # a row for each trial: its facts, its end and its costs
    answers: pd.DataFrame  # a row for each trial and task
    tuned: pd.DataFrame  # ... gallery
    measures: pd.DataFrame  # ... task, measure and k (NaN if the measure has none)
    groups: pd.DataFrame  # ... task, measure, k and group of judgements
    confusion: pd.DataFrame  # ... task, true class and predicted class
    validation: pd.DataFrame  # ... setting and inner fold
    traces: pd.DataFrame  # ... number of steps
    symmetry: pd.DataFrame  # ... number of steps
    retrievals: pd.DataFrame  # ... example query and rank
    projections: pd.DataFrame  # ... projected test item
    fit_numbers: pd.DataFrame  # ... single number of its fit
    pictures: pd.DataFrame  # a row for each picture of the examples

    def typed_tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by name, each column of the type that it is stored in."""
        tables = {it.name: getattr(self, it.name) for it in fields(self) if it.name != "info"}
        return {
            name: table.astype({str(column): _column_types()[str(column)] for column in table})
            for name, table in tables.items()
        }


def has_run(folder: Path) -> bool:
    """Tell whether there is a run in `folder`, whole or not."""
    return (folder / FILE_NAME).exists()


def new_run_folder(dataset: str) -> Path:
    """Return the default folder of a run on a data set, given by its name or path."""
    return Path("runs") / f"{Path(dataset).stem[:LONGEST_NAME]}-{datetime.now():%Y%m%d-%H%M%S}"


def refuse_used_folder(folder: Path) -> None:
    """Raise UsageError if `folder`, the value of --output, is not empty."""
    try:
        held = next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot use {folder} for output: {error.strerror}") from error
    if has_run(folder):
        raise UsageError(
            f"{folder} already has a run: choose another {spelled('output')}, continue the run "
            f"with '--resume {folder}', or remake its report with 'report {folder}'"
        )
    if held is not None:
        raise UsageError(
            f"{folder} is not empty (it contains {held.name}): choose another "
            f"{spelled('output')}, so that nothing of yours is overwritten"
        )


@dataclass
class Store:
    """A run's file, open for writing; no other process can write to it meanwhile."""

    folder: Path
    connection: sqlite3.Connection = field(repr=False)
    lock: int | None = field(repr=False)
    made_folder: bool = False

    @classmethod
    def create(cls, folder: Path, info: RunFacts) -> Self:
        """Make the file of a new run, and its folder, which must be empty."""
        refuse_used_folder(folder)
        path = folder / FILE_NAME
        try:
            made_folder = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            lock = _lock(folder)
            try:
                refuse_used_folder(folder)  # again: another process may have been quicker
                store = cls(folder, _connect(path, "rwc"), lock, made_folder)
            except BaseException:
                os.close(lock)
                raise
            try:
                # One transaction, so that no file is without its info.
                store.connection.executescript(
                    f"BEGIN; PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA}"
                )
                _write_info(store.connection, info.to_json())
                store.connection.execute("COMMIT")
            except BaseException:
                store.discard()  # else the folder could not be used again
                raise
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"cannot write {path}: {error}: free or correct it, or choose another folder"
            ) from error
        return store

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the file of an existing run of this version, to add trials."""
        path = _path_for_sqlite(folder)
        try:
            lock = _lock(folder)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        try:
            # Roll back the transaction of a killed session.  `read_run` then reports any error,
            # also if there is no connection.
            with suppress(sqlite3.Error), closing(_connect(path, "rw")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_schema")
            read_run(folder)
            return cls(folder, _connect(path, "rw"), lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def _close(self) -> None:
        self.connection.close()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def discard(self) -> None:
        """Remove the files of `create`; other files in the folder stay."""
        self._close()
        with suppress(OSError):
            for name in (FILE_NAME, JOURNAL):
                (self.folder / name).unlink(missing_ok=True)
            if self.made_folder:
                self.folder.rmdir()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    self.connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            name = getattr(error, "sqlite_errorname", "")
            if not name.startswith(DISK_ERRORS):
                raise RefusedRecordError(f"the store refuses it: {error}") from error
            path = self.folder / FILE_NAME
            if not path.exists():
                raise OutputError(
                    f"{path} was removed while the run went on: its trials are lost: run it anew"
                ) from error
            raise OutputError.of(path, error) from error

    def info(self) -> RunFacts:
        """Return the metadata of the run."""
        return _read_info(self.connection)

    def reopen(self, **values: Any) -> None:
        """Set values of the table `run`, and mark the run as unfinished, without labels."""
        with self._transaction():
            for table in ("labels", "pictures"):
                self.connection.execute(f"DELETE FROM {table}")
            self.connection.execute("DELETE FROM run WHERE key IN ('finished', 'load_at_end')")
            _write_info(self.connection, values)

    def add_labels(
        self,
        labels_of: Callable[[list[int]], Iterable[tuple[int, int]]],
        pictures_of: Callable[[list[int]], Iterable[Mapping[str, Any]]] = lambda rows: (),
        **values: Any,
    ) -> None:
        """Write labels (row, label) and pictures of the rows that tables name, all or nothing.

        Call it only when no learner runs that could read them.  `values` go into the table `run`.
        """
        with self._transaction():
            named, pictured = (
                [row for (row,) in self.connection.execute(query)]
                for query in (NAMED_ROWS, PICTURED_ROWS)
            )
            self.connection.executemany(
                "INSERT OR IGNORE INTO labels VALUES (?, ?)", labels_of(named)
            )
            self._insert("pictures", list(pictures_of(pictured)))
            _write_info(self.connection, values)

    def statuses(self) -> dict[str, str]:
        """Return the status of each stored trial, by its trial_id."""
        return dict(self.connection.execute("SELECT trial_id, status FROM trials"))

    def add(self, result: TrialResult, replace: bool = False) -> None:
        """Write a trial in one transaction; with `replace`, first delete its stored rows."""
        trial_id = result.row.trial_id
        with self._transaction():
            if replace:
                for table in (*TRIAL_TABLES, "trials"):
                    self.connection.execute(f"DELETE FROM {table} WHERE trial_id = ?", (trial_id,))
            self._insert("trials", [asdict(result.row)])
            for table in TRIAL_TABLES:
                self._insert_of_trial(table, trial_id, getattr(result, table))

    def add_answers(self, answers: Iterable[tuple[str, str, Measured]], **values: Any) -> None:
        """Write measurements (trial_id, task, measured) in place of stored ones, all or nothing.

        `values` go into the table `run`.
        """
        with self._transaction():
            for trial_id, task, measured in answers:
                for table, new in vars(measured).items():
                    self.connection.execute(
                        f"DELETE FROM {table} WHERE trial_id = ? AND task = ?", (trial_id, task)
                    )
                    self._insert_of_trial(table, trial_id, new)
            _write_info(self.connection, values)

    def _insert_of_trial(self, table: str, trial_id: str, rows: Sequence[Struct]) -> None:
        self._insert(table, [{"trial_id": trial_id, **asdict(row)} for row in rows])

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            names = list(rows[0])
            self.connection.executemany(
                f"INSERT INTO {table} ({', '.join(names)}) "
                f"VALUES ({', '.join(':' + name for name in names)})",
                rows,
            )


def read_run(folder: Path) -> StoredRun:
    """Read the run in `folder`, finished or cut short; refuse another schema version."""
    path = _path_for_sqlite(folder)
    try:
        require_memory(path.stat().st_size, str(path), "free some")
        # A copy is one snapshot, even while a run writes; and SQLite checks no constraints in a
        # read-only file.
        with closing(_connect(path, "ro")) as file, closing(_in_memory()) as connection:
            file.backup(connection)
            [[version]] = connection.execute("PRAGMA user_version")
            if version == SCHEMA_VERSION:
                return _read(connection)
    except UsageError as error:
        raise UsageError(
            f"{path} is damaged, or not of this program: {error}: use a copy of it, or run it again"
        ) from error
    except (sqlite3.Error, pd.errors.DatabaseError, UnicodeError, MemoryError) as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_READONLY_ROLLBACK":
            raise UsageError(
                f"{path} is in the middle of a change: what wrote it was killed, and left "
                f"{JOURNAL}: if the run is yours, 'run --resume {folder}' takes the change back; "
                "else get the whole run again"
            ) from error
        reason = " ".join(str(error.__cause__ or error).split())
        raise UsageError(f"{path} is not a readable run: {reason}") from error
    if version == 0:
        raise UsageError(
            f"{path} has no run: it was cut short before its first trial, or is of another "
            "program: choose another folder, or remove it and run again"
        )
    remedy = (
        "an older oasis-bench wrote it: run it again"
        if version < SCHEMA_VERSION
        else "use the newer oasis-bench that wrote it"
    )
    raise UsageError(
        f"{path} has schema version {version}, this oasis-bench reads {SCHEMA_VERSION}: {remedy}"
    )


def _read(connection: sqlite3.Connection) -> StoredRun:
    """Read all tables; raise UsageError if they are not as this program writes them."""
    if _statements(connection) != _own_statements():
        raise UsageError("its tables are declared in another way")
    # It checks the types of values, CHECK and NOT NULL, and that keys are unique.
    [[verdict]] = connection.execute("PRAGMA integrity_check(1)")
    if verdict != "ok":
        raise UsageError(" ".join(str(verdict).split()))
    if orphan := connection.execute("PRAGMA foreign_key_check").fetchone():
        raise UsageError(f"a row of {orphan[0]} belongs to no trial")
    # Python strings: for tables of this size they are filtered faster than pyarrow's.
    with pd.option_context("mode.string_storage", "python"):
        tables = {name: _read_table(connection, query) for name, query in QUERIES.items()}
    del tables["predicted_classes"]  # `confusion` is made of it
    info = _read_info(connection)
    _refuse_what_does_not_fit(info, tables)
    named = connection.execute(f"WITH named(row) AS ({NAMED_ROWS}) SELECT row FROM named")
    for (row,) in named:
        if not isinstance(row, int) or row < 0:
            raise UsageError(f"it names an item by {quoted(row)}: a row number is needed")
    return StoredRun(info=info, **tables)


def _refuse_what_does_not_fit(info: RunFacts, tables: Mapping[str, pd.DataFrame]) -> None:
    """Raise UsageError if names in tables are not of this run, or facts are missing."""
    e, sources = info.experiment, info.sources
    known = {"learner": e.learners, "subset": info.classes, "split": sources.splits}
    known |= {"task": sources.tasks}
    for table, rows in tables.items():
        for column in known.keys() & rows.columns:
            for name in set(rows[column].dropna().unique()) - known[column].keys():
                raise UsageError(f"{table} has the {column} {quoted(name)}, the run has not")
        for column in {"scaling", "baseline_scaling"} & {*rows.columns}:
            for name in rows[column].dropna().unique():
                Scaling(name)
        for text in rows["params"].dropna().unique() if "params" in rows else ():
            if not isinstance(_from_json(text, "params"), dict):
                raise UsageError(f"{table}: {quoted(text)} are no hyper-parameters")
    of_trials = tables["trials"][["trial_id", "learner", "subset", "split"]].to_numpy().tolist()
    for trial, *(learner, subset, split) in of_trials:
        identity = info.identities.get(cell_name(learner, subset, split))
        if identity is None or len(identity["classes"]) != len(info.classes[subset]):
            raise UsageError(f"it does not say what decides the trial {quoted(trial)}")
    tuned = set(zip(tables["tuned"]["trial_id"], tables["tuned"]["gallery"], strict=True))
    measured = zip(tables["measures"]["trial_id"], tables["measures"]["task"], strict=True)
    for trial, task in set(measured):
        if (trial, sources.tasks[task].gallery) not in tuned:
            raise UsageError(f"it does not say how {quoted(trial)} was tuned for {task}")


def _read_table(connection: sqlite3.Connection, query: str) -> pd.DataFrame:
    """Read a table; a numeric column without numbers becomes NaN, as do gaps in others."""
    table, types = pd.read_sql_query(query, connection), _column_types()
    untyped = [str(column) for column in table if table[column].dtype == object]
    numeric = [column for column in untyped if types[column] in ("Int64", "float64")]
    return table.astype(dict.fromkeys(numeric, "float64"))


def _statements(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Return the declarations of tables and indexes, without comments and layout."""
    found = connection.execute("SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema")
    return {(*names, " ".join(re.sub("--.*", "", str(sql)).split())) for *names, sql in found}


@contextmanager
def _empty() -> Iterator[sqlite3.Connection]:
    """Make a store without rows, in memory."""
    with closing(_in_memory()) as connection:
        connection.executescript(SCHEMA)
        yield connection


@cache
def _own_statements() -> set[tuple[str, ...]]:
    with _empty() as connection:
        return _statements(connection)


@cache
def _column_types() -> dict[str, str]:
    """Return the pandas type of each column; columns with the same name have the same type."""
    with _empty() as connection:
        columns = connection.execute(
            "SELECT it.name, it.type FROM sqlite_schema AS of, pragma_table_info(of.name) AS it "
            "WHERE of.type = 'table' AND of.name <> 'run'"
        )
        types = {name: PANDAS_TYPES[kind] for name, kind in columns}
    return types | dict.fromkeys(("n", "relevant"), PANDAS_TYPES["INTEGER"])


def _path_for_sqlite(folder: Path) -> Path:
    """Return the path of a run's file; refuse it if SQLite must not open it or its journal."""
    path = Folder(folder).path(FILE_NAME)
    if not path.is_file():
        within = min(path.parent.glob(f"*/{FILE_NAME}"), default=None)
        instead = f", but in folders of it: name one, such as {within.parent}" if within else ""
        raise UsageError(f"{folder} has no run: {FILE_NAME} is not in it{instead}")
    with Folder(folder).open(FILE_NAME) as file:
        if file.read(20)[18:] == b"\2\2":
            raise UsageError(f"{path} has a write-ahead log, which this program never sets")
    with suppress(FileNotFoundError), Folder(folder).open(JOURNAL) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(JOURNAL_MAGIC)))
        if file.read() == JOURNAL_MAGIC:
            raise UsageError(
                f"{folder / JOURNAL} is not of this program: it names another file, which SQLite "
                "would delete: get the whole run again"
            )
    return path


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect; the mode 'ro' never writes, and rolls no journal back."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=WAIT_SECONDS)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA query_only = {mode == 'ro'}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # a deleted label is overwritten
    except BaseException:
        connection.close()
        raise
    return connection


def _in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _from_json(text: Any, what: str) -> Any:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"what it says of its {what} is no JSON: {quoted(text)}") from error
    if _is_deep(value, DEEPEST):
        raise UsageError(f"what it says of its {what} is nested more than {DEEPEST} times")
    return value


def _is_deep(value: Any, most: int) -> bool:
    """Tell whether lists and mappings are nested more than `most` times."""
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(value, (dict, list)) and (
        most == 0 or any(_is_deep(one, most - 1) for one in inside)
    )


def _read_info(connection: sqlite3.Connection) -> RunFacts:
    rows = connection.execute("SELECT key, value FROM run")
    return RunFacts.from_json({key: _from_json(value, quoted(key)) for key, value in rows})


def _write_info(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO run VALUES (?, ?)",
        [(key, json.dumps(value)) for key, value in values.items()],
    )


def _lock(folder: Path) -> int:
    """Lock `folder` against other writers, until the descriptor is closed or this process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise UsageError(
            f"another process writes to {folder}: wait for its end, or choose another "
            f"{spelled('output')}"
        ) from error
    return descriptor
