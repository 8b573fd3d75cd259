"""The run's SQLite file: written one trial a transaction, read whole by the reports.

The only module that knows SQL, with `oasis_bench.store.schema`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pandas as pd

from oasis_bench.experiment import RunInfo
from oasis_bench.store.schema import (
    ADDED,
    READ_SCHEMAS,
    SCHEMA,
    SCHEMA_VERSION,
    TRIAL_TABLES,
)
from oasis_bench.store.soundness import (
    refuse_damaged_rows,
    refuse_other_schema,
    refuse_what_does_not_fit,
)
from oasis_bench.system import OutputError, UsageError, shown
from oasis_bench.trial import TrialRecord

FILE_NAME = "results.sqlite"

PANDAS_TYPES = {"TEXT": "string", "INTEGER": "Int64", "REAL": "float64", "BLOB": "object"}

DISK_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY")
"""Starts of the names of SQLite's errors that the disk or another program causes."""

WAIT_SECONDS = 60.0
"""How long a writer waits for a reader of the file, such as `report`."""


class OtherVersionError(UsageError):
    """A store that another version of this program wrote."""


class RefusedRecordError(ValueError):
    """The tables do not take the values of a record; nothing of it is written."""


@dataclass(frozen=True, eq=False)  # two are equal where they are one: hashed as such by caches
class RunRecord:
    """A run as the reports read it; `store.schema` describes each column.

    Attributes
    ----------
    info : RunInfo
        The table `run`.
    trials : DataFrame
        A row for each trial: what it was, how it ended and its costs.
    answers : DataFrame
        A row for each trial and task.
    measures : DataFrame
        A row for each trial, task, measure and k (NaN where the measure has none).
    confusion : DataFrame
        A row for each trial, task, true class and predicted class.
    validation : DataFrame
        A row for each trial, setting and inner fold.
    traces, symmetry : DataFrame
        A row for each trial and number of steps.
    retrievals : DataFrame
        A row for each trial, example query and rank.
    projections : DataFrame
        A row for each trial and projected test item.
    fit_numbers : DataFrame
        A row for each trial and single number of its fit.
    pictures : DataFrame
        A row for each picture of the examples.

    Notes
    -----
    The tables from `answers` to `fit_numbers` also have the columns learner, subset, partition and
    split of their trial.
    """

    info: RunInfo
    trials: pd.DataFrame
    answers: pd.DataFrame
    measures: pd.DataFrame
    confusion: pd.DataFrame
    validation: pd.DataFrame
    traces: pd.DataFrame
    symmetry: pd.DataFrame
    retrievals: pd.DataFrame
    projections: pd.DataFrame
    fit_numbers: pd.DataFrame
    pictures: pd.DataFrame


@dataclass
class Store:
    """A run's file, open for writing; no other process can write to it meanwhile."""

    folder: Path
    connection: sqlite3.Connection = field(repr=False)
    lock: int | None = field(repr=False)

    @classmethod
    def create(cls, folder: Path, info: RunInfo) -> Self:
        """Make the file of a new run, and its folder.

        Raises
        ------
        UsageError
            Where the folder holds anything, or cannot be written.
        """
        refuse_used_folder(folder)
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _lock(folder)
            refuse_used_folder(folder)  # again: another process may have been quicker
            store = cls(folder, _connect_to_write(path), lock)
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
        """Open the file of an existing run, to add trials.

        Raises
        ------
        UsageError
            Where the folder holds no run of this version, or another process writes to it.
        """
        read_run(folder)  # raises the error that says what is wrong
        path = folder / FILE_NAME
        with closing(_connect_to_read(path)) as connection:
            _refuse_other_version(path, _version(connection), [SCHEMA_VERSION])
        try:
            lock = _lock(folder)
            return cls(folder, _connect_to_write(path), lock)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"cannot write {path}: {error}") from error

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
        """Remove the run's files and its folder, so that the folder can be used again."""
        self._close()
        with suppress(OSError):
            for path in self.folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
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

    def info(self) -> RunInfo:
        """Return the metadata of the run."""
        return _read_info(self.connection)

    def write_info(self, **values: Any) -> None:
        """Set values of the table `run`, as JSON."""
        with self._transaction():
            _write_info(self.connection, values)

    def statuses(self) -> dict[str, str]:
        """Return the status of each stored trial, by its trial_id."""
        return dict(self.connection.execute("SELECT trial_id, status FROM trials"))

    def add(self, record: TrialRecord, replace: bool = False) -> None:
        """Write a trial in one transaction; with `replace`, first delete what is stored of it."""
        trial_id = record.columns["trial_id"]
        with self._transaction():
            if replace:
                for table in (*TRIAL_TABLES, "trials"):
                    self.connection.execute(f"DELETE FROM {table} WHERE trial_id = ?", (trial_id,))
            self._insert("trials", [record.columns])
            for table in TRIAL_TABLES:
                rows = [{"trial_id": trial_id, **row} for row in getattr(record, table)]
                self._insert(table, rows)

    def add_answers(
        self,
        trial_id: str,
        tasks: Collection[str],
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
    ) -> None:
        """Write rows of 'answers', 'measures' and 'confusion' for tasks of a stored trial.

        They replace those that are stored of the same tasks.
        """
        with self._transaction():
            for table, new in rows.items():
                self.connection.executemany(
                    f"DELETE FROM {table} WHERE trial_id = ? AND task = ?",
                    [(trial_id, task) for task in tasks],
                )
                self._insert(table, [{"trial_id": trial_id, **row} for row in new])

    def add_pictures(self, pictures: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of the table `pictures`; a row that is stored already stays as it is."""
        with self._transaction():
            self.connection.executemany(
                "INSERT OR IGNORE INTO pictures VALUES (:row, :caption, :thumbnail)", pictures
            )

    def copy(self, folder: Path, trial_ids: Sequence[str]) -> None:
        """Copy trials of the run in `folder`, with all their rows, and that run's pictures.

        Their column `run` names `folder`, where it does not name a run already.
        """
        with closing(_connect_to_read(folder / FILE_NAME)) as other, self._transaction():
            other.execute("BEGIN")
            for table in ("trials", *TRIAL_TABLES):
                rows = other.execute(
                    f"SELECT * FROM {table} WHERE trial_id IN (SELECT value FROM json_each(?)) "
                    "ORDER BY rowid",
                    (json.dumps(trial_ids),),
                )
                marks = ", ".join("?" * len(rows.description))
                self.connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            self.connection.execute("UPDATE trials SET run = ? WHERE run = ''", (str(folder),))
            self.connection.executemany(
                "INSERT OR IGNORE INTO pictures VALUES (?, ?, ?)",
                other.execute("SELECT row, caption, thumbnail FROM pictures"),
            )

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            names = list(rows[0])
            self.connection.executemany(
                f"INSERT INTO {table} ({', '.join(names)}) "
                f"VALUES ({', '.join(':' + name for name in names)})",
                rows,
            )


def refuse_used_folder(folder: Path, option: str = "--output") -> None:
    """Raise a UsageError where `folder`, the value of `option`, holds anything."""
    try:
        held = next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot use {folder} for output: {error.strerror}") from error
    if (folder / FILE_NAME).exists():
        go_on = f"go on with it by '--resume {folder}', " if option == "--output" else ""
        raise UsageError(
            f"{folder} holds another run: choose another {option}, {go_on}"
            f"or remake its report with 'report {folder}'"
        )
    if held is not None:
        raise UsageError(
            f"{folder} is not empty (it holds {held.name}): choose another {option}, "
            "so that nothing of yours is overwritten"
        )


def read_run(folder: Path) -> RunRecord:
    """Read the run in `folder`, finished or cut short.

    Raises
    ------
    UsageError
        Where the folder holds no run, or one of another version.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise UsageError(f"{folder} holds no run: {FILE_NAME} is not in it")
    try:
        with closing(_connect_to_read(path)) as connection:
            version = _version(connection)
            _refuse_other_version(path, version, READ_SCHEMAS)
            connection.execute("BEGIN")  # one snapshot, also while a run still writes
            refuse_other_schema(connection, version)
            refuse_damaged_rows(connection)
            # Texts as Python's: for tables of this size sooner filtered than pyarrow's.
            with pd.option_context("mode.string_storage", "python"):
                tables = {
                    name: pd.read_sql_query(query, connection) for name, query in _queries().items()
                }
            run = RunRecord(info=_read_info(connection), **tables)
            refuse_what_does_not_fit(run.info, run.trials, run.answers, run.validation)
            return run
    except OtherVersionError:
        raise
    except UsageError as error:
        raise UsageError(
            f"{path} is damaged, or not of this program: {error}: use a copy of it, or run it again"
        ) from error
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise UsageError(f"{path} is not a readable run: {error}") from error


def _queries() -> dict[str, str]:
    """Return the query of each table of a run, by its name in `RunRecord`."""
    of_trials = {
        table: f"SELECT learner, subset, partition, split, {table}.* "
        f"FROM {table} JOIN trials USING (trial_id) ORDER BY {table}.rowid"
        for table in TRIAL_TABLES
    }
    return {"trials": "SELECT * FROM trials", "pictures": "SELECT * FROM pictures"} | of_trials


def column_types() -> dict[str, dict[str, str]]:
    """Return pandas' type of each column of each table."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        columns = connection.execute(
            "SELECT held, name, type FROM (SELECT name AS held FROM sqlite_schema "
            "WHERE type = 'table'), pragma_table_info(held)"
        )
        types: dict[str, dict[str, str]] = defaultdict(dict)
        for table, name, kind in columns:
            types[table][name] = PANDAS_TYPES[kind]
        return types


def _connect_to_read(path: Path) -> sqlite3.Connection:
    # A run that was killed while it wrote left a journal, which SQLite must roll back.
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
    version = _version(connection)
    for since, table in ADDED.items():
        if version < since:  # it lacks this table: read it as empty
            connection.execute(table.replace("TABLE", "TEMP TABLE", 1))
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _refuse_other_version(path: Path, version: int, known: Collection[int]) -> None:
    if version not in known:
        older = version < SCHEMA_VERSION
        raise OtherVersionError(
            f"{path} has schema version {version}, this oasis-bench "
            f"{'reads' if len(known) > 1 else 'writes'} {SCHEMA_VERSION}: use the "
            f"{'older' if older else 'newer'} oasis-bench that wrote it"
            f"{', or run it again' if older else ''}"
        )


def _connect_to_write(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=WAIT_SECONDS)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _read_info(connection: sqlite3.Connection) -> RunInfo:
    rows = connection.execute("SELECT key, value FROM run")
    values = {}
    for key, value in rows:
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"what it says of its {shown(key)} is no JSON") from error
    return RunInfo.from_json(values)


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
        raise UsageError(
            f"another process writes to {folder}: wait for its end, or choose another --output"
        ) from error
    return descriptor
