"""The run's file: whole trials or nothing, and what is refused."""

import errno
import math
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import pandas as pd
import pytest
from fake_runs import FakeTrial, fake_info, fake_trial, result_of
from report_helpers import contents

from oasis_bench.runs import read_run
from oasis_bench.runs.schema import SCHEMA, SCHEMA_VERSION, TRIAL_TABLES
from oasis_bench.runs.store import FILE_NAME, RefusedRecordError, Store
from oasis_bench.system import UsageError
from oasis_bench.trial import TrialResult

COLUMNS = {name: value for name, value in fake_trial("L", 2).columns.items() if name != "trial_id"}
INFO = fake_info(rows=[COLUMNS])
KINDS = {"INTEGER": int, "REAL": float, "TEXT": str}
HINTS = get_type_hints(TrialResult)
RECORDS = {"trials": HINTS["row"]} | {name: get_args(HINTS[name])[0] for name in TRIAL_TABLES}

# The cache of two pages makes SQLite write into the file before the end, as a commit does.
DIES_IN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from oasis_bench.runs.store import Store
store = Store.open(Path(sys.argv[1]))
store.connection.execute("PRAGMA cache_size = 2")
store.connection.execute("BEGIN IMMEDIATE")
for number in range(3000):
    store.connection.execute("INSERT INTO run VALUES (?, 'null')", [f"half {number}"])
os.kill(os.getpid(), signal.SIGKILL)
"""


ANSWER = {
    "task": "retrieval",
    "status": "ok",
    "reason": None,
    "n_queries": 50,
    "n_left_out": 0,
}
MAP = {"task": "retrieval", "measure": "mAP", "k": None, "value": 0.5}
MAP |= {"direct": 0.5, "posterior": None, "as_learned": 0.5, "chance": 0.4}
PRECISION = {"task": "retrieval", "measure": "precision", "k": 2, "value": 0.25}
PRECISION |= {"direct": 0.25, "posterior": 0.5, "as_learned": 0.25, "chance": None}


TUNED = {"gallery": "test", "task": "retrieval", "measure": "mAP", "k": None, "scaling": "l2"}
TUNED |= {"params": "{}"}


def record(trial_id="a", **changes):
    return FakeTrial(
        {**COLUMNS, "partition": ord(trial_id) - ord("a"), "trial_id": trial_id, **changes},
        answers=[ANSWER],
        tuned=[TUNED],
        measures=[MAP, PRECISION],
        predicted_classes=[{"task": "classification", "predicted": 4, "rows": "[5, 6, 8, 9]"}],
        validation=[
            {"task": "retrieval", "scaling": "l2", "params": "{}", "n_steps": None, "fold": 0}
            | {"value": 0.7}
        ],
        traces=[{"part": "test", "n_steps": 500, "value": 0.6}],
        symmetry=[{"n_steps": 500, "symmetry_index": 0.9375}],
    )


def stored(trial_id="a", **changes):
    return result_of(record(trial_id, **changes))


def n_rows(folder):
    run = read_run(folder)
    tables = (run.trials, run.measures, run.validation, run.traces)
    return [len(table) for table in tables]


@pytest.mark.parametrize(("table", "record"), RECORDS.items(), ids=RECORDS.keys())
def test_a_record_has_the_columns_of_its_table(table, record):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    expected = {
        name: KINDS[kind] if is_needed or name == "trial_id" else KINDS[kind] | NoneType
        for _, name, kind, is_needed, *_ in columns
        if table == "trials" or name != "trial_id"
    }
    fields = get_type_hints(record)
    for name, kind in fields.items():
        if get_origin(kind) is Literal:  # some texts alone, which the table checks
            fields[name] = type(get_args(kind)[0])
    assert [*fields.items()] == [*expected.items()]


def test_what_is_written_is_read_back(tmp_path):
    info = fake_info("é", [COLUMNS])
    with Store.create(tmp_path / "run", info) as store:
        store.add_answers([], planned_trials=3)
        store.add(stored())
        assert store.info() == replace(info, planned_trials=3)
    run = read_run(tmp_path / "run")
    assert run.info == replace(info, planned_trials=3)
    row = run.trials.iloc[0].to_dict()
    # A number that is NULL is read as NaN, also where a column holds no other.
    assert {name: None if pd.isna(row[name]) else row[name] for name in COLUMNS} == COLUMNS
    assert math.isnan(row["n_steps"])
    assert row["reason"] is None
    of_trial = ["learner", "subset", "partition", "split"]
    assert run.measures[of_trial].values.tolist() == [["L", "2", 0, "seen-classes"]] * 2
    found = run.measures.drop(columns=[*of_trial, "trial_id"]).astype(object)
    assert found.where(found.notna(), None).to_dict("records") == [MAP, PRECISION]
    assert run.answers[list(ANSWER)].to_dict("records") == [ANSWER]
    assert run.validation["value"].tolist() == [0.7]
    assert run.traces[["part", "n_steps"]].values.tolist() == [["test", 500]]
    of_steps = run.symmetry[["learner", "subset", "partition", "n_steps", "symmetry_index"]]
    assert of_steps.values.tolist() == [["L", "2", 0, 500, 0.9375]]


def test_what_needs_labels_is_there_only_between_the_end_of_a_run_and_its_resumption(tmp_path):
    ranked = [{"query": 5, "rank": rank, "retrieved": row} for rank, row in ((1, 8), (2, 9))]
    placed = {"row": 9, "x": 0.5, "y": 0.25, "x_before": None, "y_before": None}
    shown = replace(record(), retrievals=ranked, projections=[placed])
    labels = {5: [3], 6: [3], 7: [1], 8: [3, 2], 9: [2]}
    pictures = [{"row": 5, "caption": "it", "thumbnail": None}]
    asked = []

    def labels_of(rows):
        asked.extend(rows)
        return [(row, label) for row in rows for label in labels[row]]

    def in_tables():
        run = read_run(tmp_path / "run")
        confusion = run.confusion[["label", "predicted", "n"]].values.tolist()
        hits = run.retrievals[["retrieved", "relevant"]].values.tolist()
        return confusion, hits, run.projections["label"].tolist(), run.pictures["row"].tolist()

    info = fake_info("T", [COLUMNS], {"tasks": ["retrieval", "classification"]})
    with Store.create(tmp_path / "run", info) as store:
        store.add(result_of(shown))
        assert in_tables() == ([], [], [], [])
        with pytest.raises(KeyError):  # all or nothing
            store.add_labels(labels_of, lambda rows: {}["no picture"], finished="now")
        assert in_tables() == ([], [], [], [])
        store.add_labels(labels_of, lambda rows: pictures, finished="then")
        whole = ([[2, 4, 2], [3, 4, 3]], [[8, 1], [9, 0]], [2], [5])
        assert in_tables() == whole
        assert sorted(set(asked)) == [5, 6, 8, 9]
        assert store.info().finished == "then"
        store.reopen(planned_trials=9)
        assert (store.info().finished, store.info().planned_trials) == (None, 9)
        assert in_tables() == ([], [], [], [])
        store.add_labels(labels_of, lambda rows: pictures)
        assert in_tables() == whole


OTHER = {**COLUMNS, "partition": 1, "trial_id": "b"}


@pytest.mark.parametrize(
    "bad",
    [
        FakeTrial({**OTHER, "status": "well"}),
        FakeTrial({**COLUMNS, "trial_id": "a"}),
        FakeTrial(OTHER, measures=[PRECISION] * 2),
        FakeTrial(OTHER, measures=[MAP] * 2),
        FakeTrial(OTHER, measures=[{**MAP, "value": None}]),
        FakeTrial(OTHER, answers=[{**ANSWER, "status": "lost"}]),
        FakeTrial(
            OTHER,
            measures=[MAP],
            traces=[{"part": "train", "n_steps": 500, "value": "high"}],
        ),
    ],
    ids=[
        *("status", "written before", "row twice", "row without k twice"),
        *("no value", "status of an answer", "text for a number"),
    ],
)
def test_a_record_with_a_bad_row_leaves_nothing_of_itself(tmp_path, bad):
    with Store.create(tmp_path / "run", INFO) as store:
        store.add(stored("a"))
        with pytest.raises(RefusedRecordError):
            store.add(result_of(bad))
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.add(stored("c"))
    assert read_run(tmp_path / "run").trials["trial_id"].tolist() == ["a", "c"]


def test_a_run_can_be_read_while_it_is_written(tmp_path):
    with Store.create(tmp_path / "run", INFO) as store:
        assert n_rows(tmp_path / "run") == [0, 0, 0, 0]
        store.add(stored("a"))
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.connection.execute("BEGIN IMMEDIATE")
        store.connection.execute("DELETE FROM traces")
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.connection.execute("COMMIT")
        assert n_rows(tmp_path / "run") == [1, 2, 1, 0]


def test_a_run_that_was_killed_while_it_wrote_is_rolled_back_by_who_goes_on_with_it(tmp_path):
    folder = tmp_path / "run"
    with Store.create(folder, INFO):
        pass
    died = subprocess.run([sys.executable, "-c", DIES_IN_A_TRANSACTION, folder], check=False)
    assert died.returncode == -signal.SIGKILL
    before = contents(folder)
    with pytest.raises(
        UsageError, match=r"left results\.sqlite-journal: if .* 'run --resume .*run'"
    ):
        read_run(folder)
    assert contents(folder) == before
    with Store.open(folder) as store:
        assert store.info() == INFO
    assert read_run(folder).info == INFO


@pytest.fixture
def whole(tmp_path):
    """A run of one trial."""
    with Store.create(tmp_path / "run", INFO) as store:
        store.add(stored())
    return tmp_path / "run"


def hot_journal(path, named):
    """Make a journal as SQLite's file format describes it, of page 1, that names a file."""
    data = path.read_bytes()
    [size] = struct.unpack(">H", data[16:18])
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 1, 0, len(data) // size, 512, size)
    checksum = sum(data[i] for i in range(size - 200, 0, -200)) & 0xFFFFFFFF
    page = struct.pack(">I", 1) + data[:size] + struct.pack(">I", checksum)
    name = os.fsencode(named)
    end = struct.pack(">I", 2**30 // size + 1) + name + struct.pack(">II", len(name), sum(name))
    return header.ljust(512, b"\0") + page + end + magic


def test_a_journal_that_names_a_file_is_refused_before_sqlite_deletes_it(tmp_path, whole):
    path, mine = whole / FILE_NAME, tmp_path / "mine.txt"
    (whole / f"{FILE_NAME}-journal").write_bytes(hot_journal(path, mine))
    mine.write_text("years of work")
    before = contents(whole)
    for read in (read_run, Store.open):
        with pytest.raises(UsageError, match=r"-journal is not of this program: it names"):
            read(whole)
    assert contents(whole) == before
    assert mine.exists()
    with closing(sqlite3.connect(path)) as connection:  # so the journal is one that would
        connection.execute("SELECT * FROM run").fetchall()
    assert not mine.exists()


@pytest.mark.parametrize("ending", ["", "-journal"])
@pytest.mark.parametrize("kind", ["link", "FIFO"])
def test_what_sqlite_would_open_must_be_a_regular_file(tmp_path, whole, ending, kind):
    path = whole / f"{FILE_NAME}{ending}"
    if not ending:
        path.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    for read in (read_run, Store.open):
        with pytest.raises(UsageError, match=rf"^{path} is "):
            read(whole)
    assert (tmp_path / "elsewhere").read_bytes() == before
    assert [it.name for it in whole.iterdir() if it != path and it.name != FILE_NAME] == []


def test_a_store_with_a_write_ahead_log_is_refused_and_nothing_is_left_beside_it(whole):
    with closing(sqlite3.connect(whole / FILE_NAME)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = contents(whole)
    for read in (read_run, Store.open):
        with pytest.raises(UsageError, match=r"results\.sqlite has a write-ahead log"):
            read(whole)
    assert contents(whole) == before


@pytest.mark.parametrize("held_before", [False, True])
def test_only_what_was_made_is_discarded(tmp_path, held_before):
    folder = tmp_path / "run"
    if held_before:
        folder.mkdir()
    store = Store.create(folder, INFO)
    store.discard()
    assert folder.exists() == held_before
    store = Store.create(folder, INFO)
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    store.discard()
    assert [path.name for path in folder.rglob("*")] == ["mine", "notes.txt"]


def test_a_folder_that_holds_anything_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"is not empty \(it contains thesis\.tex\)"):
        Store.create(tmp_path, INFO)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_an_unwritable_folder_is_refused(mode):
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    folder.chmod(mode)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)  # root may write anywhere, 'nobody' may not
        for output in (folder, folder / "run"):
            with pytest.raises(UsageError, match=rf"^cannot (use|write) {folder}"):
                Store.create(output, INFO)
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        Store.create(folder, INFO).discard()  # no lock is left
        held = list(folder.iterdir())
        shutil.rmtree(folder)
    assert not held


def test_a_file_system_without_locks_is_no_other_writer(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(UsageError, match="No locks available"):
        Store.create(tmp_path / "run", INFO)


def test_a_folder_without_a_run_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=r"has no run: results\.sqlite is not in it"):
            read_run(folder)


def test_a_folder_of_several_runs_is_refused_and_one_of_them_is_named(tmp_path):
    Store.create(tmp_path / "keel" / "iris", INFO)
    with pytest.raises(UsageError, match=r"in folders of it: name one, such as .*/keel/iris$"):
        read_run(tmp_path / "keel")


@pytest.mark.parametrize("content", [b"not a database " * 100, b"SQLite format 3\0" + b"x" * 500])
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"results\.sqlite is not a readable run: "):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("step", "remedy"),
    [
        (1, "use the newer oasis-bench that wrote it"),
        (-1, "an older oasis-bench wrote it: run it again"),
    ],
)
def test_a_run_of_another_version_is_refused_with_both(tmp_path, step, remedy):
    with Store.create(tmp_path / "run", INFO) as store:
        store.connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + step}")
    versions = f"schema version {SCHEMA_VERSION + step}, this oasis-bench reads {SCHEMA_VERSION}"
    with pytest.raises(UsageError, match=f"{versions}: {remedy}$"):
        read_run(tmp_path / "run")


def test_a_file_without_a_run_is_not_called_one_of_an_older_version(tmp_path):
    (tmp_path / "results.sqlite").write_bytes(b"")
    with pytest.raises(UsageError, match=r"has no run: it was cut short before its first trial"):
        read_run(tmp_path)


DECLARED = "its tables are declared in another way"
WRITABLE = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE trials ADD COLUMN extra BLOB", DECLARED),
        ("ALTER TABLE traces DROP COLUMN value", DECLARED),
        ("CREATE VIEW more AS SELECT * FROM trials", DECLARED),
        (f"{WRITABLE}replace(sql, 'STRICT', '') WHERE name = 'trials'", DECLARED),
        (f"{WRITABLE}sql || CAST(x'202d2dff' AS TEXT) WHERE name = 'trials'", "UTF-8|malformed"),
        ("UPDATE trials SET rho = 2", "CHECK constraint failed in trials"),
        ("UPDATE measures SET value = 9e999", "CHECK constraint failed in measures"),
        ("UPDATE trials SET n_test = -1", "CHECK constraint failed in trials"),
        ("UPDATE trials SET learner = 'M'", "trials has the learner 'M', the run has not"),
        ("UPDATE tuned SET scaling = 'x'", "unknown scaling 'x'"),
        ("UPDATE tuned SET params = 'null'", "tuned: 'null' are no hyper-parameters"),
        (f"UPDATE tuned SET params = '{'[' * 100_000}'", "its params is no JSON"),
        (f"UPDATE tuned SET params = '{{\"a\": {'[' * 25}{']' * 25}}}'", "more than 20 times"),
        ("UPDATE predicted_classes SET rows = '[0.5]'", "names an item by 0.5: a row number"),
        ("DELETE FROM tuned", "does not say how 'a' was tuned for retrieval"),
        ("UPDATE run SET value = '{}' WHERE key = 'identities'", "what decides the trial 'a'"),
        (
            "UPDATE run SET value = json_set(value, '$.dataset_options', -1) WHERE key = "
            "'experiment'",
            "cannot be read: Expected `object`, got `int`",
        ),
    ],
)
def test_what_this_program_does_not_write_is_refused(tmp_path, change, message):
    info = fake_info("T", [COLUMNS], {"tasks": ["retrieval", "classification"]})
    with Store.create(tmp_path / "run", info) as store:
        store.add(stored())
    with closing(sqlite3.connect(tmp_path / "run" / FILE_NAME)) as connection:
        connection.executescript(f"PRAGMA ignore_check_constraints = ON; {change}")
    with pytest.raises(UsageError, match=message) as error:
        read_run(tmp_path / "run")
    assert "\n" not in str(error.value)


def test_a_run_whose_folder_has_an_odd_name_is_read(tmp_path):
    folder = tmp_path / "50% done? #1"
    with Store.create(folder, INFO) as store:
        store.add(stored())
    assert n_rows(folder) == [1, 2, 1, 1]
