"""The run's file: whole trials or nothing, and what is refused."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import fake_info, fake_trial

from oasis_bench.store import FILE_NAME, RefusedRecordError, Store, read_run
from oasis_bench.store.schema import SCHEMA_VERSION
from oasis_bench.system import UsageError
from oasis_bench.trial import TrialRecord

COLUMNS = {name: value for name, value in fake_trial("L", 2).columns.items() if name != "trial_id"}
INFO = fake_info(rows=[COLUMNS])

# The cache of two pages makes SQLite write into the file before the end, as a commit does.
DIES_IN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from oasis_bench.store.run_file import Store
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
MAP = {"task": "retrieval", "measure": "mAP", "k": None, "value": 0.5, "chance": 0.4}
PRECISION = {"task": "retrieval", "measure": "precision", "k": 2, "value": 0.25, "chance": None}


def record(trial_id="a", **changes):
    return TrialRecord(
        {**COLUMNS, "trial_id": trial_id, **changes},
        answers=[ANSWER],
        measures=[MAP, PRECISION],
        confusion=[{"task": "classification", "label": 3, "predicted": 4, "n": 5}],
        validation=[{"scaling": "l2", "params": "{}", "n_steps": None, "fold": 0, "value": 0.7}],
        traces=[{"part": "test", "n_steps": 500, "value": 0.6}],
        symmetry=[{"n_steps": 500, "symmetry_index": 0.9375}],
    )


def n_rows(folder):
    run = read_run(folder)
    tables = (run.trials, run.measures, run.validation, run.traces)
    return [len(table) for table in tables]


def test_what_is_written_is_read_back(tmp_path):
    info = fake_info("é", [COLUMNS])
    with Store.create(tmp_path / "run", info) as store:
        store.write_info(planned_trials=3)
        store.add(record())
        assert store.info() == replace(info, planned_trials=3)
    run = read_run(tmp_path / "run")
    assert run.info == replace(info, planned_trials=3)
    row = run.trials.iloc[0].to_dict()
    assert {name: row[name] for name in COLUMNS} == COLUMNS
    assert row["reason"] is None
    of_trial = ["learner", "subset", "partition", "split"]
    assert run.measures[of_trial].values.tolist() == [["L", "2", 0, "seen-classes"]] * 2
    found = run.measures.drop(columns=[*of_trial, "trial_id"]).astype(object)
    assert found.where(found.notna(), None).to_dict("records") == [MAP, PRECISION]
    assert run.answers[list(ANSWER)].to_dict("records") == [ANSWER]
    assert run.confusion[["label", "predicted", "n"]].values.tolist() == [[3, 4, 5]]
    assert run.validation["value"].tolist() == [0.7]
    assert run.traces[["part", "n_steps"]].values.tolist() == [["test", 500]]
    of_steps = run.symmetry[["learner", "subset", "partition", "n_steps", "symmetry_index"]]
    assert of_steps.values.tolist() == [["L", "2", 0, 500, 0.9375]]


@pytest.mark.parametrize(
    "bad",
    [
        TrialRecord({**COLUMNS, "trial_id": "b", "status": "well"}),
        TrialRecord({**COLUMNS, "trial_id": "a"}),
        TrialRecord({**COLUMNS, "trial_id": "b", "no_such_column": 1}),
        TrialRecord({**COLUMNS, "trial_id": "b"}, measures=[PRECISION] * 2),
        TrialRecord({**COLUMNS, "trial_id": "b"}, measures=[MAP] * 2),
        TrialRecord({**COLUMNS, "trial_id": "b"}, measures=[{**MAP, "value": None}]),
        TrialRecord({**COLUMNS, "trial_id": "b"}, answers=[{**ANSWER, "status": "lost"}]),
        TrialRecord(
            {**COLUMNS, "trial_id": "b"},
            measures=[MAP],
            traces=[{"part": "train", "n_steps": 500, "value": "high"}],
        ),
    ],
    ids=[
        *("status", "written before", "column", "row twice", "row without k twice"),
        *("no value", "status of an answer", "text for a number"),
    ],
)
def test_a_record_with_a_bad_row_leaves_nothing_of_itself(tmp_path, bad):
    with Store.create(tmp_path / "run", INFO) as store:
        store.add(record("a"))
        with pytest.raises(RefusedRecordError):
            store.add(bad)
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.add(record("c"))
    assert read_run(tmp_path / "run").trials["trial_id"].tolist() == ["a", "c"]


def test_a_run_can_be_read_while_it_is_written(tmp_path):
    with Store.create(tmp_path / "run", INFO) as store:
        assert n_rows(tmp_path / "run") == [0, 0, 0, 0]
        store.add(record("a"))
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.connection.execute("BEGIN IMMEDIATE")
        store.connection.execute("DELETE FROM traces")
        assert n_rows(tmp_path / "run") == [1, 2, 1, 1]
        store.connection.execute("COMMIT")
        assert n_rows(tmp_path / "run") == [1, 2, 1, 0]


def test_a_run_that_was_killed_while_it_wrote_can_be_read(tmp_path):
    folder = tmp_path / "run"
    with Store.create(folder, INFO):
        pass
    died = subprocess.run([sys.executable, "-c", DIES_IN_A_TRANSACTION, folder], check=False)
    assert died.returncode == -signal.SIGKILL
    assert read_run(folder).info == INFO


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    with Store.create(tmp_path / "run", INFO) as store:
        store.add(record())
    with pytest.raises(
        UsageError,
        match=r"run holds another run: choose another --output, go on with it by '--resume",
    ):
        Store.create(tmp_path / "run", INFO)
    assert n_rows(tmp_path / "run") == [1, 2, 1, 1]


def test_a_folder_that_holds_anything_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"is not empty \(it holds thesis\.tex\)"):
        Store.create(tmp_path, INFO)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match=r"cannot use .* for output: (File exists|Not a dir)"):
            Store.create(folder, INFO)


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
        held = list(folder.iterdir())
        shutil.rmtree(folder)
    assert not held


def test_folders_above_are_made(tmp_path):
    with Store.create(tmp_path / "runs" / "mine", INFO) as store:
        store.add(record())
    assert n_rows(tmp_path / "runs" / "mine") == [1, 2, 1, 1]


def test_a_folder_without_a_run_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=r"holds no run: results\.sqlite is not in it"):
            read_run(folder)


@pytest.mark.parametrize("content", [b"not a database " * 100, b"SQLite format 3\0" + b"x" * 500])
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"results\.sqlite is not a readable run: "):
        read_run(tmp_path)


def test_a_database_of_something_else_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(UsageError, match="schema version 0"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("step", "remedy"),
    [
        (1, "use the newer oasis-bench that wrote it"),
        (-3, "use the older oasis-bench that wrote it, or run it again"),
    ],
)
def test_a_run_of_another_version_is_refused_with_both(tmp_path, step, remedy):
    with Store.create(tmp_path / "run", INFO) as store:
        store.connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + step}")
    versions = f"schema version {SCHEMA_VERSION + step}, this oasis-bench reads {SCHEMA_VERSION}"
    with pytest.raises(UsageError, match=f"{versions}: {remedy}$"):
        read_run(tmp_path / "run")


@pytest.fixture(params=[1, 2])
def older(tmp_path, request):
    """A run as versions before wrote it: without the tables that are new."""
    folder = tmp_path / "older"
    with Store.create(folder, INFO) as store:
        store.add(record())
        for table in ("fit_numbers", "projections")[: request.param]:
            store.connection.execute(f"DROP TABLE {table}")
        store.connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - request.param}")
    return folder


def test_a_run_of_a_version_before_is_read_and_merged_but_not_added_to(tmp_path, older):
    content = (older / FILE_NAME).read_bytes()
    assert n_rows(older) == [1, 2, 1, 1]
    assert len(read_run(older).projections) == len(read_run(older).fit_numbers) == 0
    with Store.create(tmp_path / "merged", INFO) as store:
        store.copy(older, ["a"])
    assert n_rows(tmp_path / "merged") == [1, 2, 1, 1]
    with closing(sqlite3.connect(older / FILE_NAME)) as connection:
        [[version]] = connection.execute("PRAGMA user_version")
    versions = f"schema version {version}, this oasis-bench writes {SCHEMA_VERSION}"
    with pytest.raises(UsageError, match=versions):
        Store.open(older)
    assert (older / FILE_NAME).read_bytes() == content


def test_a_run_whose_folder_has_an_odd_name_is_read(tmp_path):
    folder = tmp_path / "50% done? #1"
    with Store.create(folder, INFO) as store:
        store.add(record())
    assert n_rows(folder) == [1, 2, 1, 1]
