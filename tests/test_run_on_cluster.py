"""Trials on a real Dask cluster of processes: the same store as on one machine."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from distributed import Client, LocalCluster
from report_helpers import contents
from small_runs import OnTrial, bench, small

from oasis_bench.execution import cluster as on_cluster
from oasis_bench.experiment import LearnerSpec, model_experiment
from oasis_bench.runs import How, read_run, resume_experiment, run_experiment
from oasis_bench.system import UsageError

SLOW_ONCE = """
import os, time
from pathlib import Path
from oasis_bench.algorithms import Euclidean

MARKS = Path(__file__).with_name("marks")

class SlowOnce(Euclidean):
    name = "SlowOnce"

    def fit(self, X, y=None):
        if not any(MARKS.iterdir()):
            Path(MARKS, str(os.getpid())).touch()
            time.sleep(3600)
        return super().fit(X, y)
"""


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread, each looked after by a nanny that replaces it."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lone_worker():
    """A worker whose death takes along all rows that were sent, until its nanny replaces it."""
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def slow_once(tmp_path):
    """A plugin, and the folder where its learner leaves its process's number and then hangs."""
    plugin, marks = tmp_path / "slow_once.py", tmp_path / "marks"
    plugin.write_text(SLOW_ONCE)
    marks.mkdir()
    return plugin, marks


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler and its worker, which are processes of their own; the first and its address."""
    told, dask = tmp_path / "scheduler.json", [sys.executable, "-m", "dask"]
    words = ["--no-dashboard", "--scheduler-file", str(told)]
    with (tmp_path / "dask.log").open("w") as log:
        started = [
            subprocess.Popen([*dask, kind, *options, *words], stderr=log)
            for kind, options in (
                ("scheduler", ["--host", "127.0.0.1", "--port", "0"]),
                ("worker", ["--nthreads", "1", "--no-nanny"]),
            )
        ]
    try:
        with Client(scheduler_file=str(told), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            address = client.scheduler.address
        yield started[0], address
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=30)


def test_a_cluster_gives_the_store_and_the_files_of_one_machine(cluster, tmp_path, plugins):
    tasks = ("classification", "retrieval")
    learners = {name: LearnerSpec(name) for name in ("Euclidean", "Raises", "Prints")}
    learners["OASIS"] = LearnerSpec("OASIS", {"aggressiveness": 0.1})
    experiment = small(learners, tasks=tasks, traces=True)
    how = {"plugin_files": [plugins / "misbehaving.py"], "keep": ("models", "predictions")}
    for name, where in (("here", None), ("there", cluster.scheduler_address)):
        assert run_experiment(experiment, tmp_path / name, How(cluster=where, **how)) == 1
    for kind in how["keep"]:
        kept, brought = (contents(tmp_path / name / kind) for name in ("here", "there"))
        assert len(kept) == 3
        assert kept == brought
    here, there = read_run(tmp_path / "here"), read_run(tmp_path / "there")
    measures = ["trial_id", "status", "reason", "params", "n_steps"]
    tables = [(run.trials[measures], run.measures, run.validation) for run in (here, there)]
    for table, other in zip(*tables, strict=True):
        keys = list(table.columns)
        pd.testing.assert_frame_equal(
            table.sort_values(keys, ignore_index=True), other.sort_values(keys, ignore_index=True)
        )
    assert "learner on stdout" in (tmp_path / "there" / "output.log").read_text()
    assert len(there.info.provenance["workers"]) == 2
    assert set(there.trials["shared_cores"]) == {1}  # both workers are on this machine
    model = tmp_path / "here" / "models" / "OASIS_2_0.npz"
    sizes = {"classes": (2,), "partitions": 1, "train_per_class": 8, "test_per_class": 6}
    again = model_experiment(model, "digits", tasks=tasks, **sizes)
    assert run_experiment(again, tmp_path / "again", How(cluster=cluster.scheduler_address)) == 0
    columns = ["task", "measure", "k", "value"]
    rows = "task == 'classification' and learner.str.startswith('OASIS')"
    fitted, judged = (
        run.measures.query(rows)[columns] for run in (here, read_run(tmp_path / "again"))
    )
    pd.testing.assert_frame_equal(fitted.reset_index(drop=True), judged.reset_index(drop=True))


def test_the_death_of_a_workers_fork_server_ends_one_trial(cluster, tmp_path, plugins):
    plugin = Path(shutil.copy(plugins / "server_killers.py", tmp_path))
    (tmp_path / "left").mkdir()
    learners = {
        "KillsTheServer": LearnerSpec("KillsTheServer", {"when": "copy"}),
        "Euclidean": LearnerSpec("Euclidean"),
    }
    where, folder = cluster.scheduler_address, tmp_path / "run"
    experiment = small(learners)
    assert run_experiment(experiment, folder, How(cluster=where, plugin_files=[plugin])) == 1
    trials = read_run(folder).trials
    assert set(zip(trials["learner"], trials["status"], strict=True)) == {
        ("KillsTheServer", "crashed"),
        ("Euclidean", "ok"),
    }
    left = [int(path.name) for path in (tmp_path / "left").iterdir()]
    assert len(left) == 2
    assert all(_ends(psutil.Process(pid)) for pid in left if psutil.pid_exists(pid))


def test_a_trial_whose_worker_is_killed_runs_again(lone_worker, tmp_path, slow_once):
    plugin, marks = slow_once
    hung = []

    def kill_its_worker(columns, done, planned):
        if done == 1:
            hung.append(_hanging(marks))
            workers = {nanny.pid for nanny in lone_worker.workers.values()}
            (worker,) = (above for above in hung[0].parents() if above.pid in workers)
            worker.kill()

    failures = run_experiment(
        small(["Euclidean", "SlowOnce"]),
        tmp_path / "run",
        How(cluster=lone_worker.scheduler_address, plugin_files=[plugin]),
        OnTrial(kill_its_worker),
    )
    assert failures == 0
    assert read_run(tmp_path / "run").trials["status"].tolist() == ["ok"] * 2
    assert _ends(hung[0])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_ends_leaves_no_trial_on_the_workers(how, cluster, tmp_path, slow_once):
    plugin, marks = slow_once
    words = ["run", "--algorithms", "SlowOnce", "--plugin", plugin, "--output", tmp_path / "run"]
    words += ["--cluster", cluster.scheduler_address, "--classes", "2", "--partitions", "1"]
    harness = subprocess.Popen(bench(*words))
    try:
        trial = _hanging(marks)
        harness.send_signal(how)
        harness.wait(timeout=30)
    finally:
        harness.kill()
    assert _ends(trial)


def test_a_run_whose_workers_are_gone_can_go_on(cluster, lone_worker, tmp_path, monkeypatch):
    monkeypatch.setattr(on_cluster, "WORKER_SECONDS", 1)

    def end_the_worker(columns, done, planned):
        if done == 1:
            (nanny,) = lone_worker.workers.values()
            nanny.close_gracefully()  # it starts no other worker
            psutil.Process(nanny.pid).kill()

    experiment, where = small(["Euclidean"], partitions=3), tmp_path / "run"
    with pytest.raises(UsageError, match=r"has lost its workers .* --resume"):
        run_experiment(
            experiment, where, How(cluster=lone_worker.scheduler_address), OnTrial(end_the_worker)
        )
    assert read_run(where).trials["status"].tolist() == ["ok"]
    assert resume_experiment(where, How(cluster=cluster.scheduler_address)) == 0
    assert read_run(where).trials["status"].tolist() == ["ok"] * 3


def test_a_run_whose_scheduler_is_killed_can_go_on(
    scheduler, tmp_path, slow_once, monkeypatch, capfd
):
    process, address = scheduler
    plugin, marks = slow_once
    experiment = small(["Euclidean", "SlowOnce"])
    hung = []

    def kill_it(columns, done, planned):
        if done == 1:
            hung.append(_hanging(marks))
            process.kill()

    monkeypatch.setattr(on_cluster, "CONNECT_SECONDS", 2)
    with pytest.raises(UsageError, match=r"has lost its scheduler: .* --resume") as told:
        run_experiment(
            experiment,
            tmp_path / "run",
            How(cluster=address, plugin_files=[plugin]),
            OnTrial(kill_it),
        )
    assert "\n" not in str(told.value)
    assert capfd.readouterr().err == ""
    assert _ends(hung[0])
    assert read_run(tmp_path / "run").trials["status"].tolist() == ["ok"]
    assert resume_experiment(tmp_path / "run", How(plugin_files=[plugin])) == 0
    assert read_run(tmp_path / "run").trials["status"].tolist() == ["ok"] * 2


def test_a_worker_with_another_harness_runs_nothing(cluster, tmp_path, monkeypatch):
    of_this_side = "oasis_bench.experiment.trials.package_hash"
    monkeypatch.setattr(of_this_side, lambda: "another")
    with pytest.raises(UsageError, match="the worker has another source of oasis-bench"):
        run_experiment(
            small(["Euclidean"]), tmp_path / "run", How(cluster=cluster.scheduler_address)
        )


def test_a_worker_with_other_code_runs_nothing(cluster, tmp_path, plugins):
    plugin = tmp_path / "mine.py"
    plugin.write_text((plugins / "slow.py").read_text())
    experiment = small(["SlowsDown"])

    def change_it(columns, done, planned):
        plugin.write_text((plugins / "slow.py").read_text() + "\n# changed\n")

    with pytest.raises(UsageError, match="the worker has another source of SlowsDown"):
        run_experiment(
            experiment,
            tmp_path / "run",
            How(cluster=cluster.scheduler_address, plugin_files=[plugin]),
            OnTrial(change_it),
        )


def _hanging(marks):
    """Wait for the process that hangs, and return it."""
    deadline = time.monotonic() + 300
    while not any(marks.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return psutil.Process(int(next(marks.iterdir()).name))


def _ends(process):
    _, alive = psutil.wait_procs([process], timeout=10)
    return not alive or process.status() == psutil.STATUS_ZOMBIE
