"""Trials on a real Dask cluster of processes: the same store as on one machine."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest
from distributed import LocalCluster

from oasis_bench.cli import main
from oasis_bench.errors import UsageError
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.run import resume_experiment, run_experiment
from oasis_bench.store import read_run

SLOW_ONCE = """
import os, time
from pathlib import Path
from oasis_bench.algorithms import Euclidean

class SlowOnce(Euclidean):
    name = "SlowOnce"

    def __init__(self, folder=""):
        self.folder = folder

    def fit(self, X, y=None):
        if not any(Path(self.folder).iterdir()):
            Path(self.folder, str(os.getpid())).touch()
            time.sleep(3600)
        return super().fit(X, y)
"""


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread, each looked after by a nanny that replaces it."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def tiny(learners, partitions=2):
    return Experiment(
        title="Tiny",
        dataset="digits",
        learners=learners,
        classes=(2,),
        partitions=partitions,
        inner_folds=2,
        train_per_class=8,
        test_per_class=6,
        max_steps=1000,
    )


def test_a_cluster_gives_the_store_of_one_machine(cluster, tmp_path, plugins):
    learners = {name: LearnerSpec(name) for name in ("OASIS", "Euclidean", "Raises", "Prints")}
    path = plugins / "misbehaving.py"
    for name, where in (("here", None), ("there", cluster.scheduler_address)):
        folder = tmp_path / name
        assert run_experiment(tiny(learners), folder, cluster=where, plugin_files=[path]) == 2
    here, there = read_run(tmp_path / "here"), read_run(tmp_path / "there")
    measures = ["trial_id", "status", "reason", "params", "n_steps", "mean_average_precision"]
    tables = [(run.trials[measures], run.precision_at_k, run.validation) for run in (here, there)]
    for table, other in zip(*tables, strict=True):
        keys = list(table.columns)
        pd.testing.assert_frame_equal(
            table.sort_values(keys, ignore_index=True), other.sort_values(keys, ignore_index=True)
        )
    assert "learner on stdout" in (tmp_path / "there" / "output.log").read_text()
    assert len(there.info["provenance"]["workers"]) == 2
    assert set(there.trials["shared_cores"]) == {1}  # both workers are on this machine


def test_a_trial_whose_worker_is_killed_runs_again(cluster, tmp_path):
    plugin = tmp_path / "slow_once.py"
    plugin.write_text(SLOW_ONCE)
    marks = tmp_path / "marks"
    marks.mkdir()
    learners = {
        "SlowOnce": LearnerSpec("SlowOnce", {"folder": str(marks)}),
        "Euclidean": LearnerSpec("Euclidean"),
    }

    def kill_its_worker(columns, done, planned):
        if done == 1:  # the other worker has ended a trial: this one hangs in its own
            deadline = time.monotonic() + 30
            while not any(marks.iterdir()) and time.monotonic() < deadline:
                time.sleep(0.05)
            trial = int(next(marks.iterdir()).name)
            server = int(_ps("ppid", trial))  # the server that forked it, below the worker
            os.kill(int(_ps("ppid", server)), signal.SIGKILL)

    failures = run_experiment(
        tiny(learners),
        tmp_path / "run",
        cluster=cluster.scheduler_address,
        plugin_files=[plugin],
        on_trial=kill_its_worker,
    )
    assert failures == 0
    run = read_run(tmp_path / "run")
    assert run.trials["status"].tolist() == ["ok"] * 4
    trial = next(marks.iterdir()).name
    assert not Path(f"/proc/{trial}").exists() or _ps("stat", int(trial)).startswith("Z")


def test_a_run_that_was_cut_short_here_goes_on_there(cluster, tmp_path):
    def stop(columns, done, planned):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny({"Euclidean": LearnerSpec("Euclidean")}), tmp_path, on_trial=stop)
    assert resume_experiment(tmp_path, cluster=cluster.scheduler_address) == 0
    assert (read_run(tmp_path).trials["status"] == "ok").all()


def test_a_cluster_without_workers_or_without_anybody_is_refused(tmp_path, capsys):
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(UsageError, match="has no workers: start some"),
    ):
        run_experiment(
            tiny({"Euclidean": LearnerSpec("Euclidean")}),
            tmp_path / "run",
            cluster=empty.scheduler_address,
        )
    words = ["run", "--cluster", "tcp://127.0.0.1:9", "--output", str(tmp_path / "run")]
    assert main(words) == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in capsys.readouterr().err
    assert main([*words, "--jobs", "2"]) == 2
    assert "jobs = 2 with a cluster" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_worker_with_other_code_runs_nothing(cluster, tmp_path, plugins):
    plugin = tmp_path / "mine.py"
    plugin.write_text((plugins / "slow.py").read_text())
    experiment = tiny({"SlowsDown": LearnerSpec("SlowsDown")}, partitions=1)

    def change_it(columns, done, planned):
        plugin.write_text((plugins / "slow.py").read_text() + "\n# changed\n")

    with pytest.raises(UsageError, match="the worker has another source of SlowsDown"):
        run_experiment(
            experiment,
            tmp_path / "run",
            cluster=cluster.scheduler_address,
            plugin_files=[plugin],
            on_trial=change_it,
        )


def _ps(column, pid):
    return subprocess.run(
        ["ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=True
    ).stdout.strip()
