"""Runs that go on after they were cut short: nothing twice, nothing mixed, nothing lost."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from sklearn.datasets import load_digits

from oasis_bench.command_line import main
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.reports import write_report
from oasis_bench.runs import read_run, resume_experiment, run_experiment
from oasis_bench.runs.store import FILE_NAME, Store
from oasis_bench.system import UsageError

FLAKY = """
from pathlib import Path
from oasis_bench.algorithms import Euclidean

class Flaky(Euclidean):
    name = "Flaky"

    def __init__(self, marker=""):
        self.marker = marker

    def fit(self, X, y=None):
        if not Path(self.marker).exists():
            raise RuntimeError("no marker")
        return super().fit(X, y)
"""


@pytest.fixture
def tiny(tmp_path):
    """Three learners with two partitions, one of which fails while there is no marker."""
    learners = {
        "OASIS": LearnerSpec("OASIS", {"aggressiveness": [0.1, 1.0]}),
        "Flaky": LearnerSpec("Flaky", {"marker": str(tmp_path / "marker")}),
        "Euclidean": LearnerSpec("Euclidean"),
    }
    return Experiment(
        title="Tiny",
        dataset="digits",
        learners=learners,
        classes=((("1", "7")),),
        partitions=2,
        inner_folds=2,
        train_per_class=8,
        test_per_class=6,
        max_steps=1000,
    )


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "flaky.py"
    path.write_text(FLAKY)
    return path


def cut_short(experiment, folder, plugin, after):
    """Run until some trials are stored, as Ctrl-C does it."""

    def stop(columns, done, planned):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, folder, plugin_files=[plugin], on_trial=stop)


def finished_at(run):
    return run.trials.set_index("trial_id")["finished"]


def test_a_run_goes_on_where_it_stopped_and_gives_what_it_would_have_given(tiny, plugin, tmp_path):
    (tmp_path / "marker").touch()
    cut_short(tiny, tmp_path / "cut", plugin, after=2)
    before = finished_at(read_run(tmp_path / "cut"))
    assert len(before) == 2
    told = []
    failures = resume_experiment(
        tmp_path / "cut", plugin_files=[plugin], on_trial=lambda *args: told.append(args[1:])
    )
    assert failures == 0
    assert told == [(done, 4) for done in range(5)]
    resumed = read_run(tmp_path / "cut")
    assert finished_at(resumed)[before.index].equals(before)  # not run again
    run_experiment(tiny, tmp_path / "whole", plugin_files=[plugin])
    whole = read_run(tmp_path / "whole")
    for table in ("answers", "measures", "validation", "traces"):
        pd.testing.assert_frame_equal(getattr(resumed, table), getattr(whole, table))
    measures = ["trial_id", "status", "params", "n_steps"]
    pd.testing.assert_frame_equal(resumed.trials[measures], whole.trials[measures])
    assert [part.trials for part in resumed.info.resumed] == [4]
    assert resumed.info.resumed[0].provenance["jobs"] == 1
    assert resumed.info.finished >= resumed.info.resumed[0].started


NEED_LABELS = ("confusion", "projections")


def test_labels_of_test_items_come_with_the_end_of_the_last_trial(tiny, plugin, tmp_path):
    folder, seen = tmp_path / "cut", []
    (tmp_path / "marker").touch()
    tiny = replace(tiny, tasks=("retrieval", "classification"))

    def look(record, done, planned):
        with sqlite3.connect(folder / FILE_NAME) as file:
            seen.append(file.execute("SELECT count(*) FROM labels").fetchone()[0])

    cut_short(tiny, folder, plugin, after=2)
    assert all(getattr(read_run(folder), table).empty for table in NEED_LABELS)
    assert "need labels of test items" in write_report(folder).read_text()
    resume_experiment(folder, plugin_files=[plugin], on_trial=look)
    run_experiment(tiny, tmp_path / "whole", plugin_files=[plugin])
    resumed, whole = read_run(folder), read_run(tmp_path / "whole")
    for table in NEED_LABELS:
        assert len(getattr(whole, table)) > 5
        pd.testing.assert_frame_equal(getattr(resumed, table), getattr(whole, table))
    assert load_digits().target[whole.projections["row"]].tolist() == (
        whole.projections["label"].tolist()
    )
    assert "need labels of test items" not in write_report(folder).read_text()
    # A trial that is run again runs without them, too.
    resume_experiment(folder, plugin_files=[plugin], retry=["ok"], on_trial=look)
    assert seen == [0] * len(seen)
    assert len(seen) == 5 + 7
    pd.testing.assert_frame_equal(read_run(folder).confusion, whole.confusion)


def test_an_interrupt_before_the_first_trial_removes_only_what_the_run_made(tiny, plugin, tmp_path):
    folder = tmp_path / "run"

    def interrupt(record, done, planned):
        (folder / "mine.txt").write_text("my notes")
        for kind in (".unfinished", "models"):
            (folder / kind).mkdir()
            (folder / kind / "mine.npz").write_text("mine")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny, folder, plugin_files=[plugin], on_trial=interrupt)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {"mine.txt", ".unfinished/mine.npz", "models/mine.npz"}


def test_failed_trials_are_run_again_where_that_is_asked_for(tiny, plugin, tmp_path, capsys):
    assert run_experiment(tiny, tmp_path / "run", plugin_files=[plugin]) == 2
    assert resume_experiment(tmp_path / "run", plugin_files=[plugin], retry=["timeout"]) == 0
    assert (read_run(tmp_path / "run").trials["status"] == "failed").sum() == 2
    (tmp_path / "marker").touch()
    before = finished_at(read_run(tmp_path / "run"))
    words = ["run", "--resume", str(tmp_path / "run"), "--retry", "failed", "--budget", "5m"]
    words += ["--plugin", str(plugin)]
    assert main(words) == 0
    assert "2/2" in capsys.readouterr().err
    run = read_run(tmp_path / "run")
    assert (run.trials["status"] == "ok").all()
    assert run.trials["reason"].isna().all()
    of_others = run.trials.loc[run.trials["learner"] != "Flaky", "trial_id"]
    assert finished_at(run)[of_others].equals(before[of_others])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("code", "the source code of Flaky, classes 1+7"),
        ("settings", "max_steps of Euclidean, classes 1+7 and 2 more"),
        ("kernel", "OASIS_BENCH_KERNEL of"),
    ],
)
def test_what_changed_since_is_named_and_nothing_is_mixed(
    tiny, plugin, tmp_path, monkeypatch, change, what
):
    (tmp_path / "marker").touch()
    cut_short(tiny, tmp_path / "run", plugin, after=1)
    if change == "code":
        plugin.write_text(FLAKY.replace("no marker", "no such marker"))
    elif change == "kernel":
        monkeypatch.setenv("OASIS_BENCH_KERNEL", "numpy")
    else:
        with Store.open(tmp_path / "run") as store:
            store.write_info(experiment=replace(tiny, max_steps=2000).to_dict())
    before = (tmp_path / "run" / FILE_NAME).read_bytes()
    with pytest.raises(UsageError, match=rf"cannot go on: changed since it began: .*{what[:20]}"):
        resume_experiment(tmp_path / "run", plugin_files=[plugin])
    assert (tmp_path / "run" / FILE_NAME).read_bytes() == before


def test_a_plugin_that_is_edited_in_the_midst_of_a_run_is_not_mixed_in(tiny, plugin, tmp_path):
    (tmp_path / "marker").touch()

    def edit(columns, done, planned):
        if done == 3:  # all learners have had their first partition
            plugin.write_text(FLAKY + "\n# edited\n")

    assert run_experiment(tiny, tmp_path / "run", plugin_files=[plugin], on_trial=edit) == 1
    trials = read_run(tmp_path / "run").trials
    of_flaky = trials[trials["learner"] == "Flaky"].sort_values("partition")
    assert of_flaky["status"].tolist() == ["ok", "failed"]
    assert "the source of Flaky has changed since the run began" in of_flaky["reason"].iloc[1]


def test_two_processes_do_not_write_to_one_run(tiny, plugin, tmp_path):
    (tmp_path / "marker").touch()
    cut_short(tiny, tmp_path / "run", plugin, after=1)
    with (
        Store.open(tmp_path / "run"),
        pytest.raises(UsageError, match=r"another process writes to .*run: wait for its end"),
    ):
        resume_experiment(tmp_path / "run", plugin_files=[plugin])
    assert (
        resume_experiment(tmp_path / "run", plugin_files=[plugin]) == 0
    )  # once the other has ended


def test_a_killed_harness_leaves_a_run_that_goes_on(tiny, plugin, tmp_path):
    experiment = tmp_path / "tiny.toml"
    experiment.write_text(
        'title = "Tiny"\ndataset = "digits"\nclasses = [2]\npartitions = 40\n'
        "inner_folds = 2\ntrain_per_class = 8\ntest_per_class = 6\n[learners.Euclidean]\n"
    )
    command = [sys.executable, "-m", "oasis_bench", "run", "--experiment", str(experiment)]
    harness = subprocess.Popen(
        [*command, "--output", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True
    )
    for line in harness.stderr:
        if line.startswith("[3/"):
            os.kill(harness.pid, signal.SIGKILL)
            break
    harness.wait()
    harness.stderr.close()
    n_done = len(read_run(tmp_path / "run").trials)
    assert 3 <= n_done < 40
    told = []
    assert (
        resume_experiment(
            tmp_path / "run", plugin_files=[plugin], on_trial=lambda *args: told.append(args)
        )
        == 0
    )
    assert told[0][2] == 40 - n_done
    run = read_run(tmp_path / "run")
    assert sorted(run.trials["partition"]) == list(range(40))
    assert (run.trials["status"] == "ok").all()


def test_a_run_whose_file_is_damaged_is_refused(tiny, plugin, tmp_path):
    (tmp_path / "marker").touch()
    cut_short(tiny, tmp_path / "run", plugin, after=1)
    shutil.copytree(tmp_path / "run", tmp_path / "damaged")
    (tmp_path / "damaged" / FILE_NAME).write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    with pytest.raises(UsageError, match="is not a readable run"):
        resume_experiment(tmp_path / "damaged", plugin_files=[plugin])
    with sqlite3.connect(tmp_path / "run" / FILE_NAME) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
