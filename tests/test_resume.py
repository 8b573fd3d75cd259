"""Runs that go on after they were cut short: nothing twice, nothing mixed, nothing lost."""

import os
import shutil
import signal
import sqlite3
import subprocess
from dataclasses import asdict, replace

import pandas as pd
import pytest
from sklearn.datasets import load_digits
from small_runs import OnTrial, bench, small

from oasis_bench.command_line import main
from oasis_bench.experiment import LearnerSpec
from oasis_bench.reports import write_report
from oasis_bench.runs import How, read_run, resume_experiment, run_experiment
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


def experiment_in(folder):
    """Three learners with two partitions, one of which fails while the folder has no marker."""
    learners = {
        "OASIS": LearnerSpec("OASIS", {"aggressiveness": [0.1, 1.0]}),
        "Flaky": LearnerSpec("Flaky", {"marker": str(folder / "marker")}),
        "Euclidean": LearnerSpec("Euclidean"),
    }
    tasks = ("retrieval", "classification")
    return small(learners, classes=((("1", "7")),), partitions=2, tasks=tasks, traces=True)


def plugin_in(folder):
    path = folder / "flaky.py"
    path.write_text(FLAKY)
    return path


@pytest.fixture
def tiny(tmp_path):
    """Only the quick learners of the experiment."""
    whole = experiment_in(tmp_path)
    return replace(whole, learners={name: whole.learners[name] for name in ("Flaky", "Euclidean")})


@pytest.fixture
def plugin(tmp_path):
    return plugin_in(tmp_path)


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """The experiment, the plugin, and a run of it that was cut short after two trials."""
    folder = tmp_path_factory.mktemp("cut")
    (folder / "marker").touch()
    experiment, plugin = experiment_in(folder), plugin_in(folder)
    cut_short(experiment, folder / "run", plugin, after=2)
    return experiment, plugin, folder / "run"


@pytest.fixture(scope="module")
def whole(cut):
    """The same experiment, run without a break."""
    experiment, plugin, run = cut
    assert run_experiment(experiment, run.with_name("whole"), How(plugin_files=[plugin])) == 0
    return read_run(run.with_name("whole"))


def cut_short(experiment, folder, plugin, after):
    """Run until some trials are stored, as Ctrl-C does it."""

    def stop(columns, done, planned):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, folder, How(plugin_files=[plugin]), OnTrial(stop))


def finished_at(run):
    return run.trials.set_index("trial_id")["finished"]


NEED_LABELS = ("confusion", "projections")


def test_a_run_goes_on_where_it_stopped_and_gives_what_it_would_have_given(cut, whole, tmp_path):
    """And labels of test items come with the end of the last trial."""
    folder, told, seen = tmp_path / "cut", [], []
    shutil.copytree(cut[2], folder)
    before = read_run(folder)
    assert len(before.trials) == 2
    assert all(getattr(before, table).empty for table in NEED_LABELS)
    assert "need the labels of test items" in write_report(folder).read_text()

    def look(record, done, planned):
        told.append((done, planned))
        with sqlite3.connect(folder / FILE_NAME) as file:
            seen.append(file.execute("SELECT count(*) FROM labels").fetchone()[0])

    assert resume_experiment(folder, How(plugin_files=[cut[1]]), OnTrial(look)) == 0
    assert told == [(done, 4) for done in range(5)]
    resumed, finished = read_run(folder), finished_at(before)
    assert finished_at(resumed)[finished.index].equals(finished)  # not run again
    for table in ("answers", "measures", "validation", "traces"):
        pd.testing.assert_frame_equal(getattr(resumed, table), getattr(whole, table))
    measures = ["trial_id", "status", "params", "n_steps"]
    pd.testing.assert_frame_equal(resumed.trials[measures], whole.trials[measures])
    assert [part.trials for part in resumed.info.resumed] == [4]
    assert resumed.info.resumed[0].provenance["jobs"] == 1
    assert resumed.info.finished >= resumed.info.resumed[0].started
    for table in NEED_LABELS:
        assert len(getattr(whole, table)) > 5
        pd.testing.assert_frame_equal(getattr(resumed, table), getattr(whole, table))
    assert load_digits().target[whole.projections["row"]].tolist() == (
        whole.projections["label"].tolist()
    )
    assert "need the labels of test items" not in write_report(folder).read_text()
    # A trial that is run again runs without them, too.
    resume_experiment(folder, How(plugin_files=[cut[1]]), OnTrial(look), retry=["ok"])
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
        run_experiment(tiny, folder, How(plugin_files=[plugin]), OnTrial(interrupt))
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {"mine.txt", ".unfinished/mine.npz", "models/mine.npz"}


def test_a_run_that_has_kept_no_file_yet_still_keeps_them(tiny, plugin, tmp_path):
    def interrupt(result, done, planned):
        if done:  # the first trial has failed
            raise KeyboardInterrupt

    folder, alone = tmp_path / "run", replace(tiny, learners={"Flaky": tiny.learners["Flaky"]})
    how = How(plugin_files=[plugin], keep=("predictions",))
    with pytest.raises(KeyboardInterrupt):
        run_experiment(alone, folder, how, OnTrial(interrupt))
    (tmp_path / "marker").touch()
    assert resume_experiment(folder, How(plugin_files=[plugin]), retry=("failed",)) == 0
    assert len([*(folder / "predictions").iterdir()]) == 2


def test_failed_trials_are_run_again_where_that_is_asked_for(tiny, plugin, tmp_path, capsys):
    assert run_experiment(tiny, tmp_path / "run", How(plugin_files=[plugin])) == 2
    assert resume_experiment(tmp_path / "run", How(plugin_files=[plugin]), retry=["timeout"]) == 0
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
    ],
)
def test_what_changed_since_is_named_and_nothing_is_mixed(cut, tmp_path, change, what):
    tiny, plugin, run = cut
    shutil.copytree(run, tmp_path / "run")
    if change == "code":
        plugin = tmp_path / plugin.name
        plugin.write_text(FLAKY.replace("no marker", "no such marker"))
    else:
        with Store.open(tmp_path / "run") as store:
            store.add_answers([], experiment=asdict(replace(tiny, max_steps=2000)))
    before = (tmp_path / "run" / FILE_NAME).read_bytes()
    with pytest.raises(UsageError, match=rf"cannot go on: changed since it began: .*{what[:20]}"):
        resume_experiment(tmp_path / "run", How(plugin_files=[plugin]))
    assert (tmp_path / "run" / FILE_NAME).read_bytes() == before


def test_a_plugin_that_is_edited_in_the_midst_of_a_run_is_not_mixed_in(tiny, plugin, tmp_path):
    (tmp_path / "marker").touch()

    def edit(columns, done, planned):
        if done == 2:  # all learners have had their first partition
            plugin.write_text(FLAKY + "\n# edited\n")

    assert run_experiment(tiny, tmp_path / "run", How(plugin_files=[plugin]), OnTrial(edit)) == 1
    trials = read_run(tmp_path / "run").trials
    of_flaky = trials[trials["learner"] == "Flaky"].sort_values("partition")
    assert of_flaky["status"].tolist() == ["ok", "failed"]
    assert "the source of Flaky has changed since the run began" in of_flaky["reason"].iloc[1]


def test_two_processes_do_not_write_to_one_run(cut):
    _, plugin, run = cut
    message = r"another process writes to .*run: wait for its end"
    with Store.open(run), pytest.raises(UsageError, match=message):
        resume_experiment(run, How(plugin_files=[plugin]))


def test_a_killed_harness_leaves_a_run_that_goes_on(tmp_path):
    words = "--algorithms Euclidean --classes 2 --partitions 8 --inner-folds 2 --train 8 --test 6"
    command = bench("run", *words.split(), "--output", tmp_path / "run")
    harness = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in harness.stderr:
        if line.startswith("[3/"):
            os.kill(harness.pid, signal.SIGKILL)
            break
    harness.wait()
    harness.stderr.close()
    n_done = len(read_run(tmp_path / "run").trials)
    assert 3 <= n_done < 8
    told = []
    assert (
        resume_experiment(tmp_path / "run", watcher=OnTrial(lambda *args: told.append(args))) == 0
    )
    assert told[0][2] == 8 - n_done
    run = read_run(tmp_path / "run")
    assert sorted(run.trials["partition"]) == list(range(8))
    assert (run.trials["status"] == "ok").all()
